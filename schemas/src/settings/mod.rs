//! One configuration out of layers: file, environment, flags; the later layer wins.
//!
//! Every key remembers which layer set it, so an error names the fault and the layer to fix.
//! Unknown keys are errors: a misspelt key that is silently ignored is a setting that silently does
//! not hold. No error holds a value that may be a secret. Nothing here reads files or the
//! environment.
//!
//! DESIGN S19.

mod fault;
mod retired;
mod service_link;
mod setting;
pub(crate) mod suggestion;

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde::de::DeserializeOwned;
use thiserror::Error;
use toml::Table;

use self::fault::{Fault, FaultKind};
use self::setting::{Setting, Tree};

pub use self::retired::RETIRED;

/// One source of settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// What an error calls it: `file /etc/plimsoll/node.toml`, `environment`, `--set`.
    source: String,
    tree: Tree,
}

/// A finished configuration.
#[derive(Clone, Debug)]
pub struct Resolved<T> {
    /// The configuration.
    pub value: T,
    /// Dotted key to the source that set it; keys left at their default are absent.
    pub origins: BTreeMap<String, String>,
    /// A sentence for each key that is set and has no effect any more.
    pub warnings: Vec<String>,
}

impl<T> Resolved<T> {
    /// A problem of the configuration with the sources of the keys that its text names.
    #[must_use]
    pub fn located(&self, problem: &str) -> String {
        let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        let words = || problem.split(|c| !is_key(c)).map(|word| word.trim_end_matches('.'));
        let named = self.origins.iter().filter(|(key, _)| words().any(|word| word == *key));
        named.fold(problem.to_owned(), |text, (key, origin)| format!("{text}; {origin} sets {key}"))
    }
}

