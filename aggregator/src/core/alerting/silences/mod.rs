//! Silences and acknowledgements: receivers are not notified of alerts that match a silence or are
//! acknowledged. Both end by themselves, are bounded, and are part of the checkpoint.
//!
//! ```text
//! fires while silenced or acknowledged --> withheld: receivers are sent nothing, not its end
//! either fires, then silenced ----------------> receivers that know it are sent its end as ever
//! fires, then acknowledged ------------> receivers that know it are sent who acknowledged it
//! silence ends, still firing ----------> sent once, and from then on as ever
//! acknowledgement ends, still firing --> sent once more
//! fires while its rule is grouped --> withheld, as while silenced; see [`super::groups`]
//! resolves --> the acknowledgement is over; its end is sent to receivers of its begin
//! ```
//!
//! The bus is sent everything. An alert's state does not depend on anything here.
//!
//! DESIGN A24, A165.

mod shared;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::limits::alerts::{
    ACKNOWLEDGEMENTS_MAX, BY_BYTES_MAX, COMMENT_BYTES_MAX, SILENCE_MAX, SILENCES_MAX,
};
use plimsoll_schemas::alert::{
    Acknowledgement, AlertKey, AlertState, Scope, Silence, SilenceOrigin, SilenceRow,
};
use plimsoll_schemas::ids::{AggregatorName, RuleName};
use plimsoll_schemas::limits::wire::SHARED_SILENCES_ENDED_MAX;
use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::alert::Change;
use super::record::{AcknowledgedAlert, SilencingRecord};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Silences {
    silences: BTreeMap<u64, Silence>,
    last_id: u64,
    /// Silences that have begun: a clock that is set back ends none of them.
    begun: BTreeSet<u64>,
    acknowledged: BTreeMap<AlertKey, Acknowledgement>,
    /// Alerts that fire and of which no receiver has been notified.
    pub(super) withheld: BTreeSet<AlertKey>,
    /// Alerts that fire and of which receivers are to be notified once more.
    again: BTreeSet<AlertKey>,
    /// Notifications that receivers did not get, by reason.
    pub(in crate::core) suppressed: BTreeMap<Cow<'static, str>, u64>,
    /// Which silences these are for all aggregators, by number.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    origins: BTreeMap<u64, SilenceOrigin>,
    /// Silences that an operator ended, and until when they would have held.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    ended: BTreeMap<SilenceOrigin, Wall>,
    /// The name of this aggregator, if silences are shared.
    #[serde(skip)]
    own: Option<AggregatorName>,
    /// Changes whenever there is something new to report.
    #[serde(skip)]
    pub(in crate::core) revision: u64,
    /// What reports of other aggregators brought and was not taken over, by reason.
    #[serde(skip)]
    pub(in crate::core) refused: BTreeMap<&'static str, u64>,
    /// Rules whose alerts of nodes receivers are notified of together, by another alert.
    #[serde(skip)]
    grouped: BTreeSet<RuleName>,
}

/// Why something was refused; names the key and the fix.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CommandError {
    #[error("match matches every alert; set one of rule, node, operation, severity to more than *")]
    Everything,
    #[error("until must be later than from and than now")]
    Over,
    #[error("for is more than {} days; set a shorter time", SILENCE_MAX.as_secs() / 86_400)]
    TooLong,
    #[error("by is empty; name the operator")]
    NoOperator,
    #[error("{0} contains a control character; remove it")]
    Control(&'static str),
    #[error("{key} has {len} bytes, more than {max}; shorten it")]
    Text { key: &'static str, len: usize, max: usize },
    #[error("the maximum of {max} {what} is reached; end one first")]
    Full {
        what: &'static str,
        /// How many there may be.
        max: usize,
    },
    #[error("silence {0} is unknown; GET /api/v1/silences lists all silences")]
    NoSilence(u64),
    #[error("{0} is not acknowledged")]
    NotAcknowledged(Box<AlertKey>),
    #[error("{key} is {}; only a firing or pending alert can be acknowledged", .state.as_str())]
    NotActive { key: Box<AlertKey>, state: AlertState },
}

/// What keeps receivers from a notification, or goes with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suppression {
    /// Whether they are not notified.
    pub silenced: bool,
    pub acknowledged_by: Option<String>,
}

impl Silences {
    /// As it is kept for receivers.
    pub fn record(&self) -> SilencingRecord {
        let acknowledged = self.acknowledged.iter();
        let acknowledged =
            acknowledged.map(|(key, of)| AcknowledgedAlert { key: key.clone(), of: of.clone() });
        SilencingRecord {
            silences: self.rows(),
            last_id: self.last_id,
            acknowledged: acknowledged.collect(),
            withheld: self.withheld.clone(),
            again: self.again.clone(),
            origins: self.origins.iter().map(|(id, of)| (*id, of.clone())).collect(),
            ended: self.ended.iter().map(|(of, until)| (of.clone(), *until)).collect(),
        }
    }

