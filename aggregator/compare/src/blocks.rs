//! Blocks: consecutive slots of one node, longer than slots depend on each other. They are what is
//! resampled, since single samples and slots of one run resemble their neighbours. If nodes become
//! slow together, a block has the slots of all nodes over some time.
//!
//! DESIGN A77.

use std::collections::BTreeMap;

use plimsoll_schemas::histogram::{Packed, rank};
use plimsoll_schemas::ids::NodeName;

use crate::correlation::Correlation;
use crate::limits::RUNS_MIN;
use crate::side::Slot;

/// With fewer blocks the spread of resamples is too uncertain: of 20 it is off by 16 %.
pub(crate) const BLOCKS_MIN: usize = 20;
/// More blocks add time and no accuracy that matters: of 200 the spread is off by 5 %.
const BLOCKS_MAX: usize = 200;
/// Blocks that contain less than half of the long-run variance are too short to correct for.
const SEEN_MIN: f64 = 0.5;
/// Standard deviations by which the variance of nodes together exceeds that of independent ones.
/// Those of a series that depends on itself are up to twice as large.
const TOGETHER_MIN: f64 = 4.0;
/// Quantiles whose dependence decides; those further out have too few samples in a slot.
const WATCHED: [f64; 4] = [0.1, 0.5, 0.9, 0.99];

/// One run's samples of an operation in blocks.
pub(crate) struct Blocks {
    /// The samples of each.
    pub(crate) parts: Vec<Packed>,
    /// Slots in each, except the last ones of a node.
    pub(crate) slots: usize,
    /// The share of the long-run variance that these blocks show.
    pub(crate) seen: f64,
}

/// The blocks of each of some runs: fewer the more runs there are.
pub(crate) fn blocks_max(runs: usize) -> usize {
    (BLOCKS_MAX / runs.max(1)).max(2 * BLOCKS_MIN)
}

/// Why slots make no blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TooShort {
    /// There are too few of them.
    Slots(usize),
    /// They depend on each other for too long.
    Correlated,
}

impl Blocks {
    /// Groups slots of one of some runs, whatever their order. Slots of one node and start are one.
    pub(crate) fn of(slots: &[Slot], runs: usize) -> Result<Self, TooShort> {
        let series = series(slots);
        let len: usize = series.iter().map(Vec::len).sum();
        if len < BLOCKS_MIN {
            return Err(TooShort::Slots(len));
        }

        // The quantile that depends on its past for the longest decides:
        // blocks that are too long for the others only cost power,
        // blocks that are too short make intervals too narrow (A77).
        let correlations = correlations(&series);
        let wanted = correlations.iter().map(Correlation::block_slots).fold(1.0, f64::max);
        let (slots, parts) = blocks_of(&series, wanted, Bounds { len, most: blocks_max(runs) });
        if parts.len() < BLOCKS_MIN {
            return Err(TooShort::Slots(len));
        }

        // By the length that blocks got, which may be less than wanted. Deviations are enlarged by
        // what is not seen, and an estimate from less than half would be mostly correction.
        let seen = correlations.iter().map(|one| one.seen(slots)).fold(1.0, f64::min);
        let seen = seen_enough(seen, runs).ok_or(TooShort::Correlated)?;
        Ok(Self { parts, slots, seen })
    }
}

/// The share of the long-run variance that blocks are corrected by; `None` if it would be mostly
/// correction. Where runs are drawn, what changes slowly is part of what they differ by.
pub(crate) fn seen_enough(seen: f64, runs: usize) -> Option<f64> {
    (seen >= SEEN_MIN || runs >= RUNS_MIN).then_some(seen.clamp(SEEN_MIN, 1.0))
}

/// Slots in the order of time that depend on no slot of another series: those of each node, or
/// those of all nodes together. Slots without samples carry nothing.
fn series(slots: &[Slot]) -> Vec<Vec<Packed>> {
    let nodes = by_node(slots);
    let values = |node: BTreeMap<u64, Packed>| node.into_values().collect();
    // Independent nodes give more blocks of the same length, and so more power. Where a shared disk
    // slows all of them down, one slow minute would count as often as there are nodes.
    if !are_dependent(&nodes, slot_ns(slots)) {
        return nodes.into_iter().map(values).collect();
    }
    let mut all: BTreeMap<u64, Vec<Packed>> = BTreeMap::new();
    for (start_ns, samples) in nodes.into_iter().flatten() {
        all.entry(start_ns / slot_ns(slots)).or_default().push(samples);
    }
    vec![all.into_values().map(|parts| Packed::united(&parts)).collect()]
}

