//! Receivers that are down, endless or send garbage, and one over TLS.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use plimsoll_schemas::settings::{Layer, resolve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::*;
use crate::config::{Config, EXAMPLE};
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

/// A server that reads the start of a request, sends this, and keeps the connection open.
async fn server(answer: &'static [u8], repeated: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 64 * 1024];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        while stream.write_all(answer).await.is_ok() && repeated {}
        // Until the client disconnects.
        while stream.read(&mut request).await.is_ok_and(|read| read > 0) {}
    });
    address
}

async fn post(endpoint: &Endpoint) -> Answer {
    ended(endpoint).await.0
}

/// The answer to a post, and its cause.
async fn ended(endpoint: &Endpoint) -> (Answer, String) {
    let body = endpoint.body(Body::Notification(Box::new(sample())));
    timeout(WAIT, exchange::post(endpoint, body)).await.expect("a post ends")
}

#[tokio::test(start_paused = true)]
async fn a_post_whose_task_panics_counts_as_failed_and_the_task_goes_on() {
    let (answers, mut received) = mpsc::channel(1);
    let (supervisor, mut starts) = (Supervisor::default(), 0);
    let posting = supervisor.task("notify").run(move || {
        starts += 1;
        let (is_first, answers) = (starts == 1, answers.clone());
        async move {
            let name: Arc<str> = "h".into();
            let open = OpenPost { name: &name, answers: &answers };
            assert!(!is_first, "an answer to no request");
            drop(open);
        }
    });
    posting.await;
    let (receiver, answer) = ("h".into(), Answer::Failed("panic", None));
    let panicked = PostOutcome { receiver, answer, cause: String::new() };
    assert_eq!(received.recv().await, Some(panicked));
    assert_eq!((received.recv().await, supervisor.total()), (None, 1));
}

#[tokio::test]
async fn only_the_status_of_a_response_counts() {
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
        let address = server(answer, repeated).await;
        let answered = post(&hook(&format!("http://{address}/x"), "")).await;
        assert_eq!(answered, expected, "{}", String::from_utf8_lossy(answer));
    }
}

#[tokio::test]
async fn a_refusal_is_named_in_the_receivers_words_without_secrets() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("token"), "t0ken-of-ours\n").unwrap();
    let token = format!("token_file = '{}'", dir.path().join("token").display());
    for (answer, expected) in [
        (
            &b"HTTP/1.1 403 F\r\nContent-Length: 13\r\n\r\ninvalid_token"[..],
            "HTTP 403 Forbidden: invalid_token; correct the receiver's url, its token or headers, \
             or its template",
        ),
        (
            b"HTTP/1.1 404 N\r\nContent-Length: 45\r\n\r\nno /in/B0123456789: Bearer t0ken-of-ours \x1b[2J",
            "HTTP 404 Not Found: no /in/..: Bearer .. [2J; correct the receiver's url, its token or \
             headers, or its template",
        ),
        (
            b"HTTP/1.1 302 F\r\nLocation: http://h/new\r\nContent-Length: 0\r\n\r\n",
            "HTTP 302 Found to http://h/new; set the receiver's url to the new address",
        ),
    ] {
        let address = server(answer, false).await;
        let hook = hook(&format!("http://{address}/in/B0123456789"), &token);
        let (answered, cause) = ended(&hook).await;
        assert_eq!(answered.explained(&cause), expected);
    }
}

#[test]
fn the_port_of_the_scheme_is_left_out_of_the_host() {
    for (url, expected) in [
        ("http://h/x", "h"),
        ("http://h:80/", "h"),
        ("http://h:8080/", "h:8080"),
        ("https://h/", "h"),
        ("https://h:80/", "h:80"),
        ("http://[::1]/", "[::1]"),
    ] {
        assert_eq!(hook(url, "").address.authority, expected, "{url}");
    }
}