/// Why there is no configuration.
#[derive(Debug, Error, PartialEq)]
pub enum SettingsError {
    /// Not TOML.
    #[error("{origin}: line {line}, column {column}: {message}")]
    Syntax {
        /// The layer.
        origin: String,
        /// Counted from 1.
        line: usize,
        /// Counted from 1, in characters.
        column: usize,
        /// The parser's message.
        message: String,
    },
    /// A key that means nothing.
    #[error("{origin}: unknown key {key:?}{}; --print-config lists all keys", hint(.meant))]
    UnknownKey {
        /// The layer.
        origin: String,
        /// The dotted key.
        key: String,
        /// The key that was probably meant.
        meant: Option<String>,
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

fn hint(meant: &Option<String>) -> String {
    meant.as_ref().map_or_else(String::new, |key| format!(", did you mean {key:?}?"))
}

impl Layer {
    /// A layer that sets nothing yet.
    #[must_use]
    pub fn new(source: impl Into<String>) -> Self {
        Self { source: source.into(), tree: Tree::new() }
    }

    /// A layer from the text of a TOML file.
    ///
    /// # Errors
    /// When the text is not TOML.
    pub fn from_toml(source: impl Into<String>, text: &str) -> Result<Self, SettingsError> {
        let source = source.into();
        match text.parse::<Table>() {
            Ok(table) => Ok(Self { source, tree: setting::tree(table) }),
            // The parser's full text would show the line at fault, and a password in it.
            Err(error) => {
                let before = error.span().and_then(|span| text.get(..span.start));
                let before = before.unwrap_or_default();

                Err(SettingsError::Syntax {
                    origin: source,
                    line: before.matches('\n').count() + 1,
                    column: before.chars().rev().take_while(|c| *c != '\n').count() + 1,
                    message: error.message().replace('\n', ", "),
                })
            }
        }
    }

    /// A layer from environment variables: `<prefix>BUS__URL=x` sets `bus.url`. Variables of
    /// others are passed over, and so are the links that Kubernetes sets for a service whose
    /// name begins like the prefix.
    ///
    /// # Errors
    /// When two variables contradict each other in shape, or one of ours is not UTF-8.
    pub fn from_env(
        prefix: &str,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, SettingsError> {
        let mut layer = Self::new("environment");
        for (name, value) in variables {
            if !name.as_encoded_bytes().starts_with(prefix.as_bytes()) {
                continue;
            }

            let (Some(rest), Some(text)) =
                (name.to_str().and_then(|name| name.strip_prefix(prefix)), value.to_str())
            else {
                return Err(layer.invalid(&name.to_string_lossy(), "is not UTF-8"));
            };

            if !service_link::is_service_link(rest, text) {
                layer.set(&rest.to_ascii_lowercase().replace("__", "."), text)?;
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
        let mut layer = Self::new(source);
        for assignment in assignments {
            let Some((key, text)) = assignment.as_ref().split_once('=') else {
                // What comes behind a blank may be the value, and that a secret.
                let key = assignment.as_ref().split_whitespace().next().unwrap_or_default();
                return Err(layer.invalid(key, "expected key=value"));
            };
            layer.set(key.trim(), text.trim())?;
        }
        Ok(layer)
    }

    /// Sets one dotted key to text, which is read as whatever the key expects: `7` is a name
    /// where a name is expected and a number where a number is.
    ///
    /// # Errors
    /// When part of the key is already a plain value.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), SettingsError> {
        let mut parts: Vec<&str> = key.split('.').collect();
        let last = parts.pop().unwrap_or_default();
        let mut tree = &mut self.tree;

        for part in parts {
            let entry = tree.entry(part.to_owned());
            let Setting::Section(inner) = entry.or_insert_with(|| Setting::Section(Tree::new()))
            else {
                let message = format!("{part} is a value, not a section");
                return Err(self.invalid(key, &message));
            };
            tree = inner;
        }

        tree.insert(last.to_owned(), Setting::Text(text.to_owned()));
        Ok(())
    }

    fn invalid(&self, key: &str, message: &str) -> SettingsError {
        let (origin, message) = (self.source.clone(), message.to_owned());
        SettingsError::Invalid { origin, key: key.to_owned(), message }
    }

    /// Whether this layer sets a key, an item of its list or its section.
    fn sets(&self, key: &str) -> bool {
        let mut tree = &self.tree;
        for part in key.split(['.', '[']) {
            match tree.get(part) {
                Some(Setting::Section(inner)) => tree = inner,
                Some(Setting::Typed(_) | Setting::Text(_)) => return true,
                None => return false,
            }
        }
        true
    }
}

/// Lays the layers over each other, later ones on top, and reads the result.
///
/// # Errors
/// On the first unknown or unreadable key, with the layer that set it.
pub fn resolve<T: DeserializeOwned>(layers: &[Layer]) -> Result<Resolved<T>, SettingsError> {
    let mut merged = Tree::new();
    for layer in layers {
        overlay(&mut merged, &layer.tree);
    }

    let origin_of = |key: &str| {
        let layer = layers.iter().rev().find(|layer| layer.sets(key));
        layer.map_or_else(|| "defaults".to_owned(), |layer| layer.source.clone())
    };

    let mut warnings = Vec::new();
    for (key, value) in RETIRED {
        if retired::remove(&mut merged, key) {
            let origin = origin_of(key);
            warnings.push(format!("{origin}: {key} has no effect any more; it is {value}"));
        }
    }

    let mut keys = Vec::new();
    plain_keys("", &merged, &mut keys);

    match T::deserialize(Setting::Section(merged)) {
        Ok(value) => {
            let origins = keys.into_iter().map(|key| (key.clone(), origin_of(&key))).collect();
            Ok(Resolved { value, origins, warnings })
        }
        Err(Fault { key, kind }) => {
            let origin = origin_of(&key);
            Err(match kind {
                FaultKind::Invalid(message) => SettingsError::Invalid { origin, key, message },
                FaultKind::UnknownKey(known) => {
                    let section = key.rsplit_once('.').map(|(section, _)| section);
                    let beside = known.iter().map(|name| joined(section.unwrap_or(""), name));
                    let meant = suggestion::suggest(&key, beside.chain(keys_of::<T>()));
                    SettingsError::UnknownKey { origin, key, meant }
                }
            })
        }
    }
}

/// Every dotted key that a configuration takes; a list is one key.
#[must_use]
pub fn keys_of<T: DeserializeOwned>() -> Vec<String> {
    // A section rejects a key without a name and returns its valid names; a plain value is not a
    // section and returns another error.
    let names = |section: &str| {
        let mut probe = Layer::new("");
        probe.set(&joined(section, ""), "").ok()?;
        match T::deserialize(Setting::Section(probe.tree)) {
            Err(Fault { kind: FaultKind::UnknownKey(known), .. }) => Some(known),
            _ => None,
        }
    };

    let (mut keys, mut open) = (Vec::new(), vec![String::new()]);

    while let Some(key) = open.pop() {
        match names(&key) {
            Some(known) => open.extend(known.iter().map(|name| joined(&key, name))),
            None => keys.push(key),
        }
    }

    keys.sort();
    keys
}

fn joined(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}

fn overlay(below: &mut Tree, above: &Tree) {
    for (name, setting) in above {
        match (below.get_mut(name), setting) {
            (Some(Setting::Section(inner)), Setting::Section(above)) => overlay(inner, above),
            _ => drop(below.insert(name.clone(), setting.clone())),
        }
    }
}

/// The dotted keys that hold no further section.
fn plain_keys(section: &str, tree: &Tree, keys: &mut Vec<String>) {
    for (name, setting) in tree {
        let key = joined(section, name);
        match setting {
            Setting::Section(inner) => plain_keys(&key, inner, keys),
            Setting::Typed(_) | Setting::Text(_) => keys.push(key),
        }
    }
}

#[cfg(test)]
mod tests;