fn by_node(slots: &[Slot]) -> Vec<BTreeMap<u64, Packed>> {
    let mut nodes: BTreeMap<&Option<NodeName>, BTreeMap<u64, Packed>> = BTreeMap::new();
    for slot in slots.iter().filter(|slot| !slot.samples.is_empty()) {
        let at = nodes.entry(&slot.node).or_default().entry(slot.start_ns).or_default();
        at.merge(&slot.samples);
    }
    nodes.into_values().collect()
}

/// The length of all slots together is that of the longest, so that each time has one of a node.
fn slot_ns(slots: &[Slot]) -> u64 {
    slots.iter().map(|slot| slot.length_ns).max().unwrap_or_default().max(1)
}

/// Whether the sum over nodes varies more over time than that of independent nodes does.
fn are_dependent(nodes: &[BTreeMap<u64, Packed>], slot_ns: u64) -> bool {
    if nodes.len() < 2 {
        return false;
    }
    let all: Vec<&Packed> = nodes.iter().flat_map(BTreeMap::values).collect();
    let all = Packed::united(&all);

    WATCHED.iter().any(|quantile| {
        let influence = Influence::of(&all, *quantile);
        let mut sums: BTreeMap<u64, f64> = BTreeMap::new();
        let mut squares = 0.0;

        for node in nodes {
            let values: Vec<f64> = node.values().map(|slot| influence.value(slot)).collect();
            // Each node's own mean: nodes that are always
            // slower than others do not become slow together.
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            for (start_ns, value) in node.keys().zip(values) {
                *sums.entry(start_ns / slot_ns).or_default() += value - mean;
                squares += (value - mean).powi(2);
            }
        }

        // Independent deviations cancel in the sum of a time, so its square is their squares' sum
        // on average; with common causes it is up to as many times larger as there are nodes.
        let ratio =
            sums.values().map(|sum| sum * sum).sum::<f64>() / squares.max(f64::MIN_POSITIVE);
        ratio > 1.0 + TOGETHER_MIN * (2.0 / sums.len() as f64).sqrt()
    })
}

/// The dependence over time of what moves some quantiles.
fn correlations(series: &[Vec<Packed>]) -> Vec<Correlation> {
    let all: Vec<&Packed> = series.iter().flatten().collect();
    let all = Packed::united(&all);
    let of_quantile = |quantile: &f64| {
        let influence = Influence::of(&all, *quantile);
        let values = |node: &Vec<Packed>| node.iter().map(|slot| influence.value(slot)).collect();
        Correlation::of(&series.iter().map(values).collect::<Vec<Vec<f64>>>())
    };
    WATCHED.iter().map(of_quantile).collect()
}

/// How much a slot moves a quantile: how many more of its samples are above than of all.
struct Influence {
    threshold: usize,
    share: f64,
}

impl Influence {
    fn of(all: &Packed, quantile: f64) -> Self {
        let threshold = bucket_of(all, quantile);
        Self { threshold, share: above(all, threshold) / all.exact().count.max(1) as f64 }
    }

    fn value(&self, slot: &Packed) -> f64 {
        above(slot, self.threshold) - self.share * slot.exact().count as f64
    }
}

pub(crate) fn bucket_of(samples: &Packed, quantile: f64) -> usize {
    let mut left = rank(quantile, samples.exact().count);
    let mut buckets = samples.buckets();
    let reached = buckets.find(|(_, n)| {
        left = left.saturating_sub(*n);
        left == 0
    });
    reached.map_or(0, |(index, _)| index)
}

fn above(samples: &Packed, threshold: usize) -> f64 {
    let above = samples.buckets().filter(|(index, _)| *index > threshold);
    above.map(|(_, n)| n as f64).sum()
}

/// Blocks of about the wanted length, at least as many as are needed and at most as many as help.
fn blocks_of(series: &[Vec<Packed>], wanted: f64, of: Bounds) -> (usize, Vec<Packed>) {
    let slots = block_slots(wanted, of);
    let cut: Vec<&[Packed]> = series.iter().flat_map(|node| cut(node, slots)).collect();
    // Of more nodes than blocks, neighbours share one: the same as a longer block.
    let folded = cut.chunks(cut.len().div_ceil(of.most));
    let parts =
        folded.map(|group| Packed::united(&group.iter().copied().flatten().collect::<Vec<_>>()));
    (slots, parts.collect())
}

/// The slots of a run, and the blocks that it may have.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) len: usize,
    pub(crate) most: usize,
}

/// The length of a block that is wanted, within the bounds of their number.
pub(crate) fn block_slots(wanted: f64, Bounds { len, most }: Bounds) -> usize {
    // Never so long that fewer blocks remain than the spread of resamples needs, even where
    // dependence asks for more: `seen` then decides whether such blocks will do.
    let longest = len / BLOCKS_MIN;
    let least = len.div_ceil(most);

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at least 1 and, clamped, at most the number of slots"
    )]
    let slots = wanted.ceil() as usize;
    slots.max(least).clamp(1, longest)
}

