//! A metric's value as a threshold rule compares it.

use plimsoll_schemas::ids::Labels;

/// What a threshold is compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The value; of several the worst.
    pub value: f64,
    /// Which one it is, where there are several.
    pub labels: Labels,
}
