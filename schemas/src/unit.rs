//! What the values of an operation are: nanoseconds, unless its name ends with another unit.
//!
//! A histogram holds whole numbers in one layout. The name alone decides how they are read, so no
//! message, state or history has a field for it, and two units are two operations.
//!
//! DESIGN S91.

use crate::ids::Operation;
use crate::limits::api::OVERFLOW;

/// The unit of the whole numbers in an operation's histograms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// Of every operation whose name states no other.
    #[default]
    Nanoseconds,
    /// Of times below a microsecond; up to 3.6 s.
    Picoseconds,
    /// Up to 3.6 TB.
    Bytes,
    /// Thousandths of one; up to 3.6 billion.
    Count,
}

impl Unit {
    /// All units that a name may state.
    pub const NAMED: [Self; 3] = [Self::Picoseconds, Self::Bytes, Self::Count];

    /// The unit of an operation's values.
    #[must_use]
    pub fn of(operation: &str) -> Self {
        let last = operation.rsplit_once(':').map(|(_, last)| last);
        let named = Self::NAMED.into_iter().find(|unit| unit.word() == last);
        named.unwrap_or_default()
    }

    /// The word by which a name states it.
    #[must_use]
    pub const fn word(self) -> Option<&'static str> {
        match self {
            Self::Nanoseconds => None,
            Self::Picoseconds => Some("ps"),
            Self::Bytes => Some("bytes"),
            Self::Count => Some("count"),
        }
    }

    /// The name of an operation with this unit.
    #[must_use]
    pub fn named(self, name: &str) -> String {
        self.word().map_or_else(|| name.to_owned(), |word| format!("{name}:{word}"))
    }

    /// Whether its values are times, which alone can be added to other times.
    #[must_use]
    pub const fn is_time(self) -> bool {
        matches!(self, Self::Nanoseconds | Self::Picoseconds)
    }

    /// A sum of its whole numbers as nanoseconds; `None` of what is no time.
    #[must_use]
    pub const fn nanoseconds(self, raw: u128) -> Option<u128> {
        match self {
            Self::Nanoseconds => Some(raw),
            Self::Picoseconds => Some(raw / 1_000),
            Self::Bytes | Self::Count => None,
        }
    }

    /// The unit in which values are shown.
    #[must_use]
    pub const fn shown_as(self) -> &'static str {
        match self {
            Self::Nanoseconds | Self::Picoseconds => "seconds",
            Self::Bytes => "bytes",
            Self::Count => "count",
        }
    }

    /// [`Self::shown_as`] of an operation, for a page that states it where it is not seconds.
    #[must_use]
    pub fn other_than_seconds(operation: &str) -> Option<&'static str> {
        Some(Self::of(operation)).filter(|unit| !unit.is_time()).map(Self::shown_as)
    }

    /// What the whole numbers are called where a page shows those.
    #[must_use]
    pub const fn raw_name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "nanoseconds",
            Self::Picoseconds => "picoseconds",
            Self::Bytes => "bytes",
            Self::Count => "thousandths",
        }
    }

    /// [`Self::raw_name`] for a row of a page, which is without it for nanoseconds.
    #[must_use]
    pub fn raw_of(operation: &str) -> Option<String> {
        let unit = Self::of(operation);
        (unit != Self::Nanoseconds).then(|| unit.raw_name().to_owned())
    }

    /// Whole numbers in one of what is shown.
    #[must_use]
    pub const fn raw_per_shown(self) -> f64 {
        match self {
            Self::Nanoseconds => 1e9,
            Self::Picoseconds => 1e12,
            Self::Bytes => 1.0,
            Self::Count => 1e3,
        }
    }

    /// A whole number as it is shown: seconds, bytes or a count.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "f64 is exact up to 2^53, past every limit")]
    pub fn shown(self, raw: u64) -> f64 {
        raw as f64 / self.raw_per_shown()
    }

    /// The whole number nearest to what is shown; saturates.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates: below zero and NaN to zero, above the range to the maximum"
    )]
    pub fn raw(self, shown: f64) -> u64 {
        (shown * self.raw_per_shown()).round() as u64
    }

    /// What is shown, in words: `17.9 ms`, `1.5 GiB`, `1,200`.
    #[cfg(feature = "mesh")]
    #[must_use]
    pub fn text(self, shown: f64) -> String {
        match self {
            Self::Nanoseconds | Self::Picoseconds => crate::figure::span(shown),
            Self::Bytes => crate::figure::bytes(shown),
            Self::Count => crate::figure::number(shown),
        }
    }

    /// A whole number in words.
    #[cfg(feature = "mesh")]
    #[must_use]
    pub fn raw_text(self, raw: u64) -> String {
        self.text(self.shown(raw))
    }

    /// The operation that counts samples of this unit for which there is no other place.
    ///
    /// # Panics
    /// Never: the names are valid, which a test checks.
    #[must_use]
    pub fn overflow(self) -> Operation {
        Operation::new(self.named(OVERFLOW)).expect("constants of letters and a colon")
    }
}

