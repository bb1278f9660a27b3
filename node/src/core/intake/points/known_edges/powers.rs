//! Edges of exponential buckets, computed once: an edge takes some square roots, a producer sends
//! the same ones with every point, and all streams of a process mostly share a scale.

use std::ops::Range;

use crate::core::intake::lines::ValueUnit;
use crate::core::intake::points::edges::Edge;
use crate::limits::{POINT_BUCKETS_MAX, POWER_WINDOWS_MAX};

/// The edges of the scales that were used last.
#[derive(Default)]
pub(super) struct PowerEdges {
    /// The one used last comes first.
    windows: Vec<Window>,
}

/// Neighbouring edges of one scale.
struct Window {
    scale: i32,
    unit: ValueUnit,
    first: i64,
    edges: Vec<Edge>,
}

impl PowerEdges {
    /// The edges of `buckets` buckets from number `offset` on, one more than there are buckets. At
    /// most [`POINT_BUCKETS_MAX`] buckets.
    pub(super) fn of(
        &mut self,
        scale: i32,
        unit: ValueUnit,
        offset: i64,
        buckets: usize,
    ) -> &[Edge] {
        #[expect(clippy::cast_possible_wrap, reason = "at most POINT_BUCKETS_MAX")]
        let wanted = offset..offset + buckets as i64 + 1;
        let is_of = |window: &Window| window.scale == scale && window.unit == unit;
        let found =
            self.windows.iter().position(|window| is_of(window) && window.can_hold(&wanted));
        let at = found.unwrap_or_else(|| {
            // The last one is the one unused for longest: what is used moves to the front.
            self.windows.truncate(POWER_WINDOWS_MAX - 1);
            self.windows.push(Window { scale, unit, first: offset, edges: Vec::new() });
            self.windows.len() - 1
        });
        self.windows[..=at].rotate_right(1);
        self.windows[0].edges(&wanted)
    }
}

impl Window {
    fn range(&self) -> Range<i64> {
        #[expect(clippy::cast_possible_wrap, reason = "at most POINT_BUCKETS_MAX + 1")]
        let len = self.edges.len() as i64;
        self.first..self.first + len
    }

    /// Its edges and these, with all between.
    fn with(&self, wanted: &Range<i64>) -> Range<i64> {
        let own = self.range();
        own.start.min(wanted.start)..own.end.max(wanted.end)
    }

    /// Whether it may hold these edges beside its own.
    fn can_hold(&self, wanted: &Range<i64>) -> bool {
        let all = self.with(wanted);
        usize::try_from(all.end - all.start).is_ok_and(|len| len <= POINT_BUCKETS_MAX + 1)
    }

    fn edges(&mut self, wanted: &Range<i64>) -> &[Edge] {
        let (own, all) = (self.range(), self.with(wanted));
        if own != all {
            let Self { scale, unit, .. } = *self;
            let powers =
                |indexes: Range<i64>| indexes.map(move |index| Edge::power(scale, index, unit));
            self.edges.splice(..0, powers(all.start..own.start));
            self.edges.extend(powers(own.end..all.end));
            self.first = all.start;
        }
        let at = |index: i64| usize::try_from(index - all.start).unwrap_or_default();
        &self.edges[at(wanted.start)..at(wanted.end)]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::core::intake::lines::TimeUnit;

    /// What a node computes without the windows.
    fn computed(scale: i32, unit: ValueUnit, offset: i64, buckets: usize) -> Vec<Edge> {
        (offset..).take(buckets + 1).map(|index| Edge::power(scale, index, unit)).collect()
    }

    proptest! {
        #[test]
        fn edges_used_again_are_those_computed_anew(
            wanted in prop::collection::vec(
                (-2..6_i32, -1_500..1_500_i64, 0..200_usize, any::<bool>()), 1..60,
            ),
        ) {
            let mut edges = PowerEdges::default();
            for (scale, offset, buckets, is_ms) in wanted {
                let unit = if is_ms { TimeUnit::Milliseconds } else { TimeUnit::Seconds };
                let unit = ValueUnit::Time(unit);
                let found = edges.of(scale, unit, offset, buckets).to_vec();
                prop_assert_eq!(found, computed(scale, unit, offset, buckets));
                prop_assert!(edges.windows.len() <= POWER_WINDOWS_MAX);
                let is_small = |window: &Window| window.edges.len() <= POINT_BUCKETS_MAX + 1;
                prop_assert!(edges.windows.iter().all(is_small));
            }
        }
    }

    #[test]
    fn the_ends_of_all_numbers_are_no_edge_of_the_windows() {
        let mut edges = PowerEdges::default();
        for offset in [i64::from(i32::MIN), i64::from(i32::MAX), 0] {
            for scale in [-10, 0, 20] {
                let found = edges.of(
                    scale,
                    ValueUnit::Time(TimeUnit::Nanoseconds),
                    offset,
                    POINT_BUCKETS_MAX,
                );
                assert_eq!(
                    found,
                    computed(
                        scale,
                        ValueUnit::Time(TimeUnit::Nanoseconds),
                        offset,
                        POINT_BUCKETS_MAX
                    )
                );
            }
        }
    }

    #[test]
    fn a_scale_in_use_outlasts_one_that_is_not() {
        let mut edges = PowerEdges::default();
        let scales = 0..i32::try_from(POWER_WINDOWS_MAX).unwrap();
        for scale in scales.clone().chain([0, 10]) {
            edges.of(scale, ValueUnit::Time(TimeUnit::Seconds), 0, 4);
        }
        let known: Vec<i32> = edges.windows.iter().map(|window| window.scale).collect();
        let others = scales.skip(2).rev();
        assert_eq!(known, [10, 0].into_iter().chain(others).collect::<Vec<_>>());
    }
}
