//! Cost of decoding and merging one snapshot of 1 000 samples: ours, the `hdrhistogram` crate, and
//! a scan that only reads the numbers. `--json` prints the table as JSON. The contenders alternate
//! in one run, each with 64 different snapshots, so that no branch predictor learns them; a figure
//! is the median over the rounds.
//!
//! `cargo bench -p plimsoll-aggregator --bench merge_speed [-- --json]`

use std::hint::black_box;

use hdrhistogram::serialization::Deserializer;
use plimsoll_clock::Clock;
use plimsoll_schemas::histogram::{
    Distribution, ExactFigures, Histogram, Overs, Packed, codec, layout,
};
use plimsoll_schemas::random::SplitMix64;
use plimsoll_schemas::time::nanos;

const SAMPLES: u64 = 1_000;
const SNAPSHOTS: usize = 64;
const ROUNDS: usize = 201;
/// Bytes of a V2 header, which the scan skips.
const HEADER_BYTES: usize = 40;

/// A shape of latencies: its name, and a sample of it.
type Shape = (&'static str, fn(&mut Dice) -> f64);

const SHAPES: [Shape; 3] = [
    ("lognormal", |dice| 10e6 * (0.25 * dice.normal()).exp()),
    ("two_peaks", |dice| {
        let median = if dice.unit() < 0.7 { 60e3 } else { 10e6 };
        median * (0.1 * dice.normal()).exp()
    }),
    ("nine_decades", |dice| 3.6e3 * 10_f64.powf(9.0 * dice.unit())),
];

struct Dice(SplitMix64);

impl Dice {
    /// Above 0 and at most 1.
    fn unit(&mut self) -> f64 {
        self.0.unit() + f64::EPSILON / 2.0
    }

    /// Of mean 0 and deviation 1 (Box and Muller).
    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
    fn sample(&mut self, shape: &Shape) -> u64 {
        shape.1(self) as u64
    }
}

/// The exact figures and the bytes of one series in one snapshot.
struct Snapshot {
    exact: ExactFigures,
    bytes: Vec<u8>,
}

impl Snapshot {
    fn of(shape: &Shape, dice: &mut Dice) -> Self {
        let mut histogram = Histogram::default();
        (0..SAMPLES).for_each(|_| histogram.record(dice.sample(shape)));
        let bytes = codec::encode(histogram.counts()).expect("a thousand samples can be written");
        Self { exact: histogram.exact(), bytes }
    }

    fn packed(&self) -> Packed {
        Packed::try_from_v2(self.exact, &self.bytes, Overs::default(), None)
            .expect("what was just written can be read")
    }
}

/// A distribution that has samples in this many buckets.
fn packed_with(buckets: usize, shape: &Shape, dice: &mut Dice) -> Packed {
    let mut histogram = Histogram::default();
    while histogram.counts().iter().count() < buckets {
        histogram.record(dice.sample(shape));
    }
    Packed::from(&histogram)
}

/// The sum of all numbers of a payload: what any reader has to do at least.
#[inline(never)]
fn scan(mut bytes: &[u8]) -> i64 {
    let mut sum = 0_i64;
    while let Some(number) = read_zigzag(&mut bytes) {
        sum = sum.wrapping_add(number);
    }
    sum
}

/// Reads one ZigZag LEB128-64b9B number, in the plainest way.
fn read_zigzag(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0_u64;
    for position in 0..9 {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        if position == 8 {
            value |= u64::from(*first) << 56;
            break;
        }
        value |= u64::from(first & 0x7f) << (7 * position);
        if first & 0x80 == 0 {
            break;
        }
    }
    Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
}

/// What is done with all snapshots in one turn.
type Contender<'a> = (&'static str, Box<dyn FnMut() + 'a>);

fn contenders<'a>(
    snapshots: &'a [Snapshot],
    packed: &'a [Packed],
    pairs: &'a [(Packed, Packed)],
) -> Vec<Contender<'a>> {
    let mut reader = Deserializer::new();
    let (digits, most) = (layout::DIGITS, layout::MAX_NS);
    let mut theirs = hdrhistogram::Histogram::<u64>::new_with_bounds(layout::LOW_NS, most, digits)
        .expect("the layout's bounds are valid");

    let scan = move || {
        for one in snapshots {
            black_box(scan(black_box(&one.bytes[HEADER_BYTES..])));
        }
    };

    // As in a running slot of the fleet, the cells are there and no bucket is large.
    let mut running = Histogram::default();
    packed.iter().for_each(|one| running.merge_packed(one));
    let running_too = running.clone();

    let check_and_keep = move || snapshots.iter().for_each(|one| drop(black_box(one).packed()));

    let core_way = move || {
        let mut fleet = running.clone();
        for one in snapshots {
            let kept = black_box(one).packed();
            fleet.merge_packed(&kept);
            black_box(kept);
        }
        black_box(fleet);
    };

    let merge_packed = move || {
        let mut sum = running_too.clone();
        packed.iter().for_each(|one| sum.merge_packed(black_box(one)));
        black_box(sum);
    };

    let join = move || {
        for (one, two) in pairs {
            let mut one = one.clone();
            one.merge(black_box(two));
            black_box(one);
        }
    };

    let hdrhistogram = move || {
        for one in snapshots {
            let mut bytes = black_box(&one.bytes[..]);
            let read: hdrhistogram::Histogram<u64> =
                reader.deserialize(&mut bytes).expect("the bytes are good");
            theirs.add(&read).expect("both have one layout");
        }
    };

    vec![
        ("scan", Box::new(scan)),
        ("check_and_keep", Box::new(check_and_keep)),
        ("core_way", Box::new(core_way)),
        ("merge_packed", Box::new(merge_packed)),
        ("packed_500_and_100", Box::new(join)),
        ("hdrhistogram", Box::new(hdrhistogram)),
    ]
}

