//! An aggregator on a real broker: nodes receive confirmations of what is stored. A breach during
//! the aggregator's downtime is notified late.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use plimsoll_bus::{Bus, BusConfig, BusEvent, BusEvents, Listener, Publish, Ticket};
use plimsoll_clock::{Clock, Deadline, Stopwatch};
use plimsoll_mesh::broker::Broker;
use plimsoll_mesh::child::{Child, until};
use plimsoll_runtime::client::Api;
use plimsoll_schemas::alert::{AlertState, Notification, Scope};
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Incarnation, Labels, MeshName, NodeName, Operation, Seq, Series};
use plimsoll_schemas::subject::confirm_subject;
use plimsoll_schemas::summary::{EventsPage, LedgerPage};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::confirmation::{Confirmation, decode};
use plimsoll_schemas::wire::{
    AlertType, Body, Event, EventSource, Events, Header, Latency, Snapshot, Totals, encode,
};
use tokio::time::timeout;

const WAIT: Duration = Duration::from_secs(30);

fn mesh() -> MeshName {
    MeshName::new("m").unwrap()
}

fn name() -> NodeName {
    NodeName::new("a").unwrap()
}

/// A node of one's own making: message `seq` brings ten samples, all of this many milliseconds.
struct Node {
    bus: Bus,
    events: BusEvents,
    confirmed: Listener,
    sent: u64,
}

impl Node {
    async fn connect(url: String) -> Self {
        let connection_name = "node".to_owned();
        let config = BusConfig::new(url, connection_name, mesh());
        let (bus, events) = Bus::connect(config).unwrap();
        let confirmed = bus.listen(confirm_subject(&mesh(), &name()));
        let mut node = Self { bus, events, confirmed, sent: 0 };
        node.wait_for(|event| matches!(event, BusEvent::Connected { .. })).await;
        node
    }

    async fn wait_for(&mut self, fits: impl Fn(&BusEvent) -> bool) {
        let received = async { while !fits(&self.events.next().await.expect("an open bus")) {} };
        timeout(WAIT, received).await.expect("the broker answers");
    }

    /// Sends a message until the broker has it; again under another id, as nodes do.
    async fn send_latency(&mut self, seq: u64, ms: u64) {
        let mut samples = Histogram::default();
        samples.record_n(ms * 1_000_000, 200);
        let series = Series::plain(Operation::new("epoch_hook").unwrap());
        let latency = Latency { histograms: vec![(series, samples)], ..Latency::default() };
        self.send(seq, Body::Latency(latency)).await;
    }

    async fn send(&mut self, seq: u64, body: Body) {
        self.sent += 1;
        let token = self.sent;
        let subject = format!("plimsoll.v1.m.normal.a.{}", body.kind().as_str());
        let header = Header {
            node: name(),
            incarnation: Incarnation(7),
            seq: Seq(seq),
            start: Clock::start().now().wall,
            length_ns: 1,
            totals: Totals { recorded: 200 * seq, lost: BTreeMap::new() },
            last: false,
            successor: None,
            labels: Labels::default(),
        };
        let payload = encode(&Snapshot { header, body }).into();
        let message_id = token.to_string();
        self.bus
            .try_publish(Publish {
                ticket: Ticket(token),
                subject,
                message_id,
                headers: Vec::new(),
                payload,
            })
            .unwrap();
        let stored = |event: &BusEvent| match event {
            BusEvent::Acknowledged { ticket: Ticket(received), .. } => *received == token,
            _ => false,
        };
        self.wait_for(stored).await;
    }

    /// Sends `seq` repeatedly until a confirmation fits.
    async fn confirmed(&mut self, seq: u64, fits: impl Fn(&Confirmation) -> bool) -> Confirmation {
        let deadline = Deadline::within(WAIT);
        while !deadline.has_passed() {
            self.send_latency(seq, 5).await;
            let received = timeout(Duration::from_millis(300), self.confirmed.next()).await;
            let Ok(Some(received)) = received else { continue };
            let confirmation = decode(&name(), &received.payload).unwrap();
            if fits(&confirmation) {
                return confirmation;
            }
        }
        panic!("no such confirmation in time")
    }
}

