//! A shard's reports on their way: one after the other to the stream of the aggregator above, which
//! takes each only as the successor of the newest one, and confirmations of them back.
//!
//! Confirmations to nodes wait until the reports that have their samples are stored above: a shard
//! that is lost with its disk takes nothing along that no node has a copy of.
//!
//! DESIGN A172, A173.

use std::collections::BTreeMap;

use bytes::Bytes;
use plimsoll_bus::{Bus, ConditionalError, ConditionalMessage, Messenger};
use plimsoll_runtime::confirm_key::ConfirmKeyFile;
use plimsoll_schemas::ids::{Incarnation, NodeName};
use plimsoll_schemas::subject::{Lane, confirm_subject, lane_stream};
use plimsoll_schemas::time::{Mono, Now};
use plimsoll_schemas::wire::confirmation;
use plimsoll_schemas::wire::signature::Purpose;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::core::durable::PendingConfirmation;
use crate::core::durable::shard::{NewestReport, Shard, ShardIdentity, UnsentReport};
use crate::io::lease::LeaseWatch;
use crate::limits::{SHARD_EVENTS_MAX, SHARD_RETRY_PAUSE};

/// What the stream of the aggregator above has of a partition.
#[derive(Clone, Debug, Default)]
pub(super) struct ReportsAbove {
    pub(super) newest: Option<NewestReport>,
    /// Number in the stream of the newest message of the partition's subject; 0 if there is none.
    pub(super) number: u64,
}

/// The connection of a shard to the aggregator above, and its lease.
pub(super) struct ShardLink {
    reports: Reports,
    events: mpsc::Receiver<ShardEvent>,
    lease: LeaseWatch,
    held: Held,
    confirmations: JoinHandle<()>,
    /// Passes on that the lease is lost.
    watch: JoinHandle<()>,
    /// Keeps the connection open.
    _bus: Bus,
}

#[derive(Debug)]
pub(super) enum ShardEvent {
    /// An attempt to send a report has ended.
    Attempt(Outcome),
    /// The aggregator above has confirmed something.
    Confirmation(Bytes),
    /// The partition is no longer its own, and why.
    LeaseLost(String),
}

/// What became of a report.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The stream has it, under this number.
    Sent { seq: u64, number: u64 },
    /// The stream has no report of the same incarnation after the one called `newest`, 0 if it has
    /// none, and this number of the newest message.
    Unsent { newest: u64, number: u64 },
    /// Another process has reported the partition.
    Overtaken,
    /// It is not known, for this reason.
    Unknown(String),
}

struct Reports {
    messenger: Messenger,
    identity: ShardIdentity,
    incarnation: Incarnation,
    /// Number in the stream of the newest report.
    after: u64,
    /// Where attempts report how they ended.
    events: mpsc::Sender<ShardEvent>,
    /// True while an attempt is under way.
    is_trying: bool,
    not_before: Mono,
    /// Attempts in a row that failed.
    failed: u64,
}

/// Confirmations to nodes that wait for reports.
#[derive(Debug, Default)]
struct Held {
    waiting: Option<Batch>,
    next: Option<Batch>,
}

#[derive(Debug)]
struct Batch {
    /// The report that has to be confirmed.
    seq: u64,
    of_nodes: BTreeMap<NodeName, PendingConfirmation>,
}

impl ShardLink {
    /// The link of `shard`, whose newest report has this number in the stream.
    pub(super) fn new(bus: Bus, lease: LeaseWatch, shard: &Shard, after: u64) -> Self {
        let identity = shard.identity.clone();
        let (events, events_in) = mpsc::channel(SHARD_EVENTS_MAX);
        let mut listener = bus.listen(confirm_subject(&identity.above, &identity.name));
        let passed_on = events.clone();

        let confirmations = tokio::spawn(async move {
            while let Some(message) = listener.next().await {
                // The driver is gone, or busy: the next one confirms as much.
                let _full = passed_on.try_send(ShardEvent::Confirmation(message.payload));
            }
        });

        let (mut lost, passed_on) = (lease.losses(), events.clone());

        let watch = tokio::spawn(async move {
            let why = lost.lost().await;
            // The driver is gone.
            let _closed = passed_on.send(ShardEvent::LeaseLost(format!("{why:?}"))).await;
        });

        let reports = Reports {
            messenger: bus.messenger(),
            incarnation: shard.incarnation,
            identity,
            after,
            events,
            is_trying: false,
            not_before: Mono(0),
            failed: 0,
        };

        let held = Held::default();
        Self { reports, events: events_in, lease, held, confirmations, watch, _bus: bus }
    }

