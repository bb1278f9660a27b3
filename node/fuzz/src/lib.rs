//! What must hold whatever bytes come from outside: each function takes any bytes and panics
//! where one of these rules is broken.
//!
//! The target `fuzz-rule` puts a coverage-guided fuzzer in front of one of [`RULES`]; the test runs
//! all over their seeds. Those of OTLP are the official SDK's, by `otlp_seeds.py`. With cargo-fuzz
//! and a nightly toolchain, ten minutes of one:
//!
//! ```text
//! RULE=dogstatsd CARGO_PROFILE_RELEASE_LTO=off cargo +nightly fuzz run --fuzz-dir node/fuzz \
//!     --features fuzzer fuzz-rule node/fuzz/corpus/dogstatsd node/fuzz/seeds/dogstatsd \
//!     -- -max_total_time=600
//! ```

use std::time::Duration;

use plimsoll_node::core::Bounds;
use plimsoll_node::core::intake::glob::Glob;
use plimsoll_node::core::intake::lines::{TimeUnit, Unit, ValueUnit};
use plimsoll_node::core::intake::otlp;
use plimsoll_node::core::intake::otlp::{LabelOf, SpanRule};
use plimsoll_node::core::intake::promtext::{Format, Page, Scrape, Target};
use plimsoll_node::core::{Core, Identity};
use plimsoll_profile::{flame, pprof as profile_file, subtract, svg};
use plimsoll_schemas::ids::{Labels, MeshName, NodeName, Operation};
use plimsoll_schemas::limits::wire::CONFIRMED_LIMITS_MAX;
use plimsoll_schemas::subject::{Lane, SnapshotKind, SnapshotSubject};
use plimsoll_schemas::time::{Mono, Now, Wall};
use plimsoll_schemas::transport::{BusEvent, Delivery, Publish};
use plimsoll_schemas::wire::confirmation::{self, Confirmation, LatencyLimit};
use plimsoll_schemas::wire::{self, frame};

/// What holds for any bytes, and where some that are valid are.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub name: &'static str,
    /// A folder with at least three files, from this one.
    pub seeds: &'static str,
    pub check: fn(&[u8]),
}

pub const RULES: [Rule; 7] = [
    Rule { name: "dogstatsd", seeds: "seeds/dogstatsd", check: dogstatsd },
    Rule { name: "otlp", seeds: "seeds/otlp", check: otlp },
    Rule { name: "frames", seeds: "seeds/frames", check: frames },
    Rule { name: "promtext", seeds: "seeds/promtext", check: promtext },
    Rule { name: "confirmations", seeds: "seeds/confirmations", check: confirmations },
    Rule { name: "pprof", seeds: "../../tests/data/pprof", check: pprof },
    Rule { name: "wire", seeds: "../../tests/data/wire/v1", check: wire },
];

const NODE: &str = "n";
const MESH: &str = "m";

fn identity() -> Identity {
    let name = "a constant name of plain letters";
    let (mesh, node) = (MeshName::new(MESH).expect(name), NodeName::new(NODE).expect(name));
    Identity { mesh, node, labels: Labels::default() }
}

fn node() -> (Core, Now) {
    node_within(Bounds::default())
}

fn node_within(bounds: Bounds) -> (Core, Now) {
    let now = Now { mono: Mono(1), wall: Wall(1_700_000_000_000_000_000) };
    let mut core = Core::new(identity(), bounds, now);

    core.on_bus_event(
        now,
        &BusEvent::Connected {
            delivery: Delivery::JetStream,
            server_version: String::new(),
            payload_bytes_max: 0,
        },
    );

    let limit = |name, limit_ns| LatencyLimit {
        operation: Operation::new(name).expect("a constant name of plain letters"),
        limit_ns,
        allowed_ppm: 10_000,
    };

    let limits = vec![limit("epoch_hook", 18_000_000), limit("a", 1_000), limit("x", 7)];
    let node = identity().node;
    let given = Confirmation { behind: true, limits, ..Confirmation::of(node) };
    assert_eq!(core.on_confirmation(now, &confirmation::encode(&given)), Ok(()));
    (core, now)
}

/// A node reads the bytes as datagrams (cut at 0xff): every message it seals is readable and
/// holds every sample that the node counts as taken.
fn dogstatsd(bytes: &[u8]) {
    let (mut core, now) = node();
    for datagram in bytes.split(|byte| *byte == 0xff) {
        core.on_datagram(now, datagram);
    }
    check_sealed(core, now);
}

/// A node reads the bytes as one frame: what can be read comes back as it was written, and what
/// the node makes of it can be read by an aggregator.
fn frames(bytes: &[u8]) {
    if let Some(prefix) = bytes.first_chunk() {
        let _any_length: Result<_, _> = frame::length(*prefix);
    }
    let Ok(frame) = frame::decode(bytes) else { return };
    if let Ok(written) = frame::encode(&frame) {
        assert_eq!(frame::decode(&written[frame::PREFIX_BYTES..]), Ok(frame.clone()));
    }
    let (mut core, now) = node();
    let seq = frame.seq;
    assert_eq!(core.on_frame(now, frame.clone()), seq);
    let taken = core.status().intake.samples;
    assert_eq!(core.on_frame(now, frame), seq);
    assert_eq!(core.status().intake.samples, taken, "a frame counts once");
    check_sealed(core, now);
}

