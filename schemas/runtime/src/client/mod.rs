//! The HTTP client: [`Address`] and [`Connection`] for one request to any server, and [`Api`] for
//! the pages of an aggregator or a node, with one deadline for each request.
//!
//! DESIGN S52.

mod connection;

use std::io;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT,
};
use hyper::http::request::Builder;
use hyper::http::response::Parts;
use hyper::{Method, Request, Response};
use plimsoll_schemas::summary::Summary;
use tokio::time::timeout;
use url::Url;

use crate::trust::Trust;

pub use connection::{Address, ConnectError, Connection};

const TIMEOUT: Duration = Duration::from_secs(5);
/// The default of hyper, which also bounds what is read of a page at one time.
const HEAD_BYTES_MAX: usize = 408 * 1024;

/// The HTTP pages of one process.
#[derive(Clone, Debug)]
pub struct Api {
    base: String,
    address: Address,
    prefix: String,
    has_tls: bool,
    trust: Option<Trust>,
    token: Option<String>,
}

impl Api {
    /// The pages under `http://<address>`.
    ///
    /// # Errors
    /// When it is no address.
    pub fn at(address: &str) -> Result<Self> {
        Self::of_url(&format!("http://{address}"))
    }

    /// The pages under a URL.
    ///
    /// # Errors
    /// When it is no URL with a host.
    pub fn of_url(url: &str) -> Result<Self> {
        let base = url.trim_end_matches('/').to_owned();
        let url = Url::parse(&base).with_context(|| base.clone())?;
        let Some(address) = Address::of_url(&url) else {
            bail!("{base}: an address without a host");
        };
        let prefix = url.path().trim_end_matches('/').to_owned();
        let has_tls = url.scheme() == "https";
        Ok(Self { base, address, prefix, has_tls, trust: None, token: None })
    }

    /// Checks an address that a user gave: a URL with its scheme and a host.
    ///
    /// # Errors
    /// What to write instead.
    pub fn check_url(text: &str) -> Result<String, String> {
        let example = "write it with http:// or https://, such as http://127.0.0.1:9900";
        let url = Url::parse(text).ok();
        let Some(url) = url.filter(|url| matches!(url.scheme(), "http" | "https")) else {
            return Err(format!("an address without http:// or https://; {example}"));
        };
        if url.host_str().is_none_or(str::is_empty) {
            return Err(format!("an address without a host; {example}"));
        }
        Ok(text.to_owned())
    }

    /// The same with a bearer token for all requests.
    pub fn with_token(self, token: Option<String>) -> Self {
        Self { token, ..self }
    }

    /// Whether the address is of the loopback interface.
    pub fn is_on_this_machine(&self) -> bool {
        let host = &self.address.host;
        host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    }

    /// Whether connections are encrypted.
    pub fn has_tls(&self) -> bool {
        self.has_tls
    }

    /// The same, trusting the authorities of this configuration.
    pub fn with_trust(self, trust: Trust) -> Self {
        Self { trust: Some(trust), ..self }
    }

