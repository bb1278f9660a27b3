//! Profiles over HTTP on a whole driver: ordered with the token, listed, and shown in each form.

use std::path::PathBuf;

use plimsoll_mesh::certificates::write_secret;
use plimsoll_schemas::alert::{AlertsPage, FunctionEvidence, ProfileEvidence};
use plimsoll_schemas::summary::{ProfileState, ProfilesPage};
use plimsoll_schemas::wire::capture::CaptureId;

use super::alerts::{SECRET, firing_with, json, send};
use super::*;
use crate::io::profiles::tests::{pprof_of, row};

const ORDER: &str = r#"{"node":"a","operation":"epoch_hook","labels":{"rank":"3"},"seconds":20}"#;

/// Settings with a state file, and with a key or without.
fn settings(dir: &TempDir, has_key: bool) -> PathBuf {
    let key = dir.path().join("confirm.key");
    write_secret(&key, &"5a".repeat(32)).unwrap();
    let mut text = format!("[state]\npath = {:?}\n", dir.path().join("state.redb"));
    if has_key {
        text += &format!("[confirm]\nkey_file = {key:?}\nname = 'one'\n");
    }
    let path = dir.path().join("settings.toml");
    std::fs::write(&path, text).unwrap();
    path
}

fn statuses(answers: &[(u16, String)]) -> Vec<u16> {
    answers.iter().map(|(status, _)| *status).collect()
}

