//! Whether figures are still current: the one definition of *stale* for pages, commands, reports
//! and metrics.
//!
//! Silence makes a figure stale, and nothing else does: a window without samples has no figure, and
//! its verdict is that there is no data.
//!
//! DESIGN A178.

use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::summary::{Freshness, Verdict};
use plimsoll_schemas::time::{Wall, seconds};

use crate::core::fleet::{Completeness, LastSeen, Windows};

/// That of the whole mesh. `broker` is the state of the connection.
pub(in crate::core) fn of_mesh(last_seen: LastSeen, broker: &str) -> Freshness {
    let LastSeen { at, is_silent } = last_seen;
    Freshness { as_of_seconds: known(at), stale: is_silent || !answers(broker) }
}

/// That of a scope's figures, of which `windows` are the samples.
pub(super) fn of_scope(
    mesh_is_silent: bool,
    scope: &Scope,
    completeness: &Completeness,
    windows: Option<&Windows>,
) -> Freshness {
    // What no node is expected to send, such as what the aggregator measures itself.
    let is_of_nobody = *scope == Scope::Fleet && completeness.expected == 0;
    Freshness {
        as_of_seconds: windows.and_then(|windows| known(windows.newest())),
        stale: completeness.is_silent() || is_of_nobody && mesh_is_silent,
    }
}

/// The verdict that is shown: what was within its limit when nodes fell silent may not be now. A
/// breach stays one until newer samples show its end.
pub(super) fn verdict(of: Verdict, freshness: Freshness) -> Verdict {
    // A breach stays: silence must not resolve an alert that fires (A178).
    if freshness.stale && of != Verdict::Breach { Verdict::NoData } else { of }
}

/// Whether a broker in this state passes messages on.
pub fn answers(broker: &str) -> bool {
    !matches!(broker, "disconnected" | "silent")
}

pub(super) fn known(at: Wall) -> Option<f64> {
    (at.0 > 0).then(|| seconds(at.0))
}