/// Nanoseconds a snapshot of each contender, at the median of the rounds.
fn measure(shape: &Shape) -> Vec<(&'static str, f64)> {
    let mut dice = Dice(SplitMix64(1));
    let snapshots: Vec<_> = (0..SNAPSHOTS).map(|_| Snapshot::of(shape, &mut dice)).collect();
    let packed: Vec<_> = snapshots.iter().map(Snapshot::packed).collect();
    let pair = |_| (packed_with(500, shape, &mut dice), packed_with(100, shape, &mut dice));
    let pairs: Vec<_> = (0..SNAPSHOTS).map(pair).collect();

    let mut contenders = contenders(&snapshots, &packed, &pairs);
    let mut times = vec![Vec::new(); contenders.len()];
    let clock = Clock::start();
    for _ in 0..ROUNDS {
        for ((_, turn), times) in contenders.iter_mut().zip(&mut times) {
            let started = clock.now().mono;
            turn();
            times.push(nanos(clock.now().mono.since(started)));
        }
    }

    let median = |times: &mut Vec<u64>| {
        times.sort_unstable();
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let median = times[ROUNDS / 2] as f64 / SNAPSHOTS as f64;
        median
    };
    contenders.iter().map(|(name, _)| *name).zip(times.iter_mut().map(median)).collect()
}

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let mut tables = Vec::new();
    for shape in &SHAPES {
        let figures = measure(shape);

        let of =
            |wanted| figures.iter().find(|(name, _)| *name == wanted).map_or(f64::NAN, |f| f.1);
        let ratios = [
            ("hdrhistogram / core_way", of("hdrhistogram") / of("core_way")),
            ("core_way / scan", of("core_way") / of("scan")),
        ];

        if json {
            let map = |pairs: &[(&'static str, f64)]| {
                pairs
                    .iter()
                    .map(|(name, n)| ((*name).to_owned(), serde_json::Value::from(*n)))
                    .collect()
            };
            let (ns, ratios): (serde_json::Value, serde_json::Value) =
                (map(&figures), map(&ratios));
            tables.push(serde_json::json!({ "shape": shape.0, "ns": ns, "ratios": ratios }));
            continue;
        }

        println!("{}, ns a snapshot of {SAMPLES} samples", shape.0);
        figures.iter().for_each(|(name, ns)| println!("  {name:<26}{ns:>9.0}"));
        ratios.iter().for_each(|(name, ratio)| println!("  {name:<26}{ratio:>9.2}"));
    }
    if json {
        println!("{}", serde_json::Value::from(tables));
    }
}
