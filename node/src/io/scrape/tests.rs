//! Scrapes of targets that behave as no real application does, each a listener of its own.

use std::time::Duration;

use crate::limits::scrape::{HEAD_BYTES_MAX, PAGE_BYTES_MAX, PAGE_BYTES_RESERVED};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::core::intake::promtext::{Failure, Format, Page, ScrapeFailure};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);

fn room() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(PAGES_BYTES_MAX))
}

/// A target that reads the request of each connection and then runs `answer`.
async fn target<F: Future<Output = ()> + Send>(
    timeout: Duration,
    answer: impl Fn(TcpStream) -> F + Send + 'static,
) -> (Endpoint, tokio::task::AbortHandle) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/metrics?x=1", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(stream.read_u8().await.unwrap());
            }
            let request = String::from_utf8(request).unwrap();
            assert!(request.starts_with("GET /metrics?x=1 HTTP/1.1\r\n"), "{request}");
            answer(stream).await;
        }
    });
    let every = timeout.max(Duration::from_millis(20));
    (Endpoint::new(&url, every, timeout).unwrap(), task.abort_handle())
}

async fn look(timeout: Duration, answer: &'static [u8]) -> Result<Page, ScrapeFailure> {
    let (endpoint, task) = target(timeout, move |mut stream| async move {
        // A scrape that has ended no longer reads the answer.
        let _sent = stream.write_all(answer).await;
    })
    .await;
    let scraped = endpoint.get(&room()).await.map(|(page, _room)| page);
    task.abort();
    scraped
}

#[tokio::test]
async fn a_page_is_brought_with_its_format_and_whether_it_is_whole() {
    const OPENMETRICS: &str = "Content-Type: application/openmetrics-text; version=1.0.0\r\n";
    for (head, body, format, is_whole) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", "a 1\n", Format::Text, true),
        ("HTTP/1.0 200 OK\r\nContent-Type: Text/Plain; a=b\r\n\r\n", "a 1\n", Format::Text, false),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "2\r\na \r\n2\r\n1\n\r\n0\r\n\r\n",
            Format::Text,
            true,
        ),
        (OPENMETRICS, "a 1\n", Format::OpenMetrics, true),
    ] {
        let head = match head {
            OPENMETRICS => format!("HTTP/1.1 200 OK\r\n{OPENMETRICS}Content-Length: 4\r\n\r\n"),
            head => head.to_owned(),
        };
        let page = look(LONG, format!("{head}{body}").leak().as_bytes()).await.unwrap();
        assert_eq!((page.format, page.is_whole), (format, is_whole), "{head}");
        assert_eq!(page.body, b"a 1\n", "{head}");
    }
}

#[tokio::test]
async fn whatever_is_no_page_is_a_failure_with_its_reason() {
    let head = |more: &str| format!("HTTP/1.1 200 OK\r\n{more}\r\n\r\n");
    for (answer, reason) in [
        (String::new(), Failure::Reset),
        (head("Content-Length: 9") + "a 1\n", Failure::Reset),
        (head("Transfer-Encoding: chunked") + "4\r\na 1\n\r\n", Failure::Reset),
        (head("Transfer-Encoding: chunked") + "what\r\n", Failure::Reset),
        ("SSH-2.0-OpenSSH\r\n\r\n".to_owned(), Failure::Garbage),
        ("\u{1}\u{2}\u{3}\r\n\r\n".to_owned(), Failure::Garbage),
        (head(&format!("x: {}", "y".repeat(HEAD_BYTES_MAX))), Failure::Garbage),
        ("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_owned(), Failure::ServerError),
        ("HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n".to_owned(), Failure::Refused),
        ("HTTP/1.1 302 No\r\nLocation: /\r\n\r\n".to_owned(), Failure::Redirect),
        (head("Content-Encoding: gzip\r\nContent-Length: 0"), Failure::Encoding),
        (head("Content-Type: text/html\r\nContent-Length: 0"), Failure::Type),
        (head("Content-Length: 104857600"), Failure::TooLong),
        (head("") + &"a 1\n".repeat(PAGE_BYTES_MAX / 4 + 1), Failure::TooLong),
    ] {
        let got: String = answer.chars().take(60).collect();
        let failure = look(LONG, answer.leak().as_bytes()).await.unwrap_err();
        assert_eq!(failure.kind, reason, "{got:?}");
    }
}

#[tokio::test]
async fn what_a_target_answers_is_named_with_the_setting_to_change() {
    for (answer, text) in [
        (
            "HTTP/1.1 307 T\r\nLocation: /metrics/\r\nContent-Length: 0\r\n\r\n",
            "the target has no page there: HTTP 307 Temporary Redirect to /metrics/; set scrape.url \
             to the address of the page",
        ),
        (
            "HTTP/1.1 403 F\r\nContent-Type: text/plain\r\nContent-Length: 14\r\n\r\nno token given\n",
            "the target refuses the page: HTTP 403 Forbidden, text/plain: no token given; correct \
             the path of scrape.url, or let the target answer without credentials, which a scrape \
             cannot send",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<p>",
            "the page is not Prometheus text: HTTP 200 OK, text/html; charset=utf-8; set scrape.url \
             to a page of text/plain or application/openmetrics-text, since no setting takes \
             another type",
        ),
    ] {
        let failure = look(LONG, answer.as_bytes()).await.unwrap_err();
        assert_eq!(failure.to_string(), text);
    }
}

#[tokio::test]
async fn a_slow_target_times_out_and_the_reason_names_the_step() {
    for (answer, reason) in [
        ("", Failure::AnswerTimeout),
        ("HTTP/1.1 200 OK\r\nContent-Le", Failure::AnswerTimeout),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na 1\n", Failure::BodyTimeout),
    ] {
        let (endpoint, task) = target(SHORT, move |mut stream| async move {
            stream.write_all(answer.as_bytes()).await.unwrap();
            std::future::pending::<()>().await;
        })
        .await;
        assert_eq!(endpoint.get(&room()).await.unwrap_err().kind, reason, "{answer:?}");
        task.abort();
    }
    let endless = |mut stream: TcpStream| async move {
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head).await.unwrap();
        let chunk = format!("1000\r\n{}\r\n", "a 1\n".repeat(0x400));
        while stream.write_all(chunk.as_bytes()).await.is_ok() {}
    };
    let (endpoint, task) = target(LONG, endless).await;
    assert_eq!(endpoint.get(&room()).await.unwrap_err().kind, Failure::TooLong);
    task.abort();
}

