//! What the profiles of a range have in common, for rules of bottlenecks.

use std::collections::BTreeMap;
use std::ops::Range;

use plimsoll_profile::ThreadState;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::summary::ProfileRow;
use plimsoll_schemas::time::{Wall, seconds};
use plimsoll_schemas::wire::capture::CaptureKind;

use super::store::ProfileStore;
use crate::core::advice::{FunctionTime, ProfileShares};
use crate::limits::captures::{FUNCTIONS_JUDGED_MAX, PROFILES_JUDGED_MAX};

/// Which samples ran, and which waited for the interpreter's lock, in the newest profiles that were
/// taken in the range; of all nodes, or of these.
pub fn shares(
    store: &ProfileStore,
    now: Wall,
    range: &Range<Wall>,
    nodes: Option<&[NodeName]>,
) -> ProfileShares {
    let [from, to] = [range.start, range.end].map(|at| seconds(at.0));
    let is_wanted = |row: &ProfileRow| {
        // Each query of the past leaves another one of the same time.
        let is_of_stacks = row.kind == CaptureKind::Cpu;
        let is_of_nodes = nodes.is_none_or(|nodes| nodes.contains(&row.node));
        is_of_stacks && is_of_nodes && (from..to).contains(&row.start_seconds)
    };
    let mut rows: Vec<ProfileRow> = store.rows().into_iter().filter(is_wanted).collect();
    rows.sort_by(|a, b| b.start_seconds.total_cmp(&a.start_seconds));
    rows.truncate(PROFILES_JUDGED_MAX);

    let mut shares = ProfileShares::default();
    let mut functions: BTreeMap<(String, String), u64> = BTreeMap::new();
    for row in rows {
        // One that has expired meanwhile, or is damaged, is left out: reading it has reported that.
        let Ok(profile) = store.profile(now, row.id) else { continue };
        shares.profiles += 1;
        for sample in profile.samples() {
            // Of profiles at different rates a count has different worth.
            let ns = sample.count.saturating_mul(profile.period());
            match sample.labels.state {
                Some(ThreadState::Running) => shares.samples += sample.count,
                Some(ThreadState::Gil) => {
                    shares.samples += sample.count;
                    shares.waiting_for_gil_ns += ns;
                    continue;
                }
                // The client inside of a process does not know which of its threads run.
                Some(ThreadState::Waiting) | None => continue,
            }
            shares.running_ns += ns;
            if let Some(leaf) = sample.stack.frames().last() {
                let key = (leaf.function.to_string(), leaf.file.to_string());
                *functions.entry(key).or_default() += ns;
            }
        }
    }

    let named = functions.into_iter().map(|((function, file), ns)| {
        let file = if file.is_empty() { file } else { format!(" ({file})") };
        FunctionTime { function: function + &file, ns }
    });
    shares.functions = named.collect();
    shares.functions.sort_by_key(|of| std::cmp::Reverse(of.ns));
    shares.functions.truncate(FUNCTIONS_JUDGED_MAX);
    shares
}
