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
        let differs = |label: &&String| *label == by || *label == CLASS_LABEL;
        let classes = work.len() + wait.len();

        let (key, problem) = if by == CLASS_LABEL {
            ("by", "phases of one peer differ by it; write a label such as \"rank\"".to_owned())
        } else if let Some(label) = cohort.iter().find(differs) {
            ("cohort", format!("{label:?} differs within a cohort; remove it"))
        } else if work.is_empty() {
            ("work", "names no class; write for example [\"compute\"]".to_owned())
        } else if wait.is_empty() && *method == StragglerMethod::WaitsLeast {
            ("wait", "names no class, and waits_least needs one; write [\"sync\"]".to_owned())
        } else if let Some(class) = wait.iter().find(|class| work.contains(class)) {
            ("wait", format!("{class:?} is a class of work as well; remove one of them"))
        } else if classes > CLASSES_MAX {
            ("work", format!("{classes} classes with those of wait, more than {CLASSES_MAX}"))
        } else {
            return Ok(());
        };
        Err(self.fault_at(self.position(key), Some(key), problem))
    }

    /// Where a file has the key; without it that of the rule.
    fn position(&self, key: &str) -> &TextPosition {
        let StragglerKeys { by, cohort, work, wait, .. } = &self.keys;
        let given = match key {
            "by" => by.as_ref().map(|by| &by.position),
            "cohort" => cohort.as_ref().map(|cohort| &cohort.position),
            "work" => work.as_ref().or(wait.as_ref()).map(|classes| &classes.position),
            _ => wait.as_ref().or(work.as_ref()).map(|classes| &classes.position),
        };
        given.unwrap_or(&self.name.position)
    }
}
