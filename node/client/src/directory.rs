//! All series of the process, each with the number that its handles carry.
//!
//! Series are never removed: handles live as long as the process, and the limits keep the number of
//! series small. A series beyond the limit, or without a valid name, folds into `other`, counted.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::limits::{NUMBERS_MAX, OPERATIONS_MAX};
use plimsoll_schemas::ids::{IdError, Labels, Operation, Series};
use plimsoll_schemas::unit::Unit;

/// The operation of values that have no series of their own.
pub(crate) const OTHER: &str = "other";

/// No labels, of a type that generic constructors accept.
pub(crate) const NO_LABELS: [(&str, &str); 0] = [];

/// A gauge that was not set since the last flush; no number that a job may set.
pub(crate) const UNSET: u64 = f64::NAN.to_bits();

/// A counter's growth or a gauge's bits since the last flush.
pub(crate) type Number = &'static AtomicU64;

pub(crate) struct Directory {
    operations: BTreeMap<Series, u32>,
    /// The same, by number.
    series: Vec<Series>,
    pub(crate) counters: BTreeMap<Series, Number>,
    pub(crate) gauges: BTreeMap<Series, Number>,
    /// Handles that got `other` in place of the series they requested.
    pub(crate) folded: u64,
}

impl Directory {
    pub(crate) const fn new() -> Self {
        Self {
            operations: BTreeMap::new(),
            series: Vec::new(),
            counters: BTreeMap::new(),
            gauges: BTreeMap::new(),
            folded: 0,
        }
    }

    /// The number of a series of samples in this unit; always below `OPERATIONS_MAX`.
    pub(crate) fn operation(&mut self, wanted: Option<Series>, unit: Unit) -> u32 {
        // The last places are for `other` of each unit, which must have a number whenever something
        // folds into it.
        let places = 1 + Unit::NAMED.len();
        let (known, room) = (&self.operations, self.series.len() + places < OPERATIONS_MAX);
        let fits = wanted.filter(|series| room || known.contains_key(series));
        self.folded += u64::from(fits.is_none());
        let series = fits.unwrap_or_else(|| Series::plain(unit.overflow()));

        if let Some(index) = self.operations.get(&series) {
            return *index;
        }

        let index = u32::try_from(self.series.len()).unwrap_or_default();
        self.series.push(series.clone());
        self.operations.insert(series, index);
        index
    }

    pub(crate) fn series(&self, index: u32) -> Series {
        let index = usize::try_from(index).unwrap_or_default();
        self.series.get(index).cloned().unwrap_or_else(other)
    }

    pub(crate) fn counter(&mut self, wanted: Option<Series>) -> Number {
        number(&mut self.counters, &mut self.folded, wanted, 0)
    }

    pub(crate) fn gauge(&mut self, wanted: Option<Series>) -> Number {
        number(&mut self.gauges, &mut self.folded, wanted, UNSET)
    }

    /// Clears the values of all series; the series remain.
    pub(crate) fn clear_values(&self) {
        self.counters.values().for_each(|counter| counter.store(0, Relaxed));
        self.gauges.values().for_each(|gauge| gauge.store(UNSET, Relaxed));
    }
}

fn number(
    known: &mut BTreeMap<Series, Number>,
    folded: &mut u64,
    wanted: Option<Series>,
    initial: u64,
) -> Number {
    // As for operations, the last place is for `other`.
    let room = known.len() + 1 < NUMBERS_MAX;
    let fits = wanted.filter(|series| room || known.contains_key(series));
    *folded += u64::from(fits.is_none());
    // Never freed: copies of a handle may be anywhere in the program, and the limit bounds them.
    let fresh = || &*Box::leak(Box::new(AtomicU64::new(initial)));
    known.entry(fits.unwrap_or_else(other)).or_insert_with(fresh)
}

/// A series, when name and labels are valid.
pub(crate) fn series<K: AsRef<str>, V: AsRef<str>>(
    name: &str,
    labels: impl IntoIterator<Item = (K, V)>,
) -> Result<Series, IdError> {
    Ok(Series { operation: Operation::new(name)?, labels: Labels::new(labels)? })
}

fn other() -> Series {
    Series::plain(Operation::new(OTHER).expect("a constant of letters"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: Unit = Unit::Nanoseconds;

    fn plain(name: &str) -> Option<Series> {
        series::<&str, &str>(name, []).ok()
    }

    #[test]
    fn the_same_series_has_the_same_number() {
        let mut directory = Directory::new();
        let labelled = series("fetch", [("b", "2"), ("a", "1")]).ok();
        let one = directory.operation(labelled, NS);
        let two = directory.operation(series("fetch", [("a", "1"), ("b", "2")]).ok(), NS);
        let three = directory.operation(plain("fetch"), NS);
        assert_eq!((one, two, three), (0, 0, 1));
        assert_eq!(directory.series(one).to_string(), "fetch{a=1,b=2}");
    }

    #[test]
    fn what_has_no_valid_name_or_no_room_folds_into_other() {
        let mut directory = Directory::new();
        let wrong = directory.operation(plain("no spaces"), NS);
        assert_eq!(directory.series(wrong).to_string(), OTHER);
        for n in 0..2 * OPERATIONS_MAX {
            let index = directory.operation(plain(&format!("operation_{n}")), NS);
            assert!(usize::try_from(index).unwrap() < OPERATIONS_MAX);
        }
        for unit in Unit::NAMED {
            let index = directory.operation(plain(&unit.named("more")), unit);
            assert_eq!(directory.series(index).to_string(), unit.named(OTHER));
        }
        let known = directory.operation(plain("operation_5"), NS);
        assert_eq!(directory.series(known).to_string(), "operation_5");
        let beyond = OPERATIONS_MAX as u64 + 3 + 2 * 3;
        assert_eq!(directory.folded, beyond);
        for n in 0..2 * NUMBERS_MAX {
            directory.counter(plain(&format!("counter_{n}")));
        }
        assert_eq!(directory.counters.len(), NUMBERS_MAX);
    }
}
