//! Which slots of which tiers make up a range of the past.
//!
//! A tier holds all samples of the time that it keeps, so slots of several tiers may be put side by
//! side: long ones within the range, short ones at its ends. A range is widened to whole slots of
//! the finest tier that still keeps its beginning.

use std::ops::Range;

use plimsoll_schemas::time::{Wall, nanos};

use super::resolution::Resolution;

/// From when on each tier holds all that ever was, from the finest on.
pub type KeptFrom = [Wall; Resolution::ALL.len()];

/// Consecutive slots of one tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub resolution: Resolution,
    pub slots: Range<u64>,
}

/// The finest tier that keeps everything since `from`; of what no tier keeps, the coarsest.
pub fn resolution_at(kept_from: &KeptFrom, from: Wall) -> Resolution {
    let mut tiers = Resolution::ALL.into_iter().zip(kept_from);
    let found =
        tiers.find(|(resolution, kept)| resolution.begin(resolution.number(from)) >= **kept);
    found.map_or(Resolution::Hour, |(resolution, _)| resolution)
}

/// The times widened to whole slots.
pub fn widened(range: &Range<Wall>, resolution: Resolution) -> Range<Wall> {
    let slot = nanos(resolution.slot());
    let end = range.end.0.div_ceil(slot).saturating_mul(slot);
    resolution.begin(resolution.number(range.start))..Wall(end)
}

/// The slots that make up a range whose ends are ends of slots of `finest`, in the order of time.
pub fn spans(range: &Range<Wall>, finest: Resolution, kept_from: &KeptFrom) -> Vec<Span> {
    let mut spans = Vec::new();
    let tiers = Resolution::ALL.into_iter().zip(kept_from);
    let tiers = tiers.map(|(resolution, kept_from)| Tier { resolution, kept_from: *kept_from });
    let tiers: Vec<Tier> = tiers.filter(|tier| tier.resolution >= finest).collect();
    cover(range, &tiers, &mut spans);
    spans
}

/// Slots of one length, and from when on they hold all that ever was.
struct Tier {
    resolution: Resolution,
    kept_from: Wall,
}

/// Covers a range with slots of the coarsest tier that fits, and both ends with those below.
fn cover(range: &Range<Wall>, tiers: &[Tier], spans: &mut Vec<Span>) {
    let Some((Tier { resolution, kept_from }, finer)) = tiers.split_last() else { return };
    if range.start >= range.end {
        return;
    }
    let slot = nanos(resolution.slot());

    // The range starts with a whole slot of the finest tier, whether or not all of it is kept.
    let first = if finer.is_empty() {
        resolution.number(range.start)
    } else {
        range.start.max(*kept_from).0.div_ceil(slot)
    };

    let end = range.end.0 / slot;
    if first >= end {
        return cover(range, finer, spans);
    }
    cover(&(range.start..resolution.begin(first)), finer, spans);
    spans.push(Span { resolution: *resolution, slots: first..end });
    cover(&(resolution.begin(end)..range.end), finer, spans);
}
