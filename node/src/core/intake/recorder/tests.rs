//! Lines in an interval: which series get a slot, what is folded, what is rejected.

use std::collections::BTreeSet;

use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::limits::wire::SAMPLES_MAX;
use proptest::prelude::*;

use super::*;
use crate::core::intake::lines::{name_pattern, parse, pattern};
use crate::core::intake::series::LineLabelStats;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::histogram::layout::MAX_NS;

impl Recorder {
    fn take(&mut self, now: Now) -> Latency {
        self.close(now).latency
    }
}

fn recorder(series_max: usize) -> Recorder {
    with_labels(series_max, LabelRules::default())
}

fn with_labels(series_max: usize, labels: LabelRules) -> Recorder {
    Recorder::new(Now::default(), series_max, labels, Units::default(), 7)
}

fn record(recorder: &mut Recorder, line: &str) -> Result<RecordCounts, Reject> {
    recorder.record_line(Wall(5_000_000_000), parse(line.as_bytes())?)
}

#[test]
fn tags_in_any_order_are_one_series() {
    let mut recorder = recorder(10);
    record(&mut recorder, "a:1|ms|#x:1,y:2").unwrap();
    record(&mut recorder, "a:2|ms|#y:2,x:1").unwrap();
    let latency = recorder.take(Now::default());
    assert_eq!(latency.histograms.len(), 1);
    assert_eq!(latency.histograms[0].1.count(), 2);
    assert_eq!(latency.histograms[0].0.to_string(), "a{x=1,y=2}");
}

#[test]
fn one_name_may_be_latency_counter_and_gauge() {
    let mut recorder = recorder(10);
    for line in ["a:1|ms", "a:2|c|@0.5", "a:3|c", "a:4|g", "a:5|g"] {
        record(&mut recorder, line).unwrap();
    }
    let latency = recorder.take(Now::default());
    assert_eq!(latency.histograms[0].1.max_ns(), 1_000_000);
    assert_eq!(latency.counters[0].1, 7.0);
    assert_eq!(latency.gauges[0].1, 5.0);
    assert_eq!(recorder.series(), 0);
}

#[test]
fn a_sample_rate_counts_what_it_stands_for_on_average() {
    let mut recorder = recorder(10);
    for _ in 0..300 {
        record(&mut recorder, "a:1|ms|@0.3").unwrap();
    }
    let count = recorder.take(Now::default()).histograms[0].1.count();
    assert!((999..=1_000).contains(&count), "300 / 0.3 came out as {count}");
}

#[test]
fn the_unit_check_sees_assumed_milliseconds_alone() {
    let patterns = ["mended=s", "kept=ms"].map(|text| pattern(text).unwrap()).into();
    let units = Units { patterns, ..Units::default() };
    let mut recorder = Recorder::new(Now::default(), 10, LabelRules::default(), units, 7);
    let names =
        ["timed:0.0301234567891|ms", "mended:0.0301234567891|ms", "kept:0.0301234567891|ms"];
    for line in names.into_iter().chain(["wait:0.0301234567891|h", "level:0.0301234567891|g"]) {
        for _ in 0..40 {
            record(&mut recorder, line).unwrap();
        }
    }
    assert_eq!(recorder.stats().suspect_units, [Operation::new("timed").unwrap()]);
    assert_eq!(recorder.take_unit_warnings().len(), 1);
    let latency = recorder.take(Now::default());
    let sums: Vec<_> =
        latency.histograms.iter().map(|(s, h)| (s.to_string(), h.sum_ns())).collect();
    let ns = [("kept", 30_123), ("mended", 30_123_457), ("timed", 30_123), ("wait", 30_123)];
    assert_eq!(sums, ns.map(|(name, ns)| (name.to_owned(), 40 * ns)));
}

