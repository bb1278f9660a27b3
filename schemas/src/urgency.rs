//! What the rules declare urgent: operations, events and service checks whose messages go before
//! others.
//!
//! DESIGN S86.

use serde::{Deserialize, Serialize};

use crate::alert::NamePattern;
use crate::ids::Operation;
use crate::wire::{Event, EventSource};

/// A declared urgency.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeclaredUrgency {
    /// Of what.
    pub subject: DeclaredSubject,
    /// How urgent its messages are.
    pub urgency: Urgency,
}

/// What is declared urgent, by its name or the beginning of its names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeclaredSubject {
    /// Samples of operations.
    Operation(NamePattern),
    /// Events with this title.
    Event(NamePattern),
    /// Service checks, whatever their status.
    ServiceCheck(NamePattern),
}

/// How urgent a message is that has something declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Urgency {
    /// Overtakes a lane that is delayed.
    High,
    /// Takes the emergency lane at once.
    #[default]
    Critical,
}

impl DeclaredSubject {
    /// Whether samples of this operation are meant.
    #[must_use]
    pub fn is_operation(&self, operation: &Operation) -> bool {
        matches!(self, Self::Operation(pattern) if pattern.fits(operation.as_str()))
    }

    /// Whether this event or service check is meant.
    #[must_use]
    pub fn is_event(&self, event: &Event) -> bool {
        match (self, event.source) {
            (Self::Event(pattern), EventSource::Event)
            | (Self::ServiceCheck(pattern), EventSource::ServiceCheck) => {
                pattern.fits(&event.title)
            }
            _ => false,
        }
    }
}
