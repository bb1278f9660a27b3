//! Brokers with certificates of an authority of the site's own, which demand one of each client.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use plimsoll_bus::{BusConfig, BusEvent, ConnectFault, TlsFiles};
use plimsoll_schemas::subject::Lane;
use tempfile::TempDir;

use crate::broker::Broker;
use crate::talk::{Talk, config};

/// Certificates of one authority: of a broker at 127.0.0.1 and of a client.
struct Site(TempDir);

impl Site {
    fn new() -> Self {
        let site = Self(tempfile::tempdir().unwrap());
        site.renew();
        site
    }

    /// Replaces the authority and all certificates.
    fn renew(&self) {
        let script = "set -e
            new() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \"$@\"; }
            new -x509 -days 2 -subj /CN=authority -keyout ca.key -out ca.pem
            for of in broker client; do
                new -subj /CN=$of -keyout $of.key -out $of.csr
                printf 'subjectAltName=IP:127.0.0.1\\nkeyUsage=digitalSignature' > $of.ext
                openssl x509 -req -in $of.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
                    -extfile $of.ext -out $of.pem
            done
            chmod 0600 client.key";
        let made = Command::new("bash").args(["-c", script]).current_dir(self.0.path()).output();
        let made = made.expect("openssl is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Settings of a broker that demands certificates.
    fn settings(&self) -> String {
        let [cert, key, ca] = ["broker.pem", "broker.key", "ca.pem"].map(|name| self.path(name));
        format!(
            "jetstream: {{ store_dir: $STORE }}, \
             tls: {{ cert_file: {cert:?}, key_file: {key:?}, ca_file: {ca:?}, verify: true }}"
        )
    }

    fn files(&self) -> TlsFiles {
        let client = Some((self.path("client.pem"), self.path("client.key")));
        TlsFiles { ca_file: Some(self.path("ca.pem")), client }
    }
}

fn with_files(url: String, tls: TlsFiles) -> BusConfig {
    BusConfig { tls, ..config(url) }
}

async fn failure(config: BusConfig) -> (ConnectFault, String) {
    let mut talk = Talk::begin(config);
    match talk.until(|event| matches!(event, BusEvent::ConnectFailed { .. })).await {
        BusEvent::ConnectFailed { fault, text } => (fault, text),
        event => unreachable!("{event:?}"),
    }
}

#[tokio::test]
async fn a_site_with_its_own_authority_and_client_certificates_is_served() {
    let site = Site::new();
    let broker = Broker::start(&site.settings()).await;
    let mut talk = Talk::begin(with_files(broker.url(), site.files()));
    talk.until_connected().await;
    talk.publish(Lane::Normal, 1..=1).await;
}

#[tokio::test]
async fn a_rejected_certificate_is_reported_in_the_verifiers_words() {
    let (site, other) = (Site::new(), Site::new());
    let broker = Broker::start(&site.settings()).await;
    let of_system = TlsFiles { ca_file: None, ..site.files() };
    let (fault, text) = failure(with_files(broker.url(), of_system)).await;
    assert_eq!(fault, ConnectFault::Tls);
    assert!(text.contains("invalid peer certificate: UnknownIssuer"), "{text}");
    let anonymous = TlsFiles { client: None, ..site.files() };
    let (fault, text) = failure(with_files(broker.url(), anonymous)).await;
    assert_eq!(fault, ConnectFault::Tls, "{text}");
    assert!(text.contains("fatal alert"), "the broker's alert: {text}");
    let foreign = TlsFiles { client: other.files().client, ..site.files() };
    let (fault, text) = failure(with_files(broker.url(), foreign)).await;
    assert_eq!(fault, ConnectFault::Tls, "{text}");
    let other_name = broker.url().replace("127.0.0.1", "localhost");
    let (fault, text) = failure(with_files(other_name, site.files())).await;
    assert_eq!(fault, ConnectFault::Tls);
    assert!(text.contains("not valid for name"), "{text}");
}

#[tokio::test]
async fn a_connection_without_tls_is_refused_when_certificates_are_set() {
    let site = Site::new();
    let broker = Broker::with_streams().await;
    let (fault, text) = failure(with_files(broker.url(), site.files())).await;
    assert_eq!(fault, ConnectFault::Tls);
    assert!(text.contains("does not use TLS"), "{text}");
}

#[tokio::test]
async fn renewed_certificates_are_used_without_a_restart() {
    let site = Site::new();
    let mut broker = Broker::start(&site.settings()).await;
    let mut talk = Talk::begin(with_files(broker.url(), site.files()));
    talk.until_connected().await;
    broker.kill();
    site.renew();
    broker.restart();
    talk.until_connected().await;
    talk.publish(Lane::Normal, 1..=1).await;
}

#[tokio::test]
async fn a_file_that_is_gone_at_an_attempt_is_named() {
    let site = Site::new();
    let mut broker = Broker::start(&site.settings()).await;
    let mut talk = Talk::begin(with_files(broker.url(), site.files()));
    talk.until_connected().await;
    let cert = site.path("client.pem");
    let kept = fs::read(&cert).unwrap();
    fs::remove_file(&cert).unwrap();
    broker.restart();
    let name = cert.to_str().unwrap();
    let names = |event: &BusEvent| match event {
        BusEvent::ConnectFailed { text, .. } => text.contains(name),
        _ => false,
    };
    talk.until(names).await;
    fs::write(&cert, kept).unwrap();
    talk.until_connected().await;
}
