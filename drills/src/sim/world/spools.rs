//! What a node's keeper does between its core and its disk.

use plimsoll_schemas::time::Now;

use super::{Event, Who, World};
use crate::sim::agenda::MILLISECOND;
use crate::sim::plan::Spooling;

impl World {
    pub(super) fn open_spool(&mut self, number: usize, now: Now) {
        if self.knobs.spool == Spooling::Off {
            return;
        }
        let syncs = self.knobs.spool == Spooling::Synced;
        let node = &mut self.nodes[number];
        let Some(core) = &mut node.core else { return };
        let boot = node.disk.boots.to_string();
        let adopted = core.open_spool(&node.name, now, node.disk.read(), &boot, syncs);
        self.reached.reach_n("spool found", u64::from(adopted.is_found));
        self.reached.reach_n("spool torn", u64::from(adopted.is_torn));
        let Some(doubt) = adopted.doubt else { return };
        self.reached.reach("spool in doubt");
        self.books[number].excuse = Some("a spool that was not synced is not whole");
        if syncs {
            self.break_with("no crash damages a synced spool", || format!("n{number}: {doubt}"));
        }
    }

    /// Begins to write what has changed, unless a write is under way.
    pub(super) fn keep_spool(&mut self, number: usize, now: Now) {
        let node = &mut self.nodes[number];
        let Some(core) = node.core.as_mut().filter(|_| node.spooling.is_none()) else { return };
        let Some(batch) = core.next_spool_batch(now) else { return };
        node.spooling = Some(batch);
        node.in_batch = (node.unwritten.len(), node.closed.1);
        let took = self.dice.span(MILLISECOND / 10, self.knobs.spool_write);
        let life = self.machines[number].life;
        self.after(took, Event::Spooled { node: number, life });
    }

    pub(super) fn on_spooled(&mut self, number: usize, life: u64) {
        if self.machines[number].life == life {
            self.write_spool(number);
            self.settle_node(number);
        }
    }

    fn write_spool(&mut self, number: usize) {
        let now = self.clock(Who::Node(number));
        let (is_full, syncs) =
            (self.machines[number].is_disk_full, self.knobs.spool == Spooling::Synced);
        let node = &mut self.nodes[number];
        let (Some(batch), Some(core)) = (node.spooling.take(), &mut node.core) else { return };
        if is_full {
            self.reached.reach("spool failed");
            node.disk.discard();
        } else {
            node.disk.write(&batch, syncs);
            node.unwritten.drain(..node.in_batch.0);
            (node.kept, node.in_batch) = (node.in_batch.1, (0, 0));
        }
        core.on_spool_written(now, !is_full);
    }

    /// On the way out everything is written that can be.
    pub(super) fn finish_spool(&mut self, number: usize) {
        let now = self.clock(Who::Node(number));
        loop {
            self.write_spool(number);
            let node = &mut self.nodes[number];
            let Some(core) = &mut node.core else { return };
            node.spooling = core.next_spool_batch(now);
            node.in_batch = (node.unwritten.len(), node.closed.1);
            if node.spooling.is_none() {
                return;
            }
        }
    }
}
