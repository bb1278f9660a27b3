//! The registry by examples, and any order of reports against the straight one.

use std::time::Duration;

use plimsoll_schemas::histogram::Packed;
use plimsoll_schemas::ids::{Labels, NodeName, Operation, Series};
use plimsoll_schemas::run::RunChange;
use plimsoll_schemas::summary::RunOrigin;
use plimsoll_schemas::wire::Latency;
use proptest::prelude::*;

use super::*;
use crate::core::fleet::MergedSamples;
use crate::limits::runs::{RUN_NO_END_AFTER, RUN_NODES_MAX};

fn at(seconds: u64) -> Wall {
    Wall(seconds * 1_000_000_000)
}

fn name(text: &str) -> RunName {
    RunName::new(text).unwrap()
}

fn labels(rank: &str) -> Labels {
    Labels::new([("rank", rank)]).unwrap()
}

/// A snapshot of a node with one report.
fn reported(node: &str, seconds: u64, run: &str, change: RunChange) -> MergedSnapshot {
    let report = RunReport { run: name(run), labels: labels(node), change };
    let (node, taken) = (NodeName::new(node).unwrap(), at(seconds));
    let run_reports = vec![(taken, report)];
    MergedSnapshot {
        node,
        taken,
        run_reports,
        reported: None,
        of_shard: false,
        samples: Vec::new(),
        lost: Vec::new(),
    }
}

/// A snapshot of a node with samples of a run, by the label of its series or of the node.
fn sampled(node: &str, seconds: u64, run: &str, by_node: bool) -> MergedSnapshot {
    let of_run = Labels::new([("run", run)]).unwrap();
    let (series, node_labels) =
        if by_node { (Labels::default(), of_run) } else { (of_run, Labels::default()) };
    let series = Series { operation: Operation::new("op").unwrap(), labels: series };
    let histograms = [(series, Packed::default())].into_iter().collect();
    let latency = Latency { histograms, ..Latency::default() };
    let (node, taken) = (NodeName::new(node).unwrap(), at(seconds));
    let samples = vec![MergedSamples { taken, node_labels, latency }];
    let (run_reports, lost) = (Vec::new(), Vec::new());
    MergedSnapshot { node, taken, run_reports, reported: None, of_shard: false, samples, lost }
}

fn begin(run: &str) -> RunCommand {
    RunCommand::Begin { name: name(run), labels: labels("0"), by: Some("ann".to_owned()) }
}

fn stop(run: &str, exit_code: Option<u8>) -> RunCommand {
    RunCommand::Stop { name: name(run), exit_code }
}

fn row(runs: &RunRegistry, now: u64, run: &str) -> RunRow {
    let query = RunsQuery { name: Some(name(run)), ..RunsQuery::default() };
    runs.rows(at(now), &query).pop().unwrap()
}

const ENDED: RunChange = RunChange::Ended { exit_code: Some(3) };

#[test]
fn a_client_begins_a_run_once_and_stops_it_once() {
    let mut runs = RunRegistry::default();
    let begun = runs.on_command(at(10), begin("a")).unwrap();
    assert_eq!((begun.state, begun.begun_seconds), (RunState::Running, 10.0));
    assert_eq!((begun.origin, begun.by.as_deref()), (RunOrigin::Client, Some("ann")));
    let again = runs.on_command(at(11), begin("a")).unwrap_err().to_string();
    assert_eq!(again, "name \"a\" is used by a run (running); choose another name");
    let ended = runs.on_command(at(25), stop("a", Some(2))).unwrap();
    assert_eq!((ended.state, ended.ended_seconds), (RunState::Ended, Some(25.0)));
    assert_eq!(ended.exit_code, Some(2));
    let again = runs.on_command(at(26), stop("a", None)).unwrap_err();
    assert_eq!(again, RunError::Ended(name("a")));
    let unknown = runs.on_command(at(26), stop("b", None)).unwrap_err();
    assert_eq!(unknown, RunError::Unknown(name("b")));
    let by = Some("a\nb".to_owned());
    let two_lines = RunCommand::Begin { name: name("c"), labels: Labels::default(), by };
    assert_eq!(runs.on_command(at(26), two_lines), Err(RunError::Operator(3)));
}

