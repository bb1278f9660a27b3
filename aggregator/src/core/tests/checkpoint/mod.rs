//! State out as records and in again: nothing that an answer depends on may differ.

mod layout;
mod steps;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use plimsoll_schemas::alert::AlertState;
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Now;
use proptest::prelude::*;
use proptest::sample::Index;
use steps::{Step, in_rack, steps};

use super::*;
use crate::core::durable::Record;
use crate::core::fleet::TablesUsed;
use crate::core::ingest::BrokerHealth;

type Message = (String, Vec<u8>);

fn measuring(core: Core) -> Core {
    let nodes_by = vec!["rack".to_owned()];
    let by_rack = Definition { name: "by_rack".to_owned(), nodes_by, ..Definition::default() };
    core.measuring(Window::FiveMinutes, &[by_rack])
}

/// A stream that a core reads, and the store beside it.
struct World {
    core: Core,
    now: Now,
    stored: Option<StoredRecords>,
}

impl World {
    fn new() -> Self {
        let mut core =
            measuring(selecting(core(), ("of_r1", "epoch_hook"), &[], &[("rack", "r1")]));
        Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
        Self { core, now: start(), stored: None }
    }

    /// The steps of a range; a step's place is also its number in the stream.
    fn live(&mut self, steps: &[Step], range: Range<usize>) {
        for (stream_seq, step) in (1..).zip(steps).skip(range.start).take(range.len()) {
            match step {
                Step::Tick => {
                    self.now = self.now.after(SECOND);
                    self.core.on_deadline(self.now);
                }
                Step::Message((subject, payload)) => {
                    let (lane, pending, at) = (Lane::Normal, 0, Some(self.now.wall));
                    let message = Delivered {
                        lane,
                        stream_seq,
                        pending,
                        at,
                        sent: None,
                        subject: subject.to_owned(),
                        payload: Bytes::copy_from_slice(payload),
                    };
                    // Garbage is counted, and the view shows the count.
                    let _read = self.core.on_message(self.now, &message);
                }
            }
        }
    }

    fn checkpoint(&mut self) {
        let Some(changes) = self.core.take_changes(self.now.wall) else { return };
        self.stored.get_or_insert_default().write(changes);
    }

    /// Drops what is not in the store; returns how many steps were in it.
    fn restart(&mut self) -> usize {
        let rules = Rules::clone(self.core.rules());
        let mesh = self.core.mesh.clone();
        self.core = measuring(match &self.stored {
            None => Core::new(mesh, rules, self.now),
            Some(stored) => Core::restore(mesh, rules, self.now, stored.read().unwrap()),
        });
        let read = self.core.position(Lane::Normal).read;
        self.core.on_positioned(Lane::Emergency, 0, 0, "s1");
        self.core.on_positioned(Lane::Normal, 0, read, "s1");
        usize::try_from(read).unwrap()
    }

    fn view(&self) -> View {
        self.core.view(self.now.wall, "test")
    }
}

/// All that a core would store.
fn all(core: &mut Core) -> BTreeMap<String, Vec<u8>> {
    let mut stored = StoredRecords::default();
    core.on_changes_lost();
    stored.write(core.take_changes(start().wall).unwrap());
    stored.0
}

/// Holds two cores, which have read the same, against each other: all that either would store.
pub(crate) fn assert_same(one: &mut Core, other: &mut Core) {
    let (one, other) = (all(one), all(other));
    assert!(one.keys().eq(other.keys()));
    for (name, record) in one {
        assert!(other[&name] == record, "{name} differs");
    }
}

/// The core after a restart, with the whole state of this one.
pub(crate) fn restarted(core: &mut Core, now: Now) -> Core {
    let mut stored = StoredRecords::default();
    core.on_changes_lost();
    stored.write(core.take_changes(now.wall).unwrap());
    Core::restore(core.mesh.clone(), Rules::clone(core.rules()), now, stored.read().unwrap())
}

