//! A mesh on a broker with the shipped configuration: TLS, and for each process the permissions
//! that `plimsoll nats-config` prints. Then an attack with one node's valid credentials.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use nix::sys::signal::Signal;
use plimsoll_bus::{
    Bus, BusConfig, BusEvent, BusEvents, ConnectionRole, Credentials, Secret, TlsFiles,
    UnacknowledgedMessage,
};
use plimsoll_clock::Clock;
use plimsoll_mesh::broker::Broker;
use plimsoll_mesh::child::{free_port, until};
use plimsoll_mesh::jetstream::JetStreamAdmin;
use plimsoll_mesh::site::Site;
use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_runtime::client::series_value;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Incarnation, MeshName, NodeName, Operation, Seq, Series};
use plimsoll_schemas::limits::wire::COUNT_MAX;
use plimsoll_schemas::permissions::{BrokerUser, Layout, Permissions, inbox_prefix};
use plimsoll_schemas::summary::Summary;
use plimsoll_schemas::time::seconds;
use plimsoll_schemas::wire::{Body, Bus as BusReport, Header, Latency};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::metrics_page::MetricsPage;
use plimsoll_tests::oracle::{RawSamples, check_drained, check_station};
use plimsoll_tests::process::{MeshProcess, await_firing, await_summary, fleet_samples, node_row};
use plimsoll_tests::program::{RunningProgram, program};
use plimsoll_tests::publisher::Publisher;
use tokio::time::{sleep, timeout};

use crate::hostile::forgery::{header_of_now, message};

const WAIT: Duration = Duration::from_secs(60);
/// What no other node may make a node later than. A node publishes every second; beside a compile
/// it may be late by some seconds without any attack.
const LATE_MAX_SECONDS: f64 = 20.0;
/// The attacker floods until the victim was seen this much later than at the begin.
const FLOOD_SECONDS: f64 = 2.0;

const ATTACKER: &str = "node-1";
const VICTIM: &str = "node-2";
/// A node whose key an attacker has, and whose program does not run.
const STRANGER: &str = "node-3";
/// Messages of the stranger, and new names in each.
const NAMES_MESSAGES: u64 = 400;
const NAMES_IN_MESSAGE: u64 = 500;

/// What forges, reads or destroys what is another's.
const PUBLISHES: [&str; 21] = [
    "plimsoll.v1.local.normal.node-2.interval",
    "plimsoll.v1.local.emergency.node-2.latency",
    "plimsoll.v1.local.normal.other.interval",
    "plimsoll.v1.other.normal.node-1.interval",
    "plimsoll.v1.local.confirm.node-2",
    "plimsoll.v1.local.confirm.node-1",
    "plimsoll.v1.local.alert.epoch_hook",
    "plimsoll.v1.local.ask.node-2",
    "plimsoll.v1.local.capture.node-2",
    "plimsoll.v1.local.answer.node-2.x",
    "plimsoll.v1.local.dead.node-2",
    "$JS.API.STREAM.PURGE.PLIMSOLL_local_normal",
    "$JS.API.STREAM.DELETE.PLIMSOLL_local_normal",
    "$JS.API.STREAM.CREATE.PLIMSOLL_local_other",
    "$JS.API.STREAM.MSG.GET.PLIMSOLL_local_normal",
    "$JS.API.STREAM.MSG.DELETE.PLIMSOLL_local_normal",
    "$JS.API.CONSUMER.CREATE.PLIMSOLL_local_normal",
    "_INBOX.local.node.node-2.x",
    "_INBOX.local.aggregator.x",
    "$JS.ACK.PLIMSOLL_local_normal.a.1.1.1.1.1",
    "$JS.FC.PLIMSOLL_local_normal.a.b",
];
const SUBSCRIPTIONS: [&str; 10] = [
    ">",
    "plimsoll.v1.local.>",
    "plimsoll.v1.local.normal.node-2.*",
    "plimsoll.v1.local.confirm.node-2",
    "plimsoll.v1.local.capture.node-2",
    "plimsoll.v1.local.answer.*.*",
    "_INBOX.>",
    "_INBOX.local.node.node-2.>",
    "_INBOX.local.aggregator.>",
    "$JS.API.>",
];

/// A site with a key for each node.
fn make_site(dir: &Path) -> Site {
    Site::make(dir, &mesh(), &[ATTACKER, VICTIM, STRANGER].map(str::to_owned)).unwrap()
}