#[tokio::test]
async fn a_closed_port_is_a_failure_to_connect() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let failed = Answer::Failed("connect", None);
    assert_eq!(post(&hook(&format!("http://{address}"), "")).await, failed);
    assert_eq!(post(&hook("http://no-such-host.invalid", "")).await, failed);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_never_answers_times_out() {
    let address = server(b"", false).await;
    assert_eq!(
        post(&hook(&format!("http://{address}"), "")).await,
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

/// Answers one connection over TLS with these certificates; returns the request.
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
async fn https_trusts_the_named_authority_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    std::fs::write(dir.path().join("token"), "t0ken\n").unwrap();
    let (ca, token) = (dir.path().join("ca.pem"), dir.path().join("token"));
    let ca = format!("ca_file = '{}'", ca.display());
    let token = format!("token_file = '{}'\nheaders = {{ X-Team = 'a' }}", token.display());

    let (address, served) = tls_server(dir.path()).await;
    let url = format!("https://localhost:{}/in?x=1", address.port());
    assert_eq!(post(&hook(&url, &format!("{ca}\n{token}"))).await, Answer::Taken);
    let requested = served.await.unwrap().unwrap();
    assert!(requested.starts_with("POST /in?x=1 HTTP/1.1\r\n"), "{requested}");
    assert!(requested.contains("authorization: Bearer t0ken\r\n"), "{requested}");
    assert!(requested.contains("x-team: a\r\n"), "{requested}");

    let (address, served) = tls_server(dir.path()).await;
    let url = format!("https://localhost:{}/in", address.port());
    let server = format!("ca_file = '{}'", dir.path().join("server.pem").display());
    // Its own certificate is no authority, and another name is not its.
    assert_eq!(post(&hook(&url, &server)).await, Answer::Failed("tls", None));
    assert_eq!(served.await.unwrap(), None);
    let (address, _served) = tls_server(dir.path()).await;
    let url = format!("https://127.0.0.1:{}/in", address.port());
    assert_eq!(post(&hook(&url, &ca)).await, Answer::Failed("tls", None));
}

fn names_of(text: &str) -> Result<Vec<String>, String> {
    let layer = Layer::from_toml("file a.toml", text).map_err(|error| error.to_string())?;
    let config = resolve::<Config>(&[layer]).map_err(|error| error.to_string())?.value;
    let all = Endpoint::of_config(&config)?;
    Ok(all.into_iter().map(|endpoint| endpoint.receiver.name.to_string()).collect())
}

#[test]
fn invalid_receivers_are_rejected_with_their_key_and_without_their_secrets() {
    let hook = "[[webhook]]\nname = 'h'\n";
    for (text, part) in [
        ("alertmanager = 'a:9093'", "alertmanager \"alertmanager\": url: it must start with"),
        ("alertmanager = 'http://u:s3cret@a'", "url: it contains a user; set token_file"),
        ("[[alertmanager]]\nurl = 'http://a'\nresend_every = '1h'", "resend_every: it must be"),
        ("[[alertmanager]]\nurl = 'http://a'\nresend_every = '60'", "resend_every"),
        ("[[alertmanager]]\nurl = 'http://a'\nname = 'a b'", "name: "),
        ("[[alertmanager]]\nurl = 'http://a'\ntoken = 'x'", "token"),
        (hook, "webhook \"h\": url is missing; set url or url_file"),
        (&format!("{hook}url = 'ftp://s3cret'"), "url: it must start with http"),
        (&format!("{hook}url = 'http://h'\nurl_file = 'f'"), "set only one of them"),
        (&format!("{hook}url_file = 'absent'"), "url_file: cannot read absent"),
        (&format!("{hook}template = 'pagerduty'"), "routing_key_file is missing"),
        (&format!("{hook}url = 'http://h'\ntemplate = 'absent.json'"), "cannot read absent"),
        (&format!("{hook}url = 'http://h'\nheaders = {{ 'a b' = 's3cret' }}"), "headers.a b"),
        (&format!("{hook}url = 'https://h'\nca_file = 'absent'"), "ca_file: absent: "),
        (&format!("{hook}url = 'http://h'\n{hook}url = 'http://i'"), "name is given twice"),
    ] {
        let error = names_of(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
}

#[test]
fn every_shipped_template_is_accepted_by_its_name_and_documented() {
    const RULES: &str = include_str!("../../../doc/rules.md");

    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    std::fs::write(&key, "0123456789").unwrap();
    let (before, _) = EXAMPLE.split_once("\n#template = ").unwrap();
    let (_, comment) = before.rsplit_once("_file = ").unwrap();
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/templates");
    for file in std::fs::read_dir(shipped).unwrap() {
        let file = file.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap();
        let settings = format!(
            "[[webhook]]\nname = 'h'\nurl = 'http://h'\nrouting_key_file = '{}'\n\
             template = '{name}'",
            key.display()
        );
        assert_eq!(names_of(&settings).unwrap_or_else(|error| panic!("{error}")), ["h"], "{name}");
        assert!(comment.contains(name), "{name} is not named in aggregator.toml");
        let row = format!("\n| `{name}` | ");
        assert!(RULES.contains(&row), "{name} has no row in the table of templates of rules.md");
    }
}

#[test]
fn a_custom_template_is_tried_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("own.json");
    let settings =
        format!("[[webhook]]\nname = 'h'\nurl = 'http://h'\ntemplate = '{}'", file.display());
    std::fs::write(&file, "{\n \"text\": \"{{ title }}\",\n \"n\": {{ notification }}\n}").unwrap();
    assert_eq!(names_of(&settings).unwrap(), ["h"]);
    std::fs::write(&file, "{\n \"text\": \"{{ routing_key }}\"\n}").unwrap();
    let error = names_of(&settings).unwrap_err();
    assert!(error.contains("line 2: unknown field \"routing_key\""), "{error}");
}
