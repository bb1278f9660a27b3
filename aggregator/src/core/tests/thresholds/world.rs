//! A machine whose every part can fail, as a core receives it, and a store beside the core.

use std::collections::BTreeMap;

use plimsoll_schemas::hardware::{
    CGROUP_CPU_PERIODS_TOTAL, CGROUP_CPU_THROTTLED_PERIODS_TOTAL, CGROUP_MEMORY_LIMIT_BYTES,
    CGROUP_MEMORY_USED_BYTES, CLOCK_SYNCHRONIZED, CPU_THROTTLED, DISK_AVAILABLE_BYTES, DISK_INODES,
    DISK_INODES_USED, DISK_TOTAL_BYTES, FILE_HANDLES, FILE_HANDLES_LIMIT, GPU_ECC_ERRORS_TOTAL,
    GPU_FAULTS_TOTAL, GPU_MEMORY_TOTAL_BYTES, GPU_MEMORY_USED_BYTES, GPU_TEMPERATURE_CELSIUS,
    GPU_THROTTLE_REASON, GPUS_LOST, LOAD1, MEMORY_TOTAL_BYTES, MEMORY_USED_BYTES, OOM_KILLS_TOTAL,
    PRESSURE_FULL_RATIO, Reading, SENSORS_UNREAD, SWAP_TOTAL_BYTES, SWAP_USED_BYTES, Sensor,
    TEMPERATURE_CELSIUS, UPTIME_SECONDS, sensor,
};
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Labels, MeshName, Operation, RuleName, Series};
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Now;
use plimsoll_schemas::wire::{Body, Bus, Hardware, Latency};

use super::*;

pub(crate) type Message = (String, Vec<u8>);

/// The other readings of a healthy machine.
const SENSORS: [(&Sensor, f64); 18] = [
    (&GPU_FAULTS_TOTAL, 2.0),
    (&GPUS_LOST, 0.0),
    (&SENSORS_UNREAD, 0.0),
    (&GPU_ECC_ERRORS_TOTAL, 3.0),
    (&CPU_THROTTLED, 0.0),
    (&CGROUP_MEMORY_LIMIT_BYTES, 100.0),
    (&CGROUP_MEMORY_USED_BYTES, 50.0),
    (&CGROUP_CPU_PERIODS_TOTAL, 1_000.0),
    (&CGROUP_CPU_THROTTLED_PERIODS_TOTAL, 900.0),
    (&PRESSURE_FULL_RATIO, 0.01),
    (&OOM_KILLS_TOTAL, 7.0),
    (&DISK_INODES, 100.0),
    (&DISK_INODES_USED, 50.0),
    (&FILE_HANDLES, 10.0),
    (&FILE_HANDLES_LIMIT, 100.0),
    (&CLOCK_SYNCHRONIZED, 1.0),
    (&UPTIME_SECONDS, 1_000.0),
    (&LOAD1, 0.1),
];

/// All is well with it until something is set otherwise.
pub(crate) struct World {
    pub(crate) core: Core,
    pub(crate) node: Speaker,
    /// Another node of the same name.
    pub(crate) twin: Option<Speaker>,
    pub(crate) now: Now,
    pub(crate) is_mute: bool,
    is_cut_off: bool,
    /// How long its samples take; `None` while there are none.
    pub(crate) takes_ms: Option<u64>,
    pub(crate) samples: u64,
    pub(crate) bus: Bus,
    pub(crate) counters: Vec<(Series, f64)>,
    pub(crate) gauge: Option<f64>,
    pub(crate) memory: f64,
    pub(crate) swap: f64,
    pub(crate) disk: f64,
    pub(crate) cpu_celsius: f64,
    pub(crate) gpu_celsius: f64,
    pub(crate) gpu_memory: f64,
    pub(crate) throttled: f64,
    /// Sensors that a machine has once, by name.
    pub(crate) sensors: BTreeMap<&'static str, f64>,
    pub(crate) clock_ahead_s: u32,
    /// The aggregator's own round trip to the broker, and how long messages are under way.
    pub(crate) round_trip: Duration,
    pub(crate) way: Duration,
    pub(crate) pending: u64,
    pub(crate) lost: Option<Message>,
    pub(crate) stores: bool,
    pub(crate) broker_refuses: bool,
    /// Of the aggregator's own tasks.
    pub(crate) task_restarts: u64,
    read: u64,
}

