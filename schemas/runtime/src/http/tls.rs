//! The certificate of a server and its key. Both files are looked at every few seconds when a
//! connection comes, and read again once they have changed: renewed certificates need no signal.
//!
//! DESIGN S51.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_bus::{certificates, private_key};
use plimsoll_schemas::time::Mono;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use tokio_rustls::TlsAcceptor;

use crate::limits::CERTIFICATE_CHECK_EVERY;

/// The settings that name the files.
const CERTIFICATE: &str = "http.certificate_file";
const KEY: &str = "http.key_file";

/// A certificate with its key, as of the latest connection.
#[derive(Debug)]
pub(super) struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    stamps: [Stamp; 2],
    checked: Mono,
}

/// What changes when a file does: its inode, length and time of change.
type Stamp = Option<(u64, u64, i64, i64)>;

impl Tls {
    /// Reads a certificate, with those that lead to its root, and its key: both PEM.
    ///
    /// # Errors
    /// Names the setting, the file and what is wrong with it.
    fn load(certificate: &Path, key: &Path) -> Result<Self, String> {
        // Before they are read: a change meanwhile is read again.
        let stamps = [certificate, key].map(stamp);
        let config = read(certificate, key)?;
        let current = Mutex::new(Current { config, stamps, checked: Mono::default() });
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), current })
    }

    /// What the next connection is accepted with. Files that cannot be used leave the former ones
    /// in use.
    pub(super) fn acceptor(&self, now: Mono) -> TlsAcceptor {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if now.since(current.checked) >= CERTIFICATE_CHECK_EVERY {
            current.checked = now;
            self.read_again_if_changed(&mut current);
        }
        TlsAcceptor::from(Arc::clone(&current.config))
    }

    fn read_again_if_changed(&self, current: &mut Current) {
        let stamps = [&*self.certificate, &*self.key].map(stamp);
        if stamps == current.stamps {
            return;
        }
        current.stamps = stamps;

        match read(&self.certificate, &self.key) {
            Ok(config) => {
                current.config = config;
                tracing::info!(file = %self.certificate.display(), "certificate reloaded");
            }
            Err(error) => {
                tracing::error!(error, "certificate not reloaded; the previous one stays active");
            }
        }
    }
}

fn stamp(path: &Path) -> Stamp {
    let found = fs::metadata(path).ok()?;
    Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
}

fn read(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, String> {
    let chain = certificates(certificate).map_err(|error| format!("{CERTIFICATE} {error}"))?;
    let secret = private_key(key).map_err(|error| format!("{KEY} {error}"))?;
    let unfit = |error| format!("{KEY} {}: {error}", key.display());
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(unfit)?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(unfit)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The certificate and key of settings that may name none.
///
/// # Errors
/// When only one is named, or one cannot be used.
pub(super) fn of_settings(
    certificate: Option<&Path>,
    key: Option<&Path>,
) -> Result<Option<Tls>, String> {
    match (certificate, key) {
        (Some(certificate), Some(key)) => Tls::load(certificate, key).map(Some),
        (None, None) => Ok(None),
        (Some(_), None) => Err(format!("{CERTIFICATE} needs {KEY}, the key of the certificate")),
        (None, Some(_)) => Err(format!("{KEY} needs {CERTIFICATE}, the certificate of the key")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_needs_its_key_and_a_key_its_certificate() {
        let path = Some(Path::new("absent"));
        let error = of_settings(path, None).unwrap_err();
        assert!(error.starts_with("http.certificate_file needs http.key_file"), "{error}");
        let error = of_settings(None, path).unwrap_err();
        assert!(error.starts_with("http.key_file needs http.certificate_file"), "{error}");
        let error = of_settings(path, path).unwrap_err();
        assert!(error.starts_with("http.certificate_file absent: "), "{error}");
        assert!(of_settings(None, None).unwrap().is_none());
    }
}
