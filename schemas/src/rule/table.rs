//! One table of a file of rules: its name, its keys, and what all rules have in common.

use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::fault::{Given, Place, RuleError, Text};
use super::values::{self, Read};
use crate::annotations::{About, Severity};
use crate::ids::RuleName;
use crate::settings::likeness::meant;

/// One `[[budget]]` or `[[rule]]`.
pub(super) struct Table<'t> {
    text: &'t Arc<Text>,
    pub(super) kind: &'static str,
    pub(super) name: Given<RuleName>,
    entries: &'t DeTable<'t>,
}

/// One key of it.
pub(super) struct Entry<'t> {
    kind: &'static str,
    rule: &'t RuleName,
    pub(super) key: &'t str,
    value: &'t DeValue<'t>,
    pub(super) place: Place,
}

/// How an error calls a rule.
pub(super) fn titled(kind: &str, name: &str) -> Option<String> {
    Some(format!("{kind} {name:?}"))
}

impl<'t> Table<'t> {
    /// A table that has a name.
    pub(super) fn open(
        text: &'t Arc<Text>,
        kind: &'static str,
        table: &'t Spanned<DeValue<'t>>,
    ) -> Result<Self, RuleError> {
        let at =
            |span: std::ops::Range<usize>| Place { text: Arc::clone(text), offset: span.start };
        let wrong = |problem| at(table.span()).fault(Some(kind.to_owned()), None, problem);
        let Some(entries) = table.get_ref().as_table() else {
            return Err(wrong(format!("must be a table; write [[{kind}]]")));
        };
        let Some(given) = entries.get("name") else {
            return Err(wrong("name is missing; every one has its own".to_owned()));
        };
        let place = at(given.span());
        let name = values::text(given.get_ref());
        let checked = |name: String| RuleName::new(&name).map_err(|error| (Some(name), error));
        let name = match name.map(checked) {
            Ok(Ok(value)) => Given { value, place },
            Ok(Err((name, error))) => {
                let title = name.and_then(|name| titled(kind, &name));
                return Err(place.fault(title, Some("name"), error.to_string()));
            }
            Err(error) => return Err(place.fault(Some(kind.to_owned()), Some("name"), error)),
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
            place: Place { text: Arc::clone(self.text), offset: key.span().start },
        })
    }
}

impl Entry<'_> {
    pub(super) fn fault(&self, problem: impl Into<String>) -> RuleError {
        self.place.fault(titled(self.kind, self.rule.as_str()), Some(self.key), problem)
    }

    /// Its value as what it should be.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&DeValue<'_>) -> Read<T>,
    ) -> Result<Option<Given<T>>, RuleError> {
        let value = read(self.value).map_err(|problem| self.fault(problem))?;
        Ok(Some(Given { value, place: self.place.clone() }))
    }

    /// It means nothing; `known` would have.
    pub(super) fn unknown(&self, known: &[&str]) -> RuleError {
        self.fault(unknown_key(self.key, known))
    }
}

/// What is said of a key that means nothing.
pub(super) fn unknown_key(key: &str, known: &[&str]) -> String {
    match meant(key, known.iter().map(|&known| known.to_owned())) {
        Some(meant) => format!("unknown key, did you mean {meant:?}?"),
        None => format!("unknown key; there are {}", known.join(", ")),
    }
}

/// What a rule says to people, as far as it is given.
#[derive(Clone, Debug, Default)]
pub(super) struct AboutDraft {
    severity: Option<Given<Severity>>,
    routes: Option<Given<Vec<String>>>,
    runbook: Option<Given<String>>,
    summary: Option<Given<String>>,
    enabled: Option<Given<bool>>,
}

/// Its keys.
macro_rules! keys_with_about {
    ($($key:literal),*) => {
        &["name", $($key,)* "severity", "routes", "runbook", "summary", "enabled"]
    };
}
pub(super) use keys_with_about;

impl AboutDraft {
    /// Takes one key; false when it is none of these.
    pub(super) fn take(&mut self, entry: &Entry<'_>) -> Result<bool, RuleError> {
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
        lay(&mut self.severity, above.severity);
        lay(&mut self.routes, above.routes);
        lay(&mut self.runbook, above.runbook);
        lay(&mut self.summary, above.summary);
        lay(&mut self.enabled, above.enabled);
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.enabled.as_ref().is_none_or(|given| given.value)
    }

    pub(super) fn build(&self) -> About {
        About {
            severity: value(&self.severity).unwrap_or_default(),
            routes: value(&self.routes).unwrap_or_default(),
            runbook: value(&self.runbook),
            summary: value(&self.summary),
        }
    }
}

/// Puts what is given above in place of what is given below.
pub(super) fn lay<T>(below: &mut Option<Given<T>>, above: Option<Given<T>>) {
    if above.is_some() {
        *below = above;
    }
}

pub(super) fn value<T: Clone>(given: &Option<Given<T>>) -> Option<T> {
    given.as_ref().map(|given| given.value.clone())
}
