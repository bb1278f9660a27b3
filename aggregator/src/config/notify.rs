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
