//! The aggregators that a subcommand sends its requests to, and how a request is written.

use plimsoll_runtime::stdout::{print, print_line};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result};
use clap::Args;
use plimsoll_bus::read_secret;
use plimsoll_runtime::client::Api;
use plimsoll_runtime::exit::Exit;
use plimsoll_runtime::trust::trust;
use serde::de::DeserializeOwned;

/// Where the packages put the token of the aggregator on this machine: root and the members of the
/// aggregator's group may read it.
const TOKEN_OF_THIS_MACHINE: &str = "/etc/plimsoll/aggregator.token";

/// How aggregators are reached.
#[derive(Args, Clone, Debug, Default)]
struct Access {
    /// File with a token of the aggregator: that of http.token_file for changes, that of
    /// http.reader_token_file or http.token_file for the rest [default: $PLIMSOLL_TOKEN; for an
    /// aggregator on this machine /etc/plimsoll/aggregator.token, if it may be read]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with the certificate authorities (PEM) that https addresses are checked against
    /// [default: $PLIMSOLL_CA_FILE, or those of the system]
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// One aggregator.
#[derive(Args, Clone, Debug)]
pub struct Target {
    /// The aggregator
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:9900",
        value_parser = Api::check_url
    )]
    url: String,
    #[command(flatten)]
    access: Access,
}

/// The aggregators, and the token for them.
#[derive(Args, Clone, Debug)]
pub struct Targets {
    /// URL of an aggregator, http:// or https://; may be repeated, for a pair
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
    fn api(&self, url: &str) -> Result<Api> {
        let api = Api::of_url(url)?;
        let token = self.token(api.is_on_this_machine())?;
        let api = api.with_token(token);
        if !api.has_tls() {
            return Ok(api);
        }
        let of_variable = || std::env::var_os("PLIMSOLL_CA_FILE").map(PathBuf::from);
        let ca_file = self.ca_file.clone().or_else(of_variable);
        let trust = trust("--ca-file", ca_file.as_deref());
        Ok(api.with_trust(trust.map_err(Error::msg)?))
    }

    fn token(&self, is_of_this_machine: bool) -> Result<Option<String>> {
        if let Some(path) = &self.token_file {
            let read = read_secret(path);
            return read.map(Some).with_context(|| format!("--token-file {}", path.display()));
        }
        match std::env::var("PLIMSOLL_TOKEN") {
            Ok(token) => Ok(Some(token.trim().to_owned())),
            // Only to this machine: the token of its aggregator
            // would be sent to whatever address `--url` names.
            Err(_) if is_of_this_machine => token_at(Path::new(TOKEN_OF_THIS_MACHINE)),
            Err(_) => Ok(None),
        }
    }
}

/// The token in a file that need not be there, nor be for this user: reading pages needs none.
fn token_at(path: &Path) -> Result<Option<String>> {
    match read_secret(path) {
        Ok(token) => Ok(Some(token)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

impl Target {
    /// A client of it.
    ///
    /// # Errors
    /// Names the file that cannot be used.
    pub(crate) fn api(&self) -> Result<Api> {
        self.access.api(&self.url)
    }
}

impl Targets {
    /// A client of each.
    pub(crate) fn apis(&self) -> Result<Vec<Api>> {
        self.url.iter().map(|url| self.access.api(url)).collect()
    }

    /// Shows a page of each aggregator: as it came, or in words for people.
    ///
    /// # Errors
    /// When an aggregator does not respond, or rejects the request.
    pub(crate) async fn show<P: DeserializeOwned>(
        &self,
        path: &str,
        words: impl Fn(&P) -> String,
    ) -> Result<Exit> {
        for api in self.apis()? {
            let (page, text) = page_and_text(&api, path).await?;
            self.print(&text, || words(&page));
        }
        Ok(Exit::Success)
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

/// A page of an aggregator.
///
/// # Errors
/// When it does not respond, rejects the request or sends something else.
pub(crate) async fn page<P: DeserializeOwned>(api: &Api, path: &str) -> Result<P> {
    page_and_text(api, path).await.map(|(page, _)| page)
}

async fn page_and_text<P: DeserializeOwned>(api: &Api, path: &str) -> Result<(P, String)> {
    let text = api.get(path).await?;
    let name = path.split('?').next().unwrap_or(path);
    let page = serde_json::from_str(&text);
    Ok((page.with_context(|| format!("{name} has an unexpected form"))?, text))
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
                text += &format!("%{byte:02X}");
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
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use plimsoll_mesh::certificates::write_secret;

    use super::*;

    #[test]
    fn a_token_of_this_machine_is_used_if_it_is_there_and_refused_if_everyone_may_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        assert_eq!(token_at(&path).unwrap(), None);
        write_secret(&path, "0123456789abcdef\n").unwrap();
        assert_eq!(token_at(&path).unwrap().as_deref(), Some("0123456789abcdef"));
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let error = format!("{:#}", token_at(&path).unwrap_err());
        assert!(error.contains("everyone can access it"), "{error}");
    }

    #[test]
    fn only_an_aggregator_on_loopback_is_one_of_this_machine() {
        for (url, is_it) in [
            ("http://127.0.0.1:9900", true),
            ("https://localhost:9900/prefix", true),
            ("http://[::1]:9900", true),
            ("http://127.0.0.1.example:9900", false),
            ("http://10.0.0.7:9900", false),
        ] {
            assert_eq!(Api::of_url(url).unwrap().is_on_this_machine(), is_it, "{url}");
        }
    }

    #[test]
    fn an_invalid_name_reaches_the_aggregator_unchanged() {
        let of = |text: &str| with_parameters("/p", &[("rule", &Some(text.to_owned()))]);
        assert_eq!(of("epoch_hook"), "/p?rule=epoch_hook");
        assert_eq!(of("a&node=b c"), "/p?rule=a%26node%3Db%20c");
        assert_eq!(with_parameters("/p", &[("rule", &None)]), "/p");
    }
}
