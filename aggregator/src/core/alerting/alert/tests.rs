//! The state machine, by table and by property.

use AlertState::{Firing, Inactive, Pending, Resolved};
use Finding::{Breach, Clear as Within, Insufficient};
use plimsoll_schemas::ids::Operation;
use proptest::prelude::*;

use super::*;

fn key(node: &str) -> AlertKey {
    AlertKey {
        rule: RuleName::new("r").unwrap(),
        scope: Scope::Node(NodeName::new(node).unwrap()),
        operation: Operation::new("o").unwrap(),
    }
}

const PATIENCE: Hysteresis = Hysteresis { fire_after: 3, clear_after: 2 };

fn walk(verdicts: &[Finding]) -> Vec<AlertState> {
    let mut alerts = Alerts::default();
    let step = |verdict: &Finding| {
        alerts.on_finding(Wall(0), &key("a"), *verdict, PATIENCE);
        alerts.state(&key("a"))
    };
    verdicts.iter().map(step).collect()
}

#[test]
fn three_breaches_in_a_row_fire_and_two_calm_evaluations_resolve() {
    assert_eq!(
        walk(&[Within, Breach, Breach, Breach, Within, Breach, Within, Within, Breach]),
        [Inactive, Pending, Pending, Firing, Firing, Firing, Firing, Resolved, Pending]
    );
}

#[test]
fn every_scope_with_an_alert_of_a_rule_is_found() {
    let mut alerts = Alerts::default();
    let (fleet, node) = (Scope::Fleet, key("a").scope);
    for rule in ["q", "r", "r_burn_1h", "s"] {
        for (scope, operation) in [(&fleet, "-"), (&fleet, "Z"), (&node, "--"), (&node, "/")] {
            let operation = Operation::new(operation).unwrap();
            let key =
                AlertKey { rule: RuleName::new(rule).unwrap(), scope: scope.clone(), operation };
            alerts.on_finding(Wall(0), &key, Breach, PATIENCE);
        }
        if rule == "r" {
            alerts.on_finding(Wall(0), &key("b"), Breach, PATIENCE);
            alerts.on_finding(Wall(1), &key("b"), Within, PATIENCE);
        }
    }
    let [a, b] = ["a", "b"].map(|name| NodeName::new(name).unwrap());
    assert_eq!(alerts.state(&AlertKey { scope: Scope::Node(b), ..key("b") }), Inactive);
    let alive = alerts.alive(&RuleName::new("r").unwrap());
    assert_eq!(alive, BTreeSet::from([None, Some(&a)]));
    assert_eq!(alerts.alive(&RuleName::new("p").unwrap()), BTreeSet::new());
}

#[test]
fn a_breach_that_passes_never_fires() {
    assert_eq!(walk(&[Breach, Breach, Within, Breach]), [Pending, Pending, Inactive, Pending]);
}

#[test]
fn too_few_samples_never_clear_and_never_fire() {
    assert_eq!(
        walk(&[Breach, Insufficient, Breach, Breach, Insufficient, Insufficient, Within]),
        [Pending, Pending, Pending, Firing, Firing, Firing, Firing]
    );
}

#[test]
fn one_breach_on_each_of_three_nodes_fires_nothing() {
    let mut alerts = Alerts::default();
    for node in ["a", "b", "c"] {
        alerts.on_finding(Wall(0), &key(node), Breach, PATIENCE);
        assert_eq!(alerts.state(&key(node)), Pending);
    }
}

#[test]
fn each_change_is_reported_once() {
    let mut alerts = Alerts::default();
    let mut reported = Vec::new();
    for verdict in [Within, Breach, Breach, Breach, Breach, Within, Within, Within] {
        reported.extend(alerts.on_finding(Wall(0), &key("a"), verdict, PATIENCE));
    }
    let states: Vec<AlertState> = reported.iter().map(|change| change.to).collect();
    assert_eq!(states, [Pending, Firing, Resolved]);
}