fn mesh() -> MeshName {
    MeshName::new("local").unwrap()
}

fn options(dir: &Path, site: &Site) -> StackOptions {
    StackOptions {
        nodes: 2,
        // The shipped configuration has it.
        jetstream: false,
        broker_settings: site.broker_settings().unwrap(),
        aggregator_settings: site.bus_settings("aggregator"),
        node_settings: site.bus_settings("node-{node}"),
        ..with_jobs(dir)
    }
}

/// How a node of the site connects.
fn config(site: &Site, url: String, node: &str) -> BusConfig {
    let (mesh, name) = (mesh(), NodeName::new(node).unwrap());
    BusConfig {
        credentials: Credentials::Nkey(Secret::File(site.seed_file(&format!("node-{node}")))),
        tls: TlsFiles { ca_file: Some(site.ca_file()), client: None },
        inbox_prefix: inbox_prefix(&mesh, BrokerUser::Node(&name)),
        role: ConnectionRole::Node,
        ..BusConfig::new(url, "attacker".to_owned(), mesh)
    }
}

/// A client with the credentials of a node of the mesh.
struct Attacker {
    bus: Bus,
    events: BusEvents,
}

impl Attacker {
    async fn connect(site: &Site, url: String) -> Self {
        let (bus, events) = Bus::connect(config(site, url, ATTACKER)).unwrap();
        let mut attacker = Self { bus, events };
        attacker.event(|event| matches!(event, BusEvent::Connected { .. })).await;
        attacker
    }

    async fn event(&mut self, fits: impl Fn(&BusEvent) -> bool) -> BusEvent {
        let found = timeout(WAIT, async {
            loop {
                let event = self.events.next().await.expect("the connection stays open");
                if fits(&event) {
                    return event;
                }
            }
        });
        found.await.expect("the broker answers")
    }

    fn publish(&self, subject: &str) {
        let (subject, headers) = (subject.to_owned(), Vec::new());
        let message =
            UnacknowledgedMessage { subject, headers, payload: Bytes::from_static(b"forged") };
        let _full_while_it_floods = self.bus.publish_unacknowledged(message);
    }

    /// Waits until the broker has denied what is done to `subject`.
    async fn await_denial(&mut self, subject: &str) {
        let named = format!("\"{subject}\"");
        self.event(|event| matches!(event, BusEvent::Denied { text, .. } if text.contains(&named)))
            .await;
    }
}

/// Checks that the victim goes on and stays on time while the attacker publishes all that it may
/// not.
async fn poll_while_flooding(stack: &Stack, attacker: &Attacker) {
    let before = seen_on_time(stack).await;
    while seen_on_time(stack).await < before + FLOOD_SECONDS {
        PUBLISHES.iter().for_each(|subject| attacker.publish(subject));
        sleep(Duration::from_millis(20)).await;
    }
}

/// When the victim was last seen, which must not be long ago.
async fn seen_on_time(stack: &Stack) -> f64 {
    let row = node_row(&stack.api().summary().await.unwrap(), VICTIM).unwrap().clone();
    let now = seconds(Clock::start().now().wall.0);
    assert!(now - row.last_seen_seconds < LATE_MAX_SECONDS, "{now}: {row:?}");

    row.last_seen_seconds
}

fn subject(kind: &str) -> String {
    format!("plimsoll.v1.local.normal.{STRANGER}.{kind}")
}

/// Message number `n` of the stranger: names that never came before, with a sample each.
fn new_names(n: u64) -> Vec<u8> {
    let mut histogram = Histogram::default();
    histogram.record(1_000_000);
    let name = |i| Series::plain(Operation::new(format!("stranger_{n}_{i}")).unwrap());
    let histograms: Vec<_> = (0..NAMES_IN_MESSAGE).map(|i| (name(i), histogram.clone())).collect();
    let mut header = header_of_now(STRANGER);
    (header.seq, header.totals.recorded) = (Seq(n), n * NAMES_IN_MESSAGE);
    message(header, Body::Latency(Latency { histograms, ..Latency::default() }))
}

