//! One request over a connection of its own, in the clear or over TLS. No redirect is followed, no
//! proxy is used, and one deadline covers it all.
//!
//! DESIGN S52.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use futures_util::future::{Either, select};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::http::response::Parts;
use hyper::{Error, Request};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(super) struct Target {
    /// A name or an address, without the brackets of IPv6.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) has_tls: bool,
    /// Whom a connection with TLS trusts.
    pub(super) trust: Option<Arc<ClientConfig>>,
}

impl Target {
    /// Sends the request, and passes the body of the response to `on_part` as it comes.
    pub(super) async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        on_part: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<Parts> {
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no response within 5 s");
        timeout(TIMEOUT, self.connect_and_send(request, on_part)).await.map_err(late)?
    }

    async fn connect_and_send(
        &self,
        request: Request<Full<Bytes>>,
        on_part: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<Parts> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        if !self.has_tls {
            let hint = "; if it serves TLS, write https://";
            return send(stream, request, on_part, hint).await;
        }
        let trust = self.trust.clone().context("https without certificates of authorities")?;
        let name = ServerName::try_from(self.host.clone())?;
        let stream = TlsConnector::from(trust).connect(name, stream).await;
        let hint = "if its authority is none of the system's, name it with --ca-file";
        send(stream.map_err(|error| anyhow!("{error}; {hint}"))?, request, on_part, "").await
    }
}

async fn send<S>(
    stream: S,
    request: Request<Full<Bytes>>,
    on_part: impl FnMut(&[u8]) -> Result<()>,
    hint: &str,
) -> Result<Parts>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let no_http = |error: Error| anyhow!("no HTTP response: {error}{hint}");
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(no_http)?;
    let answered = pin!(answer(sender, request, on_part, no_http));
    match select(answered, pin!(connection)).await {
        Either::Left((answer, _)) => answer,
        // A closed connection may have delivered a response.
        Either::Right((_, answered)) => answered.await,
    }
}

async fn answer(
    mut sender: SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
    mut on_part: impl FnMut(&[u8]) -> Result<()>,
    no_http: impl Fn(Error) -> anyhow::Error,
) -> Result<Parts> {
    let (head, mut body) = sender.send_request(request).await.map_err(no_http)?.into_parts();
    while let Some(frame) = body.frame().await {
        if let Ok(part) = frame?.into_data() {
            on_part(&part)?;
        }
    }
    Ok(head)
}
