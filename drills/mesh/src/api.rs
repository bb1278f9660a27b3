//! HTTP client of an aggregator or a node.

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use plimsoll_schemas::summary::Summary;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};

const TIMEOUT: Duration = Duration::from_secs(5);

/// The HTTP pages of one process.
#[derive(Clone, Debug)]
pub struct Api {
    base: String,
    client: reqwest::Client,
    token: Option<String>,
}

impl Api {
    /// The pages under `http://<address>`.
    ///
    /// # Errors
    /// When no HTTP client can be created.
    pub fn at(address: &str) -> Result<Self> {
        Self::of_url(&format!("http://{address}"))
    }

    /// The pages under a URL.
    ///
    /// # Errors
    /// When no HTTP client can be created.
    pub fn of_url(url: &str) -> Result<Self> {
        let client = reqwest::Client::builder().timeout(TIMEOUT).build()?;
        Ok(Self { base: url.trim_end_matches('/').to_owned(), client, token: None })
    }

    /// Checks an address that a user gave: a URL with its scheme and a host.
    ///
    /// # Errors
    /// What to write instead.
    pub fn check_url(text: &str) -> Result<String, String> {
        let example = "write it with http:// or https://, such as http://127.0.0.1:9900";
        let url = reqwest::Url::parse(text).ok();
        let Some(url) = url.filter(|url| matches!(url.scheme(), "http" | "https")) else {
            return Err(format!("an address without http:// or https://; {example}"));
        };
        if url.host_str().is_none_or(str::is_empty) {
            return Err(format!("an address without a host; {example}"));
        }
        Ok(text.to_owned())
    }

    /// The same with a bearer token for [`Self::request`].
    #[must_use]
    pub fn with_token(self, token: Option<String>) -> Self {
        Self { token, ..self }
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
        let url = format!("{}{path}", self.base);
        let mut request = self.client.request(method.parse()?, &url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.with_context(|| url.clone())?;
        let (status, text) = (response.status(), response.text().await?);
        if !status.is_success() {
            bail!("{url}: {status}: {}", text.trim_end());
        }
        Ok(text)
    }

    /// A page in one media type, of at most so many bytes.
    ///
    /// # Errors
    /// When there is no response, it breaks off, its status is an error (the text has its body),
    /// it is in another media type, or it is longer.
    pub async fn fetch(&self, path: &str, media_type: &str, bytes_max: usize) -> Result<Vec<u8>> {
        let url = format!("{}{path}", self.base);
        let request = self.client.get(&url).header(ACCEPT, media_type);
        let mut response = request.send().await.with_context(|| url.clone())?;
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.with_context(|| url.clone())? {
            let fits = bytes.len() + chunk.len() <= bytes_max;
            ensure!(fits, "{url}: the response is longer than {bytes_max} bytes; ask for less");
            bytes.extend_from_slice(&chunk);
        }
        if !response.status().is_success() {
            let words = String::from_utf8_lossy(&bytes);
            bail!("{url}: {}: {}", response.status(), words.trim_end());
        }
        let found = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let found = String::from_utf8_lossy(found.unwrap_or(b"no media type")).into_owned();
        ensure!(
            found == media_type,
            "{url}: the response is {found} instead of {media_type}: use the aggregator and the \
             command of one version"
        );
        Ok(bytes)
    }

    /// The URL without a path.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.base
    }

    /// The text of a page.
    ///
    /// # Errors
    /// When there is no response or its status is an error.
    pub async fn get(&self, path: &str) -> Result<String> {
        let url = format!("{}{path}", self.base);
        let response = self.client.get(&url).send().await.with_context(|| url.clone())?;
        Ok(response.error_for_status()?.text().await?)
    }

    /// The number of bytes of a page, none of which is kept.
    ///
    /// # Errors
    /// When there is no response, it breaks off, or its status is an error.
    pub async fn length(&self, path: &str) -> Result<u64> {
        let url = format!("{}{path}", self.base);
        let response = self.client.get(&url).send().await.with_context(|| url.clone())?;
        let (mut response, mut bytes) = (response.error_for_status()?, 0);
        while let Some(chunk) = response.chunk().await? {
            bytes += chunk.len() as u64;
        }
        Ok(bytes)
    }

    /// The summary of an aggregator.
    ///
    /// # Errors
    /// When there is no response or it is no summary.
    pub async fn summary(&self) -> Result<Summary> {
        let text = self.get("/metrics/summary").await?;
        serde_json::from_str(&text).context("/metrics/summary is no summary")
    }

    /// The value of one series on the metrics page, by its exact name and labels.
    ///
    /// # Errors
    /// When there is no response.
    pub async fn metric(&self, series: &str) -> Result<Option<f64>> {
        Ok(series_value(&self.get("/metrics").await?, series))
    }

    /// Whether `/readyz` reports success.
    pub async fn is_ready(&self) -> bool {
        self.get("/readyz").await.is_ok()
    }
}

/// The value of one series of a metrics page, by its exact name and labels.
#[must_use]
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
}