proptest! {
    /// The state is a fold: cut anywhere, stored in parts, and taken up again, it is the same.
    #[test]
    fn a_restart_at_any_point_changes_no_answer(
        steps in steps(),
        checkpoints in prop::collection::vec(any::<Index>(), 0..4),
        cut in any::<Index>(),
    ) {
        let cut = cut.index(steps.len() + 1);
        let mut places: Vec<usize> = checkpoints.iter().map(|at| at.index(cut + 1)).collect();
        places.push(cut);
        places.sort_unstable();
        let (mut straight, mut cut_off) = (World::new(), World::new());
        straight.live(&steps, 0..steps.len());
        let mut done = 0;
        for place in places {
            cut_off.live(&steps, done..place);
            cut_off.checkpoint();
            done = place;
        }
        cut_off.restart();
        cut_off.live(&steps, cut..steps.len());
        // What is known of the way to the broker begins anew; tables are looked at each second.
        let view = |world: &World| {
            let mut view = world.view();
            view.own.broker = BrokerHealth::default();
            view.tables = TablesUsed::default();
            format!("{view:#?}")
        };
        prop_assert_eq!(view(&straight), view(&cut_off));
        let alerts = |world: &World| {
            let alerting = &world.core.alerting;
            format!("{:?} {:?}", alerting.alerts, alerting.notifications)
        };
        prop_assert_eq!(alerts(&straight), alerts(&cut_off));
        // Its time of judgement may differ: a restart also judges the time while the aggregator was
        // down.
        let but_rest = |world: &mut World| {
            let mut all = all(&mut world.core);
            all.remove("rest").map(|_| all)
        };
        prop_assert!(but_rest(&mut straight) == but_rest(&mut cut_off), "what is stored differs");
    }

    /// A crash loses what was not stored, and reading on from the position brings it back.
    #[test]
    fn no_count_is_lost_or_doubled_by_a_crash(
        steps in steps(), stored_at in any::<Index>(), crash_at in any::<Index>(),
    ) {
        let crash_at = crash_at.index(steps.len() + 1);
        let stored_at = stored_at.index(crash_at + 1);
        let mut world = World::new();
        world.live(&steps, 0..stored_at);
        world.checkpoint();
        world.live(&steps, stored_at..crash_at);
        let position = world.restart();
        world.live(&steps, position..steps.len());
        let mut straight = World::new();
        straight.live(&steps, 0..steps.len());
        let account = |world: &World| {
            let view = world.view();
            let ledgers = view.summary.nodes.iter().map(|row| row.ledger.clone());
            let totals = view.summary.operations.iter().map(|row| row.total.clone());
            let numbers = view.nodes.iter().map(|node| format!("{:?}", node.node.counters));
            (ledgers.collect::<Vec<_>>(), totals.collect::<Vec<_>>(), numbers.collect::<Vec<_>>())
        };
        prop_assert_eq!(account(&straight), account(&world));
    }

    #[test]
    fn one_flipped_bit_in_a_record_is_noticed(
        record in any::<Index>(), at in any::<Index>(), bit in 0..8_u32,
    ) {
        let mut world = World::new();
        let message = Speaker::new("a").send(start(), MS, 9);
        world.live(&[Step::Message(message)], 0..1);
        world.checkpoint();
        let mut stored = world.stored.unwrap();
        let record = record.index(stored.0.len());
        let record = stored.0.values_mut().nth(record).unwrap();
        let at = at.index(record.len());
        record[at] ^= 1 << bit;
        let unusable = stored.read().unwrap_err();
        // A flipped bit in the version's own bytes may result in another version instead.
        prop_assert!(at < 2 || matches!(unusable, Unusable::Damaged { .. }), "{}", unusable);
    }
}

#[test]
fn records_of_another_version_differ_from_damaged_ones() {
    let mut world = World::new();
    world.checkpoint();
    let mut stored = world.stored.unwrap();
    let mut refused = |change: &dyn Fn(&mut Vec<u8>)| {
        change(stored.0.get_mut("rest").unwrap());
        stored.read().unwrap_err()
    };
    let record = || "rest".to_owned();
    let newer = Unusable::Newer { record: record(), version: 13, reads: 12 };
    assert_eq!(refused(&|rest| rest[1] = 13), newer);
    let older = Unusable::Older { record: record(), version: 1 };
    assert_eq!(refused(&|rest| rest[1] = 1), older);
    let damaged = |record: &str, what: &str| Unusable::Damaged {
        record: record.to_owned(),
        what: what.to_owned(),
    };
    assert_eq!(refused(&|rest| rest.truncate(5)), damaged("rest", "too short"));
}