/// A node reads the bytes as bodies of OTLP, of metrics and of traces in either encoding. A
/// malformed body changes nothing. A repeated body adds only the points that are marked as new.
/// Every message that the node makes of them is readable.
fn otlp(bytes: &[u8]) {
    for signal in [otlp::Signal::Metrics, otlp::Signal::Traces] {
        for encoding in [otlp::Encoding::Protobuf, otlp::Encoding::Json] {
            let (mut core, now) = node_of_spans();
            let now = now.after(Duration::from_secs(1));

            let Ok(outcome) = core.on_otlp(now, signal, encoding, bytes) else {
                let status = core.status();
                assert_eq!((status.intake.samples, status.series), (0, 0), "nothing is taken");
                continue;
            };

            assert_eq!(outcome.refused > 0, outcome.message.is_some());
            assert!(core.on_otlp(now, signal, encoding, bytes).is_ok(), "it can be read again");
            check_sealed(core, now);
        }
    }
}

/// A node to which each span is a latency.
fn node_of_spans() -> (Core, Now) {
    let mut bounds = Bounds::default();
    bounds.rules.otlp.spans = vec![SpanRule {
        name: Glob::new("*"),
        attributes: Vec::new(),
        operation: None,
        labels: LabelOf::read("http.route").into_iter().collect(),
    }];
    node_within(bounds)
}

/// A node reads the bytes as pages of one target in both formats (cut at 0xff), five seconds
/// apart: every message it seals is readable and holds every sample that the node counts as taken.
fn promtext(bytes: &[u8]) {
    for format in [Format::Text, Format::OpenMetrics] {
        let mut bounds = Bounds::default();
        bounds.rules.targets = vec![Target {
            name: "http://t/".to_owned(),
            labels: Labels::default(),
            unit: Unit(Some(ValueUnit::Time(TimeUnit::Milliseconds))),
            allow: Vec::new(),
            series_max: 50,
        }];

        let (mut core, mut now) = node_within(bounds);

        for body in bytes.split(|byte| *byte == 0xff) {
            let page = Page { format, body: body.to_vec(), is_whole: true };
            let scrape = Scrape { target: 0, took: Duration::ZERO, page: Ok(page) };
            now = now.after(Duration::from_secs(5));
            let _warnings = core.on_scrape(now, &scrape);
            assert!(core.status().intake.scrapes[0].series <= 50);
        }

        check_sealed(core, now);
    }
}

/// A node reads the bytes as a confirmation: a readable one encodes to the same bytes, the state
/// that the node keeps from it is bounded, and it loses no sample.
fn confirmations(bytes: &[u8]) {
    let node_name = identity().node;
    if let Ok(read) = confirmation::decode(&node_name, bytes) {
        assert_eq!(confirmation::decode(&node_name, &confirmation::encode(&read)), Ok(read));
    }
    let (mut core, now) = node();
    let known = core.status().limits;
    core.on_datagram(now, b"epoch_hook:18:18.000001|ms\na:1|ms");
    let accepted = core.on_confirmation(now, bytes);
    let limits = core.status().limits;
    assert!(accepted.is_ok() || limits == known, "what is refused sets no limit");
    assert!(limits.len() <= known.len() + CONFIRMED_LIMITS_MAX);
    check_sealed(core, now);
}

/// An aggregator reads the bytes as a message of each kind: what can be read comes back as it
/// was written.
fn wire(bytes: &[u8]) {
    for kind in SnapshotKind::ALL {
        let Identity { mesh, node, .. } = identity();
        let subject = SnapshotSubject { mesh, lane: Lane::Normal, node, kind };
        let Ok(snapshot) = wire::decode(&subject, bytes) else { continue };
        let written = wire::encode(&snapshot);
        assert_eq!(wire::decode(&subject, &written), Ok(snapshot));
    }
}

/// An aggregator reads the bytes as a profile that a node sent: what can be read comes back as it
/// was written, does not differ from itself, and can be drawn.
fn pprof(bytes: &[u8]) {
    let Ok(profile) = profile_file::decode(bytes) else { return };
    if let Ok(written) = profile_file::encode(&profile) {
        assert_eq!(profile_file::decode(&written).as_ref(), Ok(&profile));
    }
    if let Ok(difference) = subtract(&profile, &profile, None) {
        assert_eq!(difference.rank(10), []);
    }
    let _any_picture: String = svg::render("profile", &flame::of_profile(&profile, None));
}

fn check_sealed(mut core: Core, now: Now) {
    let taken = core.status().intake.samples;
    let later = now.after(Duration::from_secs(2));
    core.on_deadline(later);
    let mut carried = 0;
    while let Some(Publish { subject, payload, ticket, .. }) = core.next_publish(later) {
        let subject: SnapshotSubject = subject.parse().expect("a node publishes under its name");
        let snapshot = wire::decode(&subject, &payload).expect("what a node seals can be read");
        carried += snapshot.body.samples();
        core.on_bus_event(later, &BusEvent::Acknowledged { ticket, duplicate: false });
    }
    assert_eq!(carried, taken, "every sample taken stands in a message");
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Places of a seed that are tried.
    const PLACES: usize = 250;

    /// Every seed, whole, cut short, and with a byte changed, at places all over it.
    fn run(Rule { name, seeds, check }: Rule) {
        println!("{name}");
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join(seeds);
        let mut count = 0;
        for entry in std::fs::read_dir(seeds).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            check(&bytes);
            for at in (0..bytes.len()).step_by(bytes.len().div_ceil(PLACES).max(1)) {
                check(&bytes[..at]);
                let mut changed = bytes.clone();
                changed[at] ^= 0x41;
                check(&changed);
            }
            count += 1;
        }
        assert!(count >= 3, "{count} seeds");
    }

    #[test]
    fn no_bytes_near_a_seed_break_a_rule() {
        RULES.into_iter().for_each(run);
    }
}
