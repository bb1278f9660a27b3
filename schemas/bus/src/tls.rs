//! Certificates of a connection: whom it trusts, and what it shows. The client reads the files at
//! each attempt to connect, so that they may be replaced while this runs.
//!
//! DESIGN S37.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use async_nats::ConnectOptions;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::error::BusError;
use crate::limits::CERTIFICATE_BYTES_MAX;
use crate::secret_file;

/// Certificate files, in PEM. With any of them, a connection without TLS is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Authorities that the broker's certificate must come from; those of the system without it.
    pub ca_file: Option<PathBuf>,
    /// The certificate that a broker with `verify: true` demands, with its chain, and the file of
    /// its key.
    pub client: Option<(PathBuf, PathBuf)>,
}

impl TlsFiles {
    /// Options that use the files.
    pub(crate) fn applied(&self, mut options: ConnectOptions) -> ConnectOptions {
        if let Some(ca_file) = &self.ca_file {
            options = options.add_root_certificates(ca_file.clone()).require_tls(true);
        }
        if let Some((cert_file, key_file)) = &self.client {
            options = options
                .add_client_certificate(cert_file.clone(), key_file.clone())
                .require_tls(true);
        }
        options
    }

    /// Reads the files as the client will.
    ///
    /// # Errors
    /// Names the file that cannot be used, and why.
    pub(crate) fn check(&self) -> Result<(), BusError> {
        // An error means that a provider is there already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut roots = RootCertStore::empty();

        if let Some(path) = &self.ca_file {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| unfit(path, &error))?;
            }
        }

        let Some((cert_file, key_file)) = &self.client else { return Ok(()) };
        let (chain, key) = (certificates(cert_file)?, private_key(key_file)?);

        ClientConfig::builder()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map(drop)
            .map_err(|error| unfit(key_file, &error))
    }
}

/// The certificates in a file (PEM), at least one.
///
/// # Errors
/// Names the file that cannot be used, and why.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, BusError> {
    let file = File::open(path).map_err(|error| unfit(path, &error))?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_reader_iter(bounded(file)).collect();
    let certificates = read.map_err(|error| unfit(path, &error))?;
    if certificates.is_empty() {
        return Err(unfit(path, &"it has no certificate (PEM)"));
    }
    Ok(certificates)
}

/// The key in a file (PEM) that only its owner and group may read.
///
/// # Errors
/// Names the file that cannot be used, and why.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, BusError> {
    let file = secret_file::open(path).map_err(|error| unfit(path, &error))?;
    PrivateKeyDer::from_pem_reader(bounded(file)).map_err(|error| unfit(path, &error))
}

fn bounded(file: File) -> impl io::BufRead {
    BufReader::new(file.take(CERTIFICATE_BYTES_MAX))
}

fn unfit(path: &Path, reason: &impl ToString) -> BusError {
    BusError::TlsFile { path: path.to_owned(), reason: reason.to_string() }
}
