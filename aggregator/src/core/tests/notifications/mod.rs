//! Notifications of whole cores about alerts that end, are silenced, or are acknowledged.

mod receivers;
mod silent_nodes;

use std::sync::Arc;
use std::time::Duration;

use crate::limits::NODE_HIDE_SILENT_AFTER;
use plimsoll_schemas::alert::{
    Acknowledgement, AlertEndReason, AlertKey, AlertState, DataStatus, Notification, Scope,
    Silence, SilenceMatch,
};
use plimsoll_schemas::ids::{NodeName, Operation, RuleName};
use plimsoll_schemas::rule::{Rules, Severity};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Now;
use proptest::prelude::*;
use receivers::Receivers;

use super::*;

fn key(node: Option<&str>) -> AlertKey {
    let scope = node.map_or(Scope::Fleet, |name| Scope::Node(NodeName::new(name).unwrap()));
    let operation = Operation::new("epoch_hook").unwrap();
    AlertKey { rule: RuleName::new("epoch_hook").unwrap(), scope, operation }
}

/// Notifications that have not been taken yet.
fn take(core: &mut Core, now: Now) -> Vec<Notification> {
    let mut got = Vec::new();
    while let Some(DueNotification { token, notification, .. }) =
        core.notifications().next_due(now.mono)
    {
        core.notifications().on_delivered(token);
        got.push(notification);
    }
    got
}

/// A core in which node `a` is too slow, and so is the fleet; both fire.
fn firing() -> (Core, Speaker, Now) {
    let (mut core, mut slow, mut now) = (core(), Speaker::new("a"), start());
    for _ in 0..8 {
        now = live(&mut core, &mut slow, now, 30);
    }
    assert_eq!(states(&core), [AlertState::Firing; 2]);
    (core, slow, now)
}

/// Advances one second, in which the node sends samples of `ms` milliseconds.
fn live(core: &mut Core, node: &mut Speaker, now: Now, ms: u64) -> Now {
    let now = now.after(SECOND);
    deliver(core, now, &node.send(now, ms * MS, 60));
    core.on_deadline(now);
    now
}

/// The core that comes after this one, with nothing new to read.
fn restarted(core: &mut Core, now: Now) -> Core {
    let mut core = checkpoint::restarted(core, now);
    Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
    core
}

fn states(core: &Core) -> Vec<AlertState> {
    core.alerting.alerts.active().map(|(_, state)| state).collect()
}

fn silence(now: Now, matches: &str, lasts: Duration) -> AlertCommand {
    let matches: SilenceMatch = serde_json::from_str(matches).unwrap();
    let (from, until) = (now.wall, now.wall.plus(lasts));
    AlertCommand::Silence(Silence {
        matches,
        by: "ann".to_owned(),
        comment: String::new(),
        from,
        until,
    })
}

fn acknowledge(now: Now, lasts: Duration) -> AlertCommand {
    let until = now.wall.plus(lasts);
    let (by, comment) = ("bob".to_owned(), "on it".to_owned());
    AlertCommand::Acknowledge(key(None), Acknowledgement { by, comment, until })
}

#[test]
fn a_notification_has_its_rules_texts_and_describes_the_event() {
    let (mut core, _, now) = firing();
    let got = take(&mut core, now);
    let fires = got.iter().find(|notification| notification.state == AlertState::Firing).unwrap();
    let about = core.rules().find(&fires.key.rule).unwrap();
    assert_eq!((fires.severity, &fires.routes), (about.severity(), &about.about().routes));
    assert_eq!(
        about.about().summary.as_deref(),
        Some("the end-of-epoch hook takes too long"),
        "it has no figures"
    );
    assert_eq!(
        fires.summary,
        "the end-of-epoch hook takes too long: epoch_hook p99 30 ms over 18 ms in the fleet, 180 \
         samples in 10s, counts are assumed to vary 4 times as much as with independent samples"
    );
    assert_eq!(fires.firing_since_seconds, Some(fires.at_seconds));
    let mut rules = Rules::clone(core.rules());
    rules.budgets[0].about.summary = None;
    core.evaluator.replace(Arc::new(rules));
    let hysteresis = Hysteresis { fire_after: 1, clear_after: 1 };
    on_found(&mut core, now.wall, key(None), Finding::Clear, hysteresis);
    assert_eq!(
        take(&mut core, now)[0].summary,
        "epoch_hook p99 30 ms over 18 ms in the fleet, 480 samples in 10s; resolved"
    );
}

