//! A mesh on a broker with the shipped configuration: TLS, and for each process the permissions
//! that `plimsoll nats-config` prints. Then an attack with one node's valid credentials.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use nix::sys::signal::Signal;
use plimsoll_bus::{
    Bus, BusConfig, BusEvent, BusEvents, ConnectionRole, Credentials, Secret, TlsFiles,
    UnacknowledgedMessage,
};
use plimsoll_clock::Deadline;
use plimsoll_mesh::api::series_value;
use plimsoll_mesh::broker::Broker;
use plimsoll_mesh::child::{free_port, until};
use plimsoll_mesh::site::Site;
use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::permissions::{BrokerUser, inbox_prefix};
use plimsoll_schemas::summary::Summary;
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::oracle::check_drained;
use plimsoll_tests::process::{await_summary, fleet_samples, node_row};
use plimsoll_tests::program::{RunningProgram, program, run};
use tokio::time::{sleep, timeout};

const WAIT: Duration = Duration::from_secs(20);
/// What no other node may make a node later than.
const LATE_MAX_SECONDS: f64 = 5.0;
/// How long the attacker floods.
const FLOOD: Duration = Duration::from_secs(8);

const ATTACKER: &str = "node-1";
const VICTIM: &str = "node-2";

/// What forges, reads or destroys what is another's.
const PUBLISHES: [&str; 18] = [
    "plimsoll.v1.local.normal.node-2.interval",
    "plimsoll.v1.local.emergency.node-2.latency",
    "plimsoll.v1.local.normal.other.interval",
    "plimsoll.v1.other.normal.node-1.interval",
    "plimsoll.v1.local.confirm.node-2",
    "plimsoll.v1.local.confirm.node-1",
    "plimsoll.v1.local.alert.epoch_hook",
    "plimsoll.v1.local.ask.node-2",
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
];
const SUBSCRIPTIONS: [&str; 9] = [
    ">",
    "plimsoll.v1.local.>",
    "plimsoll.v1.local.normal.node-2.*",
    "plimsoll.v1.local.confirm.node-2",
    "plimsoll.v1.local.answer.*.*",
    "_INBOX.>",
    "_INBOX.local.node.node-2.>",
    "_INBOX.local.aggregator.>",
    "$JS.API.>",
];

/// A site with a key for each node.
fn make_site(dir: &Path) -> Site {
    Site::make(dir, &mesh(), &[ATTACKER, VICTIM].map(str::to_owned)).unwrap()
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

/// A client with the credentials of a node of the mesh.
struct Attacker {
    bus: Bus,
    events: BusEvents,
}

impl Attacker {
    async fn connect(site: &Site, url: String) -> Self {
        let (mesh, node) = (mesh(), NodeName::new(ATTACKER).unwrap());
        let seed = site.seed_file(&format!("node-{ATTACKER}"));
        let config = BusConfig {
            credentials: Credentials::Nkey(Secret::File(seed)),
            tls: TlsFiles { ca_file: Some(site.ca_file()), client: None },
            inbox_prefix: inbox_prefix(&mesh, BrokerUser::Node(&node)),
            role: ConnectionRole::Node,
            ..BusConfig::new(url, "attacker".to_owned(), mesh)
        };
        let (bus, events) = Bus::connect(config).unwrap();
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

/// Checks that the victim stays on time while the attacker publishes all that it may not.
async fn poll_while_flooding(stack: &Stack, attacker: &Attacker) {
    let deadline = Deadline::within(FLOOD);
    while !deadline.has_passed() {
        PUBLISHES.iter().for_each(|subject| attacker.publish(subject));
        sleep(Duration::from_millis(20)).await;
        let row = node_row(&stack.api().summary().await.unwrap(), VICTIM).unwrap().clone();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        assert!(now - row.last_seen_seconds < LATE_MAX_SECONDS, "{now}: {row:?}");
    }
}

#[tokio::test]
async fn with_a_nodes_credentials_nothing_of_another_is_read_or_forged() {
    let dir = tempfile::tempdir().unwrap();
    let site = make_site(dir.path());
    let mut stack = Stack::start(options(dir.path(), &site)).await.unwrap();
    let hooks = |least: u64| move |summary: &Summary| fleet_samples(summary, "epoch_hook") >= least;
    await_summary(stack.api(), "the mesh works", hooks(30)).await.unwrap();

    let mut attacker = Attacker::connect(&site, stack.broker().url()).await;
    for subject in PUBLISHES.iter().filter(|subject| !subject.starts_with("$JS.API")) {
        attacker.publish(subject);
        attacker.await_denial(subject).await;
    }
    for subject in SUBSCRIPTIONS.iter().filter(|subject| !subject.starts_with("$JS.API")) {
        let _ended = attacker.bus.listen((*subject).to_owned());
        attacker.await_denial(subject).await;
    }
    // Denials about JetStream's API are no events of a node's: the broker's log has them.
    poll_while_flooding(&stack, &attacker).await;
    let log = stack.broker().log();
    for subject in PUBLISHES.iter().filter(|subject| subject.starts_with("$JS.API")) {
        assert!(log.contains(&format!("Subject {subject:?}")), "{log}");
    }
    let drained = stack.drain().await.unwrap();
    check_drained(&drained, stack.stations()).unwrap();
    stack.end().await.unwrap();
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
