//! Authentication at a broker that requires it, and operation with few permissions.

use plimsoll_bus::{BusConfig, BusEvent, Credentials, Delivery, Ticket};
use plimsoll_schemas::subject::Lane;

use crate::broker::Broker;
use crate::talk::{Talk, config, message};

const STREAMS: &str = "jetstream: { store_dir: $STORE }";
/// A key made for this test.
const SEED: &str = "SUANQDPB2RUOE4ETUA26CNX7FUKE5ZZKFCQIIW63OX225F2CO7UEXTM7ZY";
const PUBLIC_KEY: &str = "UAMMBNV2EYR65NYZZ7IAK5SIR5ODNTTERJOBOF4KJLMWI45YOXOSWULM";

async fn delivers(config: BusConfig) {
    let mut talk = Talk::begin(config);
    talk.until_connected().await;
    talk.publish(Lane::Normal, 1..=1).await;
}

#[tokio::test]
async fn a_token_opens_the_door() {
    let broker = Broker::start(&format!("{STREAMS}, authorization: {{ token: hush }}")).await;
    let credentials = Credentials::Token("hush\n".to_owned());
    delivers(BusConfig { credentials, ..config(broker.url()) }).await;
}

#[tokio::test]
async fn a_user_and_password_open_the_door_from_the_config_or_the_url() {
    let user = "authorization: { user: ann, password: hush }";
    let credentials =
        Credentials::UserPassword { user: "ann".to_owned(), password: "hush".to_owned() };
    let broker = Broker::start(&format!("{STREAMS}, {user}")).await;
    delivers(BusConfig { credentials, ..config(broker.url()) }).await;
    let broker = Broker::start(&format!("{STREAMS}, {user}")).await;
    delivers(config(format!("nats://ann:hush@127.0.0.1:{}", broker.port()))).await;
}

#[tokio::test]
async fn a_key_opens_the_door() {
    let users = format!("authorization: {{ users: [{{ nkey: {PUBLIC_KEY} }}] }}");
    let broker = Broker::start(&format!("{STREAMS}, {users}")).await;
    let credentials = Credentials::Nkey(SEED.to_owned());
    delivers(BusConfig { credentials, ..config(broker.url()) }).await;
}

#[tokio::test]
async fn missing_credentials_are_reported_as_the_cause() {
    let broker = Broker::start(&format!("{STREAMS}, authorization: {{ token: hush }}")).await;
    let mut talk = Talk::begin(config(broker.url()));
    let failed = talk.until(|event| matches!(event, BusEvent::ConnectFailed { .. })).await;
    let cause = "authorization violation".to_owned();
    assert_eq!(failed, BusEvent::ConnectFailed { cause });
}

/// A node may publish under its own name and receive answers. It may neither read the state of
/// streams nor create them; another client has created them.
#[tokio::test]
async fn a_node_that_may_not_look_at_streams_still_publishes_through_them() {
    let settings = format!(
        "{STREAMS}, authorization: {{ users: [
            {{ user: admin, password: a }},
            {{ user: n1, password: b, permissions: {{
                publish: [\"plimsoll.v1.m.*.n1.>\", \"_INBOX.>\"], subscribe: \"_INBOX.>\" }} }}
        ] }}"
    );
    let broker = Broker::start(&settings).await;
    let url = |user: &str| format!("nats://{user}@127.0.0.1:{}", broker.port());
    let mut node = Talk::begin(config(url("n1:b")));
    let connected = node.until_connected().await;
    assert!(matches!(connected, BusEvent::Connected { delivery: Delivery::JetStream, .. }));
    let outcome = node.outcome(message(Lane::Normal, 1)).await;
    assert!(matches!(outcome, BusEvent::Refused { ticket: Ticket(1), .. }), "{outcome:?}");

    let _admin = Talk::connected(url("admin:a")).await;
    node.publish(Lane::Normal, 2..=2).await;
}