#[test]
fn alerts_of_a_rule_that_is_taken_away_end_with_a_notification_that_receivers_know_by_its_labels() {
    for restart in [false, true] {
        let (mut core, _, now) = firing();
        let before: Vec<Notification> = take(&mut core, now);
        if restart {
            let mut records = StoredRecords::default();
            core.on_changes_lost();
            records.write(core.take_changes(now.wall).unwrap());
            let mesh = core.mesh.clone();
            core = Core::restore(mesh, Vec::new(), now, records.read().unwrap());
            core = core.with_receivers(now, Vec::new(), 1);
        } else {
            core.reload(now, Rules::from(Vec::new()));
        }
        let got = take(&mut core, now);
        assert_eq!(got.len(), 2, "{got:?}");
        for notification in got {
            let fired = before.iter().rfind(|fired| fired.key == notification.key).unwrap();
            assert_eq!(
                (notification.from, notification.state),
                (AlertState::Firing, AlertState::Resolved)
            );
            assert_eq!(notification.ended, Some(AlertEndReason::RuleRemoved));
            assert_eq!(
                (&notification.severity, &notification.routes),
                (&fired.severity, &fired.routes)
            );
            assert_eq!(notification.evidence, fired.evidence);
        }
        assert_eq!(states(&core), []);
    }
}

#[test]
fn alerts_about_an_evicted_node_end_with_a_notification() {
    let (mut core, _, now) = firing();
    take(&mut core, now);
    let mut later = now;
    let mut other = Speaker::new("b");
    // An hour at a time: a clock jump does not count as silence of a node.
    let days = NODE_HIDE_SILENT_AFTER.as_secs() / 3_600;
    let mut got = Vec::new();
    for _ in 0..=days {
        later = later.after(SECOND * 3_600);
        deliver(&mut core, later, &other.send(later, MS, 1));
        core.on_deadline(later);
        got.extend(take(&mut core, later));
    }
    let of_node: Vec<_> =
        got.iter().filter(|notification| notification.key == key(Some("a"))).collect();
    assert_eq!(of_node.len(), 1);
    assert_eq!(
        (of_node[0].state, of_node[0].ended, of_node[0].data),
        (AlertState::Resolved, Some(AlertEndReason::NodeForgotten), DataStatus::NoData)
    );
    assert_eq!(
        core.alerting.alerts.state(&key(None)),
        AlertState::Firing,
        "silence clears nothing"
    );
}

#[test]
fn a_firing_alert_without_data_shows_no_data() {
    let (mut core, _, mut now) = firing();
    let data = |core: &Core| {
        let page = core.alerts_page(start().wall, &AlertsQuery::default());
        page.alerts.iter().map(|row| (row.state, row.data)).collect::<Vec<_>>()
    };
    assert_eq!(data(&core), [(AlertState::Firing, DataStatus::Enough); 2]);
    for _ in 0..30 {
        now = now.after(SECOND);
        core.on_deadline(now);
    }
    assert_eq!(data(&core), [(AlertState::Firing, DataStatus::NoData); 2]);
    let page = crate::exposition::fleet(&core.view(now.wall, "t"), &[]);
    let severity = core.rules().find(&key(None).rule).unwrap().severity().as_str();
    let of_node = r#"rule="epoch_hook",scope="node",node="a",operation="epoch_hook""#;
    for row in [
        "plimsoll_alerts_without_data 2\n",
        "plimsoll_alerts{state=\"firing\"} 2\n",
        "plimsoll_alerts{state=\"resolved\"} 0\n",
        &format!("plimsoll_alert_firing{{{of_node}}} 1\n"),
        &format!("plimsoll_alert_state{{{of_node},severity=\"{severity}\",state=\"firing\"}} 1\n"),
    ] {
        assert!(page.contains(row), "{row}{page}");
    }
}

