//! Receivers that are down, endless or talk garbage, and one that is asked over TLS.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use plimsoll_schemas::settings::{Layer, resolve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::*;
use crate::config::Config;
use crate::core::alerting::fields::sample;

const WAIT: Duration = Duration::from_secs(30);

fn endpoint(settings: &str) -> Endpoint {
    let layer = Layer::from_toml("file a.toml", settings).unwrap();
    let config = resolve::<Config>(&[layer]).unwrap().value;
    Endpoint::of_config(&config).unwrap().remove(0)
}

fn hook(url: &str, more: &str) -> Endpoint {
    endpoint(&format!("[[webhook]]\nname = 'h'\nurl = '{url}'\n{more}"))
}

/// Someone who reads a request as far as it comes at once, says this, and is not done.
async fn speaker(answer: &'static [u8], repeated: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 64 * 1024];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        while stream.write_all(answer).await.is_ok() && repeated {}
        // Until the other side has gone.
        while stream.read(&mut request).await.is_ok_and(|read| read > 0) {}
    });
    address
}

async fn told(endpoint: &Endpoint) -> Answer {
    let body = endpoint.body(Body::Notice(Box::new(sample())));
    timeout(WAIT, endpoint.post(body)).await.expect("a post ends")
}

#[tokio::test]
async fn whatever_a_receiver_answers_only_its_status_counts() {
    for (answer, repeated, expected) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"[..], false, Answer::Taken),
        // A body that never comes, and one that never ends.
        (b"HTTP/1.1 202 Accepted\r\nContent-Length: 99\r\n\r\n", false, Answer::Taken),
        (b"HTTP/1.1 200 OK\r\n\r\nAAAAAAAA", true, Answer::Taken),
        (b"HTTP/1.1 302 F\r\nLocation: http://h/\r\n\r\n", false, Answer::Refused("status_3xx")),
        (b"HTTP/1.1 400 B\r\n\r\n", false, Answer::Refused("status_4xx")),
        (
            b"HTTP/1.1 429 T\r\nRetry-After: 17\r\n\r\n",
            false,
            Answer::Failed("status_4xx", Some(Duration::from_secs(17))),
        ),
        (b"HTTP/1.1 500 I\r\nRetry-After: soon\r\n\r\n", false, Answer::Failed("status_5xx", None)),
        (b"220 mail.example ESMTP\r\n", false, Answer::Failed("garbage", None)),
        (b"HTTP/1.1 200 OK\r\nX: AAAAAAAAAAAAAAAAAAAAAAAAA", true, Answer::Failed("garbage", None)),
    ] {
        let address = speaker(answer, repeated).await;
        let answered = told(&hook(&format!("http://{address}/x"), "")).await;
        assert_eq!(answered, expected, "{}", String::from_utf8_lossy(answer));
    }
}

#[tokio::test]
async fn nobody_there_is_a_failure_to_connect() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let failed = Answer::Failed("connect", None);
    assert_eq!(told(&hook(&format!("http://{address}"), "")).await, failed);
    assert_eq!(told(&hook("http://no-such-host.invalid", "")).await, failed);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_never_answers_is_left_after_a_while() {
    let address = speaker(b"", false).await;
    assert_eq!(
        told(&hook(&format!("http://{address}"), "")).await,
        Answer::Failed("timeout", None)
    );
}

/// Makes an authority and a certificate of it for `localhost`.
fn certificates(dir: &Path) {
    let make = "set -e
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
            -subj /CN=authority -keyout ca.key -out ca.pem
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost \
            -keyout server.key -out server.csr
        printf 'subjectAltName=DNS:localhost' > san
        openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
            -extfile san -out server.pem";
    let made = Command::new("sh").args(["-c", make]).current_dir(dir).output();
    let made = made.expect("openssl is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Answers one connection over TLS with these certificates; gives what was asked.
async fn tls_server(dir: &Path) -> (SocketAddr, JoinHandle<Option<String>>) {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let certificate = CertificateDer::from_pem_file(dir.join("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(dir.join("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.ok()?;
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let mut stream = acceptor.accept(stream).await.ok()?;
        let mut request = vec![0; 64 * 1024];
        let length = stream.read(&mut request).await.ok()?;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.ok()?;
        stream.flush().await.ok()?;
        request.truncate(length);
        String::from_utf8(request).ok()
    });
    (address, served)
}

#[tokio::test]
async fn https_believes_the_authority_that_is_named_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    std::fs::write(dir.path().join("token"), "t0ken\n").unwrap();
    let (ca, token) = (dir.path().join("ca.pem"), dir.path().join("token"));
    let ca = format!("ca_file = '{}'", ca.display());
    let token = format!("token_file = '{}'\nheaders = {{ X-Team = 'a' }}", token.display());

    let (address, served) = tls_server(dir.path()).await;
    let url = format!("https://localhost:{}/in?x=1", address.port());
    assert_eq!(told(&hook(&url, &format!("{ca}\n{token}"))).await, Answer::Taken);
    let asked = served.await.unwrap().unwrap();
    assert!(asked.starts_with("POST /in?x=1 HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("authorization: Bearer t0ken\r\n"), "{asked}");
    assert!(asked.contains("x-team: a\r\n"), "{asked}");

    let (address, served) = tls_server(dir.path()).await;
    let url = format!("https://localhost:{}/in", address.port());
    let server = format!("ca_file = '{}'", dir.path().join("server.pem").display());
    // Its own certificate is no authority, and another name is not its.
    assert_eq!(told(&hook(&url, &server)).await, Answer::Failed("tls", None));
    assert_eq!(served.await.unwrap(), None);
    let (address, _served) = tls_server(dir.path()).await;
    let url = format!("https://127.0.0.1:{}/in", address.port());
    assert_eq!(told(&hook(&url, &ca)).await, Answer::Failed("tls", None));
}
