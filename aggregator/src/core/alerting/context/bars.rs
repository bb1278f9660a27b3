//! Small histograms for people: a few bars with round ends, one of which is the limit.

use crate::limits::BARS_MAX;
use plimsoll_schemas::alert::BarSeconds;
use plimsoll_schemas::histogram::{Histogram, layout};
use plimsoll_schemas::unit::Unit;

/// Ends of bars within a power of ten, in tenths of it. The finest that makes few enough bars is
/// taken; the last always does, since the layout spans ten powers of ten.
const SCALES: [&[u64]; 3] = [&[10, 12, 15, 20, 25, 30, 40, 50, 60, 80], &[10, 20, 50], &[10]];

/// Samples, and how many of them are over the limit; the buckets alone do not show the latter.
pub(super) type Counted<'a> = (&'a Histogram, u64);

/// The bars of each of two sets of samples, with the same ends; none of one without samples.
pub(super) fn bars(unit: Unit, limit_ns: u64, of: [Counted<'_>; 2]) -> [Vec<BarSeconds>; 2] {
    let some = || of.iter().map(|(samples, _)| samples).filter(|samples| !samples.is_empty());
    let least = some().map(|samples| samples.min_ns()).min();
    let most = some().map(|samples| samples.max_ns()).max();
    let (Some(least), Some(most)) = (least, most) else { return [Vec::new(), Vec::new()] };
    let ends = ends(least, most, limit_ns);
    of.map(|of| bars_of(unit, &ends, limit_ns, of))
}

/// Ends of bars between two samples, ascending; the last is the greater one or the limit.
fn ends(least: u64, most: u64, limit_ns: u64) -> Vec<u64> {
    let round = |scale: &[u64]| {
        let powers = (2..).map(|power| 10_u64.pow(power)).take_while(|power| *power < most);
        let ends = powers.flat_map(|power| scale.iter().map(move |tenths| tenths * power));
        // An end in the limit's own bucket adds nothing to the limit itself.
        let apart = |end: &u64| layout::index_of(*end) != layout::index_of(limit_ns);
        let ends = ends.filter(|end| (least..most).contains(end)).filter(apart);
        let mut ends: Vec<u64> = ends.chain([limit_ns, most.max(limit_ns)]).collect();
        ends.sort_unstable();
        ends.dedup();
        ends
    };

    let all = SCALES.map(round).into_iter();
    // The finest that people can take in at a glance.
    all.reduce(|finer, coarser| if finer.len() <= BARS_MAX { finer } else { coarser })
        .unwrap_or_default()
}

fn bars_of(
    unit: Unit,
    ends: &[u64],
    limit_ns: u64,
    (samples, over): Counted<'_>,
) -> Vec<BarSeconds> {
    if samples.is_empty() {
        return Vec::new();
    }
    let mut buckets = samples.counts().iter().peekable();
    let (mut seen, mut counted) = (0_u64, 0_u64);

    let bar = |end: &u64| {
        let own = layout::index_of((*end).min(layout::MAX_NS));
        while let Some((_, n)) = buckets.next_if(|(index, _)| *index <= own) {
            seen = seen.saturating_add(n);
        }
        // What is over the limit and in its own bucket belongs behind it.
        let up_to = if *end == limit_ns { samples.count().saturating_sub(over) } else { seen };
        let n = up_to.saturating_sub(counted);
        counted = counted.max(up_to);
        BarSeconds { up_to: unit.shown(*end), samples: n }
    };

    ends.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plimsoll_schemas::time::{nanos, seconds};
    use proptest::prelude::*;

    use super::*;

    fn samples(values: &[u64]) -> Histogram {
        let mut samples = Histogram::default();
        values.iter().for_each(|value| samples.record(*value));
        samples
    }

    fn over(values: &[u64], limit_ns: u64) -> u64 {
        values.iter().filter(|value| **value > limit_ns).count() as u64
    }

    const MS: u64 = 1_000_000;
    const LIMIT: u64 = 18 * MS;

    #[test]
    fn ends_are_round_and_the_limit_is_one_of_them() {
        let counted = |least, most| -> Vec<f64> {
            let ends = ends(least, most, LIMIT).into_iter();
            #[expect(clippy::cast_precision_loss, reason = "small")]
            ends.map(|ns| ns as f64 / 1e6).collect()
        };
        assert_eq!(counted(12 * MS, 31 * MS), [12.0, 15.0, 18.0, 20.0, 25.0, 30.0, 31.0]);
        assert_eq!(counted(MS, 70 * MS), [1.0, 2.0, 5.0, 10.0, 18.0, 20.0, 50.0, 70.0]);
        assert_eq!(counted(3 * MS, 4 * MS), [3.0, 18.0], "all is within");
        assert_eq!(counted(40 * MS, 45 * MS), [18.0, 40.0, 45.0], "all is over");
        assert_eq!(ends(0, layout::MAX_NS, LIMIT).len(), BARS_MAX);
        assert_eq!(ends(LIMIT, LIMIT, LIMIT), [LIMIT]);
    }

    #[test]
    fn at_the_limit_bars_are_exact_within_a_bucket() {
        let values = [LIMIT - 1, LIMIT, LIMIT + 1, LIMIT + 2, 30 * MS];
        let during = samples(&values);
        assert_eq!(layout::index_of(LIMIT - 1), layout::index_of(LIMIT + 2), "one bucket");
        let none = Histogram::default();
        let [before, during] =
            bars(Unit::Nanoseconds, LIMIT, [(&none, 0), (&during, over(&values, LIMIT))]);
        assert_eq!(before, []);
        let at = during.iter().position(|bar| bar.up_to == 0.018).unwrap();
        assert_eq!((during[at].samples, during[at + 1].samples), (2, 2), "{during:?}");
    }

    proptest! {
        #[test]
        fn bars_equal_a_naive_count(
            before in prop::collection::vec(0..60 * MS, 0..80),
            during in prop::collection::vec(prop_oneof![0..60 * MS, 0..=layout::MAX_NS], 0..80),
            limit_ns in 1_000..40 * MS,
        ) {
            let of = [&before, &during].map(|values| (samples(values), over(values, limit_ns)));
            let of_both = [(&of[0].0, of[0].1), (&of[1].0, of[1].1)];
            let counted = bars(Unit::Nanoseconds, limit_ns, of_both);
            for (values, bars) in [&before, &during].into_iter().zip(&counted) {
                prop_assert_eq!(bars.is_empty(), values.is_empty());
                prop_assert!(bars.len() <= BARS_MAX);
                let sum: u64 = bars.iter().map(|bar| bar.samples).sum();
                prop_assert_eq!(sum, values.len() as u64);
                let mut up_to_here = 0;
                for bar in bars {
                    let end = nanos(Duration::from_secs_f64(bar.up_to));
                    let own = layout::index_of(end);
                    let within = |value: &&u64| match end == limit_ns {
                        true => **value <= end,
                        false => layout::index_of(**value) <= own,
                    };
                    up_to_here += bar.samples;
                    prop_assert_eq!(up_to_here, values.iter().filter(within).count() as u64);
                }
                let limit = bars.iter().any(|bar| bar.up_to == seconds(limit_ns));
                prop_assert!(limit || bars.is_empty());
            }
        }
    }
}
