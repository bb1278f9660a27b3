//! Frames of clients: each is recorded at most once, under the rules that lines are under.

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::limits::wire::SAMPLES_MAX;
use plimsoll_schemas::wire::Latency;

use super::*;

fn samples(ns: u64, n: u64) -> Histogram {
    let mut histogram = Histogram::default();
    histogram.record_n(ns, n);
    histogram
}

fn frame(seq: u64, latency: Latency) -> Frame {
    Frame { client: "job".to_owned(), seq: Seq(seq), clamped: 1, latency, last: false }
}

fn histograms(parts: &[(&str, u64)]) -> Latency {
    let histograms = parts.iter().map(|(name, n)| (plain(name), samples(5_000, *n))).collect();
    Latency { histograms, ..Latency::default() }
}

#[test]
fn a_frame_adds_to_what_lines_have_brought_and_counts_once() {
    let mut intake = intake();
    take(&mut intake, b"a:1|ms\nb:2|c\nc:3|g");
    let latency = Latency {
        counters: vec![(plain("b"), 5.0)],
        gauges: vec![(plain("c"), 4.0)],
        ..histograms(&[("a", 10), ("d", 7)])
    };
    assert_eq!(intake.on_frame(NOW.wall, frame(3, latency.clone())), Seq(3));
    assert_eq!(intake.on_frame(NOW.wall, frame(3, latency.clone())), Seq(3));
    assert_eq!(intake.on_frame(NOW.wall, frame(2, latency)), Seq(3));
    intake.on_frame_rejected("shape");
    let figures = intake.stats();
    assert_eq!((figures.samples, figures.clamped, intake.open_samples()), (18, 1, 18));
    assert_eq!((figures.frames, figures.frames_rejected), (3, BTreeMap::from([("shape", 1)])));
    let Latency { histograms, counters, gauges } = intake.close(NOW).latency;
    let counts: Vec<_> = histograms.iter().map(|(s, h)| (s.to_string(), h.count())).collect();
    assert_eq!(counts, [("a".to_owned(), 11), ("d".to_owned(), 7)]);
    assert_eq!((counters[0].1, gauges[0].1), (7.0, 4.0));
}

#[test]
fn past_the_series_cap_frames_fold_into_other_and_gauges_are_refused() {
    let mut intake = Intake::new(NOW, 1, Rules::default(), 7);
    take(&mut intake, b"a:1|ms");
    let latency =
        Latency { gauges: vec![(plain("g"), 1.0)], ..histograms(&[("a", 2), ("b", 3), ("c", 4)]) };
    intake.on_frame(NOW.wall, frame(1, latency));
    let figures = intake.stats();
    assert_eq!(figures.rejected, BTreeMap::from([(Reject::SeriesCap, 1)]));
    assert_eq!((figures.overflowed, figures.samples), (7, 10));
    let histograms = intake.close(NOW).latency.histograms;
    let counts: Vec<_> = histograms.iter().map(|(s, h)| (s.to_string(), h.count())).collect();
    assert_eq!(counts, [("a".to_owned(), 3), (OVERFLOW.to_owned(), 7)]);
}

#[test]
fn a_distribution_for_which_there_is_no_room_is_lost_by_name_and_in_the_account() {
    let mut intake = intake();
    intake.on_frame(NOW.wall, frame(1, histograms(&[("a", SAMPLES_MAX)])));
    assert_eq!(intake.on_frame(NOW.wall, frame(2, histograms(&[("a", 3), ("b", 4)]))), Seq(2));
    assert_eq!(intake.open_samples(), SAMPLES_MAX + 7);
    let closed = intake.close(NOW);
    assert_eq!(closed.lost, BTreeMap::from([(SAMPLES_CAP, 3)]));
    assert_eq!(closed.latency.samples(), SAMPLES_MAX + 4);
    assert_eq!(intake.stats().rejected, BTreeMap::from([(Reject::SamplesCap, 1)]));
}

#[test]
fn labels_of_a_frame_are_under_the_rules_and_may_become_one_series() {
    let mut rules = Rules::default();
    rules.labels.allow.insert("k".to_owned());
    let mut intake = Intake::new(NOW, 9, rules, 7);
    let series = |pod: &str| Series {
        operation: Operation::new("a").unwrap(),
        labels: Labels::new([("k", "v"), ("pod", pod)]).unwrap(),
    };
    let parts = ["x", "y"].map(|pod| (series(pod), samples(5, 2)));
    let latency = Latency { histograms: parts.into(), ..Latency::default() };
    intake.on_frame(NOW.wall, frame(1, latency));
    assert_eq!(intake.stats().labels.allow, 4);
    let histograms = intake.close(NOW).latency.histograms;
    assert_eq!((histograms.len(), histograms[0].1.count()), (1, 4));
    assert_eq!(histograms[0].0.to_string(), "a{k=v}");
}

#[test]
fn what_the_system_records_itself_is_refused_from_jobs() {
    let mut intake = intake();
    let line = b"publish:1|ms\npublish:1:2|h|#k:v\nmessage_delivery:1|d\npublish:1|c\npublish:1|g";
    assert_eq!(take(&mut intake, line), BTreeMap::from([("reserved", 3)]));
    assert_eq!(take(&mut intake, line), BTreeMap::from([("reserved", 3)]), "never cached");
    intake.on_frame(NOW.wall, frame(1, histograms(&[("publish", 4), ("a", 2)])));
    assert_eq!(intake.stats().rejected, BTreeMap::from([(Reject::Reserved, 7)]));
    assert!(intake.on_own_latency(&Operation::new("publish").unwrap(), 5_000_000));
    let latency = intake.close(NOW).latency;
    let counts = latency.histograms.iter().map(|(series, of)| (series.to_string(), of.count()));
    assert_eq!(counts.collect::<Vec<_>>(), [("a".to_owned(), 2), ("publish".to_owned(), 1)]);
    assert_eq!((latency.counters.len(), latency.gauges.len()), (1, 1));
}
