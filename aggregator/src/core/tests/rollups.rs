//! Roll-ups as messages fill them, and as restarts find them again.

use crate::limits::{IDLE_AFTER_MIN, ROLLUP_GROUPS_MAX, ROLLUP_LABELS_MAX, ROLLUPS_MAX};
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Labels, NodeName, Operation, RunName, Series};
use plimsoll_schemas::wire::{Body, Bus, Latency};

use super::*;
use crate::core::runs::{RunCommand, RunsQuery};
use crate::core::tests::checkpoint::restarted;

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn definition(name: &str, operations: &[&str], by: &[&str], nodes_by: &[&str]) -> Definition {
    let (operations, by) = (strings(operations), strings(by));
    let nodes_by = strings(nodes_by);
    Definition { name: name.to_owned(), operations, by, nodes_by, ..Definition::default() }
}

fn measuring(definitions: &[Definition]) -> Core {
    core().measuring(Window::FiveMinutes, definitions)
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::new(pairs.iter().copied()).unwrap()
}

/// Operation, labels, number of samples.
type SeriesCount<'a> = (&'a str, &'a [(&'a str, &'a str)], u64);

/// Samples of some series of a node in this rack.
fn send(core: &mut Core, node: &'static str, rack: &str, series: &[SeriesCount<'_>]) {
    let rack = [("rack", rack)];
    let of_node = if rack[0].1.is_empty() { &[][..] } else { &rack };
    send_at(core, start(), (node, of_node), series);
}