/// Cuts one node's slots. A remainder of less than half a block joins the block before it.
fn cut(node: &[Packed], slots: usize) -> Vec<&[Packed]> {
    // Whole slots in whole blocks: a short block at the end
    // would weigh as much as the others and vary more.
    let blocks = ((node.len() + slots / 2) / slots).max(1);
    let bound = |n: usize| if n == blocks { node.len() } else { n * slots };
    (0..blocks).map(|n| &node[bound(n)..bound(n + 1)]).collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::histogram::Histogram;

    use super::*;

    fn slot(node: &str, start_ns: u64, value_ns: u64) -> Slot {
        let mut samples = Histogram::default();
        samples.record(value_ns);
        let node = Some(NodeName::new(node).unwrap());
        Slot { node, start_ns, length_ns: 1, samples: Packed::from(&samples) }
    }

    fn count(blocks: &Blocks) -> u64 {
        blocks.parts.iter().map(|part| part.exact().count).sum()
    }

    #[test]
    fn a_remainder_joins_its_neighbour_or_is_a_block() {
        let node: Vec<Packed> = (0..10).map(|n| slot("a", n, 1_000).samples).collect();
        let lengths =
            |slots| cut(&node, slots).into_iter().map(<[Packed]>::len).collect::<Vec<_>>();
        assert_eq!(lengths(4), [4, 4, 2]);
        assert_eq!(lengths(3), [3, 3, 4]);
        assert_eq!(lengths(30), [10]);
        assert_eq!(lengths(1), [1; 10]);
    }

    #[test]
    fn too_few_slots_are_counted() {
        let mut slots: Vec<Slot> = (0..19).map(|n| slot("a", n, 1_000_000 + n)).collect();
        // Neither a slot twice nor one without samples is one more.
        slots.push(slot("a", 3, 5));
        slots.push(Slot { samples: Packed::default(), ..slot("b", 1, 1) });
        assert_eq!(Blocks::of(&slots, 1).err(), Some(TooShort::Slots(19)));
        slots.push(slot("b", 1, 1));
        let blocks = Blocks::of(&slots, 1).unwrap();
        assert_eq!((blocks.parts.len(), count(&blocks)), (20, 21));
    }

    #[test]
    fn many_slots_and_nodes_make_no_more_blocks_than_help() {
        let slots = |nodes: u64, each: u64| -> Vec<Slot> {
            let all = (0..nodes).flat_map(|node| (0..each).map(move |n| (node, n)));
            let value = |seed| 1_000_000 + plimsoll_schemas::random::mixed(seed) % 1_000_000;
            all.map(|(node, n)| slot(&format!("n{node}"), n, value(7 + node * each + n))).collect()
        };
        for (nodes, each) in [(1, 5_000), (1_000, 3), (30, 60)] {
            let blocks = Blocks::of(&slots(nodes, each), 1).unwrap();
            assert!((100..=BLOCKS_MAX).contains(&blocks.parts.len()), "{}", blocks.parts.len());
            assert_eq!(count(&blocks), nodes * each);
        }
    }

    #[test]
    fn nodes_that_become_slow_together_share_their_blocks() {
        let slots = |is_shared: bool| -> Vec<Slot> {
            let all = (0..10_u64).flat_map(|node| (0..60_u64).map(move |n| (node, n)));
            let mixed = |n: u64| plimsoll_schemas::random::mixed(n) % 1_000_000;
            all.map(|(node, n)| {
                let noise = mixed(if is_shared { n } else { 1_000 * node + n + 1 });
                // Nodes close their slots at different times of a second.
                let slot = slot(&format!("n{node}"), n * 1_000 + node, 1_000_000 + noise);
                Slot { length_ns: 1_000, ..slot }
            })
            .collect()
        };
        let lengths = [true, false].map(|is_shared| series(&slots(is_shared)).len());
        assert_eq!(lengths, [1, 10]);
        let blocks = Blocks::of(&slots(true), 1).unwrap();
        assert!(blocks.parts.len() <= 60, "{}", blocks.parts.len());
        assert_eq!(count(&blocks), 600);
    }

    #[test]
    fn a_run_that_only_drifts_is_too_short() {
        let slots: Vec<Slot> = (0..100).map(|n| slot("a", n, 1_000_000 * (n + 1))).collect();
        assert_eq!(Blocks::of(&slots, 1).err(), Some(TooShort::Correlated));
        assert_eq!(Blocks::of(&slots, 3).ok().map(|blocks| blocks.seen), Some(SEEN_MIN));
    }
}