/// What a node may publish are its own subjects. Whatever it sends there, the others stay exact
/// and on time, and alerts name what it does.
#[tokio::test]
async fn whatever_a_node_sends_under_its_own_name_the_others_stay_exact_and_on_time() {
    let dir = tempfile::tempdir().unwrap();
    let site = make_site(dir.path());
    let mut stack = Stack::start(options(dir.path(), &site)).await.unwrap();
    let hooks = |least: u64| move |summary: &Summary| fleet_samples(summary, "epoch_hook") >= least;
    await_summary(stack.api(), "the mesh works", hooks(30)).await.unwrap();

    let config = config(&site, stack.broker().url(), STRANGER);
    let mut stranger = Publisher::connect_with(config).await.unwrap();
    // As the victim; of the far future; and what is no message.
    let bus = |header| message(header, Body::Bus(BusReport::default()));
    let future = Header { incarnation: Incarnation(u64::MAX), ..header_of_now(STRANGER) };
    for payload in [bus(header_of_now(VICTIM)), bus(future), b"forged".to_vec()] {
        stranger.publish(&subject("bus"), payload).await.unwrap();
    }
    for n in 1..=NAMES_MESSAGES {
        stranger.publish(&subject("latency"), new_names(n)).await.unwrap();
        if n % 20 == 0 {
            seen_on_time(&stack).await;
        }
    }
    let ahead = Header { seq: Seq(COUNT_MAX), ..header_of_now(STRANGER) };
    stranger.publish(&subject("bus"), bus(ahead)).await.unwrap();
    let api = stack.api().clone();
    await_firing(&api, &["undecodable", "table_filling"]).await.unwrap();
    let page = MetricsPage::of(&api).await.unwrap();
    let refused = page.by_label("plimsoll_aggregator_undecodable_messages_total", "reason");
    for reason in ["node", "incarnation", "shape"] {
        assert_eq!(refused.get(reason), Some(&1.0), "{refused:?}");
    }
    let drained = stack.drain().await.unwrap();
    let raw = RawSamples::of_all(stack.stations()).unwrap();
    for station in stack.stations() {
        check_station(&drained, station).unwrap();
    }
    for name in ["epoch_hook", "kernel_fetch"] {
        assert_eq!(fleet_samples(&drained, name), raw.count(name), "{name}");
    }
    stack.end().await.unwrap();
}

#[tokio::test]
async fn with_a_nodes_credentials_nothing_of_another_is_read_or_forged() {
    let dir = tempfile::tempdir().unwrap();
    let site = make_site(dir.path());
    let mut stack = Stack::start(options(dir.path(), &site)).await.unwrap();
    let hooks = |least: u64| move |summary: &Summary| fleet_samples(summary, "epoch_hook") >= least;
    await_summary(stack.api(), "the mesh works", hooks(30)).await.unwrap();

    let mut attacker = Attacker::connect(&site, stack.broker().url()).await;
    for subject in PUBLISHES.iter().filter(|subject| !subject.starts_with("$JS.")) {
        attacker.publish(subject);
        attacker.await_denial(subject).await;
    }
    for subject in SUBSCRIPTIONS.iter().filter(|subject| !subject.starts_with("$JS.")) {
        let _ended = attacker.bus.listen((*subject).to_owned());
        attacker.await_denial(subject).await;
    }
    // Denials about JetStream's API are no events of a node's: the broker's log has them.
    poll_while_flooding(&stack, &attacker).await;
    let broker = &*stack.broker();
    for subject in PUBLISHES.iter().filter(|subject| subject.starts_with("$JS.")) {
        let named = format!("Subject {subject:?}");
        let denied = async || broker.log().contains(&named).then_some(());
        until(&named, WAIT, denied).await.unwrap();
    }
    let drained = stack.drain().await.unwrap();
    check_drained(&drained, stack.stations()).unwrap();
    stack.end().await.unwrap();
}