#[test]
fn a_silence_suppresses_receivers_and_not_the_bus_and_outlives_a_restart() {
    let (mut core, mut slow, mut now) = (core(), Speaker::new("a"), start());
    let done = core.on_order(now.wall, silence(now, r#"{"rule":"epoch_*"}"#, SECOND * 12));
    assert!(matches!(done, Ok(CommandResult::Silence(ref row)) if row.id == 1), "{done:?}");
    let mut got = Vec::new();
    for second in 1..=16 {
        now = live(&mut core, &mut slow, now, 30);
        let of_fleet = take(&mut core, now).into_iter().filter(|of| of.key.scope == Scope::Fleet);
        got.extend(of_fleet.map(|of| (second, of.from, of.state, of.silenced)));
        if second % 5 == 0 {
            core = restarted(&mut core, now);
        }
    }
    use AlertState::{Firing, Inactive, Pending};
    let fires = got.iter().find(|(_, _, state, _)| *state == Firing).unwrap().0;
    assert_eq!(
        got,
        [
            (fires - 2, Inactive, Pending, true),
            (fires, Pending, Firing, true),
            (12, Firing, Firing, false)
        ]
    );
    let counts = core.alerting.silences.suppressed.iter().map(|(why, n)| (why.as_ref(), *n));
    assert_eq!(counts.collect::<Vec<_>>(), [("silenced", 4)], "of the node too");
}

#[test]
fn an_acknowledgement_is_stated_at_the_end_and_removed_with_it() {
    let (mut core, mut node, mut now) = firing();
    take(&mut core, now);
    core.on_order(now.wall, acknowledge(now, SECOND * 600)).unwrap();
    let mut got = take(&mut core, now);
    core = restarted(&mut core, now);
    let row = |core: &Core, now: Now| {
        let page = core.alerts_page(now.wall, &AlertsQuery::default());
        page.alerts.into_iter().find(|row| row.key == key(None)).unwrap()
    };
    assert_eq!(row(&core, now).acknowledged.unwrap().by, "bob");
    for _ in 0..30 {
        now = live(&mut core, &mut node, now, 5);
        got.extend(take(&mut core, now));
    }
    got.retain(|notification| notification.key == key(None));
    let [taken, end] = &got[..] else { panic!("{got:?}") };
    assert_eq!((end.state, end.silenced), (AlertState::Resolved, false));
    assert!(taken.is_acknowledgement() && !taken.silenced, "{taken:?}");
    assert!(got.iter().all(|notification| notification.acknowledged_by.as_deref() == Some("bob")));
    assert_eq!(row(&core, now).acknowledged, None);
    let refused = core.on_order(now.wall, acknowledge(now, SECOND)).unwrap_err();
    assert!(matches!(refused, CommandError::NotActive { state: AlertState::Resolved, .. }));
}

#[test]
fn alerts_are_listed_worst_first_with_what_they_stand_on() {
    let (mut core, _, now) = firing();
    let order = silence(now, r#"{"node":"a"}"#, SECOND);
    core.on_order(now.wall, order).unwrap();
    let rows = |wanted: AlertsQuery| core.alerts_page(now.wall, &wanted).alerts;
    let all = rows(AlertsQuery::default());
    assert_eq!(all.iter().map(|row| row.silenced_by.len()).collect::<Vec<_>>(), [0, 1]);
    assert!(all.iter().all(|row| row.evidence.is_some() && row.context.is_some()));
    let of_node = AlertsQuery { node: Some(NodeName::new("a").unwrap()), ..AlertsQuery::default() };
    assert_eq!(rows(of_node), all[1..]);
    let of_state = |state| rows(AlertsQuery { state: Some(state), ..AlertsQuery::default() }).len();
    assert_eq!((of_state(AlertState::Firing), of_state(AlertState::Pending)), (2, 0));
    let of_rule =
        AlertsQuery { rule: Some(RuleName::new("publish").unwrap()), ..AlertsQuery::default() };
    assert_eq!(rows(of_rule), []);
    let of_severity =
        |severity| rows(AlertsQuery { severity: Some(severity), ..AlertsQuery::default() });
    assert_eq!(of_severity(all[0].severity), all);
    let others = Severity::ALL.into_iter().filter(|of| *of != all[0].severity);
    assert!(others.clone().count() == 2 && others.flat_map(of_severity).next().is_none());
}

/// What may happen in one second.
#[derive(Clone, Copy, Debug)]
enum Happens {
    Found(Finding),
    Silence(u32),
    EndSilences,
    Acknowledge(u32),
    Unacknowledge,
    Restart,
    RuleRemoved,
    RuleRemovedByRestart,
    Severity(Severity),
    Away(bool),
}

fn happens() -> impl Strategy<Value = Happens> {
    use Finding::{Breach, Clear, Insufficient, NoData, Uncertain};
    const ALL: [Finding; 8] =
        [NoData, Insufficient, Uncertain, Clear, Clear, Breach, Breach, Breach];
    prop_oneof![
        12 => prop::sample::select(&ALL[..]).prop_map(Happens::Found),
        1 => (1_u32..20).prop_map(Happens::Silence),
        1 => Just(Happens::EndSilences),
        1 => (1_u32..20).prop_map(Happens::Acknowledge),
        1 => Just(Happens::Unacknowledge),
        1 => Just(Happens::Restart),
        1 => Just(Happens::RuleRemoved),
        1 => Just(Happens::RuleRemovedByRestart),
        1 => prop::sample::select(vec![Severity::Info, Severity::Critical])
            .prop_map(Happens::Severity),
        1 => prop::bool::ANY.prop_map(Happens::Away),
    ]
}

/// Orders that do not fit are refused, which is as good.
fn happen(core: &mut Core, now: Now, happens: Happens) -> Option<Core> {
    let hysteresis = Hysteresis { fire_after: 2, clear_after: 1 };
    let order = match happens {
        Happens::Found(finding) => {
            on_found(core, now.wall, key(None), finding, hysteresis);
            return None;
        }
        Happens::Restart => {
            return Some(restarted(core, now).with_receivers(now, Receivers::all(), 2));
        }
        Happens::RuleRemovedByRestart => {
            let rules = Rules::clone(core.rules());
            core.reload(now, rules.clone());
            let mut next = receivers::restarted_without_rules(core, now);
            next.reload(now, rules);
            return Some(next);
        }
        Happens::Severity(severity) => {
            let mut rules = Rules::clone(core.rules());
            rules.budgets.iter_mut().for_each(|budget| budget.about.severity = severity);
            core.reload(now, rules);
            return None;
        }
        Happens::Away(_) => return None,
        Happens::RuleRemoved => {
            let rules = Rules::clone(core.rules());
            core.reload(now, Rules::from(Vec::new()));
            core.reload(now, rules);
            return None;
        }
        Happens::Silence(seconds) => silence(now, r#"{"rule":"epoch_*"}"#, SECOND * seconds),
        Happens::EndSilences => {
            for row in core.silences_page().silences {
                core.on_order(now.wall, AlertCommand::EndSilence(row.id)).unwrap();
            }
            return None;
        }
        Happens::Acknowledge(seconds) => acknowledge(now, SECOND * seconds),
        Happens::Unacknowledge => AlertCommand::Unacknowledge(key(None)),
    };
    let _refused = core.on_order(now.wall, order);
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Neither the bus nor receivers are ever left with an alert that does not fire any more.
    #[test]
    fn no_alert_leaves_firing_without_a_word(story in prop::collection::vec(happens(), 0..60)) {
        let (mut core, mut now) = (core().with_receivers(start(), Receivers::all(), 1), start());
        deliver(&mut core, now, &Speaker::new("a").send(now, 30 * MS, 200));
        let mut model = Receivers::default();
        let (mut bus, mut receivers) = (AlertState::Inactive, AlertState::Inactive);
        for step in story {
            now = now.after(SECOND);
            if let Some(next) = happen(&mut core, now, step) {
                core = next;
            }
            end_silences(&mut core, now.wall);
            let away = if let Happens::Away(away) = step { Some(away) } else { None };
            model.receive(&mut core, now, away);
            let mut fired = 0;
            for notification in take(&mut core, now) {
                let follows = notification.from == bus || bus == AlertState::Resolved;
                prop_assert!(follows, "{notification:?}");
                prop_assert!(bus != AlertState::Firing
                    || matches!(notification.state, AlertState::Firing | AlertState::Resolved));
                bus = notification.state;
                if notification.silenced {
                    continue;
                }
                match notification.state {
                    AlertState::Resolved => prop_assert_eq!(receivers, AlertState::Firing),
                    AlertState::Firing => fired += 1,
                    _ => {}
                }
                if matches!(notification.state, AlertState::Firing | AlertState::Resolved) {
                    receivers = notification.state;
                }
            }
            prop_assert!(fired <= 1, "sent twice at once");
            let state = core.alerting.alerts.state(&key(None));
            prop_assert_eq!(bus == AlertState::Firing, state == AlertState::Firing);
            prop_assert!(receivers != AlertState::Firing || state == AlertState::Firing);
        }
        // Once no silence or acknowledgement holds, receivers are notified of what fires.
        happen(&mut core, now, Happens::EndSilences);
        happen(&mut core, now, Happens::Unacknowledge);
        end_silences(&mut core, now.wall);
        let got = take(&mut core, now).into_iter().map(|notification| notification.state).last();
        let state = core.alerting.alerts.state(&key(None));
        let fires = state == AlertState::Firing;
        prop_assert_eq!(got.unwrap_or(receivers) == AlertState::Firing, fires);
        // Whatever they missed meanwhile.
        model.receive(&mut core, now, Some(false));
        now = now.after(SECOND * 600);
        model.receive(&mut core, now, None);
        prop_assert_eq!(model.firing(now), [u32::from(fires); 2]);
    }
}