#[test]
fn a_resolved_alert_becomes_inactive_in_the_end() {
    let mut alerts = Alerts::default();
    for verdict in [Breach, Breach, Breach, Within, Within] {
        alerts.on_finding(Wall(0), &key("a"), verdict, PATIENCE);
    }
    assert_eq!(alerts.state(&key("a")), Resolved);
    alerts.on_finding(Wall(0).plus(RESOLVED_SHOWN), &key("a"), Within, PATIENCE);
    assert_eq!(alerts.state(&key("a")), Inactive);
}

proptest! {
    /// Invariant 4: nothing but evidence moves an alert, and firing needs enough of it.
    #[test]
    fn only_evidence_moves_an_alert(
        verdicts in prop::collection::vec(
            prop::sample::select(&[Insufficient, Within, Breach][..]), 0..60,
        ),
    ) {
        let mut alerts = Alerts::default();
        let mut breaches = 0;
        for verdict in verdicts {
            let before = alerts.state(&key("a"));
            let change = alerts.on_finding(Wall(0), &key("a"), verdict, PATIENCE);
            breaches = match verdict {
                Breach => breaches + 1,
                Insufficient => breaches,
                _ => 0,
            };
            prop_assert!(verdict != Insufficient || change.is_none());
            if change.is_some_and(|change| change.to == Firing) {
                prop_assert!(breaches >= 3 && before == Pending);
            }
        }
    }
}

/// One alert that is walked through time, a finding a second.
struct Walk {
    alerts: Alerts,
    second: u64,
}

impl Walk {
    fn new() -> Self {
        Self { alerts: Alerts::default(), second: 0 }
    }

    fn now(&self) -> Wall {
        Wall(0).plus(Duration::from_secs(self.second))
    }

    fn apply(&mut self, finding: Finding) -> Option<Change> {
        self.second += 1;
        self.alerts.on_finding(self.now(), &key("a"), finding, PATIENCE)
    }

    /// Repeats one finding until the alert reaches the state; returns how often.
    fn until(&mut self, state: AlertState, finding: Finding) -> u32 {
        for n in 1..=1_000 {
            self.apply(finding);
            if self.alerts.state(&key("a")) == state {
                return n;
            }
        }
        panic!("{finding:?} never makes it {state:?}")
    }

    fn flaps(&self) -> u32 {
        self.alerts.get(&key("a")).map_or(0, |entry| entry.flaps)
    }
}

#[test]
fn an_alert_that_flaps_takes_twice_as_long_to_resolve_each_time_up_to_64_times() {
    let mut walk = Walk::new();
    let mut took = Vec::new();
    for _ in 0..9 {
        assert_eq!(walk.until(Firing, Breach), 3, "flapping makes no alert slower to fire");
        took.push(walk.until(Resolved, Within));
    }
    assert_eq!(took, [2, 4, 8, 16, 32, 64, 128, 128, 128]);
    assert_eq!(walk.flaps(), 8);
}

#[test]
fn flaps_are_reset_after_an_hour_of_calm_and_not_before() {
    for (calm, flaps, clears) in [(600, 3, 16), (601, 2, 8), (3_590, 2, 8), (3_600, 0, 2)] {
        let mut walk = Walk::new();
        for _ in 0..3 {
            walk.until(Firing, Breach);
            walk.until(Resolved, Within);
        }
        let resolved = walk.second;
        walk.until(Inactive, Within);
        walk.alerts.evict_calm(walk.now());
        // It fires that long after it resolved, of which two seconds are pending.
        walk.second = resolved + calm - 3;
        walk.until(Firing, Breach);
        assert_eq!((walk.flaps(), walk.until(Resolved, Within)), (flaps, clears), "{calm}");
    }
}

#[test]
fn an_alert_that_stays_calm_is_evicted() {
    let mut walk = Walk::new();
    walk.apply(Breach);
    walk.apply(Within);
    walk.alerts.evict_calm(walk.now());
    assert_eq!(walk.alerts.get(&key("a")), None, "never fired");
    walk.until(Firing, Breach);
    walk.until(Resolved, Within);
    walk.until(Inactive, Within);
    walk.alerts.evict_calm(walk.now());
    assert!(walk.alerts.get(&key("a")).is_some(), "might still flap");
    walk.second += 600;
    walk.alerts.evict_calm(walk.now());
    assert_eq!(walk.alerts.get(&key("a")), None);
}