    /// As it was kept.
    pub fn restored(record: SilencingRecord) -> Self {
        let SilencingRecord { silences, last_id, acknowledged, withheld, again, origins, ended } =
            record;
        let silences = silences.into_iter().take(SILENCES_MAX);
        let acknowledged = acknowledged.into_iter().take(ACKNOWLEDGEMENTS_MAX);

        Self {
            silences: silences.map(|SilenceRow { id, silence }| (id, silence)).collect(),
            last_id,
            acknowledged: acknowledged.map(|of| (of.key, of.of)).collect(),
            withheld,
            again,
            origins: origins.into_iter().take(SILENCES_MAX).collect(),
            ended: ended.into_iter().take(SHARED_SILENCES_ENDED_MAX).collect(),
            ..Self::default()
        }
    }

    pub fn add(&mut self, now: Wall, silence: Silence) -> Result<SilenceRow, CommandError> {
        if silence.matches.is_everything() {
            return Err(CommandError::Everything);
        }
        check(now, &silence.by, &silence.comment, silence.from, silence.until)?;
        if self.silences.len() >= SILENCES_MAX {
            return Err(CommandError::Full { what: "silences", max: SILENCES_MAX });
        }
        self.last_id += 1;
        self.silences.insert(self.last_id, silence.clone());
        self.on_created(now, self.last_id);
        self.expire(now);
        Ok(SilenceRow { id: self.last_id, silence })
    }

    /// Ends a silence; false when there is none of this number.
    pub fn end(&mut self, id: u64) -> bool {
        let Some(silence) = self.silences.get(&id) else { return false };
        self.on_ended(id, silence.until);
        self.silences.remove(&id).is_some()
    }

    pub fn acknowledge(
        &mut self,
        now: Wall,
        key: AlertKey,
        state: AlertState,
        of: Acknowledgement,
    ) -> Result<(), CommandError> {
        if !matches!(state, AlertState::Firing | AlertState::Pending) {
            return Err(CommandError::NotActive { key: Box::new(key), state });
        }
        check(now, &of.by, &of.comment, now, of.until)?;
        // Another acknowledgement of the same alert takes the place
        // of the first, so it fits even where all are in use.
        let is_new = !self.acknowledged.contains_key(&key);
        if is_new && self.acknowledged.len() >= ACKNOWLEDGEMENTS_MAX {
            return Err(CommandError::Full { what: "acknowledgements", max: ACKNOWLEDGEMENTS_MAX });
        }
        self.again.remove(&key);
        self.acknowledged.insert(key, of);
        Ok(())
    }

    /// Ends an alert's acknowledgement; false when there is none.
    pub fn unacknowledge(&mut self, key: &AlertKey) -> bool {
        let ended = self.acknowledged.remove(key).is_some();
        if ended {
            self.again.insert(key.clone());
        }
        ended
    }

    /// An alert has changed, or one that fires on was acknowledged. Returns whether receivers are
    /// notified.
    pub fn on_change(
        &mut self,
        at: Wall,
        key: &AlertKey,
        severity: Severity,
        Change { from, to }: Change,
    ) -> Suppression {
        let acknowledged = self.acknowledged(at, key).map(|of| of.by.clone());
        let why = self.why_silent(at, key, severity);
        let fires_on = (from, to) == (AlertState::Firing, AlertState::Firing);

        let silenced = match to {
            AlertState::Firing if fires_on && acknowledged.is_some() => {
                let is_silenced = self.holding(at, key, severity).next().is_some();
                is_silenced || self.withheld.contains(key)
            }
            AlertState::Firing if why.is_some() => {
                self.withheld.insert(key.clone());
                true
            }
            AlertState::Firing => {
                // An acknowledgement that has just ended is no reason to notify again.
                self.evict(key);
                false
            }
            AlertState::Resolved => self.withheld.contains(key),
            _ => why.is_some(),
        };

        if matches!(to, AlertState::Resolved | AlertState::Inactive) {
            self.evict(key);
        }
        if silenced {
            self.count_suppressed(why.unwrap_or("silenced"));
        }
        Suppression { silenced, acknowledged_by: acknowledged }
    }

    /// Receivers are notified of nodes' alerts of these rules by another alert from now on.
    pub fn group(&mut self, rules: BTreeSet<RuleName>) {
        self.grouped = rules;
    }

    /// Whether anyone has asked not to be notified of any alert.
    pub fn are_any(&self) -> bool {
        !self.silences.is_empty() || !self.acknowledged.is_empty()
    }

