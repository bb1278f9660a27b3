//! What rules declare urgent, key by key, while the layers of files are laid over each other.

use super::drafts::{Draft, Keys};
use super::fault::{LocatedValue, RuleError};
use super::table::{Entry, overlay_keys, value};
use super::values;
use crate::urgency::{DeclaredSubject, DeclaredUrgency, Urgency};

/// Keys of a `[[priority]]`. Of those that rules share it has `enabled` alone: nothing is alerted
/// on.
pub const PRIORITY_KEYS: &[&str] =
    &["name", "operation", "event", "service_check", "level", "enabled"];

/// Those of a declared urgency.
#[derive(Clone, Debug, Default)]
pub(super) struct PriorityKeys {
    subject: Option<LocatedValue<DeclaredSubject>>,
    level: Option<LocatedValue<Urgency>>,
}

impl Keys for PriorityKeys {
    type Rule = DeclaredUrgency;
    const KIND: &'static str = "priority";
    const TITLE: &'static str = "a priority";
    const KNOWN: &'static [&'static str] = PRIORITY_KEYS;

    fn read_key(&mut self, entry: &Entry<'_>) -> Result<bool, RuleError> {
        match entry.key {
            "operation" | "event" | "service_check" if self.subject.is_some() => {
                let problem = "a priority is of one operation, event or service check; write \
                               one [[priority]] for each";
                return Err(entry.fault(problem));
            }
            "operation" => self.subject = entry.read(values::declared_operation)?,
            "event" => self.subject = entry.read(values::declared_event)?,
            "service_check" => self.subject = entry.read(values::declared_check)?,
            "level" => self.level = entry.read(values::urgency)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn overlay(&mut self, above: Self) {
        overlay_keys!(self, above: subject, level);
    }

    fn build(draft: &Draft<Self>) -> Result<DeclaredUrgency, RuleError> {
        let keys = &draft.keys;
        let subject = draft.needed(&keys.subject, "operation, event or service_check")?;
        Ok(DeclaredUrgency { subject, urgency: value(&keys.level).unwrap_or_default() })
    }
}
