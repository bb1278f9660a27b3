//! What rules declare urgent, key by key, while the layers of files are laid over each other.

use super::drafts::Draft;
use super::fault::{LocatedValue, RuleError};
use super::table::{AnnotationsDraft, Table, overlay_key, value};
use super::values;
use crate::ids::RuleName;
use crate::urgency::{DeclaredSubject, DeclaredUrgency, Urgency};

/// Keys of a `[[priority]]`.
pub const PRIORITY_KEYS: &[&str] =
    &["name", "operation", "event", "service_check", "level", "enabled"];

/// A declared urgency.
#[derive(Clone, Debug)]
pub(super) struct PriorityDraft {
    name: LocatedValue<RuleName>,
    subject: Option<LocatedValue<DeclaredSubject>>,
    level: Option<LocatedValue<Urgency>>,
    /// Only `enabled` of it: nothing is alerted on.
    about: AnnotationsDraft,
}

impl Draft for PriorityDraft {
    type Rule = DeclaredUrgency;
    const KIND: &'static str = "priority";

    fn read(table: &Table<'_>) -> Result<Self, RuleError> {
        let (name, about) = (table.name.clone(), AnnotationsDraft::default());
        let mut draft = Self { name, subject: None, level: None, about };

        for entry in table.entries() {
            match entry.key {
                "operation" | "event" | "service_check" if draft.subject.is_some() => {
                    let problem = "a priority is of one operation, event or service check; write \
                                   one [[priority]] for each";
                    return Err(entry.fault(problem));
                }
                "operation" => draft.subject = entry.read(values::declared_operation)?,
                "event" => draft.subject = entry.read(values::declared_event)?,
                "service_check" => draft.subject = entry.read(values::declared_check)?,
                "level" => draft.level = entry.read(values::urgency)?,
                "enabled" => drop(draft.about.read_key(&entry)?),
                _ => return Err(entry.unknown(PRIORITY_KEYS)),
            }
        }
        Ok(draft)
    }

    fn name(&self) -> &LocatedValue<RuleName> {
        &self.name
    }

    fn about(&self) -> &AnnotationsDraft {
        &self.about
    }

    fn overlay(&mut self, above: Self) {
        self.name = above.name;
        overlay_key(&mut self.subject, above.subject);
        overlay_key(&mut self.level, above.level);
        self.about.overlay(above.about);
    }

    fn build(&self) -> Result<DeclaredUrgency, RuleError> {
        let subject = self.needed(&self.subject, "operation, event or service_check")?;
        Ok(DeclaredUrgency { subject, urgency: value(&self.level).unwrap_or_default() })
    }
}
