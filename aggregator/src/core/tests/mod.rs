//! The core as its driver uses it: messages in any order, hostile ones among them, alerts out.

mod approximate;
mod burn_rate;
mod captures;
mod catch_up;
pub(crate) mod checkpoint;
mod completeness;
mod confirmations;
mod crashes;
mod delivery;
mod duplicate_names;
mod evaluation;
mod event_time;
pub(crate) mod events;
mod evidence;
mod expiry;
mod flood;
mod freshness;
mod gaps;
mod headroom;
mod latency_high;
mod lead;
mod ledger_page;
mod message_delivery;
mod nodes_page;
mod notifications;
mod oracle;
mod own_operations;
mod reload;
mod retention;
mod rollups;
mod runs;
mod self_monitoring;
mod shards;
mod speaker;
mod statistics;
mod stragglers;
mod strange;
mod thresholds;
mod worst_nodes;

use std::collections::BTreeMap;

use bytes::Bytes;
use plimsoll_schemas::alert::{AlertKey, AlertState, LEDGER_GAP, Scope};
use plimsoll_schemas::budget::{Budget, Selector, Window};
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Incarnation, Labels, Operation, RuleName, Seq, Series};
use plimsoll_schemas::rule::Threshold;
use plimsoll_schemas::rule::file::{effective, shipped};
use plimsoll_schemas::summary::{Presence, Verdict};
use plimsoll_schemas::transport::{BusEvent, Delivery};
use plimsoll_schemas::wire::{self, Body, Bus, Header, Latency, Snapshot, Totals};
use proptest::prelude::*;

use crate::limits::NODES_MAX;

use super::alerting::{
    AlertCommand, Alerts, AlertsQuery, Answer, CommandError, CommandResult, DueNotification,
    Receiver, ReceiverKind,
};
use super::durable::{Part, StoredRecords, Unusable};
use super::fleet::{Completeness, Definition, EventsQuery, Group, Node, ReportingNode, Windows};
use super::ingest::{Position, Skew};
use super::rules::{AlertFinding, Finding, Hysteresis, Inputs, Value};
use super::view::{Nodes, View, ViewQuery};
use super::*;
pub(crate) use speaker::Speaker;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MS: u64 = 1_000_000;

pub(crate) fn start() -> Now {
    Now { mono: Mono(0), wall: Wall(1_700_000_000_000_000_000) }
}

/// Budgets without error budgets, and the one threshold about ledger entries.
pub(crate) fn core() -> Core {
    let text = "[[budget]]
name = 'epoch_hook'
window = '10s'";
    let budgets = effective(&[text]).unwrap().into_iter();
    let mut thresholds = shipped().thresholds;
    thresholds.retain(|threshold| threshold.name.as_str() == LEDGER_GAP);
    let budgets = budgets.map(|budget| Budget { objective: None, ..budget }).collect();
    let rules = Rules { budgets, thresholds, time_scale: 1, ..Rules::default() };
    let mut core = Core::new(MeshName::new("m").unwrap(), rules, start());
    Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
    core
}

/// The same core with a budget of this name more, about samples of an operation that have these
/// labels of the series and of the node.
pub(crate) fn selecting(
    mut core: Core,
    (name, operation): (&str, &str),
    series: &[(&str, &str)],
    nodes: &[(&str, &str)],
) -> Core {
    let labels = |of: &[(&str, &str)]| Labels::new(of.iter().copied()).unwrap();
    let selector = Selector { series: labels(series), nodes: labels(nodes) };
    let (name, operation) = (RuleName::new(name).unwrap(), Operation::new(operation).unwrap());
    let mut rules = Rules::clone(core.rules());
    rules.budgets.retain(|budget| budget.name != name);
    rules.budgets.push(Budget { name, operation, selector, ..rules.budgets[0].clone() });
    judge_by(&mut core, rules);
    core
}

/// Other rules, without the end of alerts that a reload brings.
pub(crate) fn judge_by(core: &mut Core, rules: Rules) {
    core.fleet.on_rules(&rules);
    core.evaluator.replace(Arc::new(rules));
}

/// What a threshold is compared with in one scope.
pub(crate) fn value_of(core: &Core, threshold: &Threshold, scope: &Scope) -> Option<Value> {
    core.evaluator.value_of(threshold, scope, inputs(core))
}

/// Moves one alert by a finding.
pub(crate) fn on_found(core: &mut Core, at: Wall, key: AlertKey, finding: Finding, of: Hysteresis) {
    let (alerting, situation) = core.alerting();
    let found = AlertFinding { key, finding, hysteresis: of };
    alerting.on_findings(EvaluationTime::present(at), vec![found], situation);
}

