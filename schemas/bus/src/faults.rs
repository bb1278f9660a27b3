//! Why an attempt to connect failed, in the words of the component that found it: the system, the
//! verifier of certificates, the broker.
//!
//! The client's own event has only the kind of an error. Its list of servers, which it passes on
//! before each attempt, has the whole text of each server's latest failure.
//!
//! DESIGN S37.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_nats::Server;
use plimsoll_schemas::remote_text::one_line;
use plimsoll_schemas::transport::ConnectFault;

use crate::config::without_secrets;

/// How the client calls a name that cannot be resolved; its list of servers leaves these out.
pub(crate) const NAME_ERROR: &str = "DNS error";

/// Follows the failed attempts of one connection.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Failed attempts of all servers since each was last connected.
    failures: AtomicUsize,
}

impl Faults {
    /// Why the latest attempts failed, if any has since the last call. `servers` are the client's
    /// before its next attempt.
    pub(crate) fn latest(&self, servers: &[Server]) -> Option<(ConnectFault, String)> {
        let failures = servers.iter().map(|server| server.failed_attempts).sum();
        let before = self.failures.swap(failures, Ordering::Relaxed);
        if failures <= before {
            return None;
        }
        let failed = || servers.iter().filter_map(|of| Some((of, of.last_error.as_deref()?)));
        let (_, first) = failed().next()?;
        let fault = fault(first);
        let several = servers.len() > 1;

        let texts = failed().map(|(server, text)| match several {
            true => format!("{}: {}", without_secrets(&server.to_string()), explained(text)),
            false => explained(text),
        });

        Some((fault, one_line(&texts.collect::<Vec<_>>().join("; "))))
    }
}

/// The kind of a failure, by the client's text of it.
pub(crate) fn fault(text: &str) -> ConnectFault {
    let text = text.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));

    if has(&["dns error"]) {
        ConnectFault::Name
    } else if has(&["certificate", "fatal alert", "tls", "corrupt message"]) {
        ConnectFault::Tls
    } else if has(&["authorization", "authentication"]) {
        ConnectFault::Credentials
    } else if has(&["refused"]) {
        ConnectFault::Refused
    } else if has(&["timed out"]) {
        ConnectFault::Timeout
    } else {
        ConnectFault::Other
    }
}

/// The client's text for people: without its word for "input and output", and with what a text
/// that explains little means.
pub(crate) fn explained(text: &str) -> String {
    let text = text.strip_prefix("IO error: ").unwrap_or(text);
    match text {
        "IO error" => "connection refused or closed".to_owned(),
        NAME_ERROR => "the host name cannot be resolved".to_owned(),
        "timed out" => "connection timed out".to_owned(),
        _ if text.contains("Connection refused") => "connection refused".to_owned(),
        _ if text.contains("corrupt message") => {
            format!("the broker does not use TLS ({text})")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(address: &str, failed_attempts: usize, last_error: Option<&str>) -> Server {
        Server {
            addr: address.parse().unwrap(),
            failed_attempts,
            did_connect: false,
            is_discovered: false,
            last_error: last_error.map(str::to_owned),
        }
    }

    #[test]
    fn a_failure_is_reported_once_and_a_success_ends_it() {
        let faults = Faults::default();
        let latest = |failed, text| faults.latest(&[server("nats://a:1", failed, text)]);
        assert_eq!(latest(0, None), None);
        let refused = "IO error: Connection refused (os error 111)";
        let expected = (ConnectFault::Refused, "connection refused".to_owned());
        assert_eq!(latest(1, Some(refused)), Some(expected));
        assert_eq!(latest(1, Some(refused)), None);
        assert_eq!(latest(0, None), None);
        assert!(latest(1, Some(refused)).is_some());
    }

    #[test]
    fn of_several_servers_each_is_named_without_its_password() {
        let faults = Faults::default();
        let servers = [
            server("nats://u:hush@a:1", 1, Some("timed out")),
            server("nats://b:2", 0, None),
            server("nats://c:3", 2, Some("IO error: broken")),
        ];
        let (fault, text) = faults.latest(&servers).unwrap();
        assert_eq!(fault, ConnectFault::Timeout);
        assert_eq!(text, "nats://..@a:1: connection timed out; nats://c:3: broken");
    }

    #[test]
    fn the_kind_of_a_failure_is_known_by_its_text() {
        for (text, expected) in [
            ("DNS error: failed to look up address", ConnectFault::Name),
            ("IO error: invalid peer certificate: UnknownIssuer", ConnectFault::Tls),
            ("IO error: received fatal alert: CertificateRequired", ConnectFault::Tls),
            ("IO error: received corrupt message of type InvalidContentType", ConnectFault::Tls),
            ("authorization violation: nats: authorization violation", ConnectFault::Credentials),
            ("authentication error: x", ConnectFault::Credentials),
            ("timed out", ConnectFault::Timeout),
            ("IO error: expected INFO, got nothing", ConnectFault::Other),
        ] {
            assert_eq!(fault(text), expected, "{text}");
        }
    }

    #[test]
    fn a_text_that_explains_little_gets_what_it_means() {
        assert_ne!(explained("timed out"), "timed out");
        assert!(explained("received corrupt message of type X").contains("does not use TLS"));
    }
}