#[test]
fn what_is_found_of_the_data_is_shown_beside_an_alert_that_stands_and_alone_where_none_does() {
    use Finding::{NoData, Uncertain};
    use plimsoll_schemas::alert::AlertState as State;
    let mut walk = Walk::new();
    walk.until(Firing, Breach);
    let data = |walk: &Walk| walk.alerts.get(&key("a")).map(|entry| entry.data);
    for (finding, wanted) in [
        (NoData, DataStatus::NoData),
        (Insufficient, DataStatus::Insufficient),
        (Uncertain, DataStatus::Enough),
    ] {
        assert_eq!(walk.apply(finding), None);
        assert_eq!((data(&walk), walk.alerts.state(&key("a"))), (Some(wanted), Firing));
    }
    for (state, finding, shown) in [
        (Inactive, NoData, State::NoData),
        (Inactive, Insufficient, State::Insufficient),
        (Inactive, Uncertain, Inactive),
        (Pending, NoData, Pending),
        (Firing, Insufficient, Firing),
        (Resolved, NoData, Resolved),
    ] {
        assert_eq!(displayed(state, finding), shown);
    }
}

#[test]
fn ends_are_sent_unless_the_begin_was_never_received() {
    let mut alerts = Alerts::default();
    let mut apply = |node: &str, findings: &[Finding]| {
        for finding in findings {
            alerts.on_finding(Wall(0), &key(node), *finding, PATIENCE);
        }
    };
    apply("fires", &[Breach, Breach, Breach]);
    apply("pends", &[Breach]);
    apply("resolved", &[Breach, Breach, Breach, Within, Within]);
    apply("stays", &[Breach, Breach, Breach]);
    let ended = alerts.end(|of| *of != key("stays"));
    let moves: Vec<_> = ended.iter().map(|of| (of.key.clone(), of.change)).collect();
    let change = |from, to| Change { from, to };
    assert_eq!(
        moves,
        [(key("fires"), change(Firing, Resolved)), (key("pends"), change(Pending, Inactive))]
    );
    let left: Vec<_> = alerts.active().map(|(key, state)| (key.clone(), state)).collect();
    assert_eq!(left, [(key("stays"), Firing)]);
}

/// What may happen to an alert.
#[derive(Clone, Copy, Debug)]
enum Happens {
    Found(Finding),
    Ended,
    Restarted,
    Hours(u64),
}

fn happens() -> impl Strategy<Value = Happens> {
    use Finding::{NoData, Uncertain};
    let finding =
        prop::sample::select(&[NoData, Insufficient, Uncertain, Within, Breach, Breach][..]);
    prop_oneof![
        20 => finding.prop_map(Happens::Found),
        1 => Just(Happens::Ended),
        1 => Just(Happens::Restarted),
        1 => (0_u64..3).prop_map(Happens::Hours),
    ]
}

proptest! {
    #[test]
    fn no_path_leads_from_firing_to_anything_but_resolved(
        story in prop::collection::vec(happens(), 0..200),
    ) {
        let mut walk = Walk::new();
        let mut known = Inactive;
        for happens in story {
            let changes: Vec<Change> = match happens {
                Happens::Found(finding) => walk.apply(finding).into_iter().collect(),
                Happens::Ended => walk.alerts.end(|_| true).iter().map(|of| of.change).collect(),
                Happens::Restarted => {
                    let bytes = rmp_serde::to_vec_named(&walk.alerts).unwrap();
                    walk.alerts = rmp_serde::from_slice(&bytes).unwrap();
                    vec![]
                }
                Happens::Hours(hours) => {
                    walk.second += 3_600 * hours;
                    walk.alerts.evict_calm(walk.now());
                    vec![]
                }
            };
            for change in changes {
                prop_assert_eq!(change.from, known);
                prop_assert!(known != Firing || change.to == Resolved);
                known = change.to;
            }
            let state = walk.alerts.state(&key("a"));
            // What has resolved and is then ended is no news.
            prop_assert!(state == known || known == Resolved && state == Inactive);
            known = state;
        }
    }
}
