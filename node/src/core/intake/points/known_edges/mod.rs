//! Edges that were computed for earlier points, of explicit and of exponential buckets.
//!
//! DESIGN N61.

mod bounds;
mod powers;

use super::edges::Edge;
use super::point::Buckets;
use crate::core::intake::lines::ValueUnit;
use bounds::BoundEdges;
use powers::PowerEdges;

/// Edges that were computed for earlier points.
#[derive(Default)]
pub(super) struct KnownEdges {
    powers: PowerEdges,
    bounds: BoundEdges,
}

impl KnownEdges {
    /// The edges of `len` buckets of these from number `offset` on, one more than there are
    /// buckets. The exponential ones have this scale.
    pub(super) fn of(
        &mut self,
        buckets: &Buckets<'_>,
        unit: ValueUnit,
        scale: i32,
        offset: i64,
        len: usize,
    ) -> &[Edge] {
        match buckets {
            Buckets::Exponential { .. } => self.powers.of(scale, unit, offset, len),
            Buckets::Explicit { bounds, .. } => {
                let from = usize::try_from(offset).unwrap_or_default();
                let edges = self.bounds.of(unit, bounds);
                edges.get(from..=from + len).unwrap_or_default()
            }
        }
    }
}