/// Ends silences that are over.
pub(crate) fn end_silences(core: &mut Core, now: Wall) {
    let (alerting, situation) = core.alerting();
    alerting.on_tick(now, situation);
}

pub(crate) fn situation(core: &Core) -> Situation<'_> {
    Situation { evaluator: &core.evaluator, inputs: inputs(core), blame: &core.blame }
}

pub(crate) fn inputs(core: &Core) -> Inputs<'_> {
    Inputs { fleet: &core.fleet, broker: core.ingest.broker_health() }
}

pub(crate) fn deliver(core: &mut Core, now: Now, message: &(String, Vec<u8>)) {
    deliver_in(core, now, Lane::Normal, message);
}

fn connected() -> BusEvent {
    let server_version = String::new();
    BusEvent::Connected { delivery: Delivery::JetStream, server_version, payload_bytes_max: 0 }
}

fn deliver_in(core: &mut Core, now: Now, lane: Lane, (subject, payload): &(String, Vec<u8>)) {
    // Undecodable messages have been counted; the tests check the counts.
    let _read = core.on_message(
        now,
        &Delivered {
            lane,
            stream_seq: 1,
            pending: 0,
            at: None,
            sent: None,
            subject: subject.to_owned(),
            payload: Bytes::copy_from_slice(payload),
        },
    );
}

fn fleet_row(core: &Core, now: Now) -> plimsoll_schemas::summary::OperationRow {
    core.view(now.wall, "test").summary.operations.remove(0)
}

#[test]
fn nodes_are_merged_exactly_and_each_stays_visible() {
    let mut core = core();
    for (node, ms) in [("a", 1), ("b", 2), ("c", 100)] {
        let message = Speaker::new(node).send(start(), ms * MS, 50);
        deliver(&mut core, start(), &message);
    }
    let summary = core.view(start().wall, "test").summary;
    assert_eq!(summary.operations.len(), 4);
    let fleet = &summary.operations[0];
    assert_eq!(fleet.total.count, 150);
    assert_eq!(fleet.total.p99_ns, Some(100 * MS));
    let window = &fleet.windows[&Window::TenSeconds];
    assert_eq!((window.nodes, window.nodes_expected), (3, 3));
    assert!(summary.nodes.iter().all(|node| node.ledger.merged == 50));
}

#[test]
fn a_repeated_message_changes_nothing() {
    let mut core = core();
    let message = Speaker::new("a").send(start(), MS, 50);
    for _ in 0..5 {
        deliver(&mut core, start(), &message);
    }
    assert_eq!(fleet_row(&core, start()).total.count, 50);
    assert_eq!(core.fleet.counts.duplicates, 4);
}

#[test]
fn hostile_messages_are_counted_and_the_rest_is_merged() {
    let mut core = core();
    let good = Speaker::new("a").send(start(), MS, 50);
    let wrong_node = ("plimsoll.v1.m.normal.b.latency".to_owned(), good.1.clone());
    let wrong_kind = ("plimsoll.v1.m.normal.a.bus".to_owned(), good.1.clone());
    let garbage = (good.0.clone(), vec![0xc1; 40]);
    let foreign = ("weather".to_owned(), good.1.clone());
    let mut long = good.clone();
    long.1.push(0);
    for message in [&wrong_node, &wrong_kind, &garbage, &foreign, &long, &good] {
        deliver(&mut core, start(), message);
    }
    let expected =
        ["kind", "node", "shape", "subject", "trailing"].map(|reason| (reason.into(), 1));
    assert_eq!(core.ingest.undecodable, BTreeMap::from(expected));
    assert_eq!(fleet_row(&core, start()).total.count, 50);
}

#[test]
fn a_breach_fires_for_the_node_and_the_fleet_and_clears_when_it_ends() {
    let mut core = core();
    let (mut slow, mut fine) = (Speaker::new("slow"), Speaker::new("fine"));
    let mut now = start();
    let mut got: Vec<(String, AlertState)> = Vec::new();
    for second in 0..40 {
        now = now.after(SECOND);
        let ms = if second < 8 { 30 } else { 5 };
        deliver(&mut core, now, &slow.send(now, ms * MS, 60));
        deliver(&mut core, now, &fine.send(now, 5 * MS, 60));
        core.on_deadline(now);
        while let Some(DueNotification { token, notification, .. }) =
            core.notifications().next_due(now.mono)
        {
            got.push((notification.key.scope.to_string(), notification.state));
            core.notifications().on_delivered(token);
        }
    }
    use AlertState::{Firing, Pending, Resolved};
    let of = |scope: &str| -> Vec<AlertState> {
        got.iter().filter(|(got, _)| got == scope).map(|(_, state)| *state).collect()
    };
    assert_eq!(of("node slow"), [Pending, Firing, Resolved]);
    assert_eq!(of("fleet"), [Pending, Firing, Resolved]);
    assert_eq!(of("node fine"), []);
}

