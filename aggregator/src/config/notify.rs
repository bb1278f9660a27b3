//! Who is told of alerts: the sections `[[alertmanager]]` and `[[webhook]]`. Reads no file; what
//! they name is read by `io::notify`, once, at the start.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_schemas::rule::Severity;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Text that may be a secret, and is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// All `[[alertmanager]]` sections, or their URLs as one text with commas between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alertmanagers(pub Vec<Alertmanager>);

/// An Alertmanager. Of a cluster each member is named, and each hears everything.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Alertmanager {
    /// What routes, metrics and the log call it; default `alertmanager`.
    pub name: String,
    /// Where it is, with the path before `/api/v2/alerts` if it has one.
    pub url: String,
    /// Time from telling it of all firing alerts to telling it again; default 60 s. It takes an
    /// alert for ended that it has not heard of for three times as long, 15 s at least.
    #[serde(deserialize_with = "duration")]
    pub resend_every: Duration,
    /// File with a bearer token.
    pub token_file: Option<PathBuf>,
    /// File with the certificates (PEM) of who may sign its own; default those of the system.
    pub ca_file: Option<PathBuf>,
    /// It is not told of alerts of less; default `info`, which is all.
    pub severity_min: Severity,
}

/// Whoever takes a JSON body by POST.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Webhook {
    /// What routes, metrics and the log call it; needed.
    pub name: String,
    /// Where it is; this or `url_file`. Needed save for PagerDuty, whose own is known.
    pub url: Option<Secret>,
    /// File with the URL, where that is a secret.
    pub url_file: Option<PathBuf>,
    /// `plimsoll`, `slack`, `pagerduty`, or a file; default `plimsoll`.
    pub template: String,
    /// Headers of each post.
    pub headers: BTreeMap<String, Secret>,
    /// File with a bearer token.
    pub token_file: Option<PathBuf>,
    /// File with the certificates (PEM) of who may sign its own; default those of the system.
    pub ca_file: Option<PathBuf>,
    /// File with what a template calls `routing_key`.
    pub routing_key_file: Option<PathBuf>,
    /// It is not told of alerts of less; default `info`, which is all.
    pub severity_min: Severity,
    /// Whether it is told of ends too; default true.
    pub resolved: bool,
}

impl Default for Alertmanager {
    fn default() -> Self {
        Self {
            name: "alertmanager".to_owned(),
            url: String::new(),
            resend_every: Duration::from_secs(60),
            token_file: None,
            ca_file: None,
            severity_min: Severity::Info,
        }
    }
}

impl Default for Webhook {
    fn default() -> Self {
        Self {
            name: String::new(),
            url: None,
            url_file: None,
            template: "plimsoll".to_owned(),
            headers: BTreeMap::new(),
            token_file: None,
            ca_file: None,
            routing_key_file: None,
            severity_min: Severity::Info,
            resolved: true,
        }
    }
}

impl Secret {
    /// The text, for who needs it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map_err(|error| {
        D::Error::custom(format!("{text:?} is no duration such as \"60s\": {error}"))
    })
}