    /// The next event. Cancel safe.
    pub(super) async fn next(&mut self) -> ShardEvent {
        match self.events.recv().await {
            Some(event) => event,
            // It has a sender itself.
            None => std::future::pending().await,
        }
    }

    /// Sends the next report, if there is one and none is under way.
    pub(super) fn send(&mut self, shard: &mut Shard, now: Now) {
        shard.seal_if_due(now.wall);
        if !self.reports.is_trying && now.mono >= self.reports.not_before {
            self.reports.send(shard.next_to_send());
        }
    }

    /// When [`Self::send`] is to be called again at the latest.
    pub(super) fn deadline(&self, shard: &Shard, now: Now) -> Mono {
        let seal = now.mono.plus(shard.next_seal().since(now.wall));
        let waits = shard.has_unsent() && !self.reports.is_trying;
        if waits { seal.min(self.reports.not_before) } else { seal }
    }

    /// An attempt has ended. Returns false if another process reports the partition.
    pub(super) fn on_outcome(&mut self, shard: &mut Shard, now: Mono, outcome: Outcome) -> bool {
        self.reports.on_outcome(shard, now, outcome)
    }

    /// Takes a confirmation, if it is one and its signature holds.
    pub(super) fn on_confirmation(
        &self,
        shard: &mut Shard,
        key: Option<&ConfirmKeyFile>,
        bytes: &[u8],
    ) {
        let ShardIdentity { above, name, .. } = &self.reports.identity;
        let is_signed =
            key.is_none_or(|file| file.key().verify(Purpose::Confirmation, above, bytes).is_ok());
        match confirmation::decode(name, bytes) {
            Ok(confirmation) if is_signed => shard.on_confirmation(&confirmation),
            Ok(_) => tracing::debug!("confirmation without the mesh's signature"),
            Err(error) => tracing::debug!(%error, "confirmation cannot be decoded"),
        }
    }

    /// Keeps confirmations to nodes until the report with this number is stored above.
    pub(super) fn hold(&mut self, seq: u64, confirmations: Vec<PendingConfirmation>) {
        self.held.hold(seq, confirmations);
    }

    /// Those whose reports are stored above.
    pub(super) fn release(&mut self, shard: &Shard) -> Vec<PendingConfirmation> {
        self.held.release(|seq| shard.has_confirmed(seq))
    }

    /// Gives the partition back.
    pub(super) async fn end(self) {
        self.confirmations.abort();
        self.watch.abort();
        self.lease.release().await;
    }
}

impl Reports {
    fn send(&mut self, next: Option<UnsentReport>) {
        let Some(UnsentReport { seq, payload }) = next else { return };
        let identity = &self.identity;
        let (incarnation, after) = (self.incarnation, self.after);

        let message = ConditionalMessage {
            subject: identity.subject().to_string(),
            message_id: format!("{}-{incarnation}-{seq}", identity.name),
            headers: Vec::new(),
            payload,
        };

        let (messenger, identity) = (self.messenger.clone(), identity.clone());
        let events = self.events.clone();
        self.is_trying = true;

        // The driver waits for no broker: an attempt reports its outcome as an event.
        tokio::spawn(async move {
            let outcome = match messenger.publish_after(message, after).await {
                Ok(number) => Outcome::Sent { seq, number },
                Err(ConditionalError::Overtaken) => {
                    newest(&messenger, &identity, incarnation, seq).await
                }
                Err(ConditionalError::Refused(refusal)) => Outcome::Unknown(refusal.explained()),
                Err(error @ ConditionalError::Silent) => Outcome::Unknown(error.to_string()),
            };
            // The driver is gone.
            let _closed = events.send(ShardEvent::Attempt(outcome)).await;
        });
    }

    fn on_outcome(&mut self, shard: &mut Shard, now: Mono, outcome: Outcome) -> bool {
        self.is_trying = false;

        match outcome {
            Outcome::Sent { seq, number } => {
                shard.on_sent(seq);
                if std::mem::take(&mut self.failed) > 1 {
                    tracing::info!(seq, "reports are accepted again");
                }
                self.after = number;
            }
            Outcome::Unsent { newest, number } => {
                shard.on_lost(newest);
                self.after = number;
            }
            Outcome::Overtaken => return false,
            Outcome::Unknown(why) => {
                self.failed += 1;
                if self.failed.is_power_of_two() {
                    let (above, attempts) = (&self.identity.above, self.failed);
                    tracing::warn!(%above, attempts, why, "report not sent; retrying");
                }
                self.not_before = now.plus(SHARD_RETRY_PAUSE);
            }
        }

        true
    }
}