#[test]
fn a_firing_alert_survives_silence() {
    let mut core = core();
    let mut slow = Speaker::new("slow");
    let mut now = start();
    for _ in 0..8 {
        now = now.after(SECOND);
        deliver(&mut core, now, &slow.send(now, 30 * MS, 60));
        core.on_deadline(now);
    }
    for _ in 0..60 {
        now = now.after(SECOND);
        core.on_deadline(now);
    }
    let summary = core.view(now.wall, "test").summary;
    let rows = summary.budgets.iter().filter(|row| row.budget == "epoch_hook");
    let rows: Vec<_> = rows.map(|row| (row.alert, row.verdict)).collect();
    assert_eq!(rows, [(AlertState::Firing, Verdict::NoData); 2]);
    assert_eq!(summary.nodes[0].presence, Presence::Silent);
}

#[test]
fn nothing_is_judged_or_ready_before_the_past_has_been_read() {
    let mut core = Core::new(MeshName::new("m").unwrap(), effective(&[]).unwrap(), start());
    core.on_positioned(Lane::Emergency, 0, 0, "s1");
    core.on_positioned(Lane::Normal, 1, 2, "s1");
    let mut node = Speaker::new("a");
    let then = Now { wall: start().wall.minus(30 * SECOND), ..start() };
    for stream_seq in 1..=2 {
        assert!(!core.is_ready());
        let (subject, payload) = node.send(then, MS, 5);
        let lane = Lane::Normal;
        let message = Delivered {
            lane,
            stream_seq,
            pending: 0,
            at: None,
            sent: None,
            subject,
            payload: payload.into(),
        };
        assert_eq!(core.on_message(start(), &message), Ok(()));
    }
    assert!(core.is_ready());
    let received = core.view(start().wall, "test").summary.nodes[0].presence;
    assert_eq!(received, Presence::Silent, "last seen half a minute ago");
    assert_eq!(core.fleet.counts.late_samples, 10);
}

#[test]
fn a_node_that_left_in_order_is_not_silent_and_is_hidden_in_time() {
    let mut core = core();
    let mut node = Speaker::new("a");
    deliver(&mut core, start(), &node.send(start(), MS, 5));
    deliver(&mut core, start(), &node.final_message(start()));
    let later = start().after(600 * SECOND);
    core.on_deadline(later);
    assert_eq!(core.view(later.wall, "test").summary.nodes[0].presence, Presence::Left);
    let much_later = start().after(7_200 * SECOND);
    core.on_deadline(much_later);
    assert!(core.view(much_later.wall, "test").summary.nodes.is_empty());
    assert_eq!(fleet_row(&core, much_later).total.count, 5, "the fleet's total remains");
}

#[test]
fn nodes_are_bounded() {
    let mut core = core();
    let names: Vec<String> = (0..NODES_MAX + 3).map(|i| format!("n{i}")).collect();
    for name in names {
        let mut speaker = Speaker::new(Box::leak(name.into_boxed_str()));
        let message = speaker.final_message(start());
        deliver(&mut core, start(), &message);
    }
    assert_eq!((core.fleet.nodes().len(), core.fleet.counts.limited["node"]), (NODES_MAX, 3));
}

#[test]
fn a_lane_whose_messages_are_all_dropped_is_not_awaited() {
    let mut core = Core::new(MeshName::new("m").unwrap(), effective(&[]).unwrap(), start());
    core.on_positioned(Lane::Emergency, 8, 7, "s1");
    assert!(!core.is_ready());
    core.on_positioned(Lane::Normal, 41, 40, "s1");
    assert!(core.is_ready());
}

