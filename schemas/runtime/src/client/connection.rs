//! A connection for one request, in the clear or over TLS. No redirect is followed and no proxy is
//! used. The deadline is the caller's.
//!
//! DESIGN S52.

use std::io;
use std::pin::{Pin, pin};

use futures_util::future::{Either, select};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use crate::trust::Trust;

/// The server that a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// A name or an address, without the brackets of IPv6.
    pub host: String,
    pub port: u16,
    /// Value of the `Host` header. Servers compare it with their name, so the port of the scheme
    /// is left out.
    pub authority: String,
}

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum ConnectError {
    #[error(transparent)]
    Tcp(io::Error),
    /// The host is no name that a certificate can have.
    #[error(transparent)]
    Name(InvalidDnsNameError),
    #[error(transparent)]
    Tls(io::Error),
    #[error(transparent)]
    Http(hyper::Error),
}

/// A connection that has sent nothing yet.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>,
}

impl Address {
    /// `None` of a URL without a host or a port.
    pub fn of_url(url: &Url) -> Option<Self> {
        let (host, port) = (url.host()?, url.port_or_known_default()?);
        Some(Self {
            authority: url.port().map_or(host.to_string(), |port| format!("{host}:{port}")),
            host: match host {
                Host::Domain(name) => name.to_owned(),
                Host::Ipv4(address) => address.to_string(),
                Host::Ipv6(address) => address.to_string(),
            },
            port,
        })
    }

    /// Connects, over TLS if `trust` is given. A response whose head is longer than
    /// `head_bytes_max` is an error.
    ///
    /// # Errors
    /// When there is no connection.
    pub async fn connect(
        &self,
        trust: Option<&Trust>,
        head_bytes_max: usize,
    ) -> Result<Connection, ConnectError> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = stream.map_err(ConnectError::Tcp)?;
        let Some(trust) = trust else { return handshake(stream, head_bytes_max).await };
        let name = ServerName::try_from(self.host.clone()).map_err(ConnectError::Name)?;
        let stream = TlsConnector::from(trust.clone()).connect(name, stream).await;
        handshake(stream.map_err(ConnectError::Tls)?, head_bytes_max).await
    }
}

async fn handshake<S>(stream: S, head_bytes_max: usize) -> Result<Connection, ConnectError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = Builder::new();
    builder.max_buf_size(head_bytes_max);
    let shaken = builder.handshake(TokioIo::new(stream)).await;
    let (sender, driver) = shaken.map_err(ConnectError::Http)?;
    Ok(Connection { sender, driver: Box::pin(driver) })
}

impl Connection {
    /// Sends the request and returns what `read` makes of the response, whose body arrives while
    /// `read` runs.
    ///
    /// # Errors
    /// When no response arrives.
    pub async fn send<R: Future>(
        self,
        request: Request<Full<Bytes>>,
        read: impl FnOnce(Response<Incoming>) -> R,
    ) -> hyper::Result<R::Output> {
        let Self { mut sender, driver } = self;
        let answered = pin!(async move {
            let response = sender.send_request(request).await?;
            Ok(read(response).await)
        });
        match select(answered, driver).await {
            Either::Left((answer, _)) => answer,
            // A closed connection may have delivered a response.
            Either::Right((_, answered)) => answered.await,
        }
    }
}