/// Samples of some series, from the node of this name and these labels.
fn send_at(
    core: &mut Core,
    now: Now,
    (node, of_node): (&'static str, &[(&str, &str)]),
    series: &[SeriesCount<'_>],
) {
    let histograms = series.iter().map(|(operation, of_series, n)| {
        let mut histogram = Histogram::default();
        histogram.record_n(MS, *n);
        let operation = Operation::new(*operation).unwrap();
        (Series { operation, labels: labels(of_series) }, histogram)
    });
    let body = Latency { histograms: histograms.collect(), ..Latency::default() };
    let recorded = series.iter().map(|(_, _, n)| n).sum();
    let mut speaker = Speaker::new(node).recorded(recorded).called(labels(of_node));
    deliver(core, now, &speaker.message(now, Body::Latency(body), false));
}

/// Operation, values joined by a comma, samples.
fn groups(core: &Core, place: usize) -> Vec<(String, String, u64)> {
    let rollup = core.rollups().iter().nth(place).unwrap();
    let row = |(group, windows): (&Group, &Windows)| {
        let now = start().wall.max(windows.newest());
        let exact = windows.exact(now, Window::ThirtyDays);
        assert_eq!(exact, windows.total_exact());
        (group.operation.to_string(), group.values.join(","), exact.count)
    };
    rollup.groups().map(row).collect()
}

fn rows(expected: &[(&str, &str, u64)]) -> Vec<(String, String, u64)> {
    let row = |(operation, values, n): &(&str, &str, u64)| {
        ((*operation).to_owned(), (*values).to_owned(), *n)
    };
    expected.iter().map(row).collect()
}

#[test]
fn samples_are_grouped_by_labels_of_series_and_node() {
    let by_outcome = definition("by_outcome", &["fetch"], &["outcome"], &["rack"]);
    let mut core = measuring(&[by_outcome, definition("by_rack", &[], &[], &["rack"])]);
    let (hit, miss) = (&[("outcome", "hit"), ("shard", "7")][..], &[("outcome", "miss")][..]);
    send(&mut core, "a", "r1", &[("fetch", hit, 5), ("fetch", miss, 2), ("publish", &[], 1)]);
    send(&mut core, "b", "r2", &[("fetch", hit, 7)]);
    send(&mut core, "c", "", &[("fetch", &[], 3)]);
    let expected = [
        ("fetch", ",", 3),
        ("fetch", "hit,r1", 5),
        ("fetch", "hit,r2", 7),
        ("fetch", "miss,r1", 2),
    ];
    assert_eq!(groups(&core, 0), rows(&expected));
    let expected = [("fetch", "", 3), ("fetch", "r1", 7), ("fetch", "r2", 7), ("publish", "r1", 1)];
    assert_eq!(groups(&core, 1), rows(&expected));
}

#[test]
fn groups_are_bounded_and_what_finds_no_room_is_counted_and_kept_together() {
    let mut core = measuring(&[definition("all", &[], &["id"], &[])]);
    let ids: Vec<String> = (0..ROLLUP_GROUPS_MAX + 9).map(|id| format!("{id:04}")).collect();
    for id in &ids {
        let name = Box::leak(format!("n{id}").into_boxed_str());
        send(&mut core, name, "", &[("fetch", &[("id", id)], 2)]);
    }
    let groups = groups(&core, 0);
    assert_eq!((groups.len(), core.fleet.counts.limited["rollup"]), (ROLLUP_GROUPS_MAX + 1, 18));
    assert_eq!(groups.last(), rows(&[("fetch", "other", 18)]).last());
    assert_eq!(groups.iter().map(|(_, _, n)| n).sum::<u64>(), 2 * ids.len() as u64);
}

#[test]
fn a_flood_of_operations_and_values_stays_below_twice_the_bound_and_loses_nothing() {
    let mut core = measuring(&[definition("all", &[], &["id"], &[])]);
    let flood = 3 * ROLLUP_GROUPS_MAX;
    for number in 0..flood {
        let (name, operation) = (format!("n{number}"), format!("o{number}"));
        let name = Box::leak(name.into_boxed_str());
        send(&mut core, name, "", &[(operation.as_str(), &[("id", "x")], 1)]);
    }
    let groups = groups(&core, 0);
    assert_eq!(groups.len(), 2 * ROLLUP_GROUPS_MAX + 1);
    assert_eq!(groups.iter().map(|(_, _, n)| n).sum::<u64>(), flood as u64);
}

#[test]
fn where_samples_take_all_the_room_there_is_the_exact_figures_alone_go_on() {
    let mut core = measuring(&[definition("by_rack", &[], &[], &["rack"])]);
    send(&mut core, "a", "r1", &[("fetch", &[], 5)]);
    core.fleet.rollups_mut().look_for_room(1);
    send(&mut core, "b", "r1", &[("fetch", &[], 7)]);
    core.on_deadline(start().after(SECOND));
    send(&mut core, "c", "r1", &[("fetch", &[], 2)]);
    let (_, windows) = core.rollups().iter().next().unwrap().groups().next().unwrap();
    assert_eq!((windows.total_exact().count, windows.total().count()), (14, 7));
    assert_eq!(core.fleet.counts.limited["rollup"], 7);
}

#[test]
fn a_group_without_data_for_the_longest_window_makes_room() {
    let mut core = measuring(&[definition("by_rack", &[], &[], &["rack"])]);
    send(&mut core, "a", "r1", &[("fetch", &[], 5)]);
    let groups_after = |core: &mut Core, hours: u32| {
        core.on_deadline(start().after(SECOND * 3_600 * hours));
        core.rollups().iter().next().unwrap().groups().count()
    };
    assert_eq!(groups_after(&mut core, 30 * 24), 1);
    // Its last slot is passed before it is stale.
    let left = (30 * 24 + 1..32 * 24).find(|hours| groups_after(&mut core, *hours) == 0);
    assert_eq!(left, Some(31 * 24 + 1));
}

#[test]
fn a_label_of_the_series_wins_over_the_nodes_and_samples_without_it_are_in_no_group() {
    let mut core = measuring(&["run", "rank", "role"].map(Definition::of_label));
    let ranked = [("rank", "3"), ("run", "r7")];
    let trainer = [("role", "trainer"), ("run", "")];
    let series = [("fetch", &ranked[..], 5), ("fetch", &[("role", "loader")], 2), ("save", &[], 1)];
    send_at(&mut core, start(), ("a", &trainer), &series);
    send_at(&mut core, start(), ("b", &[("rack", "r1")]), &[("fetch", &[("run", "")], 4)]);
    assert_eq!(groups(&core, 0), rows(&[("fetch", "r7", 5)]));
    assert_eq!(groups(&core, 1), rows(&[("fetch", "3", 5)]));
    let roles = [("fetch", "loader", 2), ("fetch", "trainer", 5), ("save", "trainer", 1)];
    assert_eq!(groups(&core, 2), rows(&roles));
    let total = core.view(start().wall, "t").summary.operations[0].total.count;
    assert_eq!(total, 11, "the fleet has what is in no group");
}

/// Where no node is seen, no group is idle.
fn see_any_node(core: &mut Core, at: Now) {
    let bus = Body::Bus(Bus::default());
    deliver(core, at, &Speaker::new("any").of(at.wall.0).message(at, bus, false));
}

/// A run of this number has samples at this time, taken so long before.
fn runs(core: &mut Core, number: usize, at: Now, taken_before: Duration) {
    let (node, run) = (format!("n{number}-{}", at.wall.0), format!("{number:04}"));
    let node: &'static str = Box::leak(node.into_boxed_str());
    let mut histogram = Histogram::default();
    histogram.record_n(MS, 2);
    let series =
        Series { operation: Operation::new("fetch").unwrap(), labels: labels(&[("run", &run)]) };
    let body = Latency { histograms: vec![(series, histogram)], ..Latency::default() };
    let taken = Now { wall: Wall(at.wall.0 - nanos(taken_before)), ..at };
    let message = Speaker::new(node).recorded(2).message(taken, Body::Latency(body), false);
    deliver(core, at, &message);
}

#[test]
fn a_run_of_long_ago_makes_room_for_that_of_today_and_a_busy_one_never_does() {
    let mut core = measuring(&[Definition::of_label("run")]);
    let of = |core: &Core, value: &str| {
        let all = groups(core, 0);
        all.iter().find(|(_, values, _)| values == value).map(|(_, _, n)| *n)
    };
    let limited = |core: &Core| {
        let limited = &core.fleet.counts.limited;
        let of = |kind| limited.get(kind).copied().unwrap_or_default();
        (of("rollup"), of("rollup_group"))
    };
    for number in 0..ROLLUP_GROUPS_MAX {
        runs(&mut core, number, start().after(SECOND * u32::try_from(number).unwrap()), SECOND);
    }
    let before = start().after(IDLE_AFTER_MIN - SECOND);
    // Samples that waited in a spool are no silence: their group was not idle.
    runs(&mut core, 0, before, 6 * 3_600 * SECOND);
    runs(&mut core, 1_000, before, SECOND);
    core.on_deadline(before);
    assert_eq!((of(&core, "other"), limited(&core)), (Some(2), (2, 0)));
    let idle = start().after(IDLE_AFTER_MIN + SECOND);
    see_any_node(&mut core, idle);
    core.on_deadline(idle);
    runs(&mut core, 1_000, idle, SECOND);
    assert_eq!((of(&core, "0000"), of(&core, "0001"), of(&core, "1000")), (Some(4), None, Some(2)));
    assert_eq!((of(&core, "0002"), limited(&core)), (Some(2), (2, 1)));
    // The next one has not been idle for long enough yet.
    runs(&mut core, 1_001, idle, SECOND);
    assert_eq!((of(&core, "1001"), of(&core, "other")), (None, Some(4)));
    // The longest idle ones make room until a fifth of it is free.
    let later = start().after(2 * IDLE_AFTER_MIN);
    see_any_node(&mut core, later);
    core.on_deadline(later);
    let evicted = ROLLUP_GROUPS_MAX - ROLLUP_GROUPS_MAX * 4 / 5 + 1;
    assert_eq!((of(&core, "0000"), of(&core, "0200")), (Some(4), Some(2)));
    assert_eq!(limited(&core), (4, u64::try_from(evicted).unwrap()));
    // A run that is back begins at zero, as a counter that was reset.
    runs(&mut core, 1, later, SECOND);
    assert_eq!(of(&core, "0001"), Some(2));
}

#[test]
fn an_evicted_group_is_gone_from_the_next_checkpoint() {
    let mut core = measuring(&[Definition::of_label("run")]);
    for number in 0..ROLLUP_GROUPS_MAX {
        runs(&mut core, number, start(), SECOND);
    }
    let mut stored = StoredRecords::default();
    stored.write(core.take_changes(start().wall).unwrap());
    let later = start().after(IDLE_AFTER_MIN);
    see_any_node(&mut core, later);
    core.on_deadline(later);
    runs(&mut core, 1_000, later, SECOND);
    stored.write(core.take_changes(later.wall).unwrap());
    let group = |run: &str| stored.0.keys().any(|name| name.contains(&format!("[\"{run}\"]")));
    assert_eq!((group("0000"), group("1000")), (false, true));
    let before = groups(&core, 0);
    let core = restarted(&mut core, later).measuring(Window::FiveMinutes, &[]);
    let kept = ROLLUP_GROUPS_MAX * 4 / 5;
    assert_eq!((before.len(), core.rollups().iter().count()), (kept + 1, 0));
}

#[test]
fn roll_ups_are_defined_anew_while_it_runs_and_those_that_stay_keep_their_groups() {
    let mut core = measuring(&["run", "rank"].map(Definition::of_label));
    send_at(&mut core, start(), ("a", &[]), &[("fetch", &[("run", "r7"), ("rank", "3")], 5)]);
    let after = [definition("rank", &[], &["rank"], &[]), Definition::of_label("run")];
    assert!(core.group_by(&after) && !core.group_by(&after));
    assert_eq!((groups(&core, 0), groups(&core, 1)), (vec![], rows(&[("fetch", "r7", 5)])));
}

#[test]
fn a_restart_goes_on_with_what_is_defined_as_before_and_begins_the_rest_anew() {
    let same = definition("same", &[], &[], &["rack"]);
    let changed = definition("changed", &["fetch"], &[], &["rack"]);
    let mut core = measuring(&[same.clone(), changed.clone()]);
    send(&mut core, "a", "r1", &[("fetch", &[], 5)]);
    let after = [Definition { operations: Vec::new(), ..changed }, same];
    let core = restarted(&mut core, start()).measuring(Window::FiveMinutes, &after);
    assert_eq!(groups(&core, 0), []);
    assert_eq!(groups(&core, 1), rows(&[("fetch", "r1", 5)]));
}

#[test]
fn a_wrong_definition_is_refused_with_its_name_its_key_and_the_fix() {
    let many: Vec<String> = (0..=ROLLUP_LABELS_MAX).map(|n| format!("l{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (definition, part) in [
        (definition("", &[], &["a"], &[]), "name"),
        (definition("x", &["a b"], &["a"], &[]), "operations"),
        (definition("x", &[], &[], &[]), "by, either_by and nodes_by must name 1 to 4 labels"),
        (definition("x", &[], &many, &[]), "by, either_by and nodes_by must name 1 to 4 labels"),
        (definition("x", &[], &["window"], &[]), "\"window\" is a label of every row"),
        (
            definition("x", &[], &["a"], &["a"]),
            "by, either_by or nodes_by: label \"a\" is given twice",
        ),
        (definition("x", &[], &["a b"], &[]), "by, either_by or nodes_by"),
        (
            Definition { name: "x".to_owned(), by: strings(&["a"]), ..Definition::of_label("a") },
            "by, either_by or nodes_by: label \"a\" is given twice",
        ),
    ] {
        let error = Definition::check_all(&[definition]).unwrap_err().to_string();
        assert!(error.starts_with("rollup \"") && error.contains(part), "{error}");
    }
    let good = definition("x", &[], &["a"], &["b"]);
    assert!(Definition::check_all(&[good.clone(), good]).unwrap_err().problem.contains("twice"));
    let too_many: Vec<Definition> =
        (0..=ROLLUPS_MAX).map(|n| definition(&format!("x{n}"), &[], &["a"], &[])).collect();
    assert!(Definition::check_all(&too_many).unwrap_err().problem.contains("20 roll-ups"));
    assert_eq!(Definition::check_all(&too_many[1..]), Ok(()));
}

#[test]
fn three_hundred_runs_of_one_job_keep_no_run_of_another_node_from_its_group() {
    let mut core = measuring(&[Definition::of_label("run")]);
    let name = |n: usize| RunName::new(format!("run{n:03}")).unwrap();
    let begin = |n| RunCommand::Begin { name: name(n), labels: Labels::default(), by: None };
    core.on_run_command(start().wall, begin(299)).unwrap();
    let values: Vec<String> = (0..300).map(|n| format!("run{n:03}")).collect();
    let of_job: Vec<[(&str, &str); 1]> = values.iter().map(|value| [("run", &**value)]).collect();
    let series: Vec<SeriesCount<'_>> = of_job.iter().map(|of| ("op", &of[..], 2)).collect();
    send(&mut core, "loud", "", &series);
    let count = |core: &Core, value: &str| {
        let found = groups(core, 0).into_iter().find(|(_, values, _)| values == value);
        found.map(|(_, _, samples)| samples)
    };
    assert_eq!((count(&core, "run299"), count(&core, "other")), (None, Some(2 * 44)));

    send(&mut core, "quiet", "", &[("op", &[("run", "v42")], 5)]);
    assert_eq!((count(&core, "v42"), count(&core, "other")), (Some(5), Some(2 * 44)));
    let limited = &core.fleet.counts.limited;
    assert_eq!((limited["rollup"], limited["rollup_group"]), (2 * 44, 1));
    let of_node = |node: &str| core.node(&NodeName::new(node).unwrap()).unwrap().limited.clone();
    assert_eq!(of_node("loud")["rollup"], 2 * 44);
    assert!(of_node("quiet").is_empty());

    let run = core.runs_page(start().wall, &RunsQuery::default()).runs.remove(0);
    assert_eq!(run.folded, BTreeMap::from([(Operation::new("op").unwrap(), 2)]));
    assert_eq!(
        run.not_kept(|_| true).unwrap(),
        "run \"run299\" is not kept by itself: 256 groups of one run and one operation are, and 2 \
         of its samples are in the group \"other\" with those of other runs (of op)"
    );
}
