//! Rules about stragglers, key by key, while the layers of files are laid over each other.

use super::drafts::{Draft, Keys};
use super::fault::{LocatedValue, RuleError, TextPosition};
use super::rules::Straggler;
use super::table::{Entry, keys_with_about, overlay_keys, value};
use super::values;
use crate::ids::Operation;
use crate::limits::rules::CLASSES_MAX;
use crate::straggler::{CLASS_LABEL, RANK_LABEL, StragglerMethod, WAIT, WORK};

/// Keys of a `[[straggler]]`.
pub const STRAGGLER_KEYS: &[&str] =
    keys_with_about!["operation", "rule", "by", "cohort", "work", "wait"];

/// Those of a rule about stragglers.
#[derive(Clone, Debug, Default)]
pub(super) struct StragglerKeys {
    operation: Option<LocatedValue<Operation>>,
    rule: Option<LocatedValue<StragglerMethod>>,
    by: Option<LocatedValue<String>>,
    cohort: Option<LocatedValue<Vec<String>>>,
    work: Option<LocatedValue<Vec<String>>>,
    wait: Option<LocatedValue<Vec<String>>>,
}

impl Keys for StragglerKeys {
    type Rule = Straggler;
    const KIND: &'static str = "straggler";
    const TITLE: &'static str = "a rule about stragglers";
    const KNOWN: &'static [&'static str] = STRAGGLER_KEYS;

    fn read_key(&mut self, entry: &Entry<'_>) -> Result<bool, RuleError> {
        match entry.key {
            "operation" => self.operation = entry.read(values::operation)?,
            "rule" => self.rule = entry.read(values::straggler_method)?,
            "by" => self.by = entry.read(values::label_key)?,
            "cohort" => self.cohort = entry.read(values::label_keys)?,
            "work" => self.work = entry.read(values::classes)?,
            "wait" => self.wait = entry.read(values::classes)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn overlay(&mut self, above: Self) {
        overlay_keys!(self, above: operation, rule, by, cohort, work, wait);
    }

    fn build(draft: &Draft<Self>) -> Result<Straggler, RuleError> {
        let keys = &draft.keys;
        let or = |given: &Option<LocatedValue<Vec<String>>>, default: &[&str]| {
            value(given).unwrap_or_else(|| default.iter().map(|&class| class.to_owned()).collect())
        };

        let straggler = Straggler {
            name: draft.name.value.clone(),
            operation: value(&keys.operation),
            method: draft.needed(&keys.rule, "rule")?,
            by: value(&keys.by).unwrap_or_else(|| RANK_LABEL.to_owned()),
            cohort: or(&keys.cohort, &["role"]),
            work: or(&keys.work, &WORK),
            wait: or(&keys.wait, &WAIT),
            about: draft.about.build(),
        };

        draft.check(&straggler)?;
        Ok(straggler)
    }
}

impl Draft<StragglerKeys> {
    /// Refuses what no cohort could be judged by.
    fn check(&self, straggler: &Straggler) -> Result<(), RuleError> {
        let Straggler { method, by, cohort, work, wait, .. } = straggler;
        let keys = &self.keys;

        if by == CLASS_LABEL {
            let problem = "phases of one peer differ by it; write a label such as \"rank\"";
            return Err(self.against("by", [keys.by.as_ref().map(position)], problem));
        }
        let differs = |label: &&String| *label == by || *label == CLASS_LABEL;
        if let Some(label) = cohort.iter().find(differs) {
            let problem = format!("{label:?} differs within a cohort; remove it");
            return Err(self.against("cohort", [keys.cohort.as_ref().map(position)], problem));
        }

        let given_work = keys.work.as_ref().map(position);
        let given_wait = keys.wait.as_ref().map(position);
        if work.is_empty() {
            let problem = "names no class; write for example [\"compute\"]";
            return Err(self.against("work", [given_work], problem));
        }
        if wait.is_empty() && *method == StragglerMethod::WaitsLeast {
            let problem = "names no class, and waits_least needs one; write [\"sync\"]";
            return Err(self.against("wait", [given_wait], problem));
        }
        if let Some(class) = wait.iter().find(|class| work.contains(class)) {
            let problem = format!("{class:?} is a class of work as well; remove one of them");
            return Err(self.against("wait", [given_wait, given_work], problem));
        }
        let classes = work.len() + wait.len();
        if classes > CLASSES_MAX {
            let problem = format!("{classes} classes with those of wait, more than {CLASSES_MAX}");
            return Err(self.against("work", [given_work, given_wait], problem));
        }
        Ok(())
    }

    /// An error about a key, at the first of these positions that a file has.
    fn against<const N: usize>(
        &self,
        key: &str,
        given: [Option<&TextPosition>; N],
        problem: impl Into<String>,
    ) -> RuleError {
        let given = given.into_iter().flatten().next();
        self.fault_at(given.unwrap_or(&self.name.position), Some(key), problem)
    }
}

fn position<T>(given: &LocatedValue<T>) -> &TextPosition {
    &given.position
}
