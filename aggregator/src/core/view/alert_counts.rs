//! Counts of alerts beside their rows.

use std::borrow::Cow;
use std::collections::BTreeMap;

use plimsoll_schemas::alert::AlertState;

/// How many alerts there are, and of what receivers were not notified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertCounts {
    /// Active alerts, by state.
    pub by_state: BTreeMap<AlertState, u64>,
    /// Of these, alerts for which there is nothing or too little to judge now.
    pub without_data: u64,
    /// Silences that hold or are yet to begin.
    pub silences: u64,
    /// Notifications that receivers did not get, by reason.
    pub suppressed: BTreeMap<Cow<'static, str>, u64>,
    /// Silences of other aggregators that were not taken over, by reason.
    pub silences_refused: BTreeMap<&'static str, u64>,
}
