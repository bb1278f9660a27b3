//! When within its time a slot is rolled over. All nodes would do that in the same second: with ten
//! thousand of them, each half minute took a second or two of merging, in which nothing else was
//! merged. When it is done changes no answer.
//!
//! DESIGN A74.

use plimsoll_schemas::ids::NodeName;

/// The share of a longer slot's time by which the roll-over into it waits, in 256ths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phase(u8);

impl Phase {
    pub const NONE: Self = Self(0);

    /// The phase of a node, always the same.
    pub fn of(node: &NodeName) -> Self {
        let [first, ..] = crc32fast::hash(node.as_str().as_bytes()).to_be_bytes();
        Self(first)
    }

    /// How long slots wait that are rolled over into one of this many nanoseconds.
    pub(super) fn wait_ns(self, slot_ns: u64) -> u64 {
        slot_ns / 256 * u64::from(self.0)
    }

    #[cfg(test)]
    pub(super) fn number(number: u8) -> Self {
        Self(number)
    }
}
