//! What simulated nodes send: latencies of three operations, sensors, bus reports, and the series
//! with which a hostile node floods a mesh.

use std::sync::OnceLock;

use anyhow::Result;
use plimsoll_schemas::hardware::{
    CPU_CORE_USAGE_RATIO, CPU_USAGE_RATIO, DISK_AVAILABLE_BYTES, GPU_MEMORY_USED_BYTES,
    GPU_POWER_WATTS, GPU_TEMPERATURE_CELSIUS, GPU_UTILIZATION_RATIO, LOAD1, LOAD5, LOAD15,
    MEMORY_AVAILABLE_BYTES, MEMORY_TOTAL_BYTES, MEMORY_USED_BYTES, NETWORK_RECEIVE_BYTES_TOTAL,
    NETWORK_TRANSMIT_BYTES_TOTAL, PROCESS_CPU_RATIO, PROCESS_RESIDENT_BYTES, Reading, Sensor,
    TEMPERATURE_CELSIUS,
};
use plimsoll_schemas::histogram::{Histogram, layout};
use plimsoll_schemas::ids::{Labels, Operation, Series};
use plimsoll_schemas::wire::Latency;

use super::shape::{Shape, Tables, Temper};
use crate::sim::rng::Rng;

/// The operation of the node that measures freshness.
pub const PROBE: &str = "probe";
/// Medians of the operations of a usual node, well below the built-in budgets.
const EPOCH_NS: u64 = 7_000_000;
const HIT_NS: u64 = 900_000;
const MISS_NS: u64 = 14_000_000;
const PUBLISH_NS: u64 = 2_500_000;
/// One fetch in this many is a miss.
const MISS_ONE_IN: u64 = 5;
/// Series that a flooding node makes up in each interval, under names never used before.
const FLOOD_SERIES: u64 = 512;
/// Samples of each operation of a node with wide histograms, from 1 us to 1 h.
const WIDE_SAMPLES: u64 = 4_000;

/// Series of a message of the largest size, each with a sample in every bucket.
const LARGEST_SERIES: usize = 20;

/// What one node does with its intervals.
#[derive(Clone, Debug)]
pub enum NodeProfile {
    /// Three operations, as a job beside a node reports them.
    Job([Shape; 4]),
    /// One sample of [`PROBE`].
    Probe,
    /// Hostile: new operations all the time.
    Flood,
    /// Hostile: a sample in almost every bucket.
    Wide,
}

impl NodeProfile {
    /// The shapes of a usual job on one node.
    pub fn job(rng: &mut Rng, tables: &Tables) -> Self {
        let temper = Temper::draw(rng);
        let medians = [EPOCH_NS, HIT_NS, MISS_NS, PUBLISH_NS];
        Self::Job(medians.map(|median| Shape::draw(rng, tables, median, temper)))
    }

    /// Samples of one interval, when a job has `samples` of each operation.
    pub fn samples(&self, samples: u64) -> u64 {
        match self {
            Self::Job(_) => 3 * samples,
            Self::Probe => 1,
            Self::Flood => FLOOD_SERIES,
            Self::Wide => 3 * WIDE_SAMPLES,
        }
    }
}

/// Names and tables that all nodes share.
pub struct Palette {
    series: [Series; 4],
    probe: Series,
    tables: Tables,
    readings: Vec<Reading>,
    largest: OnceLock<Latency>,
}

impl Palette {
    /// Makes them once.
    ///
    /// # Errors
    /// Never: the names are constants.
    pub fn new() -> Result<Self> {
        let plain = |name: &str| Operation::new(name).map(Series::plain);
        let fetch = |outcome: &str| {
            let labels = Labels::new([("outcome", outcome)])?;
            Ok::<_, anyhow::Error>(Series { operation: Operation::new("kernel_fetch")?, labels })
        };
        Ok(Self {
            series: [plain("epoch_hook")?, fetch("hit")?, fetch("miss")?, plain("publish")?],
            probe: plain(PROBE)?,
            tables: Tables::new(),
            readings: readings()?,
            largest: OnceLock::new(),
        })
    }

