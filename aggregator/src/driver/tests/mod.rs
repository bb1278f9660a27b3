//! The driver on a real broker with more to read than one turn reads.

mod alerts;
mod profiles;
mod regressions;
mod runs;
mod silences;

use std::collections::BTreeMap;

use crate::limits::{CONFIRM_PAUSE, CONFIRMATIONS_AT_ONCE_MAX};
use plimsoll_bus::{BusConfig, Delivery, Publish, Ticket};
use plimsoll_mesh::broker::Broker as TestBroker;
use plimsoll_runtime::settings::SettingsArgs;
use plimsoll_schemas::ids::{Incarnation, Labels, NodeName, Seq};
use plimsoll_schemas::wire::{Body, Header, Latency, Snapshot, Totals, encode};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::*;
use crate::core::durable::PendingConfirmation;
use crate::io::rules::{Sources, Stamps};

const WAIT: Duration = Duration::from_secs(60);
const BACKLOG: u64 = 100_000;

struct Mesh {
    broker: TestBroker,
    _dir: TempDir,
}

impl Mesh {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { broker: TestBroker::start(dir.path(), true).await.unwrap(), _dir: dir }
    }

    /// Publishes messages until a lane's stream keeps `count` more.
    async fn fill(&self, lane: Lane, count: u64) {
        let (url, mesh) = (self.broker.url(), MeshName::new("default").unwrap());
        let connection_name = "test".to_owned();
        let config = BusConfig::new(url, connection_name, mesh);
        let (bus, mut events) = Bus::connect(config).unwrap();
        let payload = Bytes::from(snapshot());
        let message = |token: u64| Publish {
            headers: Vec::new(),
            ticket: Ticket(token),
            subject: format!("plimsoll.v1.default.{}.a.latency", lane.as_str()),
            message_id: format!("{}-{token}", lane.as_str()),
            payload: payload.clone(),
        };
        let (mut sent, mut stored) = (0, 0);
        let all = async {
            while stored < count {
                while sent < count && bus.try_publish(message(sent)).is_ok() {
                    sent += 1;
                }
                let event = events.next().await.expect("an open bus");
                stored += u64::from(matches!(event, BusEvent::Acknowledged { .. }));
            }
        };
        timeout(WAIT, all).await.expect("the broker keeps what is published");
    }

    async fn driver(&self) -> Driver {
        start(self.broker.url()).await
    }
}

async fn start(url: String) -> Driver {
    let mut config = Config::default();
    config.http.address = "127.0.0.1:0".parse().unwrap();
    config.bus.url = url;
    let sources = Sources::new(SettingsArgs::default(), []);
    let watch =
        Watch::start(sources, config.clone(), Stamps::new(), &Supervisor::default()).unwrap();
    let Ok(driver) =
        Driver::start(&config, Rules::from(Vec::new()), watch, Supervisor::default(), None).await
    else {
        panic!("a driver")
    };
    driver
}

fn snapshot() -> Vec<u8> {
    let header = Header {
        node: NodeName::new("a").unwrap(),
        incarnation: Incarnation(7),
        seq: Seq(1),
        start: Clock::start().now().wall,
        length_ns: 1,
        totals: Totals { recorded: 0, lost: BTreeMap::new() },
        last: false,
        successor: None,
        labels: Labels::default(),
    };
    encode(&Snapshot { header, body: Body::Latency(Latency::default()) })
}

/// Runs turns until `done`, and returns their number.
async fn turns_until(driver: &mut Driver, mut done: impl FnMut(&Driver) -> bool) -> usize {
    let turns = async {
        let mut turns = 0;
        while !done(driver) {
            driver.turn().await;
            turns += 1;
        }
        turns
    };
    timeout(WAIT, turns).await.expect("it happens at all")
}

fn read(driver: &Driver, lane: Lane) -> u64 {
    driver.core.position(lane).read
}

#[tokio::test]
async fn a_query_is_answered_in_the_next_turn_and_over_http_during_a_long_backlog() {
    let mesh = Mesh::start().await;
    mesh.fill(Lane::Normal, BACKLOG).await;
    let mut driver = mesh.driver().await;
    turns_until(&mut driver, |driver| read(driver, Lane::Normal) > 0).await;

    let http = driver.queries;
    let (send, queries) = mpsc::channel(1);
    driver.queries = queries;
    for _ in 0..10 {
        let (answer, mut answered) = tokio::sync::oneshot::channel();
        assert!(send.try_send(Query::Readiness(answer)).is_ok());
        let before = read(&driver, Lane::Normal);
        driver.turn().await;
        assert!(answered.try_recv().is_ok(), "not answered in the next turn");
        driver.turn().await;
        let taken = read(&driver, Lane::Normal) - before;
        assert!(taken <= 2 * MESSAGES_A_TURN_MAX as u64, "{taken} messages in two turns");
    }

    driver.queries = http;
    let address = driver.server.address();
    let requesting = tokio::spawn(async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = "GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    });
    let before = read(&driver, Lane::Normal);
    let turns = turns_until(&mut driver, |_| requesting.is_finished()).await;
    let answer = requesting.await.unwrap();
    let taken = read(&driver, Lane::Normal) - before;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("backlog"), "{answer}");
    assert!(turns < 200 && taken < BACKLOG / 10, "{turns} turns, {taken} messages");
}

#[tokio::test]
async fn an_emergency_overtakes_a_long_backlog_of_the_normal_lane() {
    let mesh = Mesh::start().await;
    mesh.fill(Lane::Normal, BACKLOG).await;
    let mut driver = mesh.driver().await;
    turns_until(&mut driver, |driver| read(driver, Lane::Normal) > 0).await;
    let emergency = async { mesh.fill(Lane::Emergency, 1).await };
    let read_first = turns_until(&mut driver, |driver| read(driver, Lane::Emergency) > 0);
    tokio::join!(emergency, read_first);
    let taken = read(&driver, Lane::Normal);
    assert!(taken < BACKLOG / 10, "only after {taken} messages");
}

#[tokio::test]
async fn confirmations_for_ten_thousand_nodes_are_sent_in_batches() {
    let mut driver = start("nats://127.0.0.1:1".to_owned()).await;
    driver.broker.assume_connected(Delivery::JetStream);
    let name = |number: u32| NodeName::new(format!("n{number}")).unwrap();
    driver
        .confirmations
        .offer((0..10_000).map(|n| PendingConfirmation::of_nothing(name(n))).collect());
    // No await in between: nothing leaves the connection's queue.
    for round in 1..=3 {
        let now = Mono(0).plus(CONFIRM_PAUSE * round);
        let started = driver.clock.now();
        (0..5).for_each(|_| driver.confirm(Now { mono: now, ..started }));
        let sent = driver.confirmations.stats.sent;
        assert_eq!(sent, u64::from(round) * CONFIRMATIONS_AT_ONCE_MAX as u64);
        assert_eq!(
            driver.next_deadline(),
            driver.core.next_deadline().min(now.plus(CONFIRM_PAUSE))
        );
    }
}
