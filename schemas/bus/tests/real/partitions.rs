//! A mesh whose nodes the broker divides into partitions: streams, leases and permissions.

use std::time::Duration;

use plimsoll_bus::{BusConfig, BusEvent, ConditionalMessage, ConnectionRole, Leases};
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::ids::{MeshName, NodeName, Partition};
use plimsoll_schemas::permissions::{BrokerUser, Layout, Permissions, inbox_prefix};
use plimsoll_schemas::subject::{Lane, SnapshotSubject, partition_mapping};
use serde_json::{Value, json};

use crate::broker::Broker;
use crate::streams::request;
use crate::talk::{POLL, Talk, config, message, next_message, payloads, soon, text};

const PARTITIONS: u16 = 4;
const TTL: Duration = Duration::from_secs(60);
const SHORT_TTL: Duration = Duration::from_secs(1);
const PROCESSES: usize = 8;
const NEW_BUCKETS: usize = 100;

fn mesh() -> MeshName {
    MeshName::new("m").unwrap()
}

fn user(name: &str, user: BrokerUser<'_>) -> String {
    let layout = Layout { creates_streams: true, partitions: PARTITIONS };
    let Permissions { publish, subscribe } = Permissions::of(&mesh(), user, layout);
    format!(
        "{{ user: {name}, password: x, permissions: {{ publish: {publish:?}, subscribe: \
         {subscribe:?} }} }}"
    )
}

/// A broker with the permissions and the mapping of a mesh with partitions.
async fn divided() -> Broker {
    let node = NodeName::new("n1").unwrap();
    let mapped = Lane::ALL.map(|lane| {
        let (published, stored) = partition_mapping(&mesh(), lane, PARTITIONS);
        format!("{published:?}: {stored:?}\n")
    });
    let users = [user("n1", BrokerUser::Node(&node)), user("aggregator", BrokerUser::Aggregator)]
        .join(", ");
    let mapped = mapped.concat();
    Broker::start(&format!(
        "jetstream: {{ store_dir: $STORE }}
        mappings: {{ {mapped} }}
        no_auth_user: all
        authorization: {{ users: [ {{ user: all, password: x }}, {users} ] }}"
    ))
    .await
}

fn url(broker: &Broker, user: &str) -> String {
    format!("nats://{user}:x@127.0.0.1:{}", broker.port())
}

fn node(broker: &Broker) -> BusConfig {
    let name = NodeName::new("n1").unwrap();
    let inbox_prefix = inbox_prefix(&mesh(), BrokerUser::Node(&name));
    BusConfig { role: ConnectionRole::Node, inbox_prefix, ..config(url(broker, "n1")) }
}

fn aggregator(broker: &Broker, partition: u16) -> BusConfig {
    let inbox_prefix = inbox_prefix(&mesh(), BrokerUser::Aggregator);
    let partition = Some(Partition(partition));
    BusConfig { partition, inbox_prefix, ..config(url(broker, "aggregator")) }
}

#[tokio::test]
async fn a_nodes_messages_reach_the_stream_of_its_partition_and_no_other_nodes() {
    let broker = divided().await;
    let mut readers = Vec::new();
    for partition in 0..PARTITIONS {
        let mut talk = Talk::begin(aggregator(&broker, partition));
        talk.until_connected().await;
        readers.push(talk);
    }
    let mut sender = Talk::begin(node(&broker));
    sender.until_connected().await;
    sender.publish(Lane::Normal, 1..=2).await;
    sender.publish(Lane::Emergency, 3..=3).await;
    let streams = request(&broker.url(), "STREAM.LIST", Value::Null).await;
    let streams = streams["streams"].as_array().unwrap();
    let holds = |lane: &str, count: u64| {
        let of_lane = |stream: &&Value| {
            let name = stream["config"]["name"].as_str().unwrap();
            name.ends_with(lane) && stream["state"]["messages"] == json!(count)
        };
        let names: Vec<_> = streams.iter().filter(of_lane).map(|s| &s["config"]["name"]).collect();
        assert_eq!(names.len(), 1, "{streams:?}");
        names[0].as_str().unwrap().to_owned()
    };
    let (normal, emergency) = (holds("_normal", 2), holds("_emergency", 1));
    let partition = normal.strip_prefix("PLIMSOLL_m_part=").unwrap();
    let partition = partition.strip_suffix("_normal").unwrap();
    assert_eq!(emergency, format!("PLIMSOLL_m_part={partition}_emergency"));
    let reader = &readers[partition.parse::<usize>().unwrap()];
    let mut cursor = reader.bus.cursor(Lane::Normal, 1, None);
    let (delivered, _) = next_message(&mut cursor).await;
    assert_eq!(text(&delivered), "payload 1");
    let subject: SnapshotSubject = delivered.subject.parse().unwrap();
    assert_eq!((subject.node.as_str(), subject.lane), ("n1", Lane::Normal));
    // Not in another node's name.
    for (token, subject) in [
        (4, format!("plimsoll.v1.m.part.{partition}.normal.n2.latency")),
        (5, "plimsoll.v1.m.part.0.normal.n2.latency".to_owned()),
        (6, "plimsoll.v1.m.normal.n2.latency".to_owned()),
    ] {
        let forged = plimsoll_bus::Publish { subject, ..message(Lane::Normal, token) };
        sender.bus.try_publish(forged).unwrap();
        let denied = |event: &BusEvent| matches!(event, BusEvent::Denied { publish: Some(_), .. });
        sender.until(denied).await;
    }
    sender.publish(Lane::Normal, 7..=7).await;
    assert_eq!(payloads(&mut cursor, 2).await, ["payload 2", "payload 7"]);
}

