//! The statement of account that `/api/v1/ledger` gives: every node, every incarnation, and
//! which numbers are missing.

use crate::limits::LEDGER_HOLES_MAX;
use plimsoll_schemas::ids::Incarnation;
use plimsoll_schemas::summary::{Ledger, LedgerPage, NodeLedger, RunLedger};
use plimsoll_schemas::time::{Wall, seconds};

use crate::core::Core;
use crate::core::fleet::run::Run;
use crate::core::fleet::seqs::Seqs;
use crate::core::view::read_view::Still;

impl Core {
    /// Every account at once.
    #[must_use]
    pub fn statement(&self, now: Wall) -> LedgerPage {
        self.still(now, "").statement()
    }
}

impl Still {
    /// Every account. Takes a while for many nodes, and is made only when someone asks.
    #[must_use]
    pub fn statement(&self) -> LedgerPage {
        let mut fleet = Ledger::default();
        let nodes = self.nodes.iter().map(|(name, node)| {
            let account = &node.account;
            let ledger = account.ledger();
            fleet.add(&ledger);
            NodeLedger {
                node: name.to_string(),
                ledger,
                gap_samples: self.gap_samples(name),
                duplicates: account.duplicates(),
                name_conflicts: account.conflicts(),
                runs: account.runs().map(|(name, run, ended)| run_row(name, run, ended)).collect(),
                past: account.past().clone(),
            }
        });
        let nodes = nodes.collect();
        LedgerPage {
            mesh: self.mesh.to_string(),
            at_seconds: seconds(self.at.0),
            ready: self.ready,
            behind: self.behind,
            fleet,
            nodes,
        }
    }
}

fn run_row(incarnation: Incarnation, run: &Run, ended: bool) -> RunLedger {
    let (missing_seqs, holes) = holes(&run.seqs);
    RunLedger {
        incarnation: incarnation.0,
        newest_seq: run.newest.0,
        ledger: run.ledger(ended),
        missing_seqs,
        holes,
        duplicates: run.duplicates,
        ended,
        said_farewell: run.said_farewell,
        heir: run.heir.map(|heir| heir.0),
    }
}

/// How many numbers are missing from the first on, and the latest spans of them.
fn holes(seqs: &Seqs) -> (u64, Vec<(u64, u64)>) {
    let first = seqs.spans().next().map(|(first, _)| first);
    let before = first.filter(|first| *first > 1).map(|first| (1, first - 1));
    let mut holes: Vec<_> = before.into_iter().chain(seqs.gaps()).collect();
    holes.drain(..holes.len().saturating_sub(LEDGER_HOLES_MAX));
    (seqs.holes(), holes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::tests::{MS, Speaker, core, deliver, start};

    #[test]
    fn a_statement_names_every_hole_repetition_and_heir() {
        let mut core = core();
        let (mut first, mut second) = (Speaker::new("a").of(7), Speaker::new("a").of(9));
        let said: Vec<_> = (0..6).map(|_| first.say(start(), MS, 10)).collect();
        for seq in [2, 3, 5, 5] {
            deliver(&mut core, start(), &said[seq]);
        }
        deliver(&mut core, start(), &first.testament(start(), 9));
        deliver(&mut core, start(), &second.say(start(), MS, 1));
        let statement = core.statement(start().wall);
        let node = &statement.nodes[0];
        assert_eq!((node.duplicates, node.runs.len()), (1, 2));
        let run = &node.runs[0];
        assert_eq!((run.incarnation, run.newest_seq, run.heir), (7, 7, Some(9)));
        assert_eq!((run.missing_seqs, run.holes.as_slice()), (3, &[(1, 2), (5, 5)][..]));
        assert!(run.ended && run.said_farewell && !node.runs[1].ended);
        let Ledger { recorded, merged, held, unaccounted, unseen, .. } = run.ledger;
        assert_eq!((recorded, merged, held, unaccounted, unseen), (60, 30, 0, 10, 20));
        assert_eq!((node.ledger.recorded, statement.fleet.merged), (61, 31));
        assert!(statement.ready && !statement.behind);
    }

    #[test]
    fn holes_are_listed_up_to_the_bound_and_counted_beyond_it() {
        let mut seqs = Seqs::default();
        (1..=200).for_each(|n| assert!(seqs.insert(2 * n)));
        let (missing, holes) = holes(&seqs);
        assert_eq!((missing, holes.len()), (200, LEDGER_HOLES_MAX));
        assert_eq!(holes.last(), Some(&(399, 399)));
    }
}