struct Aggregator {
    child: Child,
    api: Api,
}

impl Aggregator {
    /// Starts one and waits until it has read the past.
    async fn start(dir: &Path, broker: &Broker, state: Option<&Path>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll-aggregator"));
        command.args(["--mesh", "m", "--nats", &broker.url(), "--http", "127.0.0.1:0"]);
        match state {
            Some(state) => command.arg("--state").arg(state),
            None => command.args(["--set", "confirm.without_state=true"]),
        };
        let log = format!("aggregator-{}", std::fs::read_dir(dir).unwrap().count());
        let child = Child::start(&log, dir, command).unwrap();
        let http = until("it logs its address", WAIT, async || {
            let log = child.log();
            let (_, rest) = log.split_once("aggregator started http=")?;
            Some(rest.split_whitespace().next()?.to_owned())
        });
        let api = Api::at(&http.await.unwrap()).unwrap();
        let ready = until("it is ready", WAIT, async || api.is_ready().await.then_some(()));
        ready.await.unwrap();
        Self { child, api }
    }

    async fn ledger(&self) -> LedgerPage {
        serde_json::from_str(&self.api.get("/api/v1/ledger").await.unwrap()).unwrap()
    }
}

#[tokio::test]
async fn the_process_has_no_huge_pages() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), true).await.unwrap();
    let aggregator = Aggregator::start(dir.path(), &broker, None).await;
    let status = format!("/proc/{}/status", aggregator.child.id());
    let status = std::fs::read_to_string(status).unwrap();
    assert!(status.contains("\nTHP_enabled:\t0\n"), "{status}");
}

#[tokio::test]
async fn a_node_learns_what_is_stored_and_what_is_not() {
    for kept in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let broker = Broker::start(dir.path(), true).await.unwrap();
        let state = kept.then(|| dir.path().join("state.redb"));
        let mut aggregator = Aggregator::start(dir.path(), &broker, state.as_deref()).await;
        let mut node = Node::connect(broker.url()).await;
        node.send_latency(1, 5).await;
        node.send_latency(2, 5).await;
        let fits = |stated: &Confirmation| !stated.behind && stated.incarnations[0].covers(Seq(4));
        let stated = node.confirmed(4, fits).await;
        assert_eq!(stated.incarnations[0].incarnation, Incarnation(7));
        assert_eq!(stated.incarnations[0].spans, [(Seq(1), Seq(2)), (Seq(4), Seq(4))]);
        if kept {
            // What it has confirmed is stored, however suddenly it ends.
            aggregator.child.kill();
            aggregator = Aggregator::start(dir.path(), &broker, state.as_deref()).await;
        }
        let sent =
            aggregator.api.metric(r#"plimsoll_aggregator_confirmations_total{outcome="sent"}"#);
        assert!(sent.await.unwrap().is_some(), "kept: {kept}");
        let ledger = aggregator.ledger().await;
        assert_eq!(ledger.fleet.merged, 600, "kept: {kept}");
        let run = &ledger.nodes[0].runs[0];
        assert_eq!((run.holes.as_slice(), run.newest_seq), (&[(3, 3)][..], 4));
        node.confirmed(3, |stated| stated.incarnations[0].covers(Seq(3))).await;
        assert!(aggregator.ledger().await.nodes[0].runs[0].holes.is_empty());
    }
}

fn event(source: EventSource, title: &str, alert_type: AlertType) -> Event {
    Event {
        source,
        title: title.to_owned(),
        text: "two\nlines".to_owned(),
        alert_type,
        low_priority: false,
        at: Wall(1_700_000_000_000_000_000),
        host: String::new(),
        aggregation_key: String::new(),
        labels: Labels::new([("job", "train")]).unwrap(),
    }
}