#[test]
fn totals_at_their_greatest_are_shown_and_not_added_past_the_end() {
    let mut core = core();
    for incarnation in 1..=2_000 {
        let header = Header {
            node: NodeName::new("a").unwrap(),
            incarnation: Incarnation(incarnation),
            seq: Seq(1 << 53),
            start: start().wall,
            length_ns: 1,
            totals: Totals { recorded: 1 << 53, lost: BTreeMap::new() },
            last: false,
            successor: None,
            labels: Labels::default(),
        };
        let snapshot = Snapshot { header, body: Body::Bus(Bus::default()) };
        let payload = wire::encode(&snapshot);
        deliver(&mut core, start(), &("plimsoll.v1.m.normal.a.bus".to_owned(), payload));
    }
    let view = core.view(start().wall, "test");
    assert_eq!(view.summary.nodes[0].ledger.recorded, 2_000 << 53);
    assert!(crate::exposition::fleet(&view, &effective(&[]).unwrap()).contains("recorded_total"));
}

#[test]
fn a_flood_of_operations_neither_loses_samples_nor_hides_a_judged_one() {
    let mut core = core();
    let mut histogram = Histogram::default();
    histogram.record(MS);
    let flood = (0..300).map(|n| Operation::new(format!("a{n:03}")).unwrap());
    let all = flood.chain([Operation::new("epoch_hook").unwrap()]);
    let histograms: Vec<_> = all.map(|name| (Series::plain(name), histogram.clone())).collect();
    let mut speaker = Speaker::new("a").recorded(301);
    let body = Body::Latency(Latency { histograms, ..Latency::default() });
    deliver(&mut core, start(), &speaker.message(start(), body, false));
    let summary = core.view(start().wall, "test").summary;
    for scope in ["fleet", "node"] {
        let rows = summary.operations.iter().filter(|row| row.scope.as_str() == scope);
        let counts: BTreeMap<&str, u64> =
            rows.map(|row| (row.operation.as_str(), row.total.count)).collect();
        assert_eq!(counts.values().sum::<u64>(), 301, "{scope}");
        assert_eq!((counts["epoch_hook"], counts["other"]), (1, 44), "{scope}");
    }
}

#[test]
fn labels_that_prometheus_takes_for_the_same_share_one_row() {
    let mut core = core();
    let labels = |pairs: &[(&str, &str)]| Labels::new(pairs.to_vec()).unwrap();
    let counter = |pairs: &[(&str, &str)], amount| {
        let operation = Operation::new("jobs").unwrap();
        (Series { operation, labels: labels(pairs) }, amount)
    };
    let counters = vec![counter(&[], 1.0), counter(&[("fast", "")], 2.0)];
    let body = Body::Latency(Latency { counters, ..Latency::default() });
    let message = Speaker::new("a").message(start(), body, false);
    deliver(&mut core, start(), &message);
    let text = crate::exposition::fleet(&core.view(start().wall, "t"), &[]);
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("plimsoll_job_")).collect();
    assert_eq!(rows, ["plimsoll_job_count_jobs_total{node=\"a\"} 3"]);
}

proptest! {
    /// Invariant 6: whatever was taken in can also be judged and shown.
    #[test]
    fn damaged_messages_never_make_the_view_panic(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), seconds in 0..100_u32,
    ) {
        let mut core = core();
        let (subject, mut payload) = Speaker::new("a").send(start(), MS, 50);
        let at = at.index(payload.len());
        payload[at] = byte;
        deliver(&mut core, start(), &(subject, payload));
        let now = start().after(seconds * SECOND);
        core.on_deadline(now);
        let text = crate::exposition::fleet(&core.view(now.wall, "t"), &effective(&[]).unwrap());
        prop_assert!(text.contains("plimsoll_aggregator_ready 1"));
    }

    /// Invariant 3: any order of arrival, repetitions included, leads to the same view.
    #[test]
    fn the_order_of_arrival_never_changes_an_answer(
        values in prop::collection::vec((0..3_usize, 1..50_u64, 1..20_u64), 1..30),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
    ) {
        let mut speakers = ["a", "b", "c"].map(Speaker::new);
        let messages: Vec<_> = values
            .iter()
            .map(|(node, ms, n)| speakers[*node].send(start(), ms * MS, *n))
            .collect();
        let (mut straight, mut shuffled) = (core(), core());
        order.iter().for_each(|index| deliver(&mut shuffled, start(), index.get(&messages)));
        for message in &messages {
            deliver(&mut straight, start(), message);
            deliver(&mut shuffled, start(), message);
        }
        prop_assert_eq!(
            straight.view(start().wall, "t").summary, shuffled.view(start().wall, "t").summary
        );
        let naive: u64 = values.iter().map(|(_, _, n)| n).sum();
        prop_assert_eq!(fleet_row(&straight, start()).total.count, naive);
    }
}