#[test]
fn a_run_of_several_commands_lasts_from_the_first_begin_to_the_last_end() {
    let mut runs = RunRegistry::default();
    for (node, seconds, change) in [
        ("n1", 12, RunChange::Begun),
        ("n0", 10, RunChange::Begun),
        ("n0", 20, RunChange::Ended { exit_code: Some(0) }),
    ] {
        runs.on_merged(at(seconds), &reported(node, seconds, "v42", change), &Rollups::default());
    }
    assert_eq!(row(&runs, 25, "v42").state, RunState::Running);
    runs.on_merged(at(30), &reported("n1", 30, "v42", ENDED), &Rollups::default());
    let run = row(&runs, 31, "v42");
    assert_eq!((run.begun_seconds, run.ended_seconds), (10.0, Some(30.0)));
    assert_eq!((run.state, run.exit_code, run.commands), (RunState::Ended, Some(3), 2));
    assert_eq!((run.origin, run.labels), (RunOrigin::Command, labels("n0")));
    assert_eq!(run.nodes.iter().map(NodeName::as_str).collect::<Vec<_>>(), ["n0", "n1"]);
}

#[test]
fn the_end_of_a_command_that_was_stopped_before_ends_no_later_one() {
    let mut runs = RunRegistry::default();
    runs.on_merged(at(10), &reported("n", 10, "v", RunChange::Begun), &Rollups::default());
    runs.on_command(at(20), stop("v", None)).unwrap();
    assert_eq!(row(&runs, 20, "v").state, RunState::Ended);
    runs.on_merged(at(21), &reported("n", 21, "v", ENDED), &Rollups::default());
    runs.on_merged(at(30), &reported("n", 30, "v", RunChange::Begun), &Rollups::default());
    let run = row(&runs, 31, "v");
    assert_eq!((run.state, run.ended_seconds), (RunState::Running, None));
}

#[test]
fn samples_show_which_nodes_a_run_touched_and_make_no_run() {
    let mut runs = RunRegistry::default();
    runs.on_merged(at(5), &sampled("n9", 5, "a", false), &Rollups::default());
    runs.on_command(at(10), begin("a")).unwrap();
    for (node, run, by_node) in [("n1", "a", false), ("n2", "a", true), ("n3", "b", false)] {
        runs.on_merged(at(11), &sampled(node, 11, run, by_node), &Rollups::default());
    }
    let nodes = row(&runs, 12, "a").nodes;
    assert_eq!(nodes.iter().map(NodeName::as_str).collect::<Vec<_>>(), ["n1", "n2"]);
    assert_eq!(runs.rows(at(12), &RunsQuery::default()).len(), 1);
    for n in 0..RUN_NODES_MAX {
        runs.on_merged(at(12), &sampled(&format!("m{n}"), 12, "a", false), &Rollups::default());
    }
    let run = row(&runs, 12, "a");
    assert_eq!((run.nodes.len(), run.has_more_nodes), (RUN_NODES_MAX, true));
}

#[test]
fn a_run_whose_end_never_came_is_shown_as_such() {
    let mut runs = RunRegistry::default();
    runs.on_merged(at(10), &reported("n", 10, "v", RunChange::Begun), &Rollups::default());
    runs.on_command(at(10), begin("bare")).unwrap();
    runs.on_merged(at(100), &sampled("n", 100, "v", false), &Rollups::default());
    let silent = 100 + RUN_NO_END_AFTER.as_secs();
    assert_eq!(row(&runs, silent - 1, "v").state, RunState::Running);
    let run = row(&runs, silent, "v");
    assert_eq!((run.state, run.ended_seconds, run.exit_code), (RunState::NoEnd, None, None));
    // Nothing is expected of a run without samples but that its client stops it.
    assert_eq!(row(&runs, silent, "bare").state, RunState::Running);
    let query = RunsQuery { state: Some(RunState::NoEnd), ..RunsQuery::default() };
    assert_eq!(runs.rows(at(silent), &query).len(), 1);
    runs.on_merged(at(silent), &reported("n", silent, "v", ENDED), &Rollups::default());
    assert_eq!(row(&runs, silent, "v").state, RunState::Ended);
}

