//! The aggregators that a subcommand sends its requests to, and how a request is written.

use plimsoll_runtime::stdout::{print, print_line};
use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Context, Error, Result};
use clap::Args;
use plimsoll_bus::read_secret;
use plimsoll_mesh::api::Api;
use plimsoll_runtime::trust::trust;

/// How aggregators are reached.
#[derive(Args, Clone, Debug, Default)]
pub struct Access {
    /// File with a token of the aggregator: that of http.token_file for changes, that of
    /// http.reader_token_file or http.token_file for all else [default: $PLIMSOLL_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with the authorities (PEM) that an https address must have its certificate from
    /// [default: $PLIMSOLL_CA_FILE, or those of the system]
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// The aggregators, and the token for them.
#[derive(Args, Clone, Debug)]
pub struct Targets {
    /// URL of an aggregator, http:// or https://; repeat it for both of a pair
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:9900",
        value_parser = Api::check_url
    )]
    url: Vec<String>,
    #[command(flatten)]
    access: Access,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Access {
    /// A client of the aggregator at a URL.
    ///
    /// # Errors
    /// Names the file that cannot be used.
    pub(crate) fn api(&self, url: &str) -> Result<Api> {
        let api = Api::of_url(url)?.with_token(self.token()?);
        if !api.has_tls() {
            return Ok(api);
        }
        let of_variable = || std::env::var_os("PLIMSOLL_CA_FILE").map(PathBuf::from);
        let ca_file = self.ca_file.clone().or_else(of_variable);
        let trust = trust("--ca-file", ca_file.as_deref());
        Ok(api.with_trust(trust.map_err(Error::msg)?))
    }

    fn token(&self) -> Result<Option<String>> {
        let Some(path) = &self.token_file else {
            let token = std::env::var("PLIMSOLL_TOKEN").ok();
            return Ok(token.map(|token| token.trim().to_owned()));
        };
        let read = read_secret(path);
        read.map(Some).with_context(|| format!("--token-file {}", path.display()))
    }
}

impl Targets {
    /// A client of each.
    pub(crate) fn apis(&self) -> Result<Vec<Api>> {
        self.url.iter().map(|url| self.access.api(url)).collect()
    }

    /// Prints the answer as JSON, or these words for people.
    pub(crate) fn print(&self, json: &str, words: impl FnOnce() -> String) {
        if self.json {
            print_line(json.trim_end());
        } else {
            print(words());
        }
    }

    /// Whether JSON is wanted.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether there are several.
    pub(crate) fn has_several(&self) -> bool {
        self.url.len() > 1
    }

    /// Aggregators without a token.
    #[cfg(test)]
    pub(crate) fn of_urls(url: Vec<String>) -> Self {
        Self { url, access: Access::default(), json: false }
    }
}

/// A path with query parameters. Valid names need no escaping; others are escaped, so that the
/// aggregator rejects them and names the character.
pub(crate) fn with_parameters(path: &str, parameters: &[(&str, &Option<String>)]) -> String {
    let given = parameters.iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
    let escaped = |value: &str| {
        let mut text = String::new();
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
                text.push(char::from(byte));
            } else {
                // Writing to a string cannot fail.
                let _written = write!(text, "%{byte:02X}");
            }
        }
        text
    };
    let pairs: Vec<String> =
        given.map(|(key, value)| format!("{key}={}", escaped(value))).collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_name_reaches_the_aggregator_unchanged() {
        let of = |text: &str| with_parameters("/p", &[("rule", &Some(text.to_owned()))]);
        assert_eq!(of("epoch_hook"), "/p?rule=epoch_hook");
        assert_eq!(of("a&node=b c"), "/p?rule=a%26node%3Db%20c");
        assert_eq!(with_parameters("/p", &[("rule", &None)]), "/p");
    }
}
