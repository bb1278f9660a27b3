//! One table of a rule file: its name, its keys, and the keys that all rules share.

use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::fault::{LocatedValue, RuleError, RuleText, TextPosition};
use super::values::{self, Read};
use crate::annotations::{RuleAnnotations, Severity};
use crate::ids::RuleName;
use crate::settings::suggestion::suggest;

/// One `[[budget]]` or `[[rule]]`.
pub(super) struct Table<'t> {
    text: &'t Arc<RuleText>,
    pub(super) kind: &'static str,
    pub(super) name: LocatedValue<RuleName>,
    entries: &'t DeTable<'t>,
}

/// One key of it.
pub(super) struct Entry<'t> {
    kind: &'static str,
    rule: &'t RuleName,
    pub(super) key: &'t str,
    value: &'t DeValue<'t>,
    pub(super) position: TextPosition,
}

/// How an error calls a rule.
pub(super) fn titled(kind: &str, name: &str) -> Option<String> {
    Some(format!("{kind} {name:?}"))
}

impl<'t> Table<'t> {
    /// A table that has a name.
    pub(super) fn open(
        text: &'t Arc<RuleText>,
        kind: &'static str,
        table: &'t Spanned<DeValue<'t>>,
    ) -> Result<Self, RuleError> {
        let at = |span: std::ops::Range<usize>| TextPosition {
            text: Arc::clone(text),
            offset: span.start,
        };

        let wrong = |problem| at(table.span()).fault(Some(kind.to_owned()), None, problem);
        let Some(entries) = table.get_ref().as_table() else {
            return Err(wrong(format!("must be a table; write [[{kind}]]")));
        };
        let Some(given) = entries.get("name") else {
            return Err(wrong("name is missing; every one has its own".to_owned()));
        };
        let position = at(given.span());
        let name = values::text(given.get_ref());
        let checked = |name: String| RuleName::new(&name).map_err(|error| (Some(name), error));

        let name = match name.map(checked) {
            Ok(Ok(value)) => LocatedValue { value, position },
            Ok(Err((name, error))) => {
                let title = name.and_then(|name| titled(kind, &name));
                return Err(position.fault(title, Some("name"), error.to_string()));
            }
            Err(error) => return Err(position.fault(Some(kind.to_owned()), Some("name"), error)),
        };

        Ok(Self { text, kind, name, entries })
    }

    /// All its keys but the name.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let others = self.entries.iter().filter(|(key, _)| key.get_ref() != "name");
        others.map(|(key, value): (&Spanned<DeString<'_>>, _)| Entry {
            kind: self.kind,
            rule: &self.name.value,
            key: key.get_ref(),
            value: value.get_ref(),
            position: TextPosition { text: Arc::clone(self.text), offset: key.span().start },
        })
    }
}

impl Entry<'_> {
    pub(super) fn fault(&self, problem: impl Into<String>) -> RuleError {
        self.position.fault(titled(self.kind, self.rule.as_str()), Some(self.key), problem)
    }

    /// Its value as what it should be.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&DeValue<'_>) -> Read<T>,
    ) -> Result<Option<LocatedValue<T>>, RuleError> {
        let value = read(self.value).map_err(|problem| self.fault(problem))?;
        Ok(Some(LocatedValue { value, position: self.position.clone() }))
    }

    /// The error for an unknown key; `known` are the valid keys.
    pub(super) fn unknown(&self, known: &[&str]) -> RuleError {
        self.fault(unknown_key(self.key, known))
    }
}

/// The error about an unknown key.
pub(super) fn unknown_key(key: &str, known: &[&str]) -> String {
    match suggest(key, known.iter().map(|&known| known.to_owned())) {
        Some(suggestion) => format!("unknown key, did you mean {suggestion:?}?"),
        None => format!("unknown key; the keys are {}", known.join(", ")),
    }
}

/// The annotations of a rule, as far as they are set.
#[derive(Clone, Debug, Default)]
pub(super) struct AnnotationsDraft {
    severity: Option<LocatedValue<Severity>>,
    routes: Option<LocatedValue<Vec<String>>>,
    runbook: Option<LocatedValue<String>>,
    summary: Option<LocatedValue<String>>,
    enabled: Option<LocatedValue<bool>>,
}

/// Its keys.
macro_rules! keys_with_about {
    ($($key:literal),*) => {
        &["name", $($key,)* "severity", "routes", "runbook", "summary", "enabled"]
    };
}
pub(super) use keys_with_about;

/// Replaces each of these keys of the lower layer that the upper layer sets.
macro_rules! overlay_keys {
    ($below:ident, $above:ident: $($key:ident),*) => {
        $(if $above.$key.is_some() {
            $below.$key = $above.$key;
        })*
    };
}
pub(super) use overlay_keys;

impl AnnotationsDraft {
    /// Takes one key; false when it is none of these.
    pub(super) fn read_key(&mut self, entry: &Entry<'_>) -> Result<bool, RuleError> {
        match entry.key {
            "severity" => self.severity = entry.read(values::severity)?,
            "routes" => self.routes = entry.read(values::routes)?,
            "runbook" => self.runbook = entry.read(values::runbook)?,
            "summary" => self.summary = entry.read(values::summary)?,
            "enabled" => self.enabled = entry.read(values::flag)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Lays another over it.
    pub(super) fn overlay(&mut self, above: Self) {
        overlay_keys!(self, above: severity, routes, runbook, summary, enabled);
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.enabled.as_ref().is_none_or(|given| given.value)
    }

    pub(super) fn build(&self) -> RuleAnnotations {
        RuleAnnotations {
            severity: value(&self.severity).unwrap_or_default(),
            routes: value(&self.routes).unwrap_or_default(),
            runbook: value(&self.runbook),
            summary: value(&self.summary),
        }
    }
}

pub(super) fn value<T: Clone>(given: &Option<LocatedValue<T>>) -> Option<T> {
    given.as_ref().map(|given| given.value.clone())
}
