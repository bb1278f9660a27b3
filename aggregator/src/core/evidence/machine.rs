//! A node's machine and its way to the broker, as they stand beside its latencies in a notice.

use plimsoll_schemas::alert::{BusContext, HardwareContext};
use plimsoll_schemas::hardware::{
    CPU_USAGE_RATIO, GPU_MEMORY_TOTAL_BYTES, GPU_MEMORY_USED_BYTES, GPU_TEMPERATURE_CELSIUS,
    GPU_THROTTLE_REASON, MEMORY_TOTAL_BYTES, MEMORY_USED_BYTES, Reading, Sensor,
    TEMPERATURE_CELSIUS,
};
use plimsoll_schemas::time::seconds;
use plimsoll_schemas::wire::Bus;

/// A GPU that has nothing to do lowers its clocks; that holds nobody up.
const IDLE: &str = "gpu_idle";

/// The worst of what the sensors of a machine say.
pub(super) fn hardware(readings: &[Reading]) -> HardwareContext {
    let of = |sensor: &'static Sensor| {
        let readings = readings.iter().filter(move |reading| reading.sensor == sensor.name);
        readings.filter_map(|reading| Some((reading, reading.value?)))
    };
    let most = |sensor| of(sensor).map(|(_, value)| value).reduce(f64::max);
    let share = |used, total| {
        let shares = of(used).filter_map(|(reading, used)| {
            let (_, total) = of(total).find(|(total, _)| total.labels == reading.labels)?;
            (total > 0.0).then_some(used / total)
        });
        shares.reduce(f64::max)
    };
    let held = of(&GPU_THROTTLE_REASON);
    let held = held.filter(|(reading, _)| reading.labels.get("reason") != Some(IDLE));
    HardwareContext {
        cpu_usage_ratio: most(&CPU_USAGE_RATIO),
        memory_used_ratio: share(&MEMORY_USED_BYTES, &MEMORY_TOTAL_BYTES),
        cpu_temperature_celsius: most(&TEMPERATURE_CELSIUS),
        gpu_temperature_celsius: most(&GPU_TEMPERATURE_CELSIUS),
        gpu_memory_used_ratio: share(&GPU_MEMORY_USED_BYTES, &GPU_MEMORY_TOTAL_BYTES),
        gpu_throttled: held.map(|(_, value)| value > 0.0).reduce(|one, other| one || other),
    }
}

/// What a node last told of its way to the broker.
pub(super) fn bus(bus: &Bus) -> BusContext {
    BusContext {
        outbox_messages: bus.outbox_messages,
        outbox_messages_max: bus.outbox_messages_max,
        pending_bytes: bus.outbox_bytes,
        rerouted: bus.rerouted,
        dropped: bus.dropped,
        round_trip_seconds: bus.round_trip_ns.map(seconds),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::hardware::SensorState;
    use plimsoll_schemas::ids::Labels;

    use super::*;

    #[test]
    fn the_worst_of_each_kind_is_told_and_what_no_sensor_says_is_not() {
        let gpu = |n: &str, reason: &str| Labels::new([("gpu", n), ("reason", reason)]).unwrap();
        let one = |n: &str| Labels::new([("gpu", n)]).unwrap();
        let none = Labels::default;
        let readings = [
            Reading::ok(&MEMORY_USED_BYTES, none(), 30.0),
            Reading::ok(&MEMORY_TOTAL_BYTES, none(), 40.0),
            Reading::ok(&GPU_TEMPERATURE_CELSIUS, one("0"), 60.0),
            Reading::ok(&GPU_TEMPERATURE_CELSIUS, one("1"), 91.0),
            Reading::ok(&GPU_MEMORY_USED_BYTES, one("0"), 9.0),
            Reading::ok(&GPU_MEMORY_USED_BYTES, one("1"), 8.0),
            Reading::ok(&GPU_MEMORY_TOTAL_BYTES, one("0"), 90.0),
            Reading::ok(&GPU_MEMORY_TOTAL_BYTES, one("1"), 10.0),
            Reading::ok(&GPU_THROTTLE_REASON, gpu("0", IDLE), 1.0),
            Reading::ok(&GPU_THROTTLE_REASON, gpu("0", "hw_slowdown"), 0.0),
            Reading::absent(&TEMPERATURE_CELSIUS, none(), SensorState::Unsupported),
        ];
        let told = HardwareContext {
            memory_used_ratio: Some(0.75),
            gpu_temperature_celsius: Some(91.0),
            gpu_memory_used_ratio: Some(0.8),
            gpu_throttled: Some(false),
            ..HardwareContext::default()
        };
        assert_eq!(hardware(&readings), told);
        let hot = Reading::ok(&GPU_THROTTLE_REASON, gpu("1", "hw_thermal_slowdown"), 1.0);
        let readings = [&readings[..], &[hot]].concat();
        assert_eq!(hardware(&readings).gpu_throttled, Some(true));
    }
}
