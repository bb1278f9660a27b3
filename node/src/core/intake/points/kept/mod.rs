//! What a cumulative stream had counted when it spoke last, to be taken off what it says next.

use super::told::Counted;

/// The buckets of a stream's last point.
#[derive(Debug, Default)]
pub(super) struct Kept {
    layout: u64,
    scale: i32,
    zero: u64,
    offset: i64,
    counts: Vec<u64>,
    /// What its samples summed up to.
    pub(super) sum: Option<f64>,
}

/// Why there is no difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// The bounds are others.
    Layout,
    /// Some bucket holds less than it did.
    Down,
}

/// Samples that are new, in buckets as wide as the wider ones of the two points.
#[derive(Debug, Default)]
pub(super) struct Difference {
    layout: u64,
    scale: i32,
    zero: u64,
    offset: i64,
    counts: Vec<u64>,
}

impl Kept {
    /// Nothing yet, in buckets like these.
    pub(super) fn nothing(like: &Counted<'_>) -> Self {
        let Counted { layout, scale, .. } = *like;
        Self { layout, scale, sum: Some(0.0), ..Self::default() }
    }

    /// Keeps these instead.
    pub(super) fn keep(&mut self, told: &Counted<'_>, sum: Option<f64>) {
        let Counted { layout, scale, zero, offset, counts } = *told;
        (self.layout, self.scale, self.zero, self.offset) = (layout, scale, zero, offset);
        self.sum = sum;
        self.counts.clear();
        self.counts.reserve_exact(counts.len());
        self.counts.extend_from_slice(counts);
    }

    /// Bytes that its counts take.
    pub(super) fn bytes(&self) -> usize {
        self.counts.capacity() * size_of::<u64>()
    }
}

impl Difference {
    /// Takes what was kept off what is told now; afterwards this holds the rest.
    ///
    /// # Errors
    /// When that cannot be.
    pub(super) fn take(&mut self, told: &Counted<'_>, kept: &Kept) -> Result<(), Changed> {
        if told.layout != kept.layout {
            return Err(Changed::Layout);
        }
        (self.layout, self.scale) = (told.layout, told.scale.min(kept.scale));
        self.zero = told.zero.checked_sub(kept.zero).ok_or(Changed::Down)?;
        self.widen(told);
        match self.take_off(kept) {
            true => Ok(()),
            false => Err(Changed::Down),
        }
    }

    /// Starts from what is told now, in wider buckets if need be.
    fn widen(&mut self, told: &Counted<'_>) {
        self.counts.clear();
        let by = told.scale - self.scale;
        self.offset = told.offset >> by;
        if by == 0 {
            return self.counts.extend_from_slice(told.counts);
        }
        for (index, n) in (told.offset..).zip(told.counts) {
            let at = at(index >> by, self.offset);
            self.counts.resize(self.counts.len().max(at + 1), 0);
            self.counts[at] += n;
        }
    }

    /// Whether there was as much in each bucket.
    fn take_off(&mut self, kept: &Kept) -> bool {
        let by = kept.scale - self.scale;
        let first = kept.offset >> by;
        if kept.counts.is_empty() {
            return true;
        }
        if first < self.offset {
            return false;
        }
        let counts = self.counts.get_mut(at(first, self.offset)..).unwrap_or_default();
        if by == 0 {
            return kept.counts.len() <= counts.len() && taken_off(counts, &kept.counts);
        }
        (kept.offset..).zip(&kept.counts).all(|(index, n)| {
            counts
                .get_mut(at(index >> by, first))
                .is_some_and(|count| taken_off(std::slice::from_mut(count), &[*n]))
        })
    }

    /// What is new.
    pub(super) fn counted(&self) -> Counted<'_> {
        Counted::trimmed(self.layout, self.scale, self.zero, self.offset, &self.counts)
    }
}

fn at(index: i64, first: i64) -> usize {
    usize::try_from(index - first).expect("it is not below the first, within some thousand")
}

/// Takes each off its like without a branch, and tells whether none was less.
fn taken_off(counts: &mut [u64], kept: &[u64]) -> bool {
    counts.iter_mut().zip(kept).fold(true, |holds, (count, kept)| {
        let (rest, is_less) = count.overflowing_sub(*kept);
        *count = rest;
        holds & !is_less
    })
}

#[cfg(test)]
mod tests;
