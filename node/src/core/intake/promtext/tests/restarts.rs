//! Starts of counters: what the first page reports, what appears later, what begins anew.

use proptest::prelude::*;

use super::*;

const START: &str = "process_start_time_seconds";

fn page(start: Option<f64>, hits: &[(&str, u64)]) -> String {
    let start = start.map_or_else(String::new, |at| format!("{START} {at}\n"));
    let hits = hits.iter().map(|(k, n)| format!("hits_total{{k=\"{k}\"}} {n}\n"));
    format!("# TYPE hits_total counter\n{start}{}", hits.collect::<String>())
}

/// Seconds since 1970, this many after the node began.
fn after(seconds: f64) -> Option<f64> {
    Some(1_700_000_000.0 + seconds)
}

/// The points of counters alone.
fn got(desk: &mut Desk, seconds: u64, page: &str) -> Vec<String> {
    let mut got = desk.read(seconds, page);
    got.retain(|point| !point.starts_with(START));
    got
}

#[test]
fn the_first_page_counts_whole_only_where_the_process_began_after_the_node() {
    for (start, is_new) in [
        (after(2.0), true),
        (after(0.0), true),
        (after(-0.5), false),
        (after(60.0), false),
        (Some(f64::NAN), false),
        (Some(-1.0), false),
        (None, false),
    ] {
        let got = got(&mut Desk::new(target()), 9, &page(start, &[("a", 3)]));
        let nothing = is_new.then(|| "hits_total{k=a} + 0".to_owned());
        let expected: Vec<_> =
            nothing.into_iter().chain(["hits_total{k=a} + 3".to_owned()]).collect();
        assert_eq!(got, expected, "{start:?}");
    }
}

#[test]
fn a_series_that_the_page_before_did_not_have_began_from_nothing() {
    let mut desk = Desk::new(target());
    assert_eq!(got(&mut desk, 1, &page(None, &[("a", 3)])), ["hits_total{k=a} + 3"]);
    let expected = ["hits_total{k=a} + 4", "hits_total{k=b} + 0", "hits_total{k=b} + 2"];
    assert_eq!(got(&mut desk, 2, &page(None, &[("a", 4), ("b", 2)])), expected);
    assert_eq!(got(&mut desk, 3, &page(None, &[("b", 2)])), ["hits_total{k=b} + 2"]);
    // It was there once: what it counted since then is its difference.
    assert_eq!(got(&mut desk, 4, &page(None, &[("a", 9)])), ["hits_total{k=a} + 9"]);
}

#[test]
fn a_series_that_may_have_been_there_before_is_left_out() {
    let two = page(None, &[("a", 3), ("b", 2)]);
    let is_blind: [fn(&mut Desk); 4] = [
        |desk| {
            desk.is_whole = false;
            desk.read(1, &page(None, &[("a", 1)]));
            desk.is_whole = true;
        },
        |desk| {
            desk.is_whole = false;
            desk.read(1, &format!("{}hits", page(None, &[("a", 1)])));
            desk.is_whole = true;
        },
        |desk| drop(desk.read(1, &page(None, &[("a", 1)]).replace("} 1", "} 1\nhits_total{k ?"))),
        |desk| drop(desk.read(1, &page(None, &[("a", 1), ("c", 1), ("d", 1), ("e", 1)]))),
    ];
    for make_blind in is_blind {
        let mut desk = Desk::new(Target { series_max: 3, ..target() });
        make_blind(&mut desk);
        assert_eq!(got(&mut desk, 2, &two), ["hits_total{k=a} + 3", "hits_total{k=b} + 2"]);
    }
}

#[test]
fn one_bad_line_leaves_what_else_is_new_as_it_is() {
    let long = format!("# HELP hits_total {}\n", "x".repeat(10_000));
    for bad in [&long, "{\"ein Name\",k=\"v\"} 1\n", "?\n", "other{k 1\n", "# TYPE other heap\n"] {
        let mut desk = Desk::new(target());
        let with = |hits: &[(&str, u64)]| format!("{bad}{}", page(None, hits));
        assert_eq!(got(&mut desk, 1, &with(&[("a", 3)])), ["hits_total{k=a} + 3"], "{bad:.20}");
        let expected = ["hits_total{k=a} + 3", "hits_total{k=b} + 0", "hits_total{k=b} + 7"];
        assert_eq!(got(&mut desk, 2, &with(&[("a", 3), ("b", 7)])), expected, "{bad:.20}");
    }
}