    /// The tables that shapes draw from.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// An interval that makes a message of the largest size; made when the first node needs it.
    pub fn largest(&self) -> &Latency {
        self.largest.get_or_init(largest)
    }

    /// One interval of a node.
    pub fn latency(
        &self,
        profile: &NodeProfile,
        rng: &mut Rng,
        samples: u64,
        round: u64,
    ) -> Latency {
        let histograms = match profile {
            NodeProfile::Job(shapes) => self.job(shapes, rng, samples),
            NodeProfile::Probe => vec![(self.probe.clone(), single(rng.within(1_000..=9_000_000)))],
            NodeProfile::Flood => flood(rng, round),
            NodeProfile::Wide => {
                [0, 1, 3].map(|place| (self.series[place].clone(), wide(rng))).into()
            }
        };
        Latency { histograms, ..Latency::default() }
    }

    fn job(&self, shapes: &[Shape; 4], rng: &mut Rng, samples: u64) -> Vec<(Series, Histogram)> {
        let mut drawn: [Histogram; 4] = Default::default();
        let [epoch, hit, miss, publish] = shapes;
        let [epochs, hits, misses, publishes] = &mut drawn;

        for _ in 0..samples {
            epochs.record(epoch.sample(rng, &self.tables));
            publishes.record(publish.sample(rng, &self.tables));
            if rng.below(MISS_ONE_IN) == 0 {
                misses.record(miss.sample(rng, &self.tables));
            } else {
                hits.record(hit.sample(rng, &self.tables));
            }
        }

        let all = self.series.iter().cloned().zip(drawn);
        all.filter(|(_, histogram)| !histogram.is_empty()).collect()
    }

    /// A machine's sensors: all but the size of its memory differ each time.
    pub fn sensors(&self, rng: &mut Rng) -> Vec<Reading> {
        let mut readings = self.readings.clone();
        let vary = |reading: &&mut Reading| reading.sensor != MEMORY_TOTAL_BYTES.name;
        for reading in readings.iter_mut().filter(vary) {
            let Some(value) = reading.value.as_mut() else { continue };
            // No machine of a healthy fleet is near a threshold.
            #[expect(clippy::cast_precision_loss, reason = "a number below a thousand")]
            let share = 0.5 + rng.below(1_000) as f64 / 4_000.0;
            *value *= share;
        }
        readings
    }
}

fn single(ns: u64) -> Histogram {
    let mut histogram = Histogram::default();
    histogram.record(ns);
    histogram
}

fn flood(rng: &mut Rng, round: u64) -> Vec<(Series, Histogram)> {
    let name = |n| Operation::new(format!("flood.{round}.{n}")).ok().map(Series::plain);
    let series = (0..FLOOD_SERIES).filter_map(name);
    series.map(|series| (series, single(rng.within(1_000..=1_000_000_000)))).collect()
}

/// As many samples in each octave from 1 us to 1 h.
fn wide(rng: &mut Rng) -> Histogram {
    let mut histogram = Histogram::default();
    for _ in 0..WIDE_SAMPLES {
        let octave = 1_000 << rng.below(32);
        histogram.record(rng.within(octave..=2 * octave));
    }
    histogram
}

fn largest() -> Latency {
    let mut full = Histogram::default();
    (0..layout::LEN).for_each(|bucket| full.record(layout::lowest(bucket)));
    let name = |n| Operation::new(format!("largest.{n}")).ok().map(Series::plain);
    let series = (0..LARGEST_SERIES).filter_map(name);
    Latency { histograms: series.map(|one| (one, full.clone())).collect(), ..Latency::default() }
}

