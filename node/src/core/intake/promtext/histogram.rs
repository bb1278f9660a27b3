//! Assembles a histogram from its rows, which may be in any order and between rows of others. An
//! inconsistent histogram is rejected as a whole; the next page has all of it again.

use crate::limits::scrape::BUCKETS_MAX;
use plimsoll_schemas::limits::wire::COUNT_MAX;

use super::line::Row;
use super::metadata::Role;
use super::stream_ids::StreamStart;
use crate::core::intake::reject::Reject;

pub(super) struct PartialHistogram<'a> {
    pub(super) family: &'a str,
    /// The raw labels of its first row.
    pub(super) labels: &'a [u8],
    /// Since when it counts.
    pub(super) start: StreamStart,
    /// Upper bound, and samples up to it.
    rows: Vec<(f64, u64)>,
    count: Option<u64>,
    sum: Option<f64>,
    /// Why it is rejected, if a row was invalid.
    rejected: Option<Reject>,
}

/// A histogram. A bucket counts samples above the previous bound and up to its own.
#[derive(Debug, Default, PartialEq)]
pub(super) struct CompleteHistogram {
    pub(super) bounds: Vec<f64>,
    pub(super) counts: Vec<u64>,
    pub(super) count: u64,
    pub(super) sum: Option<f64>,
}

impl<'a> PartialHistogram<'a> {
    pub(super) fn new(family: &'a str, labels: &'a [u8], start: StreamStart) -> Self {
        Self { family, labels, start, rows: Vec::new(), count: None, sum: None, rejected: None }
    }

    /// Adds a row; `bound` is that of a bucket.
    pub(super) fn add(&mut self, role: Role, row: &Row<'_>, bound: Option<f64>) {
        let added = match (role, bound) {
            (Role::Bucket, Some(bound)) => self.add_bucket(bound, row.value),
            (Role::Count, _) => whole(row.value).and_then(|count| once(&mut self.count, count)),
            (Role::Sum, _) => once(&mut self.sum, row.value),
            _ => Err(Reject::Bounds),
        };
        if let Err(reason) = added {
            self.rejected.get_or_insert(reason);
        }
    }

    fn add_bucket(&mut self, bound: f64, count: f64) -> Result<(), Reject> {
        if bound.is_nan() || bound == f64::NEG_INFINITY || self.rows.len() == BUCKETS_MAX {
            return Err(Reject::Bounds);
        }
        self.rows.push((bound, whole(count)?));
        Ok(())
    }

    /// The histogram, once there are no more rows.
    pub(super) fn finish(&mut self, into: &mut CompleteHistogram) -> Result<(), Reject> {
        if let Some(reason) = self.rejected {
            return Err(reason);
        }

        self.rows.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        // A repeated row is harmless; one bound with two counts is not.
        self.rows.dedup();
        if self.rows.windows(2).any(|pair| pair[0].0 == pair[1].0 || pair[0].1 > pair[1].1) {
            return Err(Reject::Counts);
        }

        // The bucket up to infinity has all samples. A page that leaves it out states their number
        // by itself.
        let infinite = self.rows.pop_if(|(bound, _)| bound.is_infinite()).map(|(_, all)| all);
        let below = self.rows.last().map_or(0, |(_, below)| *below);
        let count = infinite.or(self.count).ok_or(Reject::Counts)?;
        if count < below || self.count.is_some_and(|stated| stated != count) {
            return Err(Reject::Counts);
        }

        into.bounds.clear();
        into.counts.clear();
        let mut before = 0;

        for (bound, upto) in &self.rows {
            into.bounds.push(*bound);
            into.counts.push(upto - before);
            before = *upto;
        }

        into.counts.push(count - before);
        into.count = count;
        into.sum = self.sum.filter(|sum| sum.is_finite());
        Ok(())
    }
}

/// Sets a value once; the same value twice is allowed.
fn once<T: Copy + PartialEq>(slot: &mut Option<T>, value: T) -> Result<(), Reject> {
    match slot.replace(value) {
        Some(before) if before != value => Err(Reject::Counts),
        _ => Ok(()),
    }
}

/// A count, which the format may write with a fraction.
fn whole(value: f64) -> Result<u64, Reject> {
    let fits = value.fract() == 0.0 && (0.0..=COUNT_MAX as f64).contains(&value);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "just checked")]
    if fits { Ok(value as u64) } else { Err(Reject::Number) }
}
