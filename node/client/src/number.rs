//! Handles of counters and gauges.
//!
//! One number for all threads, changed by one atomic instruction: cheap unless many threads
//! count into the same one without a pause.

use std::sync::atomic::Ordering::Relaxed;

use plimsoll_schemas::ids::IdError;

use crate::directory::{NO_LABELS, Number, series};
use crate::{incidents, process, recording};

/// What makes a handle of a counter or a gauge.
macro_rules! constructors {
    ($handle:ident, $what:literal, $find:ident) => {
        impl $handle {
            #[doc = concat!("The ", $what, " of this name; an invalid name folds into `other`.")]
            #[must_use]
            pub fn new(name: &str) -> Self {
                Self::with_labels(name, NO_LABELS)
            }

            #[doc = concat!("A ", $what, " with labels; what is not valid folds into `other`.")]
            #[must_use]
            pub fn with_labels<K: AsRef<str>, V: AsRef<str>>(
                name: &str,
                labels: impl IntoIterator<Item = (K, V)>,
            ) -> Self {
                let wanted = series(name, labels).ok();
                Self(process::state().directory.$find(wanted))
            }

            /// As `with_labels`, for names from outside.
            ///
            /// # Errors
            /// When the name or a label is not valid.
            pub fn try_new<K: AsRef<str>, V: AsRef<str>>(
                name: &str,
                labels: impl IntoIterator<Item = (K, V)>,
            ) -> Result<Self, IdError> {
                let wanted = series(name, labels)?;
                Ok(Self(process::state().directory.$find(Some(wanted))))
            }
        }
    };
}

constructors!(Counter, "counter", counter);
constructors!(Gauge, "gauge", gauge);

/// A number that only grows: tokens, retries, cache hits. Names and labels as for
/// [`Operation`](crate::Operation).
#[derive(Clone, Copy, Debug)]
pub struct Counter(Number);

impl Counter {
    /// Counts `n` more.
    #[inline]
    pub fn add(&self, n: u64) {
        if recording::ready() {
            self.0.fetch_add(n, Relaxed);
        }
    }
}

/// A counter for each of the two outcomes of a cache lookup: the labels `outcome=hit` and
/// `outcome=miss`.
#[derive(Clone, Copy, Debug)]
pub struct HitCounter {
    hits: Counter,
    misses: Counter,
}

impl HitCounter {
    /// The pair of this name; an invalid name or label folds into `other`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::with_labels(name, NO_LABELS)
    }

    /// A pair with labels; an invalid name or label folds into `other`.
    #[must_use]
    pub fn with_labels<K: AsRef<str>, V: AsRef<str>>(
        name: &str,
        labels: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let labels: Vec<_> = labels.into_iter().collect();
        let own = || labels.iter().map(|(key, value)| (key.as_ref(), value.as_ref()));
        let counter = |outcome| Counter::with_labels(name, own().chain([("outcome", outcome)]));
        Self { hits: counter("hit"), misses: counter("miss") }
    }

    /// Counts one lookup.
    #[inline]
    pub fn count(&self, is_hit: bool) {
        if is_hit { self.hits.add(1) } else { self.misses.add(1) }
    }
}

/// A value of which the last one counts: a loss, a batch size.
#[derive(Clone, Copy, Debug)]
pub struct Gauge(Number);

impl Gauge {
    /// Sets it. A value that is not finite is ignored and counts as
    /// [`Stats::not_finite`](crate::Stats::not_finite).
    #[inline]
    pub fn set(&self, value: f64) {
        if !recording::ready() {
            return;
        }
        if value.is_finite() {
            self.0.store(value.to_bits(), Relaxed);
        } else {
            incidents::NOT_FINITE.fetch_add(1, Relaxed);
        }
    }
}