/// Why the stream did not expect a report: it has it already, it has lost earlier ones, or another
/// process has reported.
async fn newest(
    messenger: &Messenger,
    identity: &ShardIdentity,
    incarnation: Incarnation,
    seq: u64,
) -> Outcome {
    let ReportsAbove { newest, number } = match reports_above(messenger, identity).await {
        Ok(found) => found,
        Err(why) => return Outcome::Unknown(why),
    };

    let newest = match newest {
        None => 0,
        Some(newest) if newest.incarnation == incarnation => newest.seq,
        Some(_) => return Outcome::Overtaken,
    };

    // An earlier attempt had arrived although its answer had not.
    if newest >= seq {
        return Outcome::Sent { seq: newest, number };
    }
    if newest + 1 < seq {
        tracing::warn!(newest, seq, "the stream has lost reports; resending");
    }
    Outcome::Unsent { newest, number }
}

/// What the stream above has of a partition. Messages that are no report are skipped: one
/// of them would otherwise stand for the newest report, and end the partition.
pub(super) async fn reports_above(
    messenger: &Messenger,
    identity: &ShardIdentity,
) -> Result<ReportsAbove, String> {
    let stream = lane_stream(&identity.above, Lane::Normal, None);
    let subject = identity.subject().to_string();
    let Some(message) = messenger.newest(&stream, &subject).await? else {
        return Ok(ReportsAbove::default());
    };
    let number = message.seq;

    match NewestReport::read(identity, &message.payload) {
        Ok(report) => return Ok(ReportsAbove { newest: Some(report), number }),
        Err(why) => {
            tracing::warn!(subject, number, why, "not a report of a shard; message skipped");
        }
    }

    // Backwards in spans that double: a stream finds the first message
    // of a subject from a number on, not the last one before it.
    let (mut newest, mut until, mut span) = (None, number, 1);

    while newest.is_none() && until > 1 {
        let from = until.saturating_sub(span).max(1);
        let mut next = from;
        while let Some(message) = messenger.first_from(&stream, &subject, next).await?
            && message.seq < until
        {
            newest = NewestReport::read(identity, &message.payload).ok().or(newest);
            next = message.seq + 1;
        }

        (until, span) = (from, span * 2);
    }

    Ok(ReportsAbove { newest, number })
}

impl Held {
    fn hold(&mut self, seq: u64, confirmations: Vec<PendingConfirmation>) {
        if confirmations.is_empty() {
            return;
        }
        // The first batch is left alone, or newer ones would put it off for ever.
        let batch = if self.waiting.is_none() { &mut self.waiting } else { &mut self.next };
        let batch = batch.get_or_insert_with(|| Batch { seq, of_nodes: BTreeMap::new() });
        batch.seq = batch.seq.max(seq);
        batch.of_nodes.extend(confirmations.into_iter().map(|of| (of.node.clone(), of)));
    }

    fn release(&mut self, is_stored: impl Fn(u64) -> bool) -> Vec<PendingConfirmation> {
        let mut released = Vec::new();
        while let Some(batch) = self.waiting.take_if(|batch| is_stored(batch.seq)) {
            released.extend(batch.of_nodes.into_values());
            self.waiting = self.next.take();
        }
        released
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::tests::{MS, Speaker, core, deliver, start};

    fn confirmations(names: &[&'static str]) -> Vec<PendingConfirmation> {
        let mut core = core();
        let mut pending = |name: &&'static str| {
            deliver(&mut core, start(), &Speaker::new(name).send(start(), MS, 1));
            core.confirmation_from_memory(&NodeName::new(*name).unwrap(), Mono(0)).unwrap()
        };
        names.iter().map(&mut pending).collect()
    }

    #[test]
    fn confirmations_wait_for_their_report_and_newer_ones_do_not_put_them_off() {
        let mut held = Held::default();
        held.hold(3, confirmations(&["a"]));
        for seq in 4..9 {
            held.hold(seq, confirmations(&["a", "b"]));
        }
        let mut released = |stored: u64| held.release(|seq| seq <= stored).len();
        assert_eq!((released(2), released(3), released(3)), (0, 1, 0));
        assert_eq!((released(7), released(8), released(9)), (0, 2, 0));
    }
}
