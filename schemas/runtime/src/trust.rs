//! The root certificates that a client of TLS accepts: those of a file, or those of the system.

use std::path::Path;
use std::sync::Arc;

use plimsoll_bus::certificates;
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};

/// The TLS configuration of a connection.
pub type Trust = Arc<ClientConfig>;

/// Reads the certificates.
///
/// # Errors
/// Names the file with its setting `key`, or the package that is missing.
pub fn trust(key: &str, ca_file: Option<&Path>) -> Result<Trust, String> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = ca_file {
        let wrong = |what: &dyn ToString| format!("{key}: {}", what.to_string());
        for certificate in certificates(path).map_err(|error| wrong(&error))? {
            let added = roots.add(certificate);
            added.map_err(|error| wrong(&format!("{}: {error}", path.display())))?;
        }
    } else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }

    if roots.is_empty() {
        return Err(format!(
            "the system has no root certificates; install ca-certificates or set {key}"
        ));
    }

    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}