    /// Sends a request, with a JSON body if given, and returns the response body.
    ///
    /// # Errors
    /// When there is no response, or its status is an error; the text has its body.
    pub async fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<&serde_json::Value>,
    ) -> Result<String> {
        let mut request = self.head(method.parse()?, path)?;
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map_or_else(String::new, ToString::to_string);
        let (_, bytes) = self.send(path, request.body(body.into())?, usize::MAX).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A page in one media type, of at most this many bytes.
    ///
    /// # Errors
    /// When there is no response, it breaks off, its status is an error (the text has its body),
    /// it is in another media type, or it is longer.
    pub async fn fetch(&self, path: &str, media_type: &str, bytes_max: usize) -> Result<Vec<u8>> {
        let mut request = self.head(Method::GET, path)?.body(Full::default())?;
        request.headers_mut().insert(ACCEPT, media_type.parse()?);
        let (found, bytes) = self.send(path, request, bytes_max).await?;
        ensure!(
            found == media_type,
            "{}{path}: the response is {found} instead of {media_type}: use the aggregator and the \
             command of one version",
            self.base
        );
        Ok(bytes)
    }

    fn head(&self, method: Method, path: &str) -> Result<Builder> {
        let mut head = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header(HOST, &self.address.authority)
            .header(ACCEPT, "*/*")
            .header(CONNECTION, "close")
            .header(USER_AGENT, concat!("plimsoll/", env!("CARGO_PKG_VERSION")));

        if let Some(token) = &self.token {
            let mut value: HeaderValue =
                format!("Bearer {token}").parse().context("the token is not one line of ASCII")?;
            value.set_sensitive(true);
            head = head.header(AUTHORIZATION, value);
        }

        Ok(head)
    }

    /// The media type and the bytes of a response, whose status must be a success.
    async fn send(
        &self,
        path: &str,
        request: Request<Full<Bytes>>,
        bytes_max: usize,
    ) -> Result<(String, Vec<u8>)> {
        let url = format!("{}{path}", self.base);
        let mut bytes = Vec::new();

        let on_part = |part: &[u8]| {
            let fits = bytes.len() + part.len() <= bytes_max;
            ensure!(fits, "the response is longer than {bytes_max} bytes; ask for less");
            bytes.extend_from_slice(part);
            Ok(())
        };

        let head = self.exchange(request, on_part).await.with_context(|| url.clone())?;
        if !head.status.is_success() {
            let words = String::from_utf8_lossy(&bytes);
            bail!("{url}: {}: {}", head.status, words.trim_end());
        }

        let media_type = head.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let media_type = String::from_utf8_lossy(media_type.unwrap_or(b"no media type"));
        Ok((media_type.into_owned(), bytes))
    }

    /// Sends the request, and passes the body of the response to `on_part` as it comes.
    async fn exchange(
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
        ensure!(!self.has_tls || self.trust.is_some(), "https without certificates of authorities");
        let hint = if self.has_tls { "" } else { "; if it serves TLS, write https://" };
        let no_http = |error: hyper::Error| anyhow!("no HTTP response: {error}{hint}");

        let unconnected = |error| match error {
            ConnectError::Tcp(error) => Error::from(error),
            ConnectError::Name(error) => Error::from(error),
            ConnectError::Tls(error) => {
                anyhow!("{error}; if its authority is none of the system's, name it with --ca-file")
            }
            ConnectError::Http(error) => no_http(error),
        };

        let connected = self.address.connect(self.trust.as_ref(), HEAD_BYTES_MAX).await;
        let connection = connected.map_err(unconnected)?;
        let read = |response| read(response, on_part);
        connection.send(request, read).await.map_err(no_http)?
    }

    /// The URL without a path.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// The text of a page.
    ///
    /// # Errors
    /// When there is no response or its status is an error.
    pub async fn get(&self, path: &str) -> Result<String> {
        self.request("GET", path, None).await
    }

    /// The number of bytes of a page, none of which is kept.
    ///
    /// # Errors
    /// When there is no response, it breaks off, or its status is an error.
    pub async fn length(&self, path: &str) -> Result<u64> {
        let request = self.head(Method::GET, path)?.body(Full::default())?;
        let mut length = 0;
        let on_part = |part: &[u8]| {
            length += part.len() as u64;
            Ok(())
        };
        let head = self.exchange(request, on_part).await;
        let status = head.with_context(|| format!("{}{path}", self.base))?.status;
        ensure!(status.is_success(), "{}{path}: {status}", self.base);
        Ok(length)
    }

    /// The summary of an aggregator.
    ///
    /// # Errors
    /// When there is no response or it is no summary.
    pub async fn summary(&self) -> Result<Summary> {
        let text = self.get("/metrics/summary").await?;
        serde_json::from_str(&text).context("/metrics/summary is not a summary")
    }

    /// The value of one series on the metrics page, by its exact name and labels.
    ///
    /// # Errors
    /// When there is no response.
    pub async fn metric(&self, series: &str) -> Result<Option<f64>> {
        Ok(series_value(&self.get("/metrics").await?, series))
    }

    /// Whether `/readyz` reports success, and its text, which names what is wrong.
    ///
    /// # Errors
    /// When there is no response.
    pub async fn readiness(&self) -> Result<(bool, String)> {
        let path = "/readyz";
        let request = self.head(Method::GET, path)?.body(Full::default())?;
        let mut bytes = Vec::new();
        let on_part = |part: &[u8]| {
            bytes.extend_from_slice(part);
            Ok(())
        };
        let head = self.exchange(request, on_part).await;
        let status = head.with_context(|| format!("{}{path}", self.base))?.status;
        Ok((status.is_success(), String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Whether `/readyz` reports success.
    pub async fn is_ready(&self) -> bool {
        self.get("/readyz").await.is_ok()
    }
}

async fn read(
    response: Response<Incoming>,
    mut on_part: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Parts> {
    let (head, mut body) = response.into_parts();
    while let Some(frame) = body.frame().await {
        if let Ok(part) = frame?.into_data() {
            on_part(&part)?;
        }
    }
    Ok(head)
}

/// The value of one series of a metrics page, by its exact name and labels.
pub fn series_value<T: FromStr>(page: &str, series: &str) -> Option<T> {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// What [`Api::fetch`] returns of at most 8 bytes if a server answers with this.
    async fn fetched(answer: &str) -> Result<Vec<u8>, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let api = Api::at(&listener.local_addr().unwrap().to_string()).unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let text = String::from_utf8_lossy(&request[..length]);
            assert!(text.contains("accept: application/x"), "{text}");
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        };
        let (found, ()) = tokio::join!(api.fetch("/page", "application/x", 8), serve);
        found.map_err(|error| format!("{error:#}"))
    }

    fn answer(status: &str, media_type: &str, length: usize, body: &str) -> String {
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\n\
             \r\n{body}"
        )
    }

    #[tokio::test]
    async fn a_page_comes_whole_and_in_its_media_type_or_not_at_all() {
        let good = answer("200 OK", "application/x", 8, "12345678");
        assert_eq!(fetched(&good).await, Ok(b"12345678".to_vec()));
        let table = [
            (answer("200 OK", "application/x", 9, "123456789"), "longer than 8 bytes"),
            (answer("200 OK", "application/x", 8, "1234567"), "/page: "),
            (answer("200 OK", "text/html", 2, "hi"), "is text/html instead of application/x"),
            (answer("404 Not Found", "text/plain", 4, "why\n"), "/page: 404 Not Found: why"),
        ];
        for (answer, words) in table {
            let error = fetched(&answer).await.unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[tokio::test]
    async fn a_request_has_the_token_and_the_path_of_the_address_before_its_own() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let api = Api::of_url(&format!("http://{address}/mesh/")).unwrap();
        let api = api.with_token(Some("s".to_owned()));
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let answer = answer("200 OK", "text/plain", 2, "hi");
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&request[..length]).into_owned()
        };
        let (found, request) = tokio::join!(api.get("/readyz"), serve);
        assert_eq!(found.unwrap(), "hi");
        assert!(request.starts_with("GET /mesh/readyz HTTP/1.1\r\n"), "{request}");
        assert!(request.contains(&format!("\r\nhost: {address}\r\n")), "{request}");
        assert!(request.contains("\r\nauthorization: Bearer s\r\n"), "{request}");
    }

    #[tokio::test]
    async fn what_is_no_http_has_the_hint_that_it_may_be_tls_and_a_refusal_the_error_of_the_system()
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let api = Api::at(&listener.local_addr().unwrap().to_string()).unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            // An alert of TLS: what a server with a certificate answers to plain HTTP.
            stream.write_all(b"\x15\x03\x01\x00\x02\x02\x46").await.unwrap();
        };
        let (found, ()) = tokio::join!(api.get("/"), serve);
        let error = format!("{:#}", found.unwrap_err());
        assert!(error.contains("if it serves TLS, write https://"), "{error}");
        drop(listener);
        let error = api.get("/").await.unwrap_err();
        assert!(error.root_cause().is::<io::Error>(), "{error:#}");
    }
}
