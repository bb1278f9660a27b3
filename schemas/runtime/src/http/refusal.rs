//! What a server answered that is of no use, in one line for logs and pages.

use std::future::poll_fn;
use std::pin::Pin;

use hyper::Response;
use hyper::body::{Body, Buf};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, LOCATION};
use plimsoll_schemas::remote_text::{first_line, one_line};
use tokio::time::timeout;

use crate::limits::{REFUSAL_BYTES_MAX, REFUSAL_WAIT};

/// Status, new address, media type and the first line of the body:
/// `HTTP 307 Temporary Redirect to /metrics/`, `HTTP 403 Forbidden, text/plain: invalid_token`.
/// Reads no more of the body than its limits, and waits for it for [`REFUSAL_WAIT`] at most.
pub async fn refusal_text<B: Body + Unpin>(mut answer: Response<B>) -> String {
    let header = |name: HeaderName| {
        let value = answer.headers().get(name)?;
        Some(one_line(&String::from_utf8_lossy(value.as_bytes()))).filter(|text| !text.is_empty())
    };

    let (status, address) = (answer.status(), header(LOCATION));
    let media_type = header(CONTENT_TYPE);
    let encoding = header(CONTENT_ENCODING).filter(|of| of != "identity");

    let mut text = format!("HTTP {}", status.as_u16());
    for (before, part) in [
        (" ", status.canonical_reason()),
        (" to ", address.as_deref()),
        (", ", media_type.as_deref()),
        (", encoded as ", encoding.as_deref()),
    ] {
        if let Some(part) = part {
            text += before;
            text += part;
        }
    }

    // A page for browsers explains nothing in its first line, and what is encoded is no text.
    let is_markup = media_type.is_some_and(|of| of.to_lowercase().contains("html"));
    if is_markup || encoding.is_some() {
        return one_line(&text);
    }
    let line = first_line(&beginning(answer.body_mut()).await);
    one_line(&if line.is_empty() { text } else { format!("{text}: {line}") })
}

/// The beginning of a body, as far as it comes in time.
async fn beginning<B: Body + Unpin>(body: &mut B) -> String {
    let mut bytes = Vec::new();
    let read = async {
        while bytes.len() < REFUSAL_BYTES_MAX {
            let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
            let Some(Ok(frame)) = frame else { return };
            let Ok(mut data) = frame.into_data() else { continue };
            let fits = data.remaining().min(REFUSAL_BYTES_MAX - bytes.len());
            let mut taken = vec![0; fits];
            data.copy_to_slice(&mut taken);
            bytes.append(&mut taken);
        }
    };

    // What has come by then is enough.
    let _slow = timeout(REFUSAL_WAIT, read).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use axum::body::Body as AnyBody;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_one_line_with_status_address_type_and_reason() {
        let answer = |status: u16, headers: &[(&str, &str)], body: AnyBody| {
            let mut answer = Response::builder().status(status);
            for (name, value) in headers {
                answer = answer.header(*name, *value);
            }
            refusal_text(answer.body(body).unwrap())
        };
        let plain = ("content-type", "text/plain");
        for (got, expected) in [
            (
                answer(403, &[plain], "\r\ninvalid\u{1b}_token\nmore".into()).await,
                "HTTP 403 Forbidden, text/plain: invalid_token",
            ),
            (
                answer(307, &[("location", "/metrics/")], AnyBody::empty()).await,
                "HTTP 307 Temporary Redirect to /metrics/",
            ),
            (
                answer(200, &[("content-type", "text/html; charset=utf-8")], "<p>".into()).await,
                "HTTP 200 OK, text/html; charset=utf-8",
            ),
            (
                answer(200, &[("content-encoding", "gzip")], "\u{1f}".into()).await,
                "HTTP 200 OK, encoded as gzip",
            ),
            (answer(599, &[], AnyBody::empty()).await, "HTTP 599"),
        ] {
            assert_eq!(got, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_end_is_bounded_in_bytes_and_time() {
        let endless = AnyBody::from("x".repeat(10 * REFUSAL_BYTES_MAX));
        let text = refusal_text(Response::builder().status(500).body(endless).unwrap()).await;
        assert!(text.starts_with("HTTP 500 Internal Server Error: xxx"), "{text}");
        assert_eq!(text.chars().count(), plimsoll_schemas::remote_text::CHARS_MAX);
        let silent = AnyBody::new(Silent);
        let text = refusal_text(Response::builder().status(500).body(silent).unwrap()).await;
        assert_eq!(text, "HTTP 500 Internal Server Error");
    }

    /// A body that never comes.
    struct Silent;

    impl Body for Silent {
        type Data = hyper::body::Bytes;
        type Error = std::io::Error;

        fn poll_frame(
            self: Pin<&mut Self>,
            _context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
            std::task::Poll::Pending
        }
    }
}
