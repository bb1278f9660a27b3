//! The oracle's record of one node.

use plimsoll_schemas::ids::NodeName;

use super::history::History;
use super::incarnation::Incarnation;
use crate::sim::act::End;
use crate::sim::kernel::Kernel;
use crate::sim::plan::{Depths, Spooling};

/// A node's history over all incarnations, and its present incarnation.
pub struct NodeOracle {
    name: NodeName,
    history: History,
    incarnation: Incarnation,
}

impl NodeOracle {
    /// A node that has not started.
    pub fn new(number: usize, name: NodeName, depths: Depths) -> Self {
        let incarnation = Incarnation::new(number, depths);
        Self { name, history: History::default(), incarnation }
    }

    pub fn name(&self) -> &NodeName {
        &self.name
    }

    /// Everything it recorded and sent.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Everything it recorded and sent, to add to it.
    pub fn history_mut(&mut self) -> &mut History {
        &mut self.history
    }

    pub fn incarnation(&self) -> &Incarnation {
        &self.incarnation
    }

    /// Its present incarnation, to change it.
    pub fn incarnation_mut(&mut self) -> &mut Incarnation {
        &mut self.incarnation
    }

    /// A job sends a sample that there has not been yet: its bucket and its value in nanoseconds.
    pub fn next_sample(&mut self) -> Option<(usize, u64)> {
        let (sample, ns) = self.history.next_sample()?;
        self.incarnation.record(sample);
        Some((sample, ns))
    }

    /// The node's process has ended; returns whether it leaves messages in its spool. `noted`: the
    /// incarnation whose notes are on the disk.
    pub fn on_ended(&mut self, k: &mut Kernel, end: End, noted: Option<u64>) -> Option<bool> {
        let spool = k.knobs().spool;
        let has_spool = spool != Spooling::Off;
        let answered = self.incarnation.answered();
        let (stats, unkept) = self.incarnation.end(has_spool)?;
        let status = &stats.status;
        let history = &mut self.history;
        history.taken += status.intake.samples;
        history.dropped += stats.dropped;
        history.unkept_count += unkept.count;
        history.unkept.extend(unkept.samples);
        let is_cut = end == End::PowerCut;

        if is_cut && spool != Spooling::Off {
            // Notes are not synced, so they may be gone.
            history.on_notes_lost();
        }

        if status.bus.released > 0 {
            history.excuse = Some("a copy was evicted without a confirmation");
        }
        let holds = status.bus.outbox_messages + status.bus.unconfirmed > 0;
        k.reach_n("ended while holding", u64::from(holds));

        let survives = match (spool, end) {
            (Spooling::Off, _) => false,
            (Spooling::Unsynced, End::PowerCut) => !holds,
            (Spooling::Synced | Spooling::Unsynced, _) => status.spool.durable,
        };

        if holds && !survives {
            history.excuse = Some("nothing kept what the node held when it ended");
            history.on_notes_lost();
        }

        // Without a place for notes, as on a disk that was full before the first one, a node
        // answers without them and reports that.
        let has_note = answered.is_some_and(|answered| noted == Some(answered.incarnation));
        if let Some(answered) = answered.filter(|_| has_note || status.spool.durable)
            && spool != Spooling::Off
            && !is_cut
        {
            history.on_killed(answered);
            k.reach_n("killed without a spool file", u64::from(!status.spool.durable));
        }

        Some(holds && has_spool)
    }
}
