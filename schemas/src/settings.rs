//! One configuration out of layers: file, environment, flags; the later layer wins.
//!
//! Every key remembers which layer set it, so an error can say not only what is wrong but
//! where to mend it. Unknown keys are errors: a misspelt key that is silently ignored is a
//! setting that silently does not hold. Nothing here reads files or the environment.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_ignored::Path;
use thiserror::Error;
pub use toml::{Table, Value};

/// One source of settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// What an error calls it: `file /etc/plimsoll/node.toml`, `environment`, `--set`.
    pub source: String,
    /// Its settings.
    pub table: Table,
}

/// A finished configuration.
#[derive(Clone, Debug)]
pub struct Resolved<T> {
    /// The configuration.
    pub value: T,
    /// Dotted key to the source that set it; keys left at their default are absent.
    pub origins: BTreeMap<String, String>,
}

/// Why there is no configuration.
#[derive(Debug, Error, PartialEq)]
pub enum SettingsError {
    /// Not TOML; the message carries line and column.
    #[error("{origin}: {message}")]
    Syntax {
        /// The layer.
        origin: String,
        /// What the parser said.
        message: String,
    },
    /// A key that means nothing.
    #[error("{origin}: unknown key {key:?}; --help and the README list the known ones")]
    UnknownKey {
        /// The layer.
        origin: String,
        /// The dotted key.
        key: String,
    },
    /// A key with a value of the wrong type or out of range.
    #[error("{origin}: {key}: {message}")]
    Invalid {
        /// The layer.
        origin: String,
        /// The dotted key.
        key: String,
        /// What is wrong.
        message: String,
    },
}

impl Layer {
    /// A layer from the text of a TOML file.
    ///
    /// # Errors
    /// When the text is not TOML.
    pub fn from_toml(source: impl Into<String>, text: &str) -> Result<Self, SettingsError> {
        let source = source.into();
        match text.parse::<Table>() {
            Ok(table) => Ok(Self { source, table }),
            Err(error) => Err(SettingsError::Syntax {
                origin: source,
                message: error.to_string().trim_end().to_owned(),
            }),
        }
    }