#[test]
fn one_bad_value_refuses_the_whole_line() {
    let mut recorder = recorder(10);
    assert_eq!(record(&mut recorder, "a:1:x:3|ms"), Err(Reject::Number));
    assert_eq!(record(&mut recorder, "a:1:-3|ms"), Err(Reject::Negative));
    assert_eq!(recorder.series(), 0);
    assert_eq!(record(&mut recorder, "a:-3|c").map(|a| a.values), Ok(1));
}

#[test]
fn past_the_series_cap_latencies_fold_into_other_and_stay_counted() {
    let mut recorder = recorder(2);
    for name in ["a", "b", "c", "d"] {
        let counts = record(&mut recorder, &format!("{name}:1|ms")).unwrap();
        assert_eq!(counts.folded, name > "b", "{name}");
    }
    assert_eq!(record(&mut recorder, "e:1|g"), Err(Reject::SeriesCap));
    let latency = recorder.take(Now::default());
    let counts: Vec<(String, u64)> =
        latency.histograms.iter().map(|(s, h)| (s.to_string(), h.count())).collect();
    assert_eq!(counts, [("a".into(), 1), ("b".into(), 1), ("other".into(), 2)]);
}

#[test]
fn a_series_of_the_last_interval_keeps_its_place_against_new_names() {
    let mut recorder = recorder(2_000);
    record(&mut recorder, "epoch_hook:1|ms").unwrap();
    recorder.take(Now::default());
    for name in 0..3_000 {
        record(&mut recorder, &format!("new{name}:1|ms")).unwrap();
    }
    for _ in 0..100 {
        assert!(!record(&mut recorder, "epoch_hook:1|ms").unwrap().folded);
    }
    let latency = recorder.take(Now::default());
    let count = |name: &str| {
        latency.histograms.iter().find(|(s, _)| s.to_string() == name).unwrap().1.count()
    };
    assert_eq!((count("epoch_hook"), count("other"), count("new1998")), (100, 1_001, 1));
    assert_eq!(latency.histograms.len(), 2_001);
}

#[test]
fn samples_past_the_cap_are_refused_and_the_series_stays_readable() {
    let mut recorder = recorder(2);
    let line = format!("a:{}1|ms|@0.000001", "1:".repeat(4_000));
    let outcomes: Vec<_> = (0..300).map(|_| record(&mut recorder, &line)).collect();
    assert_eq!(outcomes[299], Err(Reject::SamplesCap));
    assert_eq!(record(&mut recorder, "b:1|ms").map(|counts| counts.samples), Ok(1));
    let taken: u64 = outcomes.iter().flatten().map(|counts| counts.samples).sum();
    assert_eq!(recorder.take(Now::default()).histograms[0].1.count(), taken);
    assert!((SAMPLES_MAX - 4_002_000_000..=SAMPLES_MAX).contains(&taken), "{taken}");
}

#[test]
fn an_incarnation_counts_no_further_than_a_reader_does() {
    let mut recorder = recorder(2);
    recorder.interval.set_samples_left(3);
    let publish = Operation::new("publish").unwrap();
    assert_eq!(record(&mut recorder, "a:1|ms").map(|counts| counts.samples), Ok(1));
    assert!(recorder.interval.record_own(&publish, 1));
    assert_eq!(record(&mut recorder, "a:1:1|ms"), Err(Reject::SamplesCap));
    assert_eq!(record(&mut recorder, "a:1|ms|@0.9"), Err(Reject::SamplesCap));
    assert!(recorder.interval.record_own(&publish, 1));
    assert!(!recorder.interval.record_own(&publish, 1));
    assert_eq!(record(&mut recorder, "a:1|ms"), Err(Reject::SamplesCap));
    assert_eq!(record(&mut recorder, "a:1|c").map(|counts| counts.values), Ok(1));
}

#[test]
fn a_latency_above_an_hour_is_clamped_and_counted() {
    let counts = record(&mut recorder(2), "a:3600000.000001|ms").unwrap();
    assert_eq!((counts.samples, counts.clamped), (1, 1));
    let counts = record(&mut recorder(2), "a:3600000|ms").unwrap();
    assert_eq!((counts.samples, counts.clamped), (1, 0));
}

