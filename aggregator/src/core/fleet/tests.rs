//! Fleet on its own interface: snapshots in, ledger entries and windows out.

use bytes::Bytes;
use plimsoll_schemas::ids::Series;
use plimsoll_schemas::metric::Metric;
use plimsoll_schemas::rule::Threshold;
use plimsoll_schemas::rule::file::effective;
use plimsoll_schemas::rule::file::shipped;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::transport::Delivered;
use plimsoll_schemas::wire::{Body, Latency};

use super::*;
use crate::core::ingest::{Decoded, Ingest};
use crate::core::tests::{MS, SECOND, Speaker, start};

fn merge(fleet: &mut Fleet, now: Now, (subject, payload): &(String, Vec<u8>)) -> bool {
    let mut ingest = Ingest::new(start());
    Lane::ALL.into_iter().for_each(|lane| ingest.on_positioned(lane, 1, 0, "s"));
    let (lane, at) = (Lane::Normal, Some(now.wall));
    let message = Delivered {
        lane,
        stream_seq: 1,
        pending: 0,
        at,
        sent: None,
        subject: subject.to_owned(),
        payload: Bytes::copy_from_slice(payload),
    };
    let (time, snapshot) = ingest.on_decoded(now, Decoded::of(message)).unwrap();
    fleet.merge(&time, snapshot).is_some()
}

fn fleet() -> Fleet {
    Fleet::new(&Rules::from(effective(&[]).unwrap()))
}

#[test]
fn a_snapshot_is_merged_once_and_a_checkpoint_takes_its_node_alone() {
    let mut fleet = fleet();
    let messages = ["a", "b"].map(|name| Speaker::new(name).send(start(), MS, 5));
    assert!(merge(&mut fleet, start(), &messages[0]));
    assert!(merge(&mut fleet, start(), &messages[1]));
    let all = fleet.checkpoint(true);
    assert!(all.everything && all.nodes.len() == 2 && !fleet.has_changed());
    assert!(!merge(&mut fleet, start(), &messages[1]), "it was merged before");
    assert_eq!(fleet.counts.duplicates, 1);
    let changes = fleet.checkpoint(false);
    assert!(!changes.everything);
    let names: Vec<&str> = changes.nodes.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((names, changes.rest.nodes), (vec!["b"], 2));
    let (_, windows) = fleet.operations().iter().next().unwrap();
    assert_eq!(windows.total().count(), 10);
}

#[test]
fn a_node_that_left_expires_once_keeps_its_entry_and_is_evicted_in_time() {
    let mut fleet = fleet();
    let mut node = Speaker::new("a");
    merge(&mut fleet, start(), &node.send(start(), MS, 5));
    merge(&mut fleet, start(), &node.final_message(start()));
    let name = NodeName::new("a").unwrap();
    let hours = |n: u32| start().wall.plus(3_600 * n * SECOND);
    assert_eq!(fleet.expire(hours(0)), BTreeSet::new());
    assert_eq!(fleet.expire(hours(2)), BTreeSet::from([name.clone()]));
    assert_eq!(fleet.expire(hours(2)), BTreeSet::new());
    assert_eq!((fleet.shown().count(), fleet.nodes()[&name].account.ledger().merged), (0, 5));
    fleet.expire(hours(24 * 30));
    assert_eq!((fleet.nodes().len(), fleet.counts.gone.merged), (0, 5));
}

#[test]
fn a_clock_that_jumps_moves_when_nodes_were_seen() {
    let mut fleet = fleet();
    merge(&mut fleet, start(), &Speaker::new("a").send(start(), MS, 5));
    let seen = |fleet: &Fleet| fleet.nodes().values().next().unwrap().last_seen;
    let day = 86_400 * SECOND;
    let later = start().wall.plus(day);
    fleet.on_clock_jump(later, ClockJump { forward: day, is_back: false });
    assert_eq!(seen(&fleet), later);
    fleet.on_clock_jump(start().wall, ClockJump { forward: Duration::ZERO, is_back: true });
    assert_eq!(seen(&fleet), start().wall);
}

#[test]
fn a_counter_that_two_rules_watch_grows_once() {
    let jobs = Operation::new("isolation.violations").unwrap();
    let mut rules = shipped();
    let is_it = |of: &&Threshold| of.metric == Metric::Counter(jobs.clone());
    let watches = rules.thresholds.iter().find(is_it).unwrap().clone();
    rules.thresholds.push(Threshold { name: RuleName::new("again").unwrap(), ..watches });
    let mut fleet = Fleet::new(&rules);
    let mut node = Speaker::new("a");
    let series = Series::plain(jobs);
    for amount in [1.0, 2.0] {
        let counters = vec![(series.clone(), amount)];
        let body = Body::Latency(Latency { counters, ..Latency::default() });
        merge(&mut fleet, start(), &node.message(start(), body, false));
    }
    let node = fleet.nodes().values().next().unwrap();
    let grown: Vec<_> = node.metrics.jobs(start().wall).map(|(_, grown)| grown).collect();
    assert_eq!(grown, [3.0]);
}
