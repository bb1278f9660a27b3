//! Many nodes that fall silent at once are one notification for receivers.

use plimsoll_schemas::alert::Evidence;
use plimsoll_schemas::rule::file::shipped;

use super::*;

/// Nodes of a mesh with the rules about silence, and what its receivers have been notified of.
struct Mesh {
    core: Core,
    nodes: Vec<Speaker>,
    receivers: Receivers,
    now: Now,
}

impl Mesh {
    fn of(nodes: usize) -> Self {
        let thresholds = shipped().thresholds.into_iter();
        let of_silence = |name: &str| ["node_silent", "nodes_silent"].contains(&name);
        let thresholds = thresholds.filter(|of| of_silence(of.name.as_str())).collect();
        let rules = Rules { thresholds, time_scale: 1, ..Rules::default() };
        let mut core = Core::new(MeshName::new("m").unwrap(), rules, start());
        Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
        let core = core.with_receivers(start(), Receivers::all(), 1);
        let name = |n: usize| &*Box::leak(format!("n{n:02}").into_boxed_str());
        let nodes = (0..nodes).map(|n| Speaker::new(name(n))).collect();
        Self { core, nodes, receivers: Receivers::default(), now: start() }
    }

    /// This many seconds in which the nodes from `from` on send.
    fn lives(&mut self, seconds: u32, from: usize) {
        for _ in 0..seconds {
            self.now = self.now.after(SECOND);
            let round_trip = BusEvent::RoundTrip(SECOND / 1_000);
            self.core.on_bus_event(self.now.mono, &round_trip);
            for node in &mut self.nodes[from..] {
                deliver(&mut self.core, self.now, &node.send(self.now, MS, 1));
            }
            self.core.on_deadline(self.now);
            self.receivers.receive(&mut self.core, self.now, None);
        }
    }

    /// What the webhook was sent since this was last called.
    fn sent(&mut self) -> Vec<Notification> {
        std::mem::take(&mut self.receivers.sent)
    }

    /// The same as rule, node and state.
    fn received(&mut self) -> Vec<(String, String, AlertState)> {
        let of = |notification: Notification| {
            let AlertKey { rule, scope, .. } = notification.key;
            (rule.to_string(), scope.node().to_owned(), notification.state)
        };
        self.sent().into_iter().map(of).collect()
    }

    /// How many alerts fire that the Alertmanager and the webhook have been notified of.
    fn firing(&self) -> [u32; 2] {
        self.receivers.firing(self.now)
    }
}

fn singly(nodes: std::ops::Range<usize>, state: AlertState) -> Vec<(String, String, AlertState)> {
    nodes.map(|n| ("node_silent".to_owned(), format!("n{n:02}"), state)).collect()
}

fn together(state: AlertState) -> (String, String, AlertState) {
    ("nodes_silent".to_owned(), String::new(), state)
}

#[test]
fn forty_nodes_that_fall_silent_are_one_notification_with_their_number_and_first_names() {
    let mut mesh = Mesh::of(41);
    mesh.lives(30, 0);
    mesh.lives(40, 40);
    let mut all = mesh.sent();
    assert_eq!(all.len(), 1, "{all:?}");
    let notification = all.remove(0);
    let Evidence::Value(evidence) = &notification.evidence else { panic!("{notification:?}") };
    let names: Vec<String> = (0..10).map(|n| format!("n{n:02}")).collect();
    assert_eq!((notification.key.rule.as_str(), evidence.value), ("nodes_silent", 40.0));
    assert_eq!(evidence.labels.get("nodes"), Some(&*names.join(",")));
    assert_eq!(mesh.firing(), [1, 1]);
    let rows = mesh.core.alerts_page(mesh.now.wall, &AlertsQuery::default()).alerts;
    assert_eq!(rows.iter().filter(|row| row.state == AlertState::Firing).count(), 41);
    // Neither a restart nor the loss of the state changes what receivers have been notified of.
    for is_lost in [false, true] {
        let record = mesh.core.alerting.record(mesh.now.wall);
        let core = restarted(&mut mesh.core, mesh.now);
        let core = if is_lost { core.with_alerts(record) } else { core };
        mesh.core = core.with_receivers(mesh.now, Receivers::all(), 2);
        mesh.lives(30, 40);
        assert_eq!((mesh.received(), mesh.firing()), (Vec::new(), [1, 1]), "{is_lost}");
    }
    // Five stay silent: of these receivers are notified singly.
    mesh.lives(40, 5);
    let mut expected = vec![together(AlertState::Resolved)];
    expected.extend(singly(0..5, AlertState::Firing));
    assert_eq!((mesh.received(), mesh.firing()), (expected, [5, 5]));
    mesh.lives(40, 0);
    assert_eq!((mesh.received(), mesh.firing()), (singly(0..5, AlertState::Resolved), [0, 0]));
}

#[test]
fn what_receivers_were_notified_of_singly_ends_singly_beside_the_others() {
    let mut mesh = Mesh::of(31);
    mesh.lives(30, 0);
    mesh.lives(40, 4);
    assert_eq!(mesh.received(), singly(0..4, AlertState::Firing));
    mesh.lives(40, 20);
    assert_eq!((mesh.received(), mesh.firing()), (vec![together(AlertState::Firing)], [5, 5]));
    mesh.lives(60, 0);
    let mut expected = singly(0..4, AlertState::Resolved);
    expected.push(together(AlertState::Resolved));
    assert_eq!((mesh.received(), mesh.firing()), (expected, [0, 0]));
}

#[test]
fn another_number_is_sent_if_it_differs_much_and_not_with_each_change() {
    let mut mesh = Mesh::of(60);
    mesh.lives(30, 0);
    mesh.lives(30, 12);
    assert_eq!(mesh.received(), [together(AlertState::Firing)]);
    (13..40).for_each(|silent| mesh.lives(1, silent));
    mesh.lives(100, 40);
    let numbers: Vec<f64> = mesh.sent().iter().map(|of| of.evidence.value_and_limit().0).collect();
    assert_eq!((numbers.len(), numbers.last()), (1, Some(&40.0)), "{numbers:?}");
}

#[test]
fn nodes_that_are_silenced_are_not_among_the_many() {
    let mut mesh = Mesh::of(41);
    mesh.lives(30, 0);
    let silence = silence(mesh.now, r#"{"node": "n*"}"#, SECOND * 100);
    mesh.core.on_order(mesh.now.wall, silence).unwrap();
    mesh.lives(60, 40);
    assert_eq!((mesh.received(), mesh.firing()), (Vec::new(), [0, 0]));
    // Once the silence is over, receivers are notified of all of them together.
    mesh.lives(60, 40);
    assert_eq!((mesh.received(), mesh.firing()), (vec![together(AlertState::Firing)], [1, 1]));
}

#[test]
fn while_the_many_are_silenced_receivers_are_notified_of_each() {
    let mut mesh = Mesh::of(41);
    mesh.lives(30, 0);
    mesh.lives(40, 20);
    assert_eq!(mesh.received(), [together(AlertState::Firing)]);
    let silence = silence(mesh.now, r#"{"rule": "nodes_silent"}"#, SECOND * 1_000);
    mesh.core.on_order(mesh.now.wall, silence).unwrap();
    mesh.lives(40, 21);
    let received = mesh.received();
    let another = ("node_silent".to_owned(), "n20".to_owned(), AlertState::Firing);
    assert!(received.contains(&another), "{received:?}");
}
