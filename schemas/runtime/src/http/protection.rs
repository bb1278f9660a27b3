//! What a server's settings protect its routes with, and the warning of one that protects too
//! little.
//!
//! DESIGN S50.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;

use super::guard::{self, Guard};
use super::readers::{self, Readers};
use super::stats::{Exposure, RefusalCounts};
use super::tls::{self, Tls};
use crate::token::Token;

/// How a server is protected.
#[derive(Clone, Debug, Default)]
pub struct Protection {
    hosts: Vec<String>,
    readers: Vec<Token>,
    tls: Option<Arc<Tls>>,
}

/// The files that a server's settings name.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProtectionFiles<'f> {
    /// `http.certificate_file`.
    pub certificate: Option<&'f Path>,
    /// `http.key_file`.
    pub key: Option<&'f Path>,
    /// `http.reader_token_file`.
    pub reader_token: Option<&'f Path>,
}

impl Protection {
    /// Names under which clients may reach a server, beside addresses, names without a dot and
    /// those below `localhost`; anyone may read.
    pub fn of_hosts(hosts: Vec<String>) -> Self {
        Self { hosts, ..Self::default() }
    }

    /// The same, with what the files hold. Without `reader_token` anyone may read, without
    /// `certificate` and `key` there is no TLS.
    ///
    /// # Errors
    /// Names the setting, the file and the fix, without a secret.
    pub fn with_files(self, files: ProtectionFiles<'_>) -> Result<Self, String> {
        let tls = tls::of_settings(files.certificate, files.key)?.map(Arc::new);
        let of_file = |path| Token::of_file("http.reader_token_file", path);
        let readers = files.reader_token.map(of_file).transpose()?.into_iter().collect();
        Ok(Self { readers, tls, ..self })
    }

    /// The same, if reading needs a token, with one more that is enough.
    pub fn with_token(mut self, token: Option<Token>) -> Self {
        if !self.readers.is_empty() {
            self.readers.extend(token);
        }
        self
    }

    /// Checks names of the setting `http.hosts`.
    ///
    /// # Errors
    /// Names the setting and its valid values.
    pub fn check_hosts(hosts: &[String]) -> Result<(), String> {
        let is_name = |host: &&String| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            !host.is_empty() && host.bytes().all(plain)
        };
        let Some(wrong) = hosts.iter().find(|host| !is_name(host)) else { return Ok(()) };
        Err(format!("http.hosts has {wrong:?}; each must be a name, without a scheme and a port"))
    }

    /// Whether the server speaks TLS.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    pub(super) fn tls(&self) -> Option<&Arc<Tls>> {
        self.tls.as_ref()
    }

    /// The routes for those who may use them.
    pub(super) fn guard(&self, routes: Router, refused: &Arc<RefusalCounts>) -> Router {
        let routes = match &*self.readers {
            [] => routes,
            tokens => {
                let readers = Readers::new(tokens, Arc::clone(refused));
                routes.layer(from_fn_with_state(readers, readers::admit))
            }
        };
        let guard = Guard::new(&self.hosts, Arc::clone(refused));
        routes.layer(from_fn_with_state(guard, guard::admit))
    }

    /// What a server at this address lacks.
    pub fn exposure(&self, address: SocketAddr) -> Exposure {
        if address.ip().to_canonical().is_loopback() {
            return Exposure::default();
        }
        Exposure { tls: self.tls.is_none(), token: self.readers.is_empty() }
    }

    /// Logs what the server of the setting `http.address` lacks.
    pub fn warn_if_exposed(&self, address: SocketAddr) {
        let exposure = self.exposure(address);
        if exposure == Exposure::default() {
            return;
        }
        let lacks = exposure.rows().into_iter().filter(|(_, is_lacked)| *is_lacked);
        let lacks = lacks.map(|(what, _)| what).collect::<Vec<_>>().join(", ");
        tracing::warn!(
            %address,
            lacks,
            fix = "set http.certificate_file, http.key_file and http.reader_token_file, or let \
                   http.address be 127.0.0.1",
            "http listens beyond this machine without TLS, so its pages can be read in transit"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_others_reach_lacks_something() {
        let open = Protection::default();
        for address in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(open.exposure(address.parse().unwrap()), Exposure::default(), "{address}");
        }
        let locked = Protection { readers: vec![Token::of_text("t")], ..Protection::default() };
        for address in ["0.0.0.0:1", "[::]:1", "192.0.2.7:1"] {
            let address = address.parse().unwrap();
            assert_eq!(open.exposure(address), Exposure { tls: true, token: true });
            assert_eq!(locked.exposure(address), Exposure { tls: true, token: false });
        }
    }

    #[test]
    fn a_token_of_changes_is_enough_to_read_and_does_not_make_one_necessary() {
        let change = Some(Token::of_text("change"));
        let open = Protection::default().with_token(change.clone());
        assert_eq!(open.readers, []);
        let locked = Protection { readers: vec![Token::of_text("t")], ..Protection::default() };
        assert_eq!(locked.with_token(change).readers.len(), 2);
    }
}
