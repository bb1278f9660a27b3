//! A pair of aggregators: a silence that one is asked for holds at both, and one that nobody with
//! the key has reported holds at none.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use plimsoll_bus::UnacknowledgedMessage;
use plimsoll_mesh::broker::Broker;
use plimsoll_mesh::certificates::write_secret;
use plimsoll_mesh::child::until;
use plimsoll_runtime::client::Api;
use plimsoll_schemas::alert::{
    NamePattern, Silence, SilenceMatch, SilenceOrigin, SilenceRow, SilencesPage,
};
use plimsoll_schemas::ids::{AggregatorName, MeshName};
use plimsoll_schemas::subject::silences_subject;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::signature::ConfirmKey;
use plimsoll_schemas::wire::silences::{SharedSilences, encode};
use plimsoll_tests::process::MeshProcess;
use plimsoll_tests::publisher::Publisher;
use serde_json::json;

const WAIT: Duration = Duration::from_secs(20);
const TOKEN: &str = "the-token-of-the-test";
const REFUSED: &str = "plimsoll_shared_silences_refused_total";

/// An aggregator of this name, with the key of confirmations or without.
async fn aggregator(dir: &Path, broker: &Broker, name: &str, has_key: bool) -> MeshProcess {
    let dir = dir.join(name);
    std::fs::create_dir(&dir).unwrap();
    let (token, key) = (dir.join("token"), dir.join("key"));
    write_secret(&token, TOKEN).unwrap();
    write_secret(&key, &"5a".repeat(32)).unwrap();
    let key = if has_key { format!("key_file = {key:?}\n") } else { String::new() };
    let settings = format!(
        "[confirm]\nname = '{name}'\nwithout_state = true\n{key}[http]\ntoken_file = {token:?}\n"
    );
    let file = dir.join("settings.toml");
    std::fs::write(&file, settings).unwrap();
    let started = MeshProcess::aggregator_with(&dir, &broker.url(), &file).await.unwrap();
    let ready = async || started.api.get("/readyz").await.ok();
    until("it is ready", WAIT, ready).await.unwrap();
    started
}

async fn silences(api: &Api) -> Vec<SilenceRow> {
    let page = api.get("/api/v1/silences").await.unwrap();
    serde_json::from_str::<SilencesPage>(&page).unwrap().silences
}

async fn await_silences(api: &Api, count: usize) -> Vec<SilenceRow> {
    let found = async || {
        let rows = silences(api).await;
        (rows.len() == count).then_some(rows)
    };
    until(&format!("{count} silences"), WAIT, found).await.unwrap()
}

async fn silence(of: &MeshProcess, rule: &str) {
    let body = json!({"match": {"rule": rule}, "by": "ann", "for": "1h"});
    let api = of.api.clone().with_token(Some(TOKEN.to_owned()));
    api.request("POST", "/api/v1/silences", Some(&body)).await.unwrap();
}

/// A report that silences an alert, as one without the key would make it.
fn forged(key: Option<&ConfirmKey>) -> UnacknowledgedMessage {
    let mesh = MeshName::new("local").unwrap();
    let now = plimsoll_clock::Clock::start().now().wall;
    let aggregator = AggregatorName::new("forged").unwrap();
    let origin = SilenceOrigin { aggregator, id: 1, created: now };
    let rule = Some(NamePattern::new("epoch_hook").unwrap());
    let silence = Silence {
        matches: SilenceMatch { rule, ..SilenceMatch::default() },
        by: "mallory".to_owned(),
        comment: String::new(),
        from: now,
        until: Wall(now.0 + 3_600_000_000_000),
    };
    let shared = SharedSilences { silences: vec![(origin, silence)], ..SharedSilences::default() };
    let payload = Bytes::from(encode(&shared, &mesh, key));
    UnacknowledgedMessage { subject: silences_subject(&mesh), headers: Vec::new(), payload }
}

#[tokio::test]
async fn a_silence_of_one_holds_at_both_and_a_forged_one_at_none() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), true).await.unwrap();
    let one = aggregator(dir.path(), &broker, "one", true).await;
    let mut other = aggregator(dir.path(), &broker, "other", true).await;
    silence(&one, "epoch_hook").await;
    silence(&other, "publish").await;
    await_silences(&one.api, 2).await;
    let rows = await_silences(&other.api, 2).await;

    // Ended where it did not begin.
    let row = rows.iter().find(|row| format!("{:?}", row.silence).contains("epoch_hook"));
    let path = format!("/api/v1/silences/{}", row.unwrap().id);
    let api = other.api.clone().with_token(Some(TOKEN.to_owned()));
    api.request("DELETE", &path, None).await.unwrap();
    await_silences(&one.api, 1).await;

    // One that kept nothing has them from the other.
    other.terminate(WAIT).await.unwrap();
    let again = aggregator(dir.path(), &broker, "again", true).await;
    let rows = await_silences(&again.api, 1).await;
    assert!(format!("{:?}", rows[0].silence).contains("publish"), "{rows:?}");

    let publisher = Publisher::connect(broker.url()).await.unwrap();
    let attacker = publisher.messenger();
    let guessed = ConfirmKey::from_hex(&"00".repeat(32)).unwrap();
    for (key, reason) in [(None, "unsigned"), (Some(&guessed), "signature")] {
        attacker.publish(forged(key)).unwrap();
        let series = format!("{REFUSED}{{reason=\"{reason}\"}}");
        let counted = async || (one.api.metric(&series).await.ok()? >= Some(1.0)).then_some(());
        until("the forged report is counted", WAIT, counted).await.unwrap();
    }
    assert_eq!(silences(&one.api).await.len(), 1);
}

#[tokio::test]
async fn on_an_open_broker_without_a_key_no_silence_of_others_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), true).await.unwrap();
    let closed = aggregator(dir.path(), &broker, "closed", false).await;
    let watching = aggregator(dir.path(), &broker, "watching", true).await;
    let publisher = Publisher::connect(broker.url()).await.unwrap();
    publisher.messenger().publish(forged(None)).unwrap();
    // The one with a key has seen it, so the other could have.
    let series = format!("{REFUSED}{{reason=\"unsigned\"}}");
    let seen = async || (watching.api.metric(&series).await.ok()? >= Some(1.0)).then_some(());
    until("the forged report is counted", WAIT, seen).await.unwrap();
    assert_eq!(silences(&closed.api).await, []);
}
