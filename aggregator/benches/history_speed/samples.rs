//! Latencies of a fleet, drawn one by one: what a slot of 10 s holds, and the exact quantiles of
//! any number of slots.

use std::ops::Range;

use plimsoll_schemas::histogram::{Histogram, Packed, rank};
use plimsoll_schemas::random::{SplitMix64, mixed};

/// Median of the fleet's latencies in nanoseconds.
const MEDIAN_NS: f64 = 8e6;
/// The log-logistic distribution with this exponent has a closed form and a heavy tail: its p99 is
/// 2.2 times its median, and one sample in 10 000 is 4.6 times as long.
const TAIL: f64 = 6.0;

/// Random numbers, the same in each run.
struct Rng(SplitMix64);

impl Rng {
    /// Above 0 and below 1.
    fn even(&mut self) -> f64 {
        self.0.unit() + f64::EPSILON / 4.0
    }

    /// The samples of one slot of these nodes, each of which has a median of its own.
    fn slot(&mut self, samples: u64, nodes: &Range<u64>, mut visit: impl FnMut(u64)) -> Packed {
        let mut histogram = Histogram::default();
        for _ in 0..samples {
            let value = self.latency_ns(nodes);
            histogram.record(value);
            visit(value);
        }
        Packed::from(&histogram)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
    fn latency_ns(&mut self, nodes: &Range<u64>) -> u64 {
        let node = mixed(nodes.start + self.0.bits() % (nodes.end - nodes.start));
        let median = MEDIAN_NS * (0.7 + 0.6 * (node >> 11) as f64 / (1_u64 << 53) as f64);
        let even = self.even();
        (median * (even / (1.0 - even)).powf(1.0 / TAIL)) as u64
    }
}

/// This many slots of these nodes.
pub(crate) fn packed(slots: u64, samples: u64, nodes: &Range<u64>) -> Vec<Packed> {
    let mut rng = Rng(SplitMix64(nodes.start + 1));
    (0..slots).map(|_| rng.slot(samples, nodes, |_| {})).collect()
}

/// One of this many, by chance.
pub(crate) fn chosen(number: u64, of: usize) -> usize {
    usize::try_from(mixed(number) % of as u64).expect("below a length")
}

/// The samples of one slot.
pub(crate) struct Drawn {
    pub(crate) values_ns: Vec<u64>,
    /// The same as a node sends it.
    pub(crate) packed: Packed,
}

/// Slots that were drawn. Each slot of the past is one of them, by chance.
pub(crate) struct Shapes(Vec<Drawn>);

impl Shapes {
    pub(crate) fn new(slots: u64, samples: u64, nodes: u64) -> Self {
        let mut rng = Rng(SplitMix64(1));
        let slot = |_| {
            let mut values_ns = Vec::new();
            let packed = rng.slot(samples, &(0..nodes), |value| values_ns.push(value));
            Drawn { values_ns, packed }
        };
        Self((0..slots).map(slot).collect())
    }

    /// What the slot with this number holds.
    pub(crate) fn of_slot(&self, number: u64) -> &Drawn {
        &self.0[self.place(number)]
    }

    /// All that were drawn.
    pub(crate) fn all(&self) -> &[Drawn] {
        &self.0
    }

    /// Which of them the slot with this number is.
    pub(crate) fn place(&self, number: u64) -> usize {
        chosen(number, self.0.len())
    }

    /// The exact quantiles of all samples of these slots, in nanoseconds.
    pub(crate) fn exact(&self, slots: impl Iterator<Item = u64>, quantiles: &[f64]) -> Vec<u64> {
        let mut times = vec![0_u64; self.0.len()];
        slots.for_each(|number| times[self.place(number)] += 1);
        let mut all: Vec<(u64, u64)> = Vec::new();
        for (drawn, times) in self.0.iter().zip(times) {
            all.extend(drawn.values_ns.iter().map(|value| (*value, times)));
        }
        all.sort_unstable();
        let count = all.iter().map(|(_, times)| times).sum();
        let at = |quantile: &f64| {
            let mut left = rank(*quantile, count);
            let found = all.iter().find(|(_, times)| {
                left = left.saturating_sub(*times);
                left == 0
            });
            found.map_or(0, |(value, _)| *value)
        };
        quantiles.iter().map(at).collect()
    }
}
