//! Address and scrape interval of a target, checked when the settings are read.

use std::time::Duration;

use crate::limits::scrape::URL_BYTES_MAX;
use plimsoll_runtime::client::Address;
use url::Url;

/// A target to scrape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// As it is written in the configuration.
    pub(crate) url: String,
    pub(crate) address: Address,
    /// Path and query of the request.
    pub(crate) path: String,
    pub(crate) every: Duration,
    /// Time for one scrape.
    pub(crate) timeout: Duration,
}

impl Endpoint {
    /// The target whose page is at `url`.
    ///
    /// # Errors
    /// When the address is not a plain http URL of a host.
    pub fn new(url: &str, every: Duration, timeout: Duration) -> Result<Self, String> {
        let example = "such as \"http://127.0.0.1:8000/metrics\"";
        let read = Url::parse(url).ok().filter(|read| matches!(read.scheme(), "http" | "https"));
        let Some(read) = read else {
            return Err(format!("must be an address that starts with http://, {example}"));
        };
        if url.len() > URL_BYTES_MAX {
            return Err(format!("must have at most {URL_BYTES_MAX} bytes"));
        }
        if read.scheme() == "https" {
            return Err(format!("must be plain http, {example}; it is meant for this machine"));
        }
        if !read.username().is_empty() || read.password().is_some() {
            return Err("must not contain a user; targets are read without credentials".to_owned());
        }
        let Some(address) = Address::of_url(&read) else {
            return Err(format!("names no host; it must be an address {example}"));
        };
        let query = read.query().map_or_else(String::new, |query| format!("?{query}"));

        Ok(Self {
            url: url.to_owned(),
            address,
            path: format!("{}{query}", read.path()),
            every,
            timeout,
        })
    }
}
