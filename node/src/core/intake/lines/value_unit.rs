//! The unit of a sender's value, and the operation and the whole number that it becomes.
//!
//! DESIGN S91.

use std::str::FromStr;

use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::unit::Unit;

use super::time_unit::TimeUnit;
use crate::core::intake::reject::Reject;

/// What separates the parts of a name.
pub(super) const SEPARATORS: [char; 5] = ['_', '.', '-', ':', '/'];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueUnit {
    Time(TimeUnit),
    /// Of an operation that is declared to be below a microsecond.
    SubMicrosecond(TimeUnit),
    Picoseconds,
    Bytes,
    Count,
}

impl ValueUnit {
    /// Decimal places down to a whole number of what is recorded.
    pub(crate) const fn decimals(self) -> usize {
        match self {
            Self::Time(unit) => unit.decimals(),
            Self::SubMicrosecond(unit) => unit.decimals() + 3,
            Self::Picoseconds | Self::Bytes => 0,
            Self::Count => 3,
        }
    }

    pub(crate) const fn recorded(self) -> Unit {
        match self {
            Self::Time(_) => Unit::Nanoseconds,
            Self::SubMicrosecond(_) | Self::Picoseconds => Unit::Picoseconds,
            Self::Bytes => Unit::Bytes,
            Self::Count => Unit::Count,
        }
    }

    /// The operation that records what `name` is sent with: a last part that only repeats the unit
    /// is dropped.
    ///
    /// # Errors
    /// When the name is not valid, or states another unit than the values have.
    pub(crate) fn operation(self, name: &str) -> Result<Operation, Reject> {
        let recorded = self.recorded();
        let bare =
            recorded.word().and_then(|word| name.strip_suffix(word)?.strip_suffix(SEPARATORS));
        let bare = bare.filter(|bare| !bare.is_empty()).unwrap_or(name);
        let operation = Operation::new(recorded.named(bare)).map_err(|_| Reject::Name)?;
        // Values of one name in two units would be one operation.
        let is_unit = Unit::of(name) == recorded || Unit::of(name) == Unit::Nanoseconds;
        if is_unit { Ok(operation) } else { Err(Reject::Unit) }
    }
}

impl FromStr for ValueUnit {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "ps" => Ok(Self::Picoseconds),
            "bytes" => Ok(Self::Bytes),
            "count" => Ok(Self::Count),
            _ => TimeUnit::spelled(text).map(Self::Time).ok_or(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_operation_states_what_its_values_are() {
        let ms = TimeUnit::Milliseconds;
        for (unit, name, expected) in [
            (ValueUnit::Time(ms), "fetch", Ok("fetch")),
            (ValueUnit::Time(ms), "fetch_bytes", Ok("fetch_bytes")),
            (ValueUnit::Time(ms), "fetch:bytes", Err(Reject::Unit)),
            (ValueUnit::Time(ms), "fetch:ps", Err(Reject::Unit)),
            (ValueUnit::SubMicrosecond(ms), "lookup", Ok("lookup:ps")),
            (ValueUnit::Picoseconds, "lookup_ps", Ok("lookup:ps")),
            (ValueUnit::Bytes, "read_bytes", Ok("read:bytes")),
            (ValueUnit::Bytes, "read:bytes", Ok("read:bytes")),
            (ValueUnit::Bytes, "bytes", Ok("bytes:bytes")),
            (ValueUnit::Bytes, "read:count", Err(Reject::Unit)),
            (ValueUnit::Count, "batch.count", Ok("batch:count")),
            (ValueUnit::Count, "account", Ok("account:count")),
            (ValueUnit::Count, "no spaces", Err(Reject::Name)),
        ] {
            let operation = unit.operation(name);
            assert_eq!(operation.as_ref().map(Operation::as_str), expected.as_ref().copied());
        }
    }

    proptest! {
        #[test]
        fn no_name_makes_values_those_of_another_unit(name in "[a-z_.:]{1,20}") {
            let of_ms = ValueUnit::SubMicrosecond(TimeUnit::Milliseconds);
            let units = [of_ms, ValueUnit::Picoseconds, ValueUnit::Bytes, ValueUnit::Count];
            for unit in [ValueUnit::Time(TimeUnit::Seconds)].into_iter().chain(units) {
                let operation = unit.operation(&name);
                let is_right = operation.is_ok_and(|of| Unit::of(of.as_str()) == unit.recorded());
                prop_assert!(is_right || Unit::of(&name) != Unit::Nanoseconds, "{unit:?} {name}");
            }
        }
    }
}