#[tokio::test]
async fn an_aggregator_is_permitted_leases_and_reports() {
    let broker = divided().await;
    let mut above = Talk::begin(BusConfig {
        mesh: MeshName::new("m-all").unwrap(),
        ..config(url(&broker, "all"))
    });
    above.until_connected().await;
    let mut talk = Talk::begin(aggregator(&broker, 2));
    talk.until_connected().await;
    let mut leases = leases(&talk, "a", TTL);
    assert_eq!(leases.try_take(Partition(2)).await, Ok(true));
    assert_eq!(leases.renew(Partition(2)).await, Ok(true));
    let owners = leases.owners(PARTITIONS).await.unwrap();
    assert_eq!(owners.into_iter().collect::<Vec<_>>(), [(Partition(2), "a".to_owned())]);
    let report = ConditionalMessage {
        subject: "plimsoll.v1.m-all.normal.shard-2.shard".to_owned(),
        message_id: "r1".to_owned(),
        headers: Vec::new(),
        payload: "x".into(),
    };
    let subject = report.subject.clone();
    assert_eq!(soon(talk.bus.messenger().publish_after(report, 0)).await, Ok(1));
    let newest =
        talk.bus.messenger().newest("PLIMSOLL_m-all_normal", &subject).await.unwrap().unwrap();
    assert_eq!(newest.seq, 1);
    assert_eq!(leases.release(Partition(2)).await, Ok(()));
}

fn leases(talk: &Talk, owner: &str, ttl: Duration) -> Leases {
    Leases::new(talk.bus.messenger(), &mesh(), owner.to_owned(), ttl)
}

#[tokio::test]
async fn a_partition_has_one_owner_until_it_is_released() {
    let broker = Broker::with_streams().await;
    let talk = Talk::connected(broker.url()).await;
    let (mut first, mut second) = (leases(&talk, "a", TTL), leases(&talk, "b", TTL));
    let partition = Partition(0);
    assert!(second.owners(4).await.unwrap().is_empty());
    assert_eq!(second.renew(partition).await, Ok(false));
    assert_eq!(first.try_take(partition).await, Ok(true));
    assert_eq!(second.try_take(partition).await, Ok(false));
    assert_eq!(second.release(partition).await, Ok(()));
    for _ in 0..3 {
        assert_eq!(first.renew(partition).await, Ok(true));
    }
    assert_eq!(second.try_take(Partition(1)).await, Ok(true));
    let owners = second.owners(4).await.unwrap();
    let expected = [(partition, "a".to_owned()), (Partition(1), "b".to_owned())];
    assert_eq!(owners.into_iter().collect::<Vec<_>>(), expected);
    // As NATS' own tools see it.
    let info = request(&broker.url(), "STREAM.INFO.KV_plimsoll_m_leases", Value::Null).await;
    assert_eq!(info["config"]["subjects"], json!(["$KV.plimsoll_m_leases.>"]));
    assert_eq!(info["config"]["max_msgs_per_subject"], json!(1));
    assert_eq!(info["config"]["max_age"], json!(60_000_000_000_u64));
    assert_eq!(info["state"]["messages"], json!(2));

    assert_eq!(first.release(partition).await, Ok(()));
    assert_eq!(first.renew(partition).await, Ok(false));
    assert_eq!(second.owners(4).await.unwrap().len(), 1);
    assert_eq!(second.try_take(partition).await, Ok(true));
    assert_eq!(first.try_take(partition).await, Ok(false));
}

