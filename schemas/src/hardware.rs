//! Sensor readings: every sensor the mesh knows, and what one reading of it can say.
//!
//! A sensor that cannot be read says so; it never reports a made-up zero. The catalogue is the
//! single source of metric names: a node may send only what stands here, an aggregator exposes
//! only what stands here and counts the rest.

use serde::{Deserialize, Serialize};

use crate::ids::Labels;

/// One sensor, as the mesh names it.
#[derive(Debug, PartialEq, Eq)]
pub struct Sensor {
    /// Name with its base unit at the end; the metric is `plimsoll_<name>`.
    pub name: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// True when the value only ever grows within one boot of the machine.
    pub cumulative: bool,
}

/// What a sensor had to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SensorState {
    /// The value is current.
    Ok,
    /// This machine has no such thing, or its driver cannot tell.
    Unsupported,
    /// The last value is too old to be believed.
    Stale,
    /// Reading it went wrong.
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

/// One sensor at one moment. `value` is present exactly when `state` is [`SensorState::Ok`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// A [`Sensor::name`].
    pub sensor: String,
    /// Which one, where a machine has several: `core`, `gpu`, `device`, ...
    #[serde(default)]
    pub labels: Labels,
    /// Whether there is a value, and if not, why.
    pub state: SensorState,
    /// The value in the unit that the name ends with; finite.
    #[serde(default)]
    pub value: Option<f64>,
}

impl Reading {
    /// A current value. One that is not finite is a failed reading.
    #[must_use]
    pub fn ok(sensor: &Sensor, labels: Labels, value: f64) -> Self {
        if !value.is_finite() {
            return Self::absent(sensor, labels, SensorState::Failed);
        }
        Self { sensor: sensor.name.to_owned(), labels, state: SensorState::Ok, value: Some(value) }
    }

    /// No value, and why.
    #[must_use]
    pub fn absent(sensor: &Sensor, labels: Labels, state: SensorState) -> Self {
        Self { sensor: sensor.name.to_owned(), labels, state, value: None }
    }
}

macro_rules! catalogue {
    ($($constant:ident $kind:ident $name:literal $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Sensor =
                Sensor { name: $name, help: $help, cumulative: catalogue!(@ $kind) };
        )*

        /// Every sensor of this version.
        pub const CATALOGUE: &[&Sensor] = &[$(&$constant),*];
    };
    (@ gauge) => { false };
    (@ counter) => { true };
}

catalogue! {
    CPU_USAGE_RATIO gauge "cpu_usage_ratio"
        "Share of all CPU time in use, 0 to 1";
    CPU_CORE_USAGE_RATIO gauge "cpu_core_usage_ratio"
        "Share of one core's time in use, 0 to 1";
    CPU_FREQUENCY_HERTZ gauge "cpu_frequency_hertz"
        "Clock frequency of one core";
    LOAD1 gauge "load1"
        "Runnable tasks, averaged over one minute";
    LOAD5 gauge "load5"
        "Runnable tasks, averaged over five minutes";
    LOAD15 gauge "load15"
        "Runnable tasks, averaged over fifteen minutes";
    MEMORY_TOTAL_BYTES gauge "memory_total_bytes"
        "Physical memory";
    MEMORY_USED_BYTES gauge "memory_used_bytes"
        "Physical memory in use";
    MEMORY_AVAILABLE_BYTES gauge "memory_available_bytes"
        "Physical memory that can be had without swapping";
    SWAP_TOTAL_BYTES gauge "swap_total_bytes"
        "Swap space";
    SWAP_USED_BYTES gauge "swap_used_bytes"
        "Swap space in use";
    DISK_TOTAL_BYTES gauge "disk_total_bytes"
        "Size of one mounted file system";
    DISK_AVAILABLE_BYTES gauge "disk_available_bytes"
        "Space left on one mounted file system, for ordinary users";
    DISK_USED_BYTES gauge "disk_used_bytes"
        "Space in use on one mounted file system, without what is kept for its administrator";
    NETWORK_RECEIVE_BYTES_TOTAL counter "network_receive_bytes_total"
        "Bytes received on one interface";
    NETWORK_TRANSMIT_BYTES_TOTAL counter "network_transmit_bytes_total"
        "Bytes sent on one interface";
    NETWORK_RECEIVE_ERRORS_TOTAL counter "network_receive_errors_total"
        "Packets received with errors on one interface";
    NETWORK_TRANSMIT_ERRORS_TOTAL counter "network_transmit_errors_total"
        "Packets that could not be sent on one interface";
    TEMPERATURE_CELSIUS gauge "temperature_celsius"
        "Temperature of one component";
    PROCESS_CPU_RATIO gauge "process_cpu_ratio"
        "CPU time of the node agent itself, 1 is one whole core";
    PROCESS_RESIDENT_BYTES gauge "process_resident_bytes"
        "Resident memory of the node agent itself";
    GPU_UTILIZATION_RATIO gauge "gpu_utilization_ratio"
        "Share of time in which a kernel ran on one GPU, 0 to 1";
    GPU_MEMORY_TOTAL_BYTES gauge "gpu_memory_total_bytes"
        "Memory of one GPU";
    GPU_MEMORY_USED_BYTES gauge "gpu_memory_used_bytes"
        "Memory in use on one GPU";
    GPU_MEMORY_FREE_BYTES gauge "gpu_memory_free_bytes"
        "Memory left on one GPU";
    GPU_TEMPERATURE_CELSIUS gauge "gpu_temperature_celsius"
        "Temperature of one GPU's die";
    GPU_POWER_WATTS gauge "gpu_power_watts"
        "Power draw of one GPU";
    GPU_CLOCK_HERTZ gauge "gpu_clock_hertz"
        "Clock frequency of one domain of one GPU";
    GPU_THROTTLE_REASON gauge "gpu_throttle_reason"
        "1 while one GPU's clocks are held down for the named reason";
}

/// The catalogue's entry under `name`.
#[must_use]
pub fn sensor(name: &str) -> Option<&'static Sensor> {
    CATALOGUE.iter().copied().find(|sensor| sensor.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_say_when_they_accumulate() {
        for (index, one) in CATALOGUE.iter().enumerate() {
            assert_eq!(one.cumulative, one.name.ends_with("_total"), "{}", one.name);
            assert!(CATALOGUE[index + 1..].iter().all(|other| other.name != one.name));
            assert_eq!(sensor(one.name), Some(*one));
        }
    }

    #[test]
    fn a_value_that_is_no_number_is_a_failed_reading() {
        let reading = Reading::ok(&LOAD1, Labels::default(), f64::NAN);
        assert_eq!((reading.state, reading.value), (SensorState::Failed, None));
    }
}