/// A small machine with four cores and one GPU.
fn readings() -> Result<Vec<Reading>> {
    const GIB: f64 = 1_073_741_824.0;
    let one = |sensor: &Sensor, value| Ok(Reading::ok(sensor, Labels::default(), value));
    let of = |sensor: &Sensor, key: &str, name: &str, value| {
        Ok::<_, anyhow::Error>(Reading::ok(sensor, Labels::new([(key, name)])?, value))
    };

    [
        one(&CPU_USAGE_RATIO, 1.0),
        of(&CPU_CORE_USAGE_RATIO, "core", "0", 1.0),
        of(&CPU_CORE_USAGE_RATIO, "core", "1", 1.0),
        of(&CPU_CORE_USAGE_RATIO, "core", "2", 1.0),
        of(&CPU_CORE_USAGE_RATIO, "core", "3", 1.0),
        one(&LOAD1, 4.0),
        one(&LOAD5, 4.0),
        one(&LOAD15, 4.0),
        one(&MEMORY_TOTAL_BYTES, 64.0 * GIB),
        one(&MEMORY_USED_BYTES, 48.0 * GIB),
        one(&MEMORY_AVAILABLE_BYTES, 16.0 * GIB),
        of(&DISK_AVAILABLE_BYTES, "mount", "/", 900.0 * GIB),
        of(&NETWORK_RECEIVE_BYTES_TOTAL, "interface", "eth0", 5.0e12),
        of(&NETWORK_TRANSMIT_BYTES_TOTAL, "interface", "eth0", 4.0e12),
        of(&TEMPERATURE_CELSIUS, "component", "package", 80.0),
        one(&PROCESS_CPU_RATIO, 0.01),
        one(&PROCESS_RESIDENT_BYTES, 9.0e6),
        of(&GPU_UTILIZATION_RATIO, "gpu", "0", 1.0),
        of(&GPU_MEMORY_USED_BYTES, "gpu", "0", 70.0 * GIB),
        of(&GPU_TEMPERATURE_CELSIUS, "gpu", "0", 85.0),
        of(&GPU_POWER_WATTS, "gpu", "0", 600.0),
    ]
    .into_iter()
    .collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::ids::{Incarnation, NodeName, Seq};
    use plimsoll_schemas::limits::wire::MESSAGE_BYTES_MAX;
    use plimsoll_schemas::time::Wall;
    use plimsoll_schemas::wire::{Body, Header, Snapshot, Totals, encode};

    use super::*;

    fn habits(palette: &Palette, rng: &mut Rng) -> [NodeProfile; 4] {
        [
            NodeProfile::job(rng, palette.tables()),
            NodeProfile::Probe,
            NodeProfile::Flood,
            NodeProfile::Wide,
        ]
    }

    #[test]
    fn an_interval_holds_as_many_samples_as_its_profile_and_fits_into_one_message() {
        let (palette, mut rng) = (Palette::new().unwrap(), Rng::new(1, 1));
        for profile in habits(&palette, &mut rng) {
            let latency = palette.latency(&profile, &mut rng, 50, 7);
            assert_eq!(latency.samples(), profile.samples(50), "{profile:?}");
            let header = Header {
                node: NodeName::new("n").unwrap(),
                incarnation: Incarnation(1),
                seq: Seq(1),
                start: Wall(1),
                length_ns: 1,
                totals: Totals { recorded: latency.samples(), ..Totals::default() },
                last: false,
                successor: None,
                labels: Labels::default(),
            };
            let bytes = encode(&Snapshot { header, body: Body::Latency(latency) });
            assert!(bytes.len() <= MESSAGE_BYTES_MAX, "{profile:?}: {} bytes", bytes.len());
        }
    }

    #[test]
    fn fetches_are_hits_and_misses_and_a_flood_never_repeats_a_name() {
        let (palette, mut rng) = (Palette::new().unwrap(), Rng::new(1, 1));
        let job = NodeProfile::job(&mut rng, palette.tables());
        let names = |profile: &NodeProfile, rng: &mut Rng, round| -> Vec<String> {
            let latency = palette.latency(profile, rng, 50, round);
            latency.histograms.iter().map(|(series, _)| series.to_string()).collect()
        };
        assert_eq!(
            names(&job, &mut rng, 0),
            ["epoch_hook", "kernel_fetch{outcome=hit}", "kernel_fetch{outcome=miss}", "publish"]
        );
        let first = names(&NodeProfile::Flood, &mut rng, 0);
        let second = names(&NodeProfile::Flood, &mut rng, 1);
        assert!(first.iter().all(|name| !second.contains(name)) && first.len() == 512);
    }
}