/// The broker drops the key, and with it the number that a renewal expects.
#[tokio::test]
async fn a_lease_that_is_not_renewed_ends_and_cannot_be_renewed() {
    let broker = Broker::with_streams().await;
    let talk = Talk::connected(broker.url()).await;
    let mut first = leases(&talk, "a", SHORT_TTL);
    let mut second = leases(&talk, "b", TTL);
    let partition = Partition(0);
    let since = Stopwatch::start();
    assert_eq!(first.try_take(partition).await, Ok(true));
    check_renewal(&mut first, since).await;
    poll_until_free(&second).await;
    assert_eq!(first.renew(partition).await, Ok(false));

    let since = Stopwatch::start();
    assert_eq!(second.try_take(partition).await, Ok(true));
    assert_eq!(second.ttl(), SHORT_TTL);
    assert_eq!(first.renew(partition).await, Ok(false));
    check_renewal(&mut second, since).await;
    poll_until_free(&first).await;
    assert_eq!(first.try_take(partition).await, Ok(true));
}

/// Renews a lease that was taken after `since`. On a slow machine it may have ended meanwhile, but
/// only if its ttl has passed.
async fn check_renewal(leases: &mut Leases, since: Stopwatch) {
    let is_renewed = leases.renew(Partition(0)).await.unwrap();
    let age = since.elapsed();
    assert!(is_renewed || age >= SHORT_TTL, "not renewed at an age of {age:?}");
}

async fn poll_until_free(leases: &Leases) {
    let freed = async {
        while !leases.owners(1).await.unwrap().is_empty() {
            tokio::time::sleep(POLL).await;
        }
    };
    soon(freed).await;
}

/// Several processes that try at once.
#[tokio::test]
async fn of_many_that_try_one_takes_it() {
    let broker = Broker::with_streams().await;
    let talk = Talk::connected(broker.url()).await;
    let tries = (0..8).map(|process| {
        let mut leases = leases(&talk, &format!("p{process}"), TTL);
        tokio::spawn(async move { leases.try_take(Partition(0)).await.unwrap() })
    });
    let mut taken = 0;
    for tried in tries.collect::<Vec<_>>() {
        taken += u32::from(tried.await.unwrap());
    }
    assert_eq!(taken, 1);
}

/// Tries until it is known: a bucket that another process creates may not take messages yet.
async fn poll_take(leases: &mut Leases) -> bool {
    loop {
        match leases.try_take(Partition(0)).await {
            Ok(is_taken) => return is_taken,
            Err(_unknown) => tokio::time::sleep(POLL).await,
        }
    }
}

/// A request for a message of a stream that it is still creating ends nats-server 2.9.10.
#[tokio::test]
async fn processes_that_begin_at_once_ask_for_nothing_of_a_bucket_that_is_being_created() {
    let broker = Broker::with_streams().await;
    let mut talks = Vec::new();
    for _ in 0..PROCESSES {
        talks.push(Talk::connected(broker.url()).await);
    }
    for round in 0..NEW_BUCKETS {
        let mesh = MeshName::new(format!("m{round}")).unwrap();
        let tries = talks.iter().enumerate().map(|(process, talk)| {
            let (messenger, owner) = (talk.bus.messenger(), format!("p{process}"));
            let mut leases = Leases::new(messenger, &mesh, owner, TTL);
            tokio::spawn(async move {
                if process % 2 == 0 {
                    leases.owners(PARTITIONS).await.unwrap();
                }
                poll_take(&mut leases).await
            })
        });
        let mut taken = 0;
        for tried in tries.collect::<Vec<_>>() {
            taken += u32::from(soon(tried).await.unwrap());
        }
        assert_eq!(taken, 1, "round {round}");
    }
}

#[tokio::test]
async fn a_broker_that_restarts_keeps_the_leases() {
    let mut broker = Broker::with_streams().await;
    let talk = Talk::connected(broker.url()).await;
    let (mut first, mut second) = (leases(&talk, "a", TTL), leases(&talk, "b", TTL));
    assert_eq!(first.try_take(Partition(0)).await, Ok(true));
    broker.pause().await;
    let error = first.renew(Partition(0)).await.unwrap_err();
    assert!(error.contains("no answer"), "{error}");
    broker.resume();
    broker.restart();
    // Whether or not the broker had stored the attempt without an answer.
    assert!(soon(poll_renewal(&mut first)).await);
    assert_eq!(second.try_take(Partition(0)).await, Ok(false));
}

/// Renews until there is an answer.
async fn poll_renewal(leases: &mut Leases) -> bool {
    loop {
        match leases.renew(Partition(0)).await {
            Ok(renewed) => return renewed,
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}
