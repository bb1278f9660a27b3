//! The rows of one histogram, put together. Rows may come in any order and between those of
//! others; what does not add up is refused whole, since the next page has all of it again.

use crate::limits::scrape::BUCKETS_MAX;
use plimsoll_schemas::limits::wire::COUNT_MAX;

use super::line::Row;
use super::outline::Role;
use super::reader::Since;
use crate::core::intake::reject::Reject;

/// A histogram of which not all rows may have been read.
pub(super) struct Partial<'a> {
    /// Its name.
    pub(super) family: &'a str,
    /// The labels of its first row, as they are written.
    pub(super) labels: &'a [u8],
    /// Since when it counts.
    pub(super) since: Since,
    /// Upper bound, and samples up to it.
    rows: Vec<(f64, u64)>,
    count: Option<u64>,
    sum: Option<f64>,
    /// The first thing that was wrong with it.
    wrong: Option<Reject>,
}

/// Buckets that hold what is over the bound before and at most their own.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Whole {
    pub(super) bounds: Vec<f64>,
    pub(super) counts: Vec<u64>,
    pub(super) count: u64,
    pub(super) sum: Option<f64>,
}

impl<'a> Partial<'a> {
    /// None of its rows yet.
    pub(super) fn new(family: &'a str, labels: &'a [u8], since: Since) -> Self {
        Self { family, labels, since, rows: Vec::new(), count: None, sum: None, wrong: None }
    }

    /// Takes a row: of a bucket with its bound, else of the whole.
    pub(super) fn add(&mut self, role: Role, row: &Row<'_>, bound: Option<f64>) {
        let taken = match (role, bound) {
            (Role::Bucket, Some(bound)) => self.add_bucket(bound, row.value),
            (Role::Count, _) => whole(row.value).and_then(|count| once(&mut self.count, count)),
            (Role::Sum, _) => once(&mut self.sum, row.value),
            _ => Err(Reject::Bounds),
        };
        if let Err(reason) = taken {
            self.wrong.get_or_insert(reason);
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
    ///
    /// # Errors
    /// When rows contradict each other, or are missing.
    pub(super) fn finish(&mut self, into: &mut Whole) -> Result<(), Reject> {
        if let Some(reason) = self.wrong {
            return Err(reason);
        }
        self.rows.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        // A row that stands twice says nothing new; one bound with two counts does.
        self.rows.dedup();
        if self.rows.windows(2).any(|pair| pair[0].0 == pair[1].0 || pair[0].1 > pair[1].1) {
            return Err(Reject::Counts);
        }
        let infinite = self.rows.pop_if(|(bound, _)| bound.is_infinite()).map(|(_, all)| all);
        let below = self.rows.last().map_or(0, |(_, below)| *below);
        let count = infinite.or(self.count).ok_or(Reject::Counts)?;
        if count < below || self.count.is_some_and(|told| told != count) {
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

/// Sets what was not set; the same value twice is no contradiction.
fn once<T: Copy + PartialEq>(place: &mut Option<T>, value: T) -> Result<(), Reject> {
    match place.replace(value) {
        Some(before) if before != value => Err(Reject::Counts),
        _ => Ok(()),
    }
}

/// A count, which the format may write with a fraction.
fn whole(value: f64) -> Result<u64, Reject> {
    #[expect(clippy::cast_precision_loss, reason = "2^53 is exact")]
    let fits = value.fract() == 0.0 && (0.0..=COUNT_MAX as f64).contains(&value);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "just checked")]
    if fits { Ok(value as u64) } else { Err(Reject::Number) }
}
