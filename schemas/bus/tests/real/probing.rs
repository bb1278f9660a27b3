//! One look at a broker: what it finds, and that it leaves nothing behind.

use plimsoll_bus::{BusConfig, Denial, JetStreamState, ProbeError, ProbePlan, probe};
use plimsoll_schemas::subject::Lane;

use crate::broker::Broker;
use crate::talk::{Talk, config};

fn plan() -> ProbePlan {
    ProbePlan {
        subscribe: vec!["plimsoll.v1.m.confirm.n1".to_owned()],
        publish: vec![
            "plimsoll.v1.m.normal.n1.latency".to_owned(),
            "plimsoll.v1.m.dead.n1".to_owned(),
        ],
        has_streams: true,
    }
}

#[tokio::test]
async fn streams_are_reported_and_no_message_is_stored() {
    let broker = Broker::with_streams().await;
    let empty = probe(&config(broker.url()), &plan()).await.unwrap();
    assert_eq!(empty.streams.iter().filter(|stream| stream.state.is_some()).count(), 0);
    let mut talk = Talk::connected(broker.url()).await;
    talk.publish(Lane::Normal, 1..=3).await;
    for _ in 0..2 {
        let report = probe(&config(broker.url()), &plan()).await.unwrap();
        assert_eq!((report.jetstream, report.denied), (JetStreamState::Enabled, Vec::new()));
        assert!(report.version.starts_with("2."), "{}", report.version);
        let of = |name: &str| {
            let found = report.streams.iter().find(|stream| stream.name == name).unwrap();
            found.state.clone().unwrap()
        };
        let normal = of("PLIMSOLL_m_normal");
        assert_eq!((normal.messages, normal.last_seq), (3, 3));
        assert!(normal.bytes > 0 && normal.bytes_max > 0 && normal.age_max_ns > 0, "{normal:?}");
        assert_eq!(of("PLIMSOLL_m_dead").last_seq, 0);
        assert_eq!(report.streams.len(), 4);
    }
}

#[tokio::test]
async fn each_missing_permission_is_named() {
    let settings = "jetstream: { store_dir: $STORE }, authorization: { users: [
        { user: admin, password: a },
        { user: n1, password: b, permissions: {
            publish: [\"plimsoll.v1.m.normal.n1.>\", \"$JS.API.INFO\", \"_INBOX.>\"],
            subscribe: \"_INBOX.>\" } } ] }";
    let broker = Broker::start(settings).await;
    let url = |user: &str| format!("nats://{user}@127.0.0.1:{}", broker.port());
    let _admin = Talk::connected(url("admin:a")).await;
    let plan = ProbePlan { has_streams: false, ..plan() };
    let report = probe(&config(url("n1:b")), &plan).await.unwrap();
    let denied = |is_publish, subject: &str| Denial { is_publish, subject: subject.to_owned() };
    let expected =
        [denied(false, "plimsoll.v1.m.confirm.n1"), denied(true, "plimsoll.v1.m.dead.n1")];
    assert_eq!(report.denied, expected);
    assert!(report.requires_credentials);
    let admin = probe(&config(url("admin:a")), &plan).await.unwrap();
    assert_eq!(admin.denied, []);
}

#[tokio::test]
async fn a_broker_without_jetstream_and_none_at_all_are_told_apart() {
    let broker = Broker::without_streams().await;
    let report = probe(&config(broker.url()), &plan()).await.unwrap();
    assert_eq!((report.jetstream, report.streams.len()), (JetStreamState::Absent, 0));
    let gone = config(broker.url());
    drop(broker);
    let error = probe(&gone, &plan()).await.unwrap_err();
    assert!(matches!(&error, ProbeError::Unreachable(text) if text.contains("refused")), "{error}");
    let bad = BusConfig { url: "ws://h".to_owned(), ..gone };
    assert!(matches!(probe(&bad, &plan()).await, Err(ProbeError::Config(_))));
}
