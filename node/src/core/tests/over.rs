//! The limits that a node received, in the messages that an aggregator reads.

use plimsoll_schemas::histogram::{Histogram, Over, Packed};
use plimsoll_schemas::ids::Series;
use plimsoll_schemas::wire::Latency;
use plimsoll_schemas::wire::confirmation::{Confirmation, LatencyLimit};

use super::*;

const LIMIT_NS: u64 = 18_000_000;
/// All in the limit's own bucket: two at or below it, three above.
const BESIDE: [u64; 5] = [LIMIT_NS - 1, LIMIT_NS, LIMIT_NS + 1, LIMIT_NS + 2, LIMIT_NS + 3];

fn confirm(core: &mut Core, now: Now, limits: &[(&str, u64)]) {
    let node = NodeName::new("n").unwrap();
    let limits = limits.iter().map(|(name, ns)| p99(name, *ns)).collect();
    let got = Confirmation { limits, ..Confirmation::of(node) };
    core.on_confirmation(now, &confirmation::encode(&got)).unwrap();
}

fn p99(name: &str, limit_ns: u64) -> LatencyLimit {
    LatencyLimit { operation: Operation::new(name).unwrap(), limit_ns, allowed_ppm: 10_000 }
}

/// What an aggregator reads of every series in what is sent now.
fn read(core: &mut Core, now: Now) -> BTreeMap<String, Packed> {
    let mut read = BTreeMap::new();
    while let Some(publish) = core.next_publish(now) {
        let subject: SnapshotSubject = publish.subject.parse().unwrap();
        let snapshot = wire::decode_packed(&subject, &publish.payload).unwrap();
        core.on_bus_event(now, &acknowledged(publish.ticket));
        if let Some(latency) = snapshot.body.into_parts().latency {
            let named = |(series, samples): (Series, Packed)| (series.to_string(), samples);
            read.extend(latency.histograms.into_iter().map(named));
        }
    }
    read
}

fn record(core: &mut Core, name: &str, tags: &str) {
    for ns in BESIDE {
        let line = format!("{name}:{}.{:06}|ms{tags}\n", ns / 1_000_000, ns % 1_000_000);
        core.on_datagram(start(), line.as_bytes());
    }
}

fn exactly(over: u64) -> Over {
    Over { over, uncertain: 0 }
}

#[test]
fn the_share_is_exact_once_the_limit_is_known_and_uncertain_before() {
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected());
    record(&mut core, "a", "|#k:v");
    confirm(&mut core, start(), &[("a", LIMIT_NS), ("b", 5)]);
    record(&mut core, "a", "|#k:v");
    record(&mut core, "a", "");
    record(&mut core, "c", "");
    let now = start().after(SECOND);
    core.on_deadline(now);
    let first = read(&mut core, now);
    assert_eq!(first["a{k=v}"].over(LIMIT_NS), Over { over: 3, uncertain: 5 });
    assert_eq!(first["a"].over(LIMIT_NS), exactly(3), "a new series has it at once");
    assert_eq!(first["c"].over(LIMIT_NS), Over { over: 0, uncertain: 5 });
    record(&mut core, "a", "|#k:v|@0.1");
    record(&mut core, "a", "|#k:v");
    let later = now.after(SECOND);
    core.on_deadline(later);
    assert_eq!(read(&mut core, later)["a{k=v}"].over(LIMIT_NS), exactly(33));
    let known = core.status().limits;
    let known: Vec<_> = known.iter().map(|of| (of.operation.as_str(), of.limit_ns)).collect();
    assert_eq!(known, [("a", LIMIT_NS), ("b", 5)]);
}

#[test]
fn waiting_messages_are_merged_and_keep_their_limits() {
    let mut core = core(Bounds {
        outbox: OutboxBounds { coalesce_messages: 1, ..OutboxBounds::default() },
        ..Bounds::default()
    });
    let mut now = start();
    for second in 0..3 {
        if second == 1 {
            confirm(&mut core, now, &[("a", LIMIT_NS)]);
        }
        record(&mut core, "a", "");
        now = now.after(SECOND);
        core.on_deadline(now);
    }
    core.on_bus_event(now, &connected());
    let sent = read(&mut core, now);
    assert_eq!(sent["a"].exact().count, 15, "one message with all that waited");
    assert_eq!(sent["a"].over(LIMIT_NS), Over { over: 6, uncertain: 5 });
}

#[test]
fn frames_are_counted_from_buckets_or_by_the_client() {
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected());
    confirm(&mut core, start(), &[("a", LIMIT_NS)]);
    for (seq, limits) in [(1, &[][..]), (2, &[1, 2, 3, LIMIT_NS]), (3, &[])] {
        let mut histogram = Histogram::default();
        histogram.watch(limits);
        BESIDE.iter().for_each(|ns| histogram.record(*ns));
        let series = Series::plain(Operation::new("a").unwrap());
        let latency = Latency { histograms: vec![(series, histogram)], ..Latency::default() };
        let frame =
            Frame { client: "job".to_owned(), seq: Seq(seq), clamped: 0, latency, last: false };
        core.on_frame(start(), frame);
    }
    record(&mut core, "a", "");
    let now = start().after(SECOND);
    core.on_deadline(now);
    let samples = &read(&mut core, now)["a"];
    assert_eq!(samples.over(LIMIT_NS), Over { over: 6, uncertain: 10 });
    assert_eq!(samples.overs().limits().collect::<Vec<_>>(), [LIMIT_NS]);
}

#[test]
fn broker_delay_is_counted_too_and_a_forged_confirmation_sets_no_limit() {
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected());
    confirm(&mut core, start(), &[("publish", 25_000_000)]);
    let node = NodeName::new("n").unwrap();
    let confirmed = ConfirmedIncarnation {
        incarnation: Incarnation(start().wall.0),
        spans: vec![(Seq(1), Seq(99))],
    };
    let limits = vec![p99("publish", 7)];
    let forged = Confirmation { incarnations: vec![confirmed], limits, ..Confirmation::of(node) };
    assert_eq!(core.on_confirmation(start(), &confirmation::encode(&forged)), Err("forged"));
    core.on_deadline(start().after(SECOND));
    let late = start().after(SECOND + Duration::from_nanos(25_000_001));
    read(&mut core, late);
    let next = start().after(2 * SECOND);
    core.on_deadline(next);
    let own = &read(&mut core, next)["publish"];
    assert_eq!(own.over(25_000_000), exactly(1));
    assert_eq!(own.overs().limits().collect::<Vec<_>>(), [25_000_000]);
}