impl World {
    pub(crate) fn new(rules: Rules) -> Self {
        let mut core = Core::new(MeshName::new("m").unwrap(), rules, start());
        Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
        let bus = Bus {
            breaker_state: Some(0),
            round_trip_ns: Some(MS),
            outbox_depth: 3,
            outbox_bytes: 900,
            ..Bus::default()
        };
        Self {
            core,
            node: Speaker::new("a"),
            twin: None,
            now: start(),
            is_mute: false,
            is_cut_off: false,
            takes_ms: Some(1),
            samples: 40,
            bus,
            counters: Vec::new(),
            gauge: Some(1.0),
            memory: 0.5,
            swap: 0.0,
            disk: 0.5,
            cpu_celsius: 50.0,
            gpu_celsius: 50.0,
            gpu_memory: 0.5,
            throttled: 0.0,
            sensors: SENSORS.into_iter().map(|(sensor, value)| (sensor.name, value)).collect(),
            clock_ahead_s: 0,
            round_trip: Duration::from_millis(1),
            way: Duration::ZERO,
            pending: 0,
            lost: None,
            stores: true,
            broker_refuses: false,
            task_restarts: 0,
            read: 0,
        }
    }

    pub(crate) fn live(&mut self) {
        self.now = self.now.after(SECOND);
        if !self.is_mute && !self.is_cut_off {
            let (samples, bus) = (self.latency(), self.bus.clone());
            let hardware = Hardware::all(self.readings());
            for body in [samples, Body::Hardware(hardware), Body::Bus(bus)] {
                let message = self.node.message(self.now, body, false);
                self.deliver(&message);
            }
        }
        let (now, twin) = (self.now, self.twin.as_mut());
        if let Some(message) = twin.map(|twin| twin.send(now, MS, 1)) {
            self.deliver(&message);
        }
        if !self.is_cut_off {
            let round_trip = BusEvent::RoundTrip(self.round_trip);
            self.core.on_bus_event(self.now.mono, &round_trip);
        }
        self.core.on_deadline(self.now);
        self.send_and_store();
    }

    /// Whether the broker does not answer.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// The broker answers, or does no more.
    pub(crate) fn set_broker(&mut self, answers: bool) {
        self.is_cut_off = !answers;
        let (delivery, server_version) = (Delivery::JetStream, String::new());
        let event = match answers {
            true => BusEvent::Connected { delivery, server_version, payload_bytes_max: 0 },
            false => BusEvent::Disconnected,
        };
        self.core.on_bus_event(self.now.mono, &event);
    }

    pub(crate) fn lives(&mut self, seconds: u32) {
        (0..seconds).for_each(|_| self.live());
    }

    pub(crate) fn deliver(&mut self, (subject, payload): &Message) {
        self.read += 1;
        let sent = self.now.wall.plus(self.clock_ahead_s * SECOND).minus(self.way);
        let message = Delivered {
            lane: Lane::Normal,
            stream_seq: self.read,
            pending: self.pending,
            at: Some(self.now.wall),
            sent: Some(sent),
            subject: subject.to_owned(),
            payload: Bytes::copy_from_slice(payload),
        };
        // What cannot be read is counted, which a rule watches.
        let _read = self.core.on_message(self.now, &message);
    }

    /// What a sensor reads from now on.
    pub(crate) fn sense(&mut self, sensor: &Sensor, value: f64) {
        self.sensors.insert(sensor.name, value);
    }

    /// What a sensor counts grows.
    pub(crate) fn tick(&mut self, sensor: &Sensor, amount: f64) {
        *self.sensors.entry(sensor.name).or_default() += amount;
    }