#[tokio::test]
async fn captures_are_ordered_and_listed_with_their_state() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = firing_with(Some(SECRET), Some(settings(&dir, true))).await;
    let bearer = format!("Bearer {SECRET}");
    let bearer = bearer.as_str();
    let answers = send(
        &mut driver,
        &[
            ("POST /api/v1/profiles", "", ORDER),
            ("POST /api/v1/profiles", bearer, r#"{"node":"b","pid":1}"#),
            ("POST /api/v1/profiles", bearer, r#"{"node":"a"}"#),
            ("POST /api/v1/profiles", bearer, r#"{"node":"a","pid":1,"seconds":99}"#),
            ("POST /api/v1/profiles", bearer, r#"{"nod":"a"}"#),
            ("POST /api/v1/profiles", bearer, ORDER),
            ("GET /api/v1/profiles?node=a", "", ""),
            ("GET /api/v1/profiles?node=b", "", ""),
            ("GET /api/v1/profiles?limit=0", "", ""),
            ("GET /metrics", "", ""),
        ],
    )
    .await;
    let expected = [401, 404, 400, 400, 400, 201, 200, 200, 400, 200];
    assert_eq!(statuses(&answers), expected, "{answers:?}");
    assert!(answers[1].1.contains("node b is unknown"), "{}", answers[1].1);
    assert!(answers[2].1.contains("by pid alone, or by operation"), "{}", answers[2].1);
    assert!(answers[3].1.contains("seconds are 1 to 60"), "{}", answers[3].1);

    let ordered: ProfileRow = json(&answers[5].1);
    assert_eq!((ordered.state, ordered.seconds, ordered.hz), (ProfileState::Running, 20, 100));
    let listed: ProfilesPage = json(&answers[6].1);
    assert_eq!(listed.profiles.first(), Some(&ordered));
    assert_eq!(listed.profiles.len(), 1);
    assert_eq!(json::<ProfilesPage>(&answers[7].1).profiles, []);
    assert!(answers[8].1.contains("a whole number from 1 to 1000"), "{}", answers[8].1);
    assert!(answers[9].1.contains("plimsoll_aggregator_captures_running 1"));

    let path = format!("GET /api/v1/profiles/{}", ordered.id);
    let pprof = format!("{path}/pprof");
    let answers = send(&mut driver, &[(&path, "", ""), (&pprof, "", "")]).await;
    assert_eq!(statuses(&answers), [200, 404]);
    assert_eq!(json::<ProfileRow>(&answers[0].1), ordered);
}

#[tokio::test]
async fn a_stored_profile_is_shown_in_each_form_and_subtracted() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = firing_with(None, Some(settings(&dir, true))).await;
    let ids = [1, 2].map(|n| CaptureId::derived(&[&[n]]));
    let now = driver.clock.now().wall;
    for (id, samples) in ids.iter().zip([500, 100]) {
        let bytes = pprof_of(&[("load", samples), ("step", 500)]);
        let row = row(*id, 1e9 + samples as f64, &bytes);
        let store = &driver.captures.as_ref().unwrap().store;
        let row = ProfileRow { start_seconds: now.0 as f64 / 1e9, ..row };
        store.write(now, row, &bytes).unwrap();
    }
    let [id, peer] = ids.map(|id| id.to_string());
    let paths = [
        format!("GET /api/v1/profiles/{id}"),
        format!("GET /api/v1/profiles/{id}/pprof"),
        format!("GET /api/v1/profiles/{id}/svg"),
        format!("GET /api/v1/profiles/{id}/svg?minus={peer}"),
        format!("GET /api/v1/profiles/{id}/flame.json"),
        format!("GET /api/v1/profiles/{id}/flame.json?minus={peer}"),
        format!("GET /api/v1/profiles/{id}/flame.json?minus=xyz"),
        format!("GET /api/v1/profiles/{id}/flame.json?plus={peer}"),
        format!("GET /api/v1/profiles/{id}/pprof?minus={peer}"),
        format!("GET /api/v1/profiles/{}/svg", "0".repeat(32)),
        "GET /api/v1/profiles/1".to_owned(),
    ];
    let requests: Vec<_> = paths.iter().map(|path| (path.as_str(), "", "")).collect();
    let answers = send(&mut driver, &requests).await;
    let expected = [200, 200, 200, 200, 200, 200, 400, 400, 400, 404, 400];
    assert_eq!(statuses(&answers), expected, "{answers:?}");
    assert!(json::<ProfileRow>(&answers[0].1).state.has_profile());
    let file = format!("content-disposition: attachment; filename=\"{id}.pb.gz\"");
    assert!(answers[1].1.contains(&file), "{}", answers[1].1);
    assert!(answers[2].1.contains("<svg") && answers[3].1.contains("culprit"));
    let total = |answer: &str| json::<serde_json::Value>(answer)["root"]["value"].clone();
    assert_eq!(total(&answers[4].1), 10e9);
    let difference: serde_json::Value = json(&answers[5].1);
    assert_eq!(difference["root"]["delta"], 0.4e9);
}

#[tokio::test]
async fn captures_need_a_key_and_a_state_file() {
    let dir = tempfile::tempdir().unwrap();
    let bearer = format!("Bearer {SECRET}");
    for (settings, words) in
        [(Some(settings(&dir, false)), "confirm.key_file"), (None, "state.path")]
    {
        let mut driver = firing_with(Some(SECRET), settings).await;
        let answers = send(
            &mut driver,
            &[("POST /api/v1/profiles", &bearer, ORDER), ("GET /api/v1/profiles", "", "")],
        )
        .await;
        assert_eq!(statuses(&answers), [409, 200]);
        assert!(answers[0].1.contains(words), "{}", answers[0].1);
    }
}

#[tokio::test]
async fn the_difference_of_two_profiles_is_evidence_of_its_alert() {
    let mut driver = firing_with(None, None).await;
    let alerts = driver.core.alerts_page(driver.clock.now().wall, &Default::default()).alerts;
    let key = alerts.iter().find(|of| of.key.scope.node() == "a").unwrap().key.clone();
    let function = FunctionEvidence { function: "gc (train.py:7)".into(), culprit: 0.5, peer: 0.1 };
    let evidence = ProfileEvidence {
        id: "1".repeat(32),
        peer_id: "2".repeat(32),
        labels: Labels::default(),
        peer: NodeName::new("b").unwrap(),
        peer_labels: Labels::default(),
        functions: vec![function],
        link: None,
    };
    driver.core.on_compared(driver.clock.now().wall, &key, evidence.clone());
    let answers = send(&mut driver, &[("GET /api/v1/alerts?node=a", "", "")]).await;
    let page: AlertsPage = json(&answers[0].1);
    let alert = &page.alerts[0];
    assert_eq!(alert.context.as_ref().unwrap().profile, Some(evidence));
    assert!(alert.summary.ends_with("; in gc (train.py:7) +400 ms/s against node b"), "{alert:?}");
}
