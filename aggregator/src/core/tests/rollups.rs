//! Roll-ups as messages fill them, and as restarts find them again.

use crate::limits::{ROLLUP_GROUPS_MAX, ROLLUP_LABELS_MAX, ROLLUPS_MAX};
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Labels, Operation, Series};
use plimsoll_schemas::wire::{Body, Latency};

use super::*;
use crate::core::tests::checkpoint::restarted;

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn definition(name: &str, operations: &[&str], by: &[&str], nodes_by: &[&str]) -> Definition {
    let (operations, by) = (strings(operations), strings(by));
    Definition { name: name.to_owned(), operations, by, nodes_by: strings(nodes_by) }
}

fn measuring(definitions: &[Definition]) -> Core {
    core().measuring(Window::FiveMinutes, definitions)
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::new(pairs.iter().copied()).unwrap()
}

/// Operation, labels, number of samples.
type SeriesCount<'a> = (&'a str, &'a [(&'a str, &'a str)], u64);

/// Samples of some series of a node that is called so.
fn send(core: &mut Core, node: &'static str, rack: &str, series: &[SeriesCount<'_>]) {
    let histograms = series.iter().map(|(operation, of_series, n)| {
        let mut histogram = Histogram::default();
        histogram.record_n(MS, *n);
        let operation = Operation::new(*operation).unwrap();
        (Series { operation, labels: labels(of_series) }, histogram)
    });
    let body = Latency { histograms: histograms.collect(), ..Latency::default() };
    let recorded = series.iter().map(|(_, _, n)| n).sum();
    let mut speaker = Speaker::new(node).recorded(recorded);
    if !rack.is_empty() {
        speaker = speaker.called(labels(&[("rack", rack)]));
    }
    deliver(core, start(), &speaker.message(start(), Body::Latency(body), false));
}

/// Operation, values joined by a comma, samples.
fn groups(core: &Core, place: usize) -> Vec<(String, String, u64)> {
    let rollup = core.rollups().iter().nth(place).unwrap();
    let row = |(group, windows): (&Group, &Windows)| {
        let exact = windows.exact(start().wall, Window::ThirtyDays);
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
    assert_eq!((groups.len(), core.fleet.counts().limited["rollup"]), (ROLLUP_GROUPS_MAX + 1, 18));
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
    assert_eq!(core.fleet.counts().limited["rollup"], 7);
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
        (definition("x", &[], &[], &[]), "by and nodes_by must name 1 to 4 labels"),
        (definition("x", &[], &many, &[]), "by and nodes_by must name 1 to 4 labels"),
        (definition("x", &[], &["window"], &[]), "\"window\" is a label of every row"),
        (definition("x", &[], &["a"], &["a"]), "by or nodes_by: label \"a\" is given twice"),
        (definition("x", &[], &["a b"], &[]), "by or nodes_by"),
    ] {
        let error = Definition::check_all(&[definition]).unwrap_err().to_string();
        assert!(error.starts_with("rollup \"") && error.contains(part), "{error}");
    }
    let good = definition("x", &[], &["a"], &["b"]);
    assert!(Definition::check_all(&[good.clone(), good]).unwrap_err().problem.contains("twice"));
    let too_many: Vec<Definition> =
        (0..=ROLLUPS_MAX).map(|n| definition(&format!("x{n}"), &[], &["a"], &[])).collect();
    assert!(Definition::check_all(&too_many).unwrap_err().problem.contains("17 roll-ups"));
    assert_eq!(Definition::check_all(&too_many[1..]), Ok(()));
}