/// Whether an operation counts what had no other place.
#[must_use]
pub fn is_overflow(operation: &str) -> bool {
    Unit::of(operation).named(OVERFLOW) == operation
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::histogram::layout::MAX_NS;

    #[test]
    fn the_end_of_a_name_states_the_unit() {
        for (name, unit) in [
            ("epoch_hook", Unit::Nanoseconds),
            ("read:bytes", Unit::Bytes),
            ("a:b:count", Unit::Count),
            ("tokenizer.lookup:ps", Unit::Picoseconds),
            ("read_bytes", Unit::Nanoseconds),
            ("bytes", Unit::Nanoseconds),
            ("read:bytes.max", Unit::Nanoseconds),
            ("read:ns", Unit::Nanoseconds),
            ("", Unit::Nanoseconds),
        ] {
            assert_eq!(Unit::of(name), unit, "{name}");
        }
    }

    #[test]
    fn values_are_shown_in_their_unit() {
        for (unit, raw, shown, text) in [
            (Unit::Nanoseconds, 17_900_000, 0.0179, "17.9 ms"),
            (Unit::Picoseconds, 480_000, 4.8e-7, "480 ns"),
            (Unit::Picoseconds, 1_500, 1.5e-9, "1.5 ns"),
            (Unit::Bytes, 12_897_485, 12_897_485.0, "12.3 MiB"),
            (Unit::Count, 1_200_000, 1_200.0, "1,200"),
            (Unit::Count, 2_500, 2.5, "2.5"),
        ] {
            assert_eq!(unit.shown(raw), shown, "{unit:?}");
            assert_eq!(unit.raw_text(raw), text, "{unit:?}");
        }
        let sums =
            [Unit::Nanoseconds, Unit::Picoseconds, Unit::Bytes].map(|of| of.nanoseconds(9_000));
        assert_eq!(sums, [Some(9_000), Some(9), None]);
    }

    #[test]
    fn what_has_no_place_keeps_its_unit() {
        for unit in [Unit::Nanoseconds, Unit::Picoseconds, Unit::Bytes, Unit::Count] {
            let other = unit.overflow();
            assert_eq!(Unit::of(other.as_str()), unit);
            assert!(is_overflow(other.as_str()));
        }
        assert!(!is_overflow("another:bytes") && !is_overflow("other:ns"));
    }

    proptest! {
        #[test]
        fn names_and_values_come_back(name in "[a-z_.:]{1,20}", raw in 0..=MAX_NS) {
            for unit in Unit::NAMED {
                prop_assert_eq!(Unit::of(&unit.named(&name)), unit);
                prop_assert_eq!(unit.raw(unit.shown(raw)), raw);
            }
            prop_assert_eq!(Unit::Nanoseconds.raw(Unit::Nanoseconds.shown(raw)), raw);
        }
    }
}