impl<'de> Deserialize<'de> for Alertmanagers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Alertmanagers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of sections, or URLs with commas between them")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Alertmanagers, E> {
                let urls = text.split(',').map(str::trim).filter(|url| !url.is_empty());
                let named = (1..).zip(urls).map(|(place, url)| {
                    let mut one = Alertmanager { url: url.to_owned(), ..Alertmanager::default() };
                    if place > 1 {
                        one.name = format!("{}_{place}", one.name);
                    }
                    one
                });
                Ok(Alertmanagers(named.collect()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Alertmanagers, A::Error> {
                let next = std::iter::from_fn(|| list.next_element().transpose());
                next.collect::<Result<_, _>>().map(Alertmanagers)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::settings::{Layer, keys_of, resolve};

    use super::*;
    use crate::config::{Config, EXAMPLE};
    use crate::io::notify::Endpoint;

    fn read(text: &str) -> Result<Vec<String>, String> {
        let layer = Layer::from_toml("file a.toml", text).map_err(|error| error.to_string())?;
        let config = resolve::<Config>(&[layer]).map_err(|error| error.to_string())?.value;
        let all = Endpoint::of_config(&config)?;
        Ok(all.into_iter().map(|endpoint| endpoint.receiver.name.to_string()).collect())
    }

    #[test]
    fn urls_with_commas_between_them_are_alertmanagers_too() {
        assert_eq!(
            read("alertmanager = 'http://a:9093, https://b/x/'").unwrap(),
            ["alertmanager", "alertmanager_2"]
        );
        let mut flag = Layer::new("flag");
        flag.set("alertmanager", "http://a:9093").unwrap();
        let file = Layer::from_toml("f", "[[alertmanager]]\nurl = 'http://c'\nname = 'c'").unwrap();
        let config = resolve::<Config>(&[file, flag]).unwrap().value;
        let expected = Alertmanager { url: "http://a:9093".to_owned(), ..Alertmanager::default() };
        assert_eq!(config.alertmanager.0, [expected]);
    }

    #[test]
    fn wrong_receivers_are_refused_with_their_key_and_without_their_secrets() {
        let hook = "[[webhook]]\nname = 'h'\n";
        for (text, part) in [
            ("alertmanager = 'a:9093'", "alertmanager \"alertmanager\": url: it must begin with"),
            ("alertmanager = 'http://u:s3cret@a'", "url: it holds a user; put a token"),
            ("[[alertmanager]]\nurl = 'http://a'\nresend_every = '1h'", "resend_every: it must be"),
            ("[[alertmanager]]\nurl = 'http://a'\nresend_every = '60'", "resend_every"),
            ("[[alertmanager]]\nurl = 'http://a'\nname = 'a b'", "name: "),
            ("[[alertmanager]]\nurl = 'http://a'\ntoken = 'x'", "token"),
            (hook, "webhook \"h\": url is missing; give it or url_file"),
            (&format!("{hook}url = 'ftp://s3cret'"), "url: it must begin with http"),
            (&format!("{hook}url = 'http://h'\nurl_file = 'f'"), "give one of them"),
            (&format!("{hook}url_file = 'absent'"), "url_file: cannot read absent"),
            (&format!("{hook}template = 'pagerduty'"), "routing_key_file is missing"),
            (&format!("{hook}url = 'http://h'\ntemplate = 'absent.json'"), "cannot read absent"),
            (&format!("{hook}url = 'http://h'\nheaders = {{ 'a b' = 's3cret' }}"), "headers.a b"),
            (&format!("{hook}url = 'https://h'\nca_file = 'absent'"), "ca_file: absent: "),
            (&format!("{hook}url = 'http://h'\n{hook}url = 'http://i'"), "name is given twice"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn a_template_of_ones_own_is_tried_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("own.json");
        let settings =
            format!("[[webhook]]\nname = 'h'\nurl = 'http://h'\ntemplate = '{}'", file.display());
        std::fs::write(&file, "{\n \"text\": \"{{ title }}\",\n \"n\": {{ notice }}\n}").unwrap();
        assert_eq!(read(&settings).unwrap(), ["h"]);
        std::fs::write(&file, "{\n \"text\": \"{{ routing_key }}\"\n}").unwrap();
        let error = read(&settings).unwrap_err();
        assert!(error.contains("line 2: unknown field \"routing_key\""), "{error}");
    }

    #[test]
    fn no_secret_is_shown() {
        let secret = Secret("s3cret".to_owned());
        let hook = Webhook { url: Some(secret.clone()), ..Webhook::default() };
        assert!(!format!("{hook:?} {secret:?}").contains("s3cret"));
    }

    #[test]
    fn the_printed_file_holds_every_key_of_a_receiver() {
        let all = EXAMPLE.replace("\n#", "\n").replace("\n ", "\n# ");
        let (_, behind) = all.split_once("[[alertmanager]]").unwrap();
        let (alertmanager, behind) = behind.split_once("[[webhook]]").unwrap();
        let (webhook, _) = behind.split_once("[[rollup]]").unwrap();
        let layer = |text| [Layer::from_toml("file a.toml", text).unwrap()];
        let first = |key: String| key.split('.').next().unwrap_or_default().to_owned();
        let one = resolve::<Alertmanager>(&layer(alertmanager)).unwrap();
        let stated: Vec<String> = one.origins.into_keys().collect();
        assert_eq!(stated, keys_of::<Alertmanager>());
        assert_eq!(one.value.resend_every, Alertmanager::default().resend_every);
        let one = resolve::<Webhook>(&layer(webhook)).unwrap();
        let stated: Vec<String> = one.origins.into_keys().map(first).collect();
        assert_eq!(stated, keys_of::<Webhook>());
    }
}
