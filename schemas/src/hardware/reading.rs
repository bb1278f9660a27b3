//! One reading of a sensor: a value, or the reason why there is none. A missing value is never
//! replaced by zero.

use serde::{Deserialize, Serialize};

use super::catalogue::Sensor;
use crate::ids::Labels;

/// Whether a reading has a value, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SensorState {
    /// The value is current.
    Ok,
    /// This machine does not have the sensor, or its driver does not support it.
    Unsupported,
    /// The last value is too old.
    Stale,
    /// The read failed.
    Failed,
}

impl SensorState {
    /// The state's value as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unsupported => "unsupported",
            Self::Stale => "stale",
            Self::Failed => "failed",
        }
    }
}

/// Why a sensor has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingReading {
    /// Never [`SensorState::Ok`].
    pub state: SensorState,
    /// A bounded label such as `no_driver` or `not_a_number`: letters, digits and `_`.
    pub reason: &'static str,
}

impl MissingReading {
    /// The machine does not have the sensor.
    #[must_use]
    pub const fn unsupported(reason: &'static str) -> Self {
        Self { state: SensorState::Unsupported, reason }
    }

    /// The read failed.
    #[must_use]
    pub const fn failed(reason: &'static str) -> Self {
        Self { state: SensorState::Failed, reason }
    }

    /// The last value is too old.
    #[must_use]
    pub const fn stale(reason: &'static str) -> Self {
        Self { state: SensorState::Stale, reason }
    }
}

/// One sensor at one point in time. `value` is present exactly when `state` is [`SensorState::Ok`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Reading {
    /// A [`Sensor::name`].
    pub sensor: String,
    /// Which one, if a machine has several: `core`, `gpu`, `device`, ...
    #[serde(default)]
    pub labels: Labels,
    /// Whether there is a value, and if not, why.
    pub state: SensorState,
    /// The value in the unit that the name ends with; finite.
    #[serde(default)]
    pub value: Option<f64>,
    /// Why there is no value; see [`MissingReading::reason`]. At most `TOKEN_BYTES_MAX` bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
}

impl Reading {
    /// A current value. One that is not finite is a failed reading.
    #[must_use]
    pub fn ok(sensor: &Sensor, labels: Labels, value: f64) -> Self {
        if !value.is_finite() {
            return Self::absent(sensor, labels, MissingReading::failed("not_finite"));
        }
        let (state, value, reason) = (SensorState::Ok, Some(value), None);
        Self { sensor: sensor.name.to_owned(), labels, state, value, reason }
    }

    /// A reading without a value.
    #[must_use]
    pub fn absent(sensor: &Sensor, labels: Labels, missing: MissingReading) -> Self {
        let (state, reason) = (missing.state, Some(missing.reason.into()));
        Self { sensor: sensor.name.to_owned(), labels, state, value: None, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::LOAD1;

    #[test]
    fn a_value_that_is_no_number_is_a_failed_reading() {
        let reading = Reading::ok(&LOAD1, Labels::default(), f64::NAN);
        assert_eq!((reading.state, reading.value), (SensorState::Failed, None));
    }
}