    /// A layer from environment variables: `<prefix>BUS__URL=x` sets `bus.url`. A value that
    /// reads as TOML is taken as that, anything else as text.
    ///
    /// # Errors
    /// When two variables contradict each other in shape.
    pub fn from_env(
        prefix: &str,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, SettingsError> {
        let mut layer = Self { source: "environment".to_owned(), table: Table::new() };
        for (name, text) in variables {
            if let Some(rest) = name.strip_prefix(prefix) {
                let key = rest.to_ascii_lowercase().replace("__", ".");
                layer.set(&key, scalar(&text))?;
            }
        }
        Ok(layer)
    }

    /// A layer from `key=value` arguments.
    ///
    /// # Errors
    /// When an argument has no `=` or contradicts another in shape.
    pub fn from_assignments<S: AsRef<str>>(
        source: impl Into<String>,
        assignments: impl IntoIterator<Item = S>,
    ) -> Result<Self, SettingsError> {
        let mut layer = Self { source: source.into(), table: Table::new() };
        for assignment in assignments {
            let Some((key, text)) = assignment.as_ref().split_once('=') else {
                return Err(SettingsError::Invalid {
                    origin: layer.source,
                    key: assignment.as_ref().to_owned(),
                    message: "expected key=value".to_owned(),
                });
            };
            layer.set(key.trim(), scalar(text.trim()))?;
        }
        Ok(layer)
    }

    /// Sets one dotted key.
    ///
    /// # Errors
    /// When part of the key is already a plain value.
    pub fn set(&mut self, key: &str, value: Value) -> Result<(), SettingsError> {
        let mut parts: Vec<&str> = key.split('.').collect();
        let last = parts.pop().unwrap_or_default();
        let mut table = &mut self.table;
        for part in parts {
            let entry = table.entry(part).or_insert_with(|| Value::Table(Table::new()));
            let Value::Table(inner) = entry else {
                return Err(SettingsError::Invalid {
                    origin: self.source.clone(),
                    key: key.to_owned(),
                    message: format!("{part} is a value, not a section"),
                });
            };
            table = inner;
        }
        table.insert(last.to_owned(), value);
        Ok(())
    }
}

fn scalar(text: &str) -> Value {
    let parsed = format!("v = {text}").parse::<Table>().ok();
    parsed
        .and_then(|mut table| if table.len() == 1 { table.remove("v") } else { None })
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Lays the layers over each other, later ones on top, and reads the result.
///
/// # Errors
/// On the first unknown or unreadable key, with the layer that set it.
pub fn resolve<T: DeserializeOwned>(layers: &[Layer]) -> Result<Resolved<T>, SettingsError> {
    let mut merged = Table::new();
    let mut origins = BTreeMap::new();
    for layer in layers {
        overlay(&mut merged, &layer.table, "", &layer.source, &mut origins);
    }
    let origin_of = |key: &str| {
        let within = |set: &&String| set.starts_with(key) || key.starts_with(set.as_str());
        let set = origins.keys().find(within);
        set.map_or_else(|| "defaults".to_owned(), |set| origins[set].clone())
    };
    let mut unknown = None;
    let mut track = serde_path_to_error::Track::new();
    let deserializer = serde_path_to_error::Deserializer::new(Value::Table(merged), &mut track);
    let mut note = |path: Path<'_>| {
        unknown.get_or_insert_with(|| path.to_string());
    };
    let read = T::deserialize(serde_ignored::Deserializer::new(deserializer, &mut note));
    if let Some(key) = unknown {
        return Err(SettingsError::UnknownKey { origin: origin_of(&key), key });
    }
    match read {
        Ok(value) => Ok(Resolved { value, origins }),
        Err(error) => {
            let key = track.path().to_string();
            let message = error.to_string().trim_end().to_owned();
            Err(SettingsError::Invalid { origin: origin_of(&key), key, message })
        }
    }
}

fn overlay(
    below: &mut Table,
    above: &Table,
    prefix: &str,
    source: &str,
    origins: &mut BTreeMap<String, String>,
) {
    for (name, value) in above {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match (below.get_mut(name), value) {
            (Some(Value::Table(inner)), Value::Table(value)) => {
                overlay(inner, value, &key, source, origins);
            }
            (_, Value::Table(value)) => {
                let mut inner = Table::new();
                overlay(&mut inner, value, &key, source, origins);
                below.insert(name.clone(), Value::Table(inner));
            }
            (_, value) => {
                below.insert(name.clone(), value.clone());
                origins.insert(key, source.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(default)]
    struct Config {
        name: String,
        bus: Bus,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(default)]
    struct Bus {
        url: String,
        retries: u8,
    }

    impl Default for Config {
        fn default() -> Self {
            Self { name: "none".into(), bus: Bus::default() }
        }
    }

    impl Default for Bus {
        fn default() -> Self {
            Self { url: "nats://127.0.0.1".into(), retries: 3 }
        }
    }

    fn file(text: &str) -> Layer {
        Layer::from_toml("file a.toml", text).unwrap()
    }

    fn env(pairs: &[(&str, &str)]) -> Layer {
        let owned = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        Layer::from_env("P_", owned).unwrap()
    }

    #[test]
    fn later_layers_win_key_by_key_and_say_so() {
        let layers = [
            file("name = 'f'\n[bus]\nurl = 'file'\nretries = 1"),
            env(&[("P_BUS__URL", "env"), ("OTHER", "x")]),
            Layer::from_assignments("--set", ["bus.retries=2"]).unwrap(),
        ];
        let resolved = resolve::<Config>(&layers).unwrap();
        let bus = Bus { url: "env".into(), retries: 2 };
        assert_eq!(resolved.value, Config { name: "f".into(), bus });
        assert_eq!(resolved.origins["bus.url"], "environment");
        assert_eq!(resolved.origins["bus.retries"], "--set");
        assert_eq!(resolved.origins["name"], "file a.toml");
    }

    #[test]
    fn without_layers_there_are_the_defaults() {
        assert_eq!(resolve::<Config>(&[]).unwrap().value, Config::default());
    }

    #[test]
    fn a_misspelt_key_is_named_with_its_source() {
        assert_eq!(
            resolve::<Config>(&[file("[bus]\nulr = 'x'")]).unwrap_err(),
            SettingsError::UnknownKey { origin: "file a.toml".into(), key: "bus.ulr".into() }
        );
    }

    #[test]
    fn a_value_of_the_wrong_type_is_named_with_its_source() {
        let error = resolve::<Config>(&[env(&[("P_BUS__RETRIES", "many")])]).unwrap_err();
        let SettingsError::Invalid { origin, key, .. } = error else { panic!("{error}") };
        assert_eq!((origin.as_str(), key.as_str()), ("environment", "bus.retries"));
    }

    #[test]
    fn broken_toml_is_reported_with_its_line() {
        let error = Layer::from_toml("file a.toml", "name = 'x'\n[bus\n").unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }

    #[test]
    fn an_assignment_without_an_equals_sign_is_refused() {
        let error = Layer::from_assignments("--set", ["bus"]).unwrap_err();
        assert_eq!(error.to_string(), "--set: bus: expected key=value");
    }
}
