//! The DogStatsD line reader: bytes of a datagram in, typed parts and numbers out.
//!
//! `parse` splits a line into its parts, `ValueReader` reads the values of one, [`Units`]
//! decides the unit of a value, and `Sequence` is the line by which a client numbers its
//! datagrams. Keeps no state between lines. Refuses to decide which series a line belongs to, and
//! whether there is room for it.

mod line;
mod number;
mod sequence;
mod time_unit;
mod units;
mod value_unit;
mod values;

pub(super) use line::{Line, MetricType, parse, unix_seconds};
pub(super) use number::whole;
pub(super) use sequence::Sequence;
pub use time_unit::TimeUnit;
pub use units::{DEFAULT_SUFFIXES, Unit, Units, name_pattern, pattern, suffix};
pub use value_unit::ValueUnit;
pub(super) use values::{LineValues, ValueReader, Values};
