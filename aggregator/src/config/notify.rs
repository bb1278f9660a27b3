//! Receivers of alerts: the sections `[[alertmanager]]` and `[[webhook]]`. The files that they name
//! are read by `io::notify`, once, at the start.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_schemas::rule::Severity;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Text that may be a secret; `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// All `[[alertmanager]]` sections, or a comma-separated list of their URLs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alertmanagers(pub Vec<Alertmanager>);

/// An Alertmanager. Each member of a cluster has its own section and gets every alert.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Alertmanager {
    pub name: String,
    pub url: String,
    #[serde(deserialize_with = "duration")]
    pub resend_every: Duration,
    pub token_file: Option<PathBuf>,
    pub ca_file: Option<PathBuf>,
    pub severity_min: Severity,
}

/// A receiver of JSON bodies by POST.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Webhook {
    pub name: String,
    pub url: Option<Secret>,
    pub url_file: Option<PathBuf>,
    pub template: String,
    pub headers: BTreeMap<String, Secret>,
    pub token_file: Option<PathBuf>,
    pub ca_file: Option<PathBuf>,
    pub routing_key_file: Option<PathBuf>,
    pub severity_min: Severity,
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
        D::Error::custom(format!("{text:?} is not a duration such as \"60s\": {error}"))
    })
}

impl<'de> Deserialize<'de> for Alertmanagers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Alertmanagers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of sections, or comma-separated URLs")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Alertmanagers, E> {
                let urls = text.split(',').map(str::trim).filter(|url| !url.is_empty());
                let named = (1..).zip(urls).map(|(number, url)| {
                    let mut one = Alertmanager { url: url.to_owned(), ..Alertmanager::default() };
                    if number > 1 {
                        one.name = format!("{}_{number}", one.name);
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

    #[test]
    fn comma_separated_urls_are_alertmanagers() {
        let file = Layer::from_toml("f", "alertmanager = 'http://a:9093, https://b/x/'").unwrap();
        let both = resolve::<Config>(&[file]).unwrap().value.alertmanager.0;
        let names: Vec<&str> = both.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["alertmanager", "alertmanager_2"]);
        let mut flag = Layer::new("flag");
        flag.set("alertmanager", "http://a:9093").unwrap();
        let file = Layer::from_toml("f", "[[alertmanager]]\nurl = 'http://c'\nname = 'c'").unwrap();
        let config = resolve::<Config>(&[file, flag]).unwrap().value;
        let expected = Alertmanager { url: "http://a:9093".to_owned(), ..Alertmanager::default() };
        assert_eq!(config.alertmanager.0, [expected]);
    }

    #[test]
    fn debug_output_contains_no_secret() {
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