#[tokio::test]
async fn a_missing_peer_is_a_failure() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let endpoint = Endpoint::new(&url, LONG, LONG).unwrap();
    let failure = endpoint.get(&room()).await.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "no connection: Connection refused (os error 111); start the target, or correct scrape.url"
    );
}

#[tokio::test]
async fn large_pages_share_their_room_and_small_ones_always_have_theirs() {
    let page = |bytes: usize| {
        let page: &str = format!("HTTP/1.0 200 OK\r\n\r\n{}", "x".repeat(bytes)).leak();
        target(LONG, move |mut stream| async move {
            // A scrape that is refused its room no longer reads.
            let _sent = stream.write_all(page.as_bytes()).await;
        })
    };
    let (large, one) = page(PAGE_BYTES_RESERVED + 8).await;
    let (small, other) = page(PAGE_BYTES_RESERVED).await;
    let room = Arc::new(Semaphore::new(12));
    let (page, taken) = large.get(&room).await.unwrap();
    assert_eq!((page.body.len(), room.available_permits()), (PAGE_BYTES_RESERVED + 8, 4));
    assert_eq!(large.get(&room).await.unwrap_err().kind, Failure::Crowded);
    assert!(small.get(&room).await.is_ok());
    assert_eq!(room.available_permits(), 4);
    drop(taken);
    assert!(large.get(&room).await.is_ok());
    one.abort();
    other.abort();
}

#[tokio::test]
async fn a_target_that_hangs_delays_no_other() {
    let hanging = |stream| async move {
        std::future::pending::<()>().await;
        drop::<TcpStream>(stream);
    };
    let (hanging, one) = target(LONG, hanging).await;
    let (answering, other) = target(Duration::from_millis(20), |mut stream| async move {
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\na 1\n").await.unwrap();
    })
    .await;
    let hanging = Endpoint { every: Duration::from_millis(1), ..hanging };
    let node = NodeName::new("n").unwrap();
    let mut scraper = Scraper::start(
        &node,
        vec![hanging, Endpoint { timeout: LONG, ..answering }],
        &Supervisor::default(),
    );
    for _ in 0..5 {
        let scraped = scraper.next().await.unwrap();
        assert_eq!((scraped.scrape.target, scraped.scrape.page.unwrap().body.len()), (1, 4));
    }
    one.abort();
    other.abort();
}

#[test]
fn nodes_and_targets_take_turns() {
    let every = Duration::from_secs(5);
    let node = |name| NodeName::new(name).unwrap();
    let all: std::collections::BTreeSet<_> = ["a", "b", "c"]
        .into_iter()
        .flat_map(|name| (0..4).map(move |target| phase(&node(name), target, every)))
        .collect();
    assert_eq!(all.len(), 12);
    assert!(all.iter().all(|phase| *phase < every));
}

#[test]
fn an_address_is_parsed_into_target_and_request() {
    for (url, host, authority, path) in [
        ("http://127.0.0.1:8000/metrics", "127.0.0.1", "127.0.0.1:8000", "/metrics"),
        ("http://localhost", "localhost", "localhost", "/"),
        ("http://a:80/", "a", "a", "/"),
        ("http://[::1]:9/m?a=b#c", "::1", "[::1]:9", "/m?a=b"),
    ] {
        let endpoint = Endpoint::new(url, LONG, LONG).unwrap();
        let read = (&*endpoint.address.host, &*endpoint.address.authority, &*endpoint.path);
        assert_eq!(read, (host, authority, path));
    }
    for wrong in ["", "x", "ftp://h", "https://h", "http://u@h", "http://:80/", "http://h:x/"] {
        assert!(Endpoint::new(wrong, LONG, LONG).is_err(), "{wrong}");
    }
}