#[test]
fn a_counter_never_leaves_the_finite_numbers() {
    let mut recorder = recorder(2);
    record(&mut recorder, "a:1e308:1e308|c|@0.01").unwrap();
    assert!(recorder.take(Now::default()).counters[0].1.is_finite());
}

#[test]
fn the_latest_timestamp_of_a_gauge_wins_and_none_at_all_means_now() {
    for (lines, expected) in [
        (&["a:1|g|T9", "a:2|g|T7"][..], 1.0),
        (&["a:1|g|T7", "a:2|g|T9", "a:3|g|T8"], 2.0),
        (&["a:1|g|T7", "a:2|g|T7"], 2.0),
        (&["a:1|g", "a:2|g|T4"], 1.0),
        (&["a:1|g", "a:2|g|T5"], 2.0),
        (&["a:1|g|T9", "a:2|g"], 2.0),
        (&["a:+3|g"], 3.0),
        (&["a:7|g", "a:-3|g"], -3.0),
        (&["a:1:2|g|T3"], 2.0),
    ] {
        let mut recorder = recorder(1);
        for line in lines {
            record(&mut recorder, line).unwrap();
        }
        assert_eq!(recorder.take(Now::default()).gauges[0].1, expected, "{lines:?}");
        record(&mut recorder, "a:8|g|T1").unwrap();
        assert_eq!(recorder.take(Now::default()).gauges[0].1, 8.0, "an interval of its own");
    }
}

#[test]
fn a_series_seen_again_is_the_same_series_whatever_was_evicted() {
    let mut recorder = recorder(9);
    let received = |recorder: &mut Recorder, names: &[&str]| {
        for name in names {
            record(recorder, &format!("{name}:1|ms|#t:{name}")).unwrap();
        }
        let latency = recorder.take(Now::default());
        latency.histograms.iter().map(|(s, h)| (s.to_string(), h.count())).collect::<Vec<_>>()
    };
    let once = |name: &str| (format!("{name}{{t={name}}}"), 1);
    assert_eq!(received(&mut recorder, &["c", "a", "b"]), ["a", "b", "c"].map(once));
    assert_eq!(received(&mut recorder, &["b", "d"]), ["b", "d"].map(once));
    assert_eq!(received(&mut recorder, &["a", "d", "b"]), ["a", "b", "d"].map(once));
    assert_eq!(received(&mut recorder, &[]), []);
    assert_eq!(recorder.interval.slots_held(), (0, 0));
    assert_eq!(received(&mut recorder, &["d"]), ["d"].map(once));
}

#[test]
fn a_value_without_a_unit_is_refused_and_makes_no_series() {
    let mut recorder = recorder(9);
    recorder.units.patterns = vec![pattern("read.rows=none").unwrap()];
    assert_eq!(record(&mut recorder, "read.rows:1|h"), Err(Reject::Unit));
    assert_eq!(recorder.series(), 0);
    record(&mut recorder, "read.seconds:1.5|d").unwrap();
    record(&mut recorder, "read.seconds:1.5|ms").unwrap();
    let latency = recorder.take(Now::default());
    let (series, histogram) = &latency.histograms[0];
    assert_eq!(series.to_string(), "read.seconds");
    assert_eq!((histogram.min_ns(), histogram.max_ns()), (1_500_000, 1_500_000_000));
}

