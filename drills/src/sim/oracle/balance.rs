//! The aggregator's ledger entry of a node against what the oracle has counted.

use plimsoll_schemas::summary::Ledger;

use super::history::History;
use crate::sim::cores::aggregator::known;

/// Compares an aggregator's ledger entry of a node with what was merged and with the history.
pub(super) fn balance(
    history: &History,
    merged: u64,
    ledger: Option<&Ledger>,
) -> Result<(), String> {
    let Some(ledger) = ledger else {
        let has_reason = history.taken <= history.unkept_count || history.excuse.is_some();
        return if has_reason { Ok(()) } else { Err("no message of the node was read".to_owned()) };
    };

    let known = known(ledger);
    if ledger.merged != merged {
        return Err(format!("{} booked and {merged} merged", ledger.merged));
    }
    if ledger.recorded != known {
        return Err(format!("recorded {} of which known {known}: {ledger:?}", ledger.recorded));
    }

    // A crash report may be among the evicted copies. Its incarnation then appears to be still
    // running.
    if ledger.held != 0 && history.excuse.is_none() && !history.seems_to_go_on() {
        return Err(format!("{} are held in the ledger and by no node: {ledger:?}", ledger.held));
    }

    // What an incarnation had reported and what its successor records must not count twice. Since
    // the sums add up, no more is lost by a crash than is gone. Where the broker lost its crash
    // report, an incarnation whose spool had failed and was written again seems to have had none.
    if ledger.recorded > history.taken && history.excuse.is_none() {
        return Err(format!("recorded {} of {} taken: {ledger:?}", ledger.recorded, history.taken));
    }

    let named = merged + history.dropped + history.refused_count;
    let unkept = if history.excuse.is_some() { u64::MAX } else { history.unkept_count };
    let fits = (named..=named.saturating_add(unkept)).contains(&history.taken);

    if !fits {
        return Err(format!(
            "taken {}, merged {merged}, dropped {}, refused {}, unkept {}; {ledger:?}",
            history.taken, history.dropped, history.refused_count, history.unkept_count
        ));
    }

    Ok(())
}