#[test]
fn a_page_whose_end_nothing_states_is_whole_unless_it_has_become_shorter() {
    let mut desk = Desk::new(target());
    desk.is_whole = false;
    let mut new_of = |seconds: u64, hits: &[(&str, u64)]| {
        let got = got(&mut desk, seconds, &page(None, hits));
        got.iter().filter(|line| line.ends_with("+ 0")).count()
    };
    assert_eq!(new_of(1, &[("a", 1), ("b", 1)]), 0);
    assert_eq!(new_of(2, &[("a", 1)]), 0, "it may have been cut");
    assert_eq!(new_of(3, &[("a", 1), ("b", 1), ("c", 1)]), 0, "no page was whole before");
    assert_eq!(new_of(4, &[("a", 1), ("b", 1), ("c", 1), ("d", 7)]), 1);
}

#[test]
fn a_process_that_began_since_the_page_before_counts_from_nothing() {
    let mut desk = Desk::new(target());
    got(&mut desk, 10, &page(after(-900.0), &[("a", 3)]));
    // To the second, and so up to a second early.
    let expected = ["hits_total{k=a} + 0", "hits_total{k=a} + 4"];
    assert_eq!(got(&mut desk, 15, &page(after(9.1), &[("a", 4)])), expected);
    assert_eq!(got(&mut desk, 20, &page(after(9.1), &[("a", 5)])), ["hits_total{k=a} + 5"]);
}

#[test]
fn a_clock_that_is_set_starts_nothing_anew_and_makes_no_page_older() {
    let mut desk = Desk::new(target());
    let mut times = Vec::new();
    let mut at = |desk: &mut Desk, seconds: u64, ahead: i64, start: f64| {
        let mut now = BEGAN.after(Duration::from_secs(seconds));
        now.wall = Wall(now.wall.0.saturating_add_signed(ahead * 1_000_000_000));
        let text = page(after(start), &[("a", seconds)]);
        desk.scrape_page(now, &text, &mut |point| {
            times.push(point.time);
            Ok(())
        });
    };
    at(&mut desk, 100, 0, -900.0);
    at(&mut desk, 105, 3_600, 2_700.0);
    at(&mut desk, 110, -7_200, -8_100.0);
    at(&mut desk, 115, 0, -900.0);
    assert_eq!(times.len(), 8, "a start and a counter of each page, and no other");
    let seconds: Vec<u64> =
        times.iter().step_by(2).map(|time| time.since(BEGAN.wall).as_secs()).collect();
    assert_eq!(seconds, [100, 3_705, 3_710, 3_715]);
}

#[test]
fn the_series_that_are_known_to_have_been_there_are_bounded() {
    use crate::limits::scrape::{FAMILIES_MALFORMED_MAX, SERIES_KNOWN_MAX};
    let mut memory = TargetHistory::new(BEGAN);
    memory.on_read(BEGAN, true, 0);
    let all = (0..SERIES_KNOWN_MAX as u64).filter(|stream| memory.is_stream_new(1, *stream));
    assert_eq!(all.count(), SERIES_KNOWN_MAX);
    assert!(!memory.is_stream_new(1, u64::MAX));

    let malformed = 0..FAMILIES_MALFORMED_MAX as u64;
    assert!(malformed.clone().all(|family| memory.on_malformed(family)));
    assert!(!memory.on_malformed(u64::MAX) && malformed.clone().all(|of| memory.on_malformed(of)));
}

proptest! {
    /// What a recorder of differences makes of the points is what the processes counted.
    #[test]
    fn all_that_is_counted_between_pages_arrives_once(
        runs in proptest::collection::vec(proptest::collection::vec(0_u64..5, 1..5), 1..5),
        has_start in any::<bool>(),
    ) {
        let mut desk = Desk::new(target());
        let (mut at, mut last, mut recorded) = (10, None::<f64>, 0.0);
        let mut counted = 0;
        for (run, grown) in runs.iter().enumerate() {
            let start = after(if run == 0 { -50.0 } else { at as f64 + 2.0 });
            let mut hits = 0;
            for (place, by) in grown.iter().enumerate() {
                // Without a start, only a count that went down shows a restart.
                let by = match (place, run) {
                    (0, 0) => by + 1,
                    (0, _) if !has_start => 0,
                    _ => *by,
                };
                hits += by;
                counted += if run == 0 && place == 0 { 0 } else { by };
                at += 5;
                let text = page(start.filter(|_| has_start), &[("a", hits)]);
                desk.scrape_page(BEGAN.after(Duration::from_secs(at)), &text, &mut |point| {
                    let Value::Sum { value, .. } = point.value else { return Ok(()) };
                    recorded += match last {
                        None => 0.0,
                        Some(last) if value < last => value,
                        Some(last) => value - last,
                    };
                    last = Some(value);
                    Ok(())
                });
            }
        }
        prop_assert_eq!(recorded, counted as f64);
    }
}