#[test]
fn what_is_no_latency_is_an_operation_of_its_unit() {
    let mut recorder = recorder(9);
    recorder.units.sub_microsecond = vec![name_pattern("lookup*").unwrap()];
    for (line, name, raw) in [
        ("read_bytes:512|h", "read:bytes", 512),
        ("read_bytes:512|bytes", "read:bytes", 512),
        ("read_bytes:512|ms", "read_bytes", 512_000_000),
        ("rows:1.5|count", "rows:count", 1_500),
        ("lookup:0.0005|ms", "lookup:ps", 500_000),
        ("merge:480|ps", "merge:ps", 480),
        ("size:9e12|bytes", "size:bytes", MAX_NS),
    ] {
        record(&mut recorder, line).unwrap();
        record(&mut recorder, line).unwrap();
        let latency = recorder.take(Now::default());
        let (series, histogram) = &latency.histograms[0];
        assert_eq!((series.to_string().as_str(), histogram.max_ns()), (name, raw), "{line}");
        assert_eq!(histogram.count(), 2, "{line}");
    }
}

#[test]
fn what_has_no_room_folds_into_other_of_its_unit() {
    let mut recorder = recorder(1);
    for line in ["a:1|ms", "b:1|ms", "c:1|bytes", "d:1|bytes", "e:1|count"] {
        record(&mut recorder, line).unwrap();
    }
    let latency = recorder.take(Now::default());
    let all = latency.histograms.iter().map(|(series, of)| (series.to_string(), of.count()));
    let expected = [("a", 1), ("other", 1), ("other:bytes", 2), ("other:count", 1)];
    assert_eq!(all.collect::<Vec<_>>(), expected.map(|(name, n)| (name.to_owned(), n)));
}

#[test]
fn a_container_label_separates_series() {
    for (container, expected) in [(false, &["a"][..]), (true, &["a", "a{container=x}"])] {
        let rules = LabelRules { container, ..LabelRules::default() };
        let mut recorder = with_labels(9, rules);
        for line in ["a:1|ms|c:x", "a:1|ms", "a:1|ms|c:x"] {
            record(&mut recorder, line).unwrap();
        }
        let latency = recorder.take(Now::default());
        let names: Vec<String> = latency.histograms.iter().map(|(s, _)| s.to_string()).collect();
        assert_eq!(names, expected);
    }
}

#[test]
fn labels_left_out_are_reported_with_each_line() {
    let mut rules = LabelRules::default();
    rules.drop.insert("pod".to_owned());
    let mut recorder = with_labels(9, rules);
    let figures = Some(LineLabelStats { drop: 1, ..LineLabelStats::default() });
    for pod in ["x", "y", "x"] {
        let counts = record(&mut recorder, &format!("a:1|ms|#pod:{pod},k:v")).unwrap();
        assert_eq!(counts.labels, figures);
    }
    let labels = Labels::new([("pod", "z"), ("k", "v")]).unwrap();
    let series = Series { operation: Operation::new("a").unwrap(), labels };
    let mut histogram = Histogram::default();
    histogram.record_n(5, 3);
    let counts = recorder.interval.merge(series, histogram).unwrap();
    assert_eq!((counts.labels, counts.samples), (figures, 3));
    let latency = recorder.take(Now::default());
    assert_eq!(latency.histograms.len(), 1);
    assert_eq!(
        (latency.histograms[0].0.to_string(), latency.histograms[0].1.count()),
        ("a{k=v}".into(), 6)
    );
}

proptest! {
    #[test]
    fn known_series_always_fit_and_slots_are_never_exceeded(
        intervals in prop::collection::vec(prop::collection::vec(0..20_u8, 0..40), 1..10),
    ) {
        let mut recorder = recorder(6);
        let mut known = BTreeSet::new();
        for names in intervals {
            let mut placed = BTreeSet::new();
            for name in names {
                let counts = record(&mut recorder, &format!("op{name}:1|ms")).unwrap();
                prop_assert!(!counts.folded || !known.contains(&name) && !placed.contains(&name));
                if !counts.folded {
                    placed.insert(name);
                }
            }
            prop_assert!(placed.len() <= 6);
            let folded = recorder.take(Now::default()).histograms.len() - placed.len();
            prop_assert!(folded <= 1);
            known = placed;
        }
    }
}
