//! Alerts as other programs see them: their state, their notifications, their evidence.
//!
//! Owns the JSON of notifications and of the alert and silence pages. Refuses to decide anything:
//! the aggregator's core moves alerts from state to state. Notifications are JSON, unlike the
//! mesh's own messages: they are few, and their readers are people, webhooks and scripts.

mod alerts_page;
mod context;
mod description;
mod event;
mod evidence;
mod notification;
mod profile_evidence;
mod silence;
mod state;
mod straggler_sentence;
mod timestamp;

pub use crate::scope::{AlertKey, Scope};
pub use alerts_page::{Acknowledgement, AlertRow, AlertsPage};
pub use context::{AlertContext, BarSeconds, BusContext, HardwareContext, WorstNode};
pub use event::LatencyHigh;
pub use evidence::{
    BurnEvidence, Evidence, GapEvidence, LatencyEvidence, StragglerEvidence, StretchEvidence,
    ValueEvidence,
};
pub use notification::{AlertEndReason, Notification};
pub use profile_evidence::{FunctionEvidence, ProfileEvidence};
pub use silence::{NamePattern, Silence, SilenceMatch, SilenceOrigin, SilenceRow, SilencesPage};
pub use state::{AlertState, DataStatus};

/// Name of the rule that watches for gaps in nodes' ledger entries.
pub const LEDGER_GAP: &str = "ledger_gap";