#[test]
fn a_record_that_is_missing_or_of_no_known_name_is_noticed() {
    let mut world = World::new();
    let message = Speaker::new("a").send(start(), MS, 9);
    world.live(&[Step::Message(message)], 0..1);
    world.checkpoint();
    let stored = world.stored.unwrap();
    assert_eq!(stored.0.len(), 4 + 2 * Window::ALL.len());
    for name in stored.0.keys() {
        let mut without = stored.clone();
        let record = without.0.remove(name).unwrap();
        assert!(matches!(without.read(), Err(Unusable::Damaged { .. })), "{name}");
        without.0.insert(format!("former {name}"), record);
        assert!(matches!(without.read(), Err(Unusable::Damaged { .. })), "{name}");
    }
}

#[test]
fn only_what_changed_is_written_and_nothing_when_nothing_did() {
    let mut world = World::new();
    let (mut a, mut b) = (in_rack(("a", "r")), in_rack(("b", "s")));
    let messages = [a.send(start(), MS, 1), b.send(start(), MS, 1), b.send(start(), MS, 1)];
    let steps = messages.map(Step::Message);
    world.live(&steps, 0..2);
    let names = |world: &mut World, lost| -> Option<String> {
        (0..usize::from(lost)).for_each(|_| world.core.on_changes_lost());
        let changes = world.core.take_changes(start().wall)?;
        assert_eq!(changes.everything, lost);
        let names = changes.into_records().map(|record| record.part().to_string());
        Some(names.collect::<Vec<_>>().join(", ").replace("epoch_hook", "e"))
    };
    let pools = ["fleet e", "rollup by_rack e [\"r\"]", "rollup by_rack e [\"s\"]"];
    let rings = |pool: &str| (0..10).map(|ring| format!("{pool} {ring}, ")).collect::<String>();
    let pools: String = pools.iter().map(|pool| format!("{pool}, {}", rings(pool))).collect();
    let all = Some(format!("{pools}node a, node b, rest"));
    assert_eq!(names(&mut world, true), all);
    assert_eq!(names(&mut world, false), None);
    world.live(&steps, 2..3);
    let group = "rollup by_rack e [\"s\"]";
    let changed = format!("fleet e, fleet e 0, {group}, {group} 0, node b, rest");
    assert_eq!(names(&mut world, false), Some(changed));
    // The next program writes no more than what changes in it.
    names(&mut world, true);
    world.core = measuring(restarted(&mut world.core, start()));
    world.core.on_positioned(Lane::Normal, 0, 3, "s1");
    assert_eq!(names(&mut world, false).as_deref(), Some("rest"));
    assert_eq!(names(&mut world, true), all);
}

#[test]
fn a_node_is_let_go_as_soon_as_its_record_was_made() {
    let mut world = World::new();
    let messages = ["a", "b"].map(|name| Speaker::new(name).send(start(), MS, 1));
    world.live(&messages.map(Step::Message), 0..2);
    let mut records = world.core.take_changes(start().wall).unwrap().into_records();
    let is_node = |record: &Record| matches!(record.part(), Part::Node(_));
    let shared = |core: &Core| -> Vec<usize> {
        core.fleet.nodes().values().map(|node| Arc::strong_count(node) - 1).collect()
    };
    assert_eq!(shared(&world.core), [1, 1]);
    drop(records.find(is_node));
    assert_eq!(shared(&world.core), [0, 1]);
    drop(records.find(is_node));
    assert_eq!(shared(&world.core), [0, 0]);
}

#[test]
fn an_evicted_node_is_removed_from_the_store() {
    let mut world = World::new();
    let mut a = Speaker::new("a");
    let steps = [a.send(start(), MS, 1), a.final_message(start())].map(Step::Message);
    world.live(&steps, 0..2);
    world.checkpoint();
    world.now = world.now.after(7_200 * SECOND);
    world.core.on_deadline(world.now);
    world.checkpoint();
    let has_a = |world: &World| world.stored.as_ref().unwrap().0.contains_key("node a");
    assert!(has_a(&world), "its account stays");
    world.now = world.now.after(7 * 86_400 * SECOND);
    world.core.on_deadline(world.now);
    world.checkpoint();
    assert!(!has_a(&world));
    world.restart();
    assert_eq!(world.view().summary.operations[0].total.count, 1, "the fleet's total remains");
}