    pub(crate) fn count(&mut self, name: &str, amount: f64) {
        self.counters = vec![(Series::plain(Operation::new(name).unwrap()), amount)];
    }

    fn latency(&mut self) -> Body {
        let mut samples = Histogram::default();
        if let Some(ms) = self.takes_ms {
            samples.record_n(ms * MS, self.samples);
        }
        let series = |name: &str| Series::plain(Operation::new(name).unwrap());
        let operations = ["epoch_hook", "kernel_fetch", "publish"];
        let some = samples.count() > 0;
        let all = operations.iter().filter(|_| some);
        let histograms: Vec<_> = all.map(|name| (series(name), samples.clone())).collect();
        self.node.record(samples.count() * histograms.len() as u64);
        let gauges = self.gauge.into_iter().map(|depth| (series("depth"), depth)).collect();
        Body::Latency(Latency { histograms, counters: std::mem::take(&mut self.counters), gauges })
    }

    fn readings(&self) -> Vec<Reading> {
        let of = |sensor: &Sensor, labels: &[(&str, &str)], value| {
            Reading::ok(sensor, Labels::new(labels.iter().copied()).unwrap(), value)
        };
        let reason = [("gpu", "1"), ("reason", "hw_thermal_slowdown")];
        let reading = |(name, value): (&&'static str, &f64)| {
            let sensor = sensor(name).unwrap();
            let of_memory = [("resource", "memory")];
            let labels = if *sensor == PRESSURE_FULL_RATIO { &of_memory[..] } else { &[] };
            of(sensor, labels, *value)
        };
        let mut readings: Vec<_> = self.sensors.iter().map(reading).collect();
        readings.extend([
            of(&MEMORY_TOTAL_BYTES, &[], 100.0),
            of(&MEMORY_USED_BYTES, &[], 100.0 * self.memory),
            of(&SWAP_TOTAL_BYTES, &[], 100.0),
            of(&SWAP_USED_BYTES, &[], 100.0 * self.swap),
            of(&DISK_TOTAL_BYTES, &[("mount", "/")], 100.0),
            of(&DISK_AVAILABLE_BYTES, &[("mount", "/")], 90.0),
            of(&DISK_TOTAL_BYTES, &[("mount", "/data")], 100.0),
            of(&DISK_AVAILABLE_BYTES, &[("mount", "/data")], 100.0 * (1.0 - self.disk)),
            of(&TEMPERATURE_CELSIUS, &[("component", "nvme Composite")], 99.0),
            of(&TEMPERATURE_CELSIUS, &[("component", "coretemp Package id 0")], self.cpu_celsius),
            of(&GPU_TEMPERATURE_CELSIUS, &[("gpu", "0")], 40.0),
            of(&GPU_TEMPERATURE_CELSIUS, &[("gpu", "1")], self.gpu_celsius),
            of(&GPU_MEMORY_TOTAL_BYTES, &[("gpu", "1")], 100.0),
            of(&GPU_MEMORY_USED_BYTES, &[("gpu", "1")], 100.0 * self.gpu_memory),
            of(&GPU_THROTTLE_REASON, &[("gpu", "1"), ("reason", "sw_power_cap")], 1.0),
            of(&GPU_THROTTLE_REASON, &reason, self.throttled),
        ]);
        readings
    }

    fn send_and_store(&mut self) {
        while let Some(due) = self.core.notifications().next_due(self.now.mono) {
            match self.broker_refuses {
                true => self.core.notifications().on_refused(due.token),
                false => self.core.notifications().on_delivered(due.token),
            }
        }
        if self.core.take_changes(self.now.wall).is_some() {
            match self.stores {
                true => self.core.on_stored(self.now.wall, SECOND, true),
                false => self.core.on_changes_lost(),
            }
        }
    }

    /// The state of a rule's alert, the greatest over all scopes.
    pub(crate) fn state(&self, rule: &RuleName) -> AlertState {
        let found = self.core.alerting.alerts.active().filter(|(key, _)| key.rule == *rule);
        found.map(|(_, state)| state).max().unwrap_or_default()
    }
}