#[tokio::test]
async fn events_are_returned_on_request_and_counts_outlive_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), true).await.unwrap();
    let state = dir.path().join("state.redb");
    let mut aggregator = Aggregator::start(dir.path(), &broker, Some(&state)).await;
    let mut node = Node::connect(broker.url()).await;
    let done = event(EventSource::Event, "done", AlertType::Success);
    let check = event(EventSource::ServiceCheck, "db", AlertType::Error);
    let body = Body::Event(Events { events: vec![done, check] });
    node.send(1, body.clone()).await;
    // The same message once more, as after an acknowledgement that was lost.
    node.send(1, body).await;
    node.confirmed(2, |stated| stated.incarnations[0].covers(Seq(2))).await;
    let got = aggregator.api.get("/api/v1/events").await.unwrap();
    let page: EventsPage = serde_json::from_str(&got).unwrap();
    let titles: Vec<&str> = page.events.iter().map(|row| row.title.as_str()).collect();
    assert_eq!(
        (titles.as_slice(), page.events[1].text.as_str()),
        (&["db", "done"][..], "two\nlines")
    );
    let requested = "/api/v1/events?source=service_check&alert_type=error&node=a&limit=1";
    let page: EventsPage =
        serde_json::from_str(&aggregator.api.get(requested).await.unwrap()).unwrap();
    assert_eq!((page.events.len(), page.events[0].at_seconds), (1, 1_700_000_000.0));
    let refused = aggregator.api.get("/api/v1/events?limit=many").await.unwrap_err();
    assert!(refused.to_string().contains("400"), "{refused}");
    aggregator.child.kill();
    let aggregator = Aggregator::start(dir.path(), &broker, Some(&state)).await;
    let of = r#"{node="a",source="service_check",alert_type="error"}"#;
    let counted = aggregator.api.metric(&format!("plimsoll_node_events_total{of}")).await.unwrap();
    assert_eq!(counted, Some(1.0));

    // The status of a node that fell silent meanwhile is not shown, so it reports once more.
    let status =
        r#"plimsoll_service_check_status{node="a",check="db",tags="job:train",status="critical"}"#;
    node.send_latency(3, 1).await;
    let shown = until("the status is shown", WAIT, async || {
        aggregator.api.metric(status).await.ok().flatten()
    });
    assert_eq!(shown.await.unwrap(), 1.0);
}

#[tokio::test]
async fn a_breach_without_an_aggregator_is_reported_as_late() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), true).await.unwrap();
    let state = dir.path().join("state.redb");
    let mut aggregator = Aggregator::start(dir.path(), &broker, Some(&state)).await;
    let mut node = Node::connect(broker.url()).await;
    node.confirmed(1, |stated| stated.incarnations[0].covers(Seq(1))).await;
    aggregator.child.kill();
    let watch = Stopwatch::start();
    let mut seq = 1;
    while watch.elapsed() < Duration::from_secs(6) {
        seq += 1;
        node.send_latency(seq, 60).await;
        // Five messages a second; what was confirmed before the end may still come in.
        let _read = timeout(Duration::from_millis(200), node.confirmed.next()).await;
    }
    let restarted = Clock::start().now().wall.0 as f64 / 1e9;
    let aggregator = Aggregator::start(dir.path(), &broker, Some(&state)).await;
    let firing = async || {
        let changes = aggregator.api.summary().await.ok()?.changes;
        let of_fleet = |notification: &Notification| {
            notification.key.scope == Scope::Fleet && notification.state == AlertState::Firing
        };
        changes.into_iter().find(of_fleet)
    };
    let notification = until("the alert fires", WAIT, firing).await.unwrap();
    assert!(
        notification.late_seconds > 1.0 && notification.at_seconds < restarted,
        "{notification:?}"
    );
    let log = aggregator.child.log();
    assert!(log.contains(&format!("late_seconds={}", notification.late_seconds)), "{log}");
    assert_eq!(aggregator.ledger().await.fleet.merged, 200 * seq);
}
