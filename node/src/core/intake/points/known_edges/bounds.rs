//! Edges of explicit buckets, computed once for the points that follow each other with the same
//! bounds, as all points of a metric do.

use crate::core::intake::lines::ValueUnit;
use crate::core::intake::points::edges::Edge;

/// The edges of the bounds that were used last; as many as one point may have.
#[derive(Default)]
pub(super) struct BoundEdges {
    unit: Option<ValueUnit>,
    bounds: Vec<f64>,
    edges: Vec<Edge>,
}

impl BoundEdges {
    /// The lower end of the first bucket, the bounds, and the upper end of the last bucket.
    pub(super) fn of(&mut self, unit: ValueUnit, bounds: &[f64]) -> &[Edge] {
        if self.unit != Some(unit) || self.bounds != bounds {
            self.unit = Some(unit);
            bounds.clone_into(&mut self.bounds);
            self.edges.clear();
            self.edges.push(Edge::FIRST);
            self.edges.extend(bounds.iter().map(|bound| Edge::of(*bound, unit)));
            self.edges.push(Edge::LAST);
        }
        &self.edges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::intake::lines::TimeUnit;

    #[test]
    fn other_bounds_and_other_units_have_edges_of_their_own() {
        let mut edges = BoundEdges::default();
        let (seconds, milliseconds) =
            (ValueUnit::Time(TimeUnit::Seconds), ValueUnit::Time(TimeUnit::Milliseconds));
        for (unit, bounds, inner) in [
            (seconds, &[0.5, 1.0][..], &[500_000_000, 1_000_000_000][..]),
            (milliseconds, &[0.5, 1.0], &[500_000, 1_000_000]),
            (milliseconds, &[0.5], &[500_000]),
            (milliseconds, &[], &[]),
            (seconds, &[0.5, 1.0], &[500_000_000, 1_000_000_000]),
        ] {
            for _again in 0..2 {
                let found = edges.of(unit, bounds);
                assert_eq!((found[0], found[found.len() - 1]), (Edge::FIRST, Edge::LAST));
                let between = &found[1..found.len() - 1];
                assert_eq!(between.iter().map(|edge| edge.upto_ns).collect::<Vec<_>>(), inner);
            }
        }
    }
}
