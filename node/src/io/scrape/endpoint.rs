//! Where a target is and how often it is looked at. Everything that can be wrong with it is found
//! at the start.

use std::time::Duration;

use crate::limits::scrape::URL_BYTES_MAX;
use url::{Host, Url};

/// The way to one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// As it is written in the configuration.
    pub(super) url: String,
    /// Name or address, as it is connected to.
    pub(super) host: String,
    pub(super) port: u16,
    /// What the request calls the host.
    pub(super) authority: String,
    /// What stands behind `GET`.
    pub(super) path: String,
    /// Time between two looks.
    pub(super) every: Duration,
    /// Time for one.
    pub(super) timeout: Duration,
}

impl Endpoint {
    /// The way to the page at `url`.
    ///
    /// # Errors
    /// Says what is wrong with the address.
    pub fn new(url: &str, every: Duration, timeout: Duration) -> Result<Self, String> {
        let example = "such as \"http://127.0.0.1:8000/metrics\"";
        let read = Url::parse(url).ok().filter(|read| matches!(read.scheme(), "http" | "https"));
        let Some(read) = read.filter(|_| url.len() <= URL_BYTES_MAX) else {
            return Err(format!("must be an address of at most {URL_BYTES_MAX} bytes, {example}"));
        };
        if read.scheme() == "https" {
            return Err(format!("must be plain http, {example}; it is meant for this machine"));
        }
        if !read.username().is_empty() || read.password().is_some() {
            return Err("holds a user; there is no way to show one to a target".to_owned());
        }
        let (Some(host), Some(port)) = (read.host(), read.port_or_known_default()) else {
            return Err(format!("names no host; it must be an address {example}"));
        };
        let query = read.query().map_or_else(String::new, |query| format!("?{query}"));
        Ok(Self {
            url: url.to_owned(),
            authority: format!("{host}:{port}"),
            host: match host {
                Host::Domain(name) => name.to_owned(),
                Host::Ipv4(address) => address.to_string(),
                Host::Ipv6(address) => address.to_string(),
            },
            port,
            path: format!("{}{query}", read.path()),
            every,
            timeout,
        })
    }
}
