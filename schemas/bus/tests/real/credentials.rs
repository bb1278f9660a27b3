//! Authentication at a broker that requires it, and operation with few permissions.

use std::fs::{Permissions, set_permissions, write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use plimsoll_bus::{BusConfig, BusEvent, ConnectFault, Credentials, Delivery, Secret, Ticket};
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
    let credentials = Credentials::Token("hush\n".into());
    delivers(BusConfig { credentials, ..config(broker.url()) }).await;
}

#[tokio::test]
async fn a_user_and_password_open_the_door_from_the_config_or_the_url() {
    let user = "authorization: { user: ann, password: hush }";
    let credentials = Credentials::UserPassword { user: "ann".to_owned(), password: "hush".into() };
    let broker = Broker::start(&format!("{STREAMS}, {user}")).await;
    delivers(BusConfig { credentials, ..config(broker.url()) }).await;
    let broker = Broker::start(&format!("{STREAMS}, {user}")).await;
    delivers(config(format!("nats://ann:hush@127.0.0.1:{}", broker.port()))).await;
}

#[tokio::test]
async fn a_key_opens_the_door() {
    let users = format!("authorization: {{ users: [{{ nkey: {PUBLIC_KEY} }}] }}");
    let broker = Broker::start(&format!("{STREAMS}, {users}")).await;
    let credentials = Credentials::Nkey(SEED.into());
    delivers(BusConfig { credentials, ..config(broker.url()) }).await;
}

#[tokio::test]
async fn missing_credentials_are_reported_as_the_cause() {
    let broker = Broker::start(&format!("{STREAMS}, authorization: {{ token: hush }}")).await;
    let mut talk = Talk::begin(config(broker.url()));
    let failed = talk.until(|event| matches!(event, BusEvent::ConnectFailed { .. })).await;
    let BusEvent::ConnectFailed { fault, text } = failed else { unreachable!("it fits") };
    assert_eq!(fault, ConnectFault::Credentials);
    assert!(text.contains("authorization violation"), "{text}");
}

#[tokio::test]
async fn a_new_token_in_the_file_is_used_without_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    secret(&path, "first");
    let settings = |token: &str| format!("{STREAMS}, authorization: {{ token: {token} }}");
    let mut broker = Broker::start(&settings("first")).await;
    let credentials = Credentials::Token(Secret::File(path.clone()));
    let mut talk = Talk::begin(BusConfig { credentials, ..config(broker.url()) });
    talk.until_connected().await;
    broker.restart_with(&settings("second"));
    let rejected = |event: &BusEvent| {
        matches!(event, BusEvent::ConnectFailed { fault: ConnectFault::Credentials, .. })
    };
    talk.until(rejected).await;
    secret(&path, "second");
    talk.until_connected().await;
    talk.publish(Lane::Normal, 1..=1).await;
}

fn secret(path: &Path, text: &str) {
    write(path, text).unwrap();
    set_permissions(path, Permissions::from_mode(0o600)).unwrap();
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