#[test]
fn the_run_that_ended_first_makes_room_and_one_that_runs_never_does() {
    let mut runs = RunRegistry::default();
    for n in 0..RUNS_MAX {
        runs.on_command(at(n as u64), begin(&format!("r{n}"))).unwrap();
    }
    let now = RUNS_MAX as u64;
    assert_eq!(runs.on_command(at(now), begin("more")), Err(RunError::Full));
    runs.on_merged(at(now), &reported("n", now, "job", RunChange::Begun), &Rollups::default());
    assert_eq!(
        (runs.rows(at(now), &RunsQuery::default()).len(), runs.stored.limited),
        (RUNS_MAX, 2)
    );
    for (run, end) in [("r7", now), ("r3", now + 1), ("r5", now + 2)] {
        runs.on_command(at(end), stop(run, None)).unwrap();
    }
    runs.on_command(at(now + 3), begin("more")).unwrap();
    runs.on_merged(
        at(now + 4),
        &reported("n", now + 4, "job", RunChange::Begun),
        &Rollups::default(),
    );
    let names: Vec<String> = runs
        .rows(at(now + 5), &RunsQuery::default())
        .into_iter()
        .map(|run| run.name.to_string())
        .collect();
    assert_eq!((names.len(), &*names[0], &*names[1]), (RUNS_MAX, "job", "more"));
    assert!(!names.contains(&"r7".to_owned()) && !names.contains(&"r3".to_owned()));
    assert!(names.contains(&"r5".to_owned()));
    let query = RunsQuery { limit: 1, ..RunsQuery::default() };
    assert_eq!(runs.rows(at(now + 5), &query)[0].name, name("job"));
}

#[test]
fn runs_that_one_node_reports_push_out_its_own_and_no_others() {
    let mut runs = RunRegistry::default();
    let mut report = |node: &str, seconds: u64, run: &str, change| {
        let snapshot = reported(node, seconds, run, change);
        runs.on_merged(at(seconds), &snapshot, &Rollups::default());
        let rows = runs.rows(at(seconds), &RunsQuery::default());
        rows.into_iter().map(|run| run.name.to_string()).collect::<Vec<_>>()
    };
    report("quiet", 1, "mine", RunChange::Begun);
    report("quiet", 2, "mine", ENDED);
    for n in 0..1_500 {
        report("loud", 10 + n, &format!("l{n}"), RunChange::Begun);
    }
    let names = report("loud", 2_000, "more", RunChange::Begun);
    assert_eq!((names.len(), names.contains(&"mine".to_owned())), (RUNS_MAX, true));
    assert!(!names.contains(&"more".to_owned()), "all of its runs go on");

    let names = report("quiet", 2_001, "next", RunChange::Begun);
    assert!(names.contains(&"next".to_owned()) && names.contains(&"mine".to_owned()));
    assert!(!names.contains(&"l0".to_owned()), "the one with most gives one up, though it goes on");
    report("loud", 2_002, "l7", ENDED);
    let names = report("loud", 2_003, "more", RunChange::Begun);
    assert!(names.contains(&"more".to_owned()) && !names.contains(&"l7".to_owned()));
}

proptest! {
    /// Reports come over two lanes, from many nodes, and again after a restart.
    #[test]
    fn the_order_of_reports_changes_no_run_and_a_checkpoint_restores_all(
        reports in prop::collection::vec((0..4_u8, 0..50_u64, 0..3_u8, any::<Option<u8>>()), 0..30),
        order in prop::collection::vec(any::<prop::sample::Index>(), 30),
        cut in 0..30_usize,
    ) {
        let merged: Vec<MergedSnapshot> = reports.iter().map(|(node, seconds, run, code)| {
            let change = match code {
                None => RunChange::Begun,
                Some(code) => RunChange::Ended { exit_code: (*code > 99).then_some(*code) },
            };
            reported(&format!("n{node}"), *seconds, &format!("r{run}"), change)
        }).collect();
        let mut straight = RunRegistry::default();
        merged.iter().for_each(|one| straight.on_merged(at(60), one, &Rollups::default()));
        let mut left: Vec<&MergedSnapshot> = merged.iter().collect();
        let mut shuffled = RunRegistry::default();
        for (place, index) in order.iter().enumerate() {
            if left.is_empty() {
                break;
            }
            let one = left.remove(index.index(left.len()));
            shuffled.on_merged(at(60), one, &Rollups::default());
            if place == cut {
                let bytes = rmp_serde::to_vec_named(&shuffled.checkpoint()).unwrap();
                shuffled = RunRegistry::restore(rmp_serde::from_slice(&bytes).unwrap());
            }
        }
        let now = at(60).plus(Duration::from_secs(1));
        let all = RunsQuery::default();
        prop_assert_eq!(straight.checkpoint(), shuffled.checkpoint());
        prop_assert_eq!(straight.rows(now, &all), shuffled.rows(now, &all));
    }
}