#[test]
fn a_group_that_is_gone_or_no_longer_configured_leaves_the_store() {
    let mut world = World::new();
    let mut nodes = [in_rack(("a", "r")), in_rack(("b", "s"))];
    let mut groups = |world: &mut World, node: usize, ends: bool| {
        let got = nodes[node].send(world.now, MS, 1);
        world.live(&[Step::Message(got), Step::Tick], 0..2);
        if ends {
            world.restart();
            let rollups = world.core.fleet.rollups_mut();
            *rollups = rollups.clone().redefined(&[]);
        }
        world.checkpoint();
        let names = world.stored.as_ref().unwrap().0.keys();
        names.filter(|name| name.starts_with("rollup")).count()
    };
    let each = 1 + Window::ALL.len();
    assert_eq!((groups(&mut world, 0, false), groups(&mut world, 1, false)), (each, 2 * each));
    world.now = world.now.after(32 * 86_400 * SECOND);
    assert_eq!(groups(&mut world, 1, false), each);
    assert_eq!(groups(&mut world, 1, true), 0);
    world.restart();
}

#[test]
fn positions_come_back_with_the_stream_they_are_about() {
    let mut world = World::new();
    let message = Speaker::new("a").send(start(), MS, 1);
    world.live(&[Step::Tick, Step::Message(message)], 0..2);
    world.checkpoint();
    world.restart();
    let stream_id = Some("s1".to_owned());
    assert_eq!(world.core.position(Lane::Normal), Position { read: 2, stream_id });
    // The stream was recreated while no core read it: its numbers begin again, its samples are
    // known.
    world.core.on_reset(Lane::Normal, 9);
    world.checkpoint();
    assert_eq!(world.core.position(Lane::Normal), Position::default());
}

#[test]
fn alerts_of_rules_that_are_gone_are_let_go() {
    let mut world = World::new();
    let mut slow = Speaker::new("a");
    for _ in 0..8 {
        let message = slow.send(world.now, 30 * MS, 60);
        world.live(&[Step::Message(message), Step::Tick], 0..2);
    }
    world.checkpoint();
    assert!(format!("{:?}", world.core.alerting.alerts).contains("Firing"));
    let mut rules = Rules::clone(world.core.rules());
    rules.budgets.clear();
    world.core.evaluator.replace(Arc::new(rules));
    world.restart();
    let core = world.core.with_receivers(world.now, Vec::new(), 1);
    assert_eq!(format!("{:?}", core.alerting.alerts), format!("{:?}", Alerts::default()));
}

#[test]
fn an_evaluation_that_only_brings_an_alert_nearer_is_stored_too() {
    let mut world = World::new();
    let mut slow = Speaker::new("a");
    let steps = [slow.send(start(), 30 * MS, 60), slow.send(start(), 30 * MS, 60)];
    world.live(&steps.map(Step::Message), 0..2);
    for _ in 0..2 {
        world.live(&[Step::Tick], 0..1);
        world.checkpoint();
    }
    let before = format!("{:?}", world.core.alerting.alerts);
    assert!(before.contains("state: Pending") && before.contains("streak: 2"), "{before}");
    world.restart();
    assert_eq!(format!("{:?}", world.core.alerting.alerts), before);
}

#[test]
fn an_alert_that_stands_unchanged_costs_no_checkpoint() {
    let (mut core, mut slow, mut now) = (core(), Speaker::new("a"), start());
    for _ in 0..8 {
        now = now.after(SECOND);
        deliver(&mut core, now, &slow.send(now, 30 * MS, 60));
        core.on_deadline(now);
    }
    assert!(core.alerting.alerts.active().any(|(_, state)| state == AlertState::Firing));
    let mut written = 0;
    for _ in 0..120 {
        now = now.after(SECOND);
        core.on_deadline(now);
        while let Some(due) = core.notifications().next_due(now.mono) {
            core.notifications().on_delivered(due.token);
        }
        written += u32::from(core.take_changes(now.wall).is_some());
    }
    // The notifications from before, and the change to no data.
    assert!(written <= 4, "{written}");
    assert!(core.alerting.alerts.active().any(|(_, state)| state == AlertState::Firing));
}
