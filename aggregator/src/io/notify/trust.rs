//! The root certificates of a TLS connection: those of a file, or those of the system.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// The TLS configuration of a connection.
pub(super) type Trust = Arc<ClientConfig>;

/// Reads the certificates.
///
/// # Errors
/// Names the key or the package that is missing.
pub(super) fn trust(ca_file: Option<&Path>) -> Result<Trust, String> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(path) => {
            let wrong = |what: String| format!("ca_file: {}: {what}", path.display());
            let all = CertificateDer::pem_file_iter(path).map_err(|e| wrong(e.to_string()))?;
            for certificate in all {
                let certificate = certificate.map_err(|e| wrong(e.to_string()))?;
                roots.add(certificate).map_err(|e| wrong(e.to_string()))?;
            }
            if roots.is_empty() {
                return Err(wrong("no certificate in the file".to_owned()));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("the system has no root certificates; install ca-certificates or set \
                            ca_file"
                    .to_owned());
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}