/// The broker answers a message on the subject that its sender names, and with rights of its own:
/// its answer reads as a request to purge a stream up to that message.
#[tokio::test]
async fn an_answer_of_the_broker_deletes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let node = NodeName::new("n1").unwrap();
    let Permissions { publish, subscribe } =
        Permissions::of(&mesh(), BrokerUser::Node(&node), Layout::default());
    let settings = format!(
        "authorization: {{ users: [ {{ user: all, password: all }}
        {{ user: n1, password: n1,
           permissions: {{ publish: {publish:?}, subscribe: {subscribe:?} }} }} ] }}"
    );
    let broker = Broker::start_with(dir.path(), true, settings).await.unwrap();
    let url = |user: &str| broker.url().replace("//", &format!("//{user}:{user}@"));
    let subject = "plimsoll.v1.local.normal.n1.bus";
    let mut owner = Publisher::connect(url("all")).await.unwrap();
    owner.publish(subject, b"the first".to_vec()).await.unwrap();

    let mut attacker = JetStreamAdmin::connect(&url("n1")).unwrap();
    let stream = "PLIMSOLL_local_normal";
    for request in ["STREAM.PURGE", "STREAM.MSG.DELETE"] {
        for _ in 0..3 {
            attacker.publish(subject, &format!("$JS.API.{request}.{stream}"), "x").unwrap();
        }
    }
    let count = || JetStreamAdmin::connect(&url("all")).unwrap().message_count(stream).unwrap();
    let all = async || Some(count()).filter(|count| *count >= 7);
    until("all are stored", WAIT, all).await.unwrap();
    // What the broker does with its answers is done before it stores what comes later.
    for _ in 0..3 {
        owner.publish(subject, b"a later one".to_vec()).await.unwrap();
    }
    assert_eq!(count(), 10);
}

/// The permissions that a document once listed: without the API and without an inbox.
#[tokio::test]
async fn an_aggregator_without_its_permissions_names_what_is_denied() {
    let dir = tempfile::tempdir().unwrap();
    let settings = "authorization: { users: [ { user: a, password: a, permissions: {
        publish: [\"plimsoll.v1.local.alert.*\", \"plimsoll.v1.local.confirm.*\"],
        subscribe: [\"plimsoll.v1.local.>\", \"_INBOX.>\"] } } ] }";
    let broker = Broker::start_with(dir.path(), true, settings.to_owned()).await.unwrap();
    let (url, http) = (broker.url(), format!("127.0.0.1:{}", free_port().unwrap()));
    let mut command = program("plimsoll-aggregator").unwrap();
    command.args(["--mesh", "local", "--nats", &url, "--http", &http]);
    command.args(["--set", "bus.user=a", "--set", "bus.password=a"]);
    let aggregator = RunningProgram::start(command).unwrap();
    let page = async |path: &str| {
        let answer = reqwest::get(format!("http://{http}{path}")).await.ok()?;
        answer.text().await.ok()
    };
    let named = "$JS.API.STREAM.INFO.PLIMSOLL_local_";
    let denied = until("/readyz names the permission", WAIT, async || {
        page("/readyz").await.filter(|text| text.contains(named))
    });
    let denied = denied.await.unwrap();
    assert!(denied.contains("Permissions Violation for Publish"), "{denied}");
    let metrics = page("/metrics").await.unwrap();
    let series = "plimsoll_aggregator_broker_faults_total{cause=\"permission\"}";
    let faults: f64 = series_value(&metrics, series).unwrap();
    assert!(faults > 0.0, "{metrics}");
    aggregator.signal(Signal::SIGTERM);
    let ended = aggregator.end(WAIT).await.unwrap();
    assert!(ended.stderr.contains(named), "{}", ended.stderr);
}

#[tokio::test]
async fn rejected_credentials_are_counted_each_time_and_logged_rarely() {
    let dir = tempfile::tempdir().unwrap();
    let settings = "authorization: { token: right }".to_owned();
    let broker = Broker::start_with(dir.path(), true, settings).await.unwrap();
    let flags = ["--set", "bus.token=wrong", "--set", "bus.reconnect_max_ms=1000"];
    let node = MeshProcess::node_with("n1", dir.path(), &broker.url(), &flags).await.unwrap();
    let series = "plimsoll_agent_broker_faults_total{cause=\"credentials\"}";
    let rejected = until("it was rejected again and again", WAIT, async || {
        let page = MetricsPage::of(&node.api).await.ok()?;
        page.value(series).filter(|rejected| *rejected >= 5.0)
    });
    rejected.await.unwrap();
    let lines = || {
        let log = node.log();
        log.lines().filter(|line| line.to_lowercase().contains("authorization")).count()
    };
    until("it is logged", WAIT, async || (lines() > 0).then_some(())).await.unwrap();
    let rejected = MetricsPage::of(&node.api).await.unwrap().value(series).unwrap();
    let again = until("it is rejected again", WAIT, async || {
        let page = MetricsPage::of(&node.api).await.ok()?;
        page.value(series).filter(|again| *again >= rejected + 5.0)
    });
    again.await.unwrap();
    assert_eq!(lines(), 1, "{}", node.log());
}
