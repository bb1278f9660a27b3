//! One HTTP post over a connection of its own. Only the head of the response is read, and of a
//! refusal the beginning of its body; no redirect is followed, and one deadline covers it all.
//!
//! DESIGN A32.

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use crate::limits::notifications::{ANSWER_HEAD_BYTES_MAX, POST_WAIT};
use futures_util::future::{Either, select};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use plimsoll_runtime::http::refusal_text;
use plimsoll_schemas::remote_text::innermost;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::Host;

use super::endpoint::Endpoint;
use crate::core::alerting::Answer;

/// How a post ended, and what the receiver or the system answered if it was not taken.
type Ended = (Answer, String);

/// Failures without an HTTP status.
const CONNECT: Answer = Answer::Failed("connect", None);
const TLS: Answer = Answer::Failed("tls", None);
const GARBAGE: Answer = Answer::Failed("garbage", None);
const TIMEOUT: Answer = Answer::Failed("timeout", None);

/// Posts one body to the endpoint. The text has no secret of the endpoint.
pub(super) async fn post(endpoint: &Endpoint, body: Vec<u8>) -> Ended {
    let ended = timeout(POST_WAIT, exchange(endpoint, body)).await;
    let ended = ended.unwrap_or_else(|_| Err((TIMEOUT, String::new())));
    let (answer, cause) = ended.unwrap_or_else(|failed| failed);
    (answer, endpoint.without_secrets(&cause))
}

async fn exchange(endpoint: &Endpoint, body: Vec<u8>) -> Result<Ended, Ended> {
    let request = request(endpoint, body).map_err(|error| failed(GARBAGE, &error))?;
    let host = match &endpoint.host {
        Host::Domain(name) => name.clone(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    };
    let connected = TcpStream::connect((host.as_str(), endpoint.port)).await;
    let stream = connected.map_err(|error| failed(CONNECT, &error))?;
    let Some(trust) = &endpoint.trust else { return send(stream, request).await };
    let name = ServerName::try_from(host).map_err(|error| failed(TLS, &error))?;
    let stream = TlsConnector::from(trust.clone()).connect(name, stream).await;
    send(stream.map_err(|error| failed(TLS, &error))?, request).await
}

fn failed(answer: Answer, error: &dyn Error) -> Ended {
    (answer, innermost(error))
}

fn request(endpoint: &Endpoint, body: Vec<u8>) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    let mut request = Request::post(&endpoint.target)
        .header(HOST, endpoint.authority())
        .header(USER_AGENT, concat!("plimsoll-aggregator/", env!("CARGO_PKG_VERSION")))
        .header(CONTENT_TYPE, "application/json")
        .header(CONNECTION, "close")
        .body(Full::new(Bytes::from(body)))?;
    for (name, value) in &endpoint.headers {
        request.headers_mut().insert(name, value.clone());
    }
    Ok(request)
}

async fn send<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Ended, Ended>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_buf_size(ANSWER_HEAD_BYTES_MAX);
    let handshake = builder.handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| failed(GARBAGE, &error))?;
    let answered = pin!(async move {
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(|error| failed(GARBAGE, &error))?;
        let ended = Answer::of_status(answer.status().as_u16(), retry_after(&answer));
        let cause = match ended {
            Answer::Taken => String::new(),
            Answer::Refused(_) | Answer::Failed(..) => refusal_text(answer).await,
        };
        Ok((ended, cause))
    });
    match select(answered, pin!(connection)).await {
        Either::Left((answer, _)) => answer,
        // A closed connection may have delivered a response.
        Either::Right((_, answered)) => answered.await,
    }
}

/// The receiver's `Retry-After`, if it is in seconds.
fn retry_after<B>(answer: &Response<B>) -> Option<Duration> {
    let value: &HeaderValue = answer.headers().get(RETRY_AFTER)?;
    value.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}
