//! What receivers are owed, in a form of its own: alerts that fire, silences, acknowledgements,
//! and for each webhook the begins that it was sent and the notifications that wait for it.
//!
//! A checkpoint holds all of this too, in the layout of the structs that it is made from. This is
//! the copy for a program that cannot read that layout, or a file that is damaged. It is JSON.
//! Fields are only added, each with a default, and a reader ignores those that it does not define.
//! Only a change of a field's meaning raises the version.
//!
//! Alertmanagers are owed nothing here: an alert that they are not sent again ends by itself.
//!
//! DESIGN A104.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_schemas::alert::{Acknowledgement, AlertKey, Notification, SilenceOrigin, SilenceRow};
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

/// What receivers of one aggregator are owed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlertsRecord {
    pub version: u16,
    pub mesh: MeshName,
    /// When it was taken, in nanoseconds since 1970, as all fields that end with `_ns`; those that
    /// end with `_seconds` are seconds since then.
    #[serde(rename = "at_ns")]
    pub at: Wall,
    #[serde(default)]
    pub firing: Vec<FiringAlert>,
    #[serde(default)]
    pub silencing: SilencingRecord,
    /// By the name of a webhook.
    #[serde(default)]
    pub receivers: BTreeMap<String, ReceiverRecord>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FiringAlert {
    #[serde(flatten)]
    pub key: AlertKey,
    #[serde(rename = "since_ns")]
    pub since: Wall,
    /// How often it fired again soon after it resolved.
    #[serde(default)]
    pub flaps: u32,
    /// Its last notification, which its end repeats if nothing else is known of it.
    #[serde(default)]
    pub notification: Option<Arc<Notification>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SilencingRecord {
    pub silences: Vec<SilenceRow>,
    /// The number of the latest silence.
    pub last_id: u64,
    pub acknowledged: Vec<AcknowledgedAlert>,
    /// Alerts that fire and of which no receiver has been notified.
    pub withheld: BTreeSet<AlertKey>,
    /// Alerts that fire and of which receivers are to be notified once more.
    pub again: BTreeSet<AlertKey>,
    /// Which silences these are for all aggregators, by number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<(u64, SilenceOrigin)>,
    /// Silences that an operator ended, and until when they would have held.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<(SilenceOrigin, Wall)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AcknowledgedAlert {
    #[serde(flatten)]
    pub key: AlertKey,
    /// By whom and until when.
    #[serde(flatten)]
    pub of: Acknowledgement,
}

/// What one webhook is owed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReceiverRecord {
    /// Alerts whose begin it may have received, and whose end it has not.
    pub notified: BTreeSet<AlertKey>,
    /// What waits for it, of each alert the oldest first.
    pub waiting: Vec<WaitingNotification>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitingNotification {
    #[serde(rename = "known_at_ns")]
    pub known_at: Wall,
    pub notification: Arc<Notification>,
}

impl AlertsRecord {
    /// The version that this program writes and reads.
    pub const VERSION: u16 = 1;
}