    /// Whether an operator has silenced or acknowledged an alert.
    pub fn is_quiet(&self, at: Wall, key: &AlertKey, severity: Severity) -> bool {
        self.acknowledged(at, key).is_some() || self.holding(at, key, severity).next().is_some()
    }

    /// Drops what is over.
    pub fn expire(&mut self, now: Wall) {
        self.silences.retain(|_, silence| now < silence.until);
        let begin = self.silences.iter().filter(|(_, silence)| silence.from <= now);
        self.begun.extend(begin.map(|(id, _)| *id));
        self.begun.retain(|id| self.silences.contains_key(id));
        self.expire_shared(now);
        let over = self.acknowledged.extract_if(.., |_, of| now >= of.until);
        self.again.extend(over.map(|(key, _)| key));
    }

    /// Alerts of which receivers are to be notified now, since their silence or acknowledgement is
    /// over. Each is returned once. `firing` returns the severity of an alert that fires.
    pub fn take_due(
        &mut self,
        now: Wall,
        firing: impl Fn(&AlertKey) -> Option<Severity>,
    ) -> Vec<AlertKey> {
        let (withheld, again) = (&self.withheld, &self.again);
        let mut due = Vec::new();
        for key in withheld.union(again) {
            match firing(key) {
                Some(severity) if self.why_silent(now, key, severity).is_some() => {}
                severity => due.push((key.clone(), severity.is_some())),
            }
        }

        // Also of alerts that are over by now: their marks would stay for good.
        for (key, _) in &due {
            self.withheld.remove(key);
            self.again.remove(key);
        }
        due.into_iter().filter(|(_, fires)| *fires).map(|(key, _)| key).collect()
    }

    /// Nothing needs to be remembered about an alert any more.
    fn evict(&mut self, key: &AlertKey) {
        self.acknowledged.remove(key);
        self.withheld.remove(key);
        self.again.remove(key);
    }

    /// Counts a notification that receivers did not get.
    pub fn count_suppressed(&mut self, reason: &'static str) {
        *self.suppressed.entry(reason.into()).or_default() += 1;
    }

    fn why_silent(&self, at: Wall, key: &AlertKey, severity: Severity) -> Option<&'static str> {
        if self.acknowledged(at, key).is_some() {
            return Some("acknowledged");
        }
        let silenced = self.holding(at, key, severity).next().map(|_| "silenced");
        // Only alerts about single nodes: receivers are sent the fleet's instead (A165).
        let is_grouped = key.scope != Scope::Fleet && self.grouped.contains(&key.rule);
        silenced.or(is_grouped.then_some("grouped"))
    }

    /// What keeps receivers from being notified that an alert fires.
    pub fn present(&self, at: Wall, key: &AlertKey, severity: Severity) -> Suppression {
        let acknowledged_by = self.acknowledged(at, key).map(|of| of.by.clone());
        Suppression { silenced: self.why_silent(at, key, severity).is_some(), acknowledged_by }
    }

    pub fn acknowledged(&self, at: Wall, key: &AlertKey) -> Option<&Acknowledgement> {
        self.acknowledged.get(key).filter(|of| at < of.until)
    }

    /// The numbers of the silences that hold for an alert.
    pub fn holding(
        &self,
        at: Wall,
        key: &AlertKey,
        severity: Severity,
    ) -> impl Iterator<Item = u64> {
        let holds = move |id: &u64, silence: &Silence| {
            let has_begun = silence.from <= at || self.begun.contains(id);
            has_begun && at < silence.until && silence.matches.fits(key, severity)
        };
        self.silences.iter().filter(move |(id, silence)| holds(id, silence)).map(|(id, _)| *id)
    }

    /// All silences, by number.
    pub fn rows(&self) -> Vec<SilenceRow> {
        let row =
            |(id, silence): (&u64, &Silence)| SilenceRow { id: *id, silence: silence.clone() };
        self.silences.iter().map(row).collect()
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.silences.len() as u64
    }
}

fn check(now: Wall, by: &str, comment: &str, from: Wall, until: Wall) -> Result<(), CommandError> {
    if by.trim().is_empty() {
        return Err(CommandError::NoOperator);
    }

    for (key, text, max) in [("by", by, BY_BYTES_MAX), ("comment", comment, COMMENT_BYTES_MAX)] {
        if text.len() > max {
            return Err(CommandError::Text { key, len: text.len(), max });
        }
        if text.contains(char::is_control) {
            return Err(CommandError::Control(key));
        }
    }

    if until <= from || until <= now {
        return Err(CommandError::Over);
    }
    if until.since(now.min(from)) > SILENCE_MAX {
        return Err(CommandError::TooLong);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
