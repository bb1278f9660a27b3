//! The aggregators that a subcommand sends its requests to, and how a request is written.

use plimsoll_runtime::stdout::{print, print_line};
use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use plimsoll_mesh::api::Api;

/// The aggregators, and the token for them.
#[derive(Args, Clone, Debug)]
pub struct Targets {
    /// URL of an aggregator; repeat it for both of a pair
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:9900",
        value_parser = Api::check_url
    )]
    url: Vec<String>,
    /// File with the token of the aggregator's http.token_file [default: $PLIMSOLL_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Targets {
    /// A client of each.
    pub(crate) fn apis(&self) -> Result<Vec<Api>> {
        let token = match &self.token_file {
            Some(path) => {
                let read = std::fs::read_to_string(path);
                Some(read.with_context(|| format!("--token-file {}", path.display()))?)
            }
            None => std::env::var("PLIMSOLL_TOKEN").ok(),
        };
        let token = token.map(|token| token.trim().to_owned());
        self.url.iter().map(|url| Ok(Api::of_url(url)?.with_token(token.clone()))).collect()
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
        Self { url, token_file: None, json: false }
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
