//! Profiles over HTTP on a whole driver: ordered with the token, listed, and shown in each form.

use std::path::PathBuf;

use plimsoll_mesh::certificates::write_secret;
use plimsoll_schemas::alert::{AlertsPage, FunctionEvidence, ProfileEvidence};
use plimsoll_schemas::summary::{ProfileState, ProfilesPage};
use plimsoll_schemas::wire::capture::{CaptureId, CaptureKind};
use serde_json::json;

use super::alerts::{SECRET, firing_with, json, send};
use super::*;
use crate::io::profiles::tests::{gzip, pprof_of, row};

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

/// A profile in the driver's store that started now.
fn put(driver: &Driver, n: u8, kind: CaptureKind, bytes: &[u8]) -> String {
    let (id, now) = (CaptureId::derived(&[&[n]]), driver.clock.now().wall);
    // Each a little earlier than the one before.
    let start_seconds = now.0 as f64 / 1e9 - f64::from(n);
    let row = ProfileRow { kind, ..row(id, start_seconds, bytes) };
    driver.captures.as_ref().unwrap().store.write(now, row, bytes).unwrap();
    id.to_string()
}

#[tokio::test]
async fn a_profile_that_is_named_is_ranked_compared_and_redacted() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = firing_with(Some(SECRET), Some(settings(&dir, true))).await;
    let bearer = format!("Bearer {SECRET}");
    let bearer = bearer.as_str();
    let old = put(&driver, 2, CaptureKind::Cpu, &pprof_of(&[("load", 100), ("step", 500)]));
    let new = put(&driver, 1, CaptureKind::Cpu, &pprof_of(&[("load", 500), ("step", 500)]));
    let keep = format!("POST /api/v1/profiles/{old}/keep");
    let keep_new = format!("POST /api/v1/profiles/{new}/keep");
    let name = r#"{"name":"v41"}"#;
    let compare = format!("GET /api/v1/profiles/compare?a=name:v41&b={new}&n=1");
    let answers = send(
        &mut driver,
        &[
            (&keep, "", name),
            (&keep, bearer, r#"{"name":""}"#),
            (&keep, bearer, name),
            (&keep_new, bearer, name),
            ("GET /api/v1/profiles/name:v41", "", ""),
            ("GET /api/v1/profiles/name:v42/pprof", "", ""),
            ("GET /api/v1/profiles/name:v41/top.json?n=2", "", ""),
            (&compare, "", ""),
            ("GET /api/v1/profiles/name:v41/flame.json?redact=true", "", ""),
            ("GET /api/v1/profiles/name:v41/flamegraph.svg?redact=true", "", ""),
            ("GET /api/v1/profiles/name:v41/pprof?redact=true", "", ""),
            ("GET /api/v1/profiles/name:v41/top.json?state=gil", "", ""),
            ("GET /api/v1/profiles/name:v41/top.json?redact=functions", "", ""),
            ("GET /api/v1/profiles/name:v41/flame.json?form=columns", "", ""),
            ("GET /api/v1/profiles/name:v41/flame.json?form=rows", "", ""),
            ("DELETE /api/v1/profiles/name:v41/keep", bearer, ""),
            ("GET /api/v1/profiles/name:v41", "", ""),
        ],
    )
    .await;
    let expected =
        [401, 400, 200, 409, 200, 404, 200, 200, 200, 200, 200, 200, 200, 200, 400, 204, 404];
    assert_eq!(statuses(&answers), expected, "{answers:?}");
    assert!(answers[3].1.contains("choose another name"), "{}", answers[3].1);
    assert_eq!(json::<ProfileRow>(&answers[4].1).id.to_string(), old);

    let top: serde_json::Value = json(&answers[6].1);
    assert_eq!((&top["profile_id"], &top["duration_seconds"]), (&old.into(), &10.0.into()));
    let [first, second] = [0, 1].map(|n| top["top_functions"][n].clone());
    assert_eq!((&first["name"], &first["self_seconds"]), (&"main".into(), &0.0.into()));
    assert_eq!((&first["cumulative_percent"], &first["line"]), (&100.0.into(), &3.into()));
    assert_eq!((&second["name"], &second["self_seconds"]), (&"step".into(), &5.0.into()));

    let compared: serde_json::Value = json(&answers[7].1);
    let load = &compared["top_functions"][0];
    assert_eq!((&compared["unit"], &load["name"]), (&"seconds".into(), &"load".into()));
    assert_eq!(load["self"], json!({"a": 0.1, "b": 0.5, "difference": 0.4}));
    assert_eq!(compared["flame"]["root"]["delta"], 0.4e9);
    for redacted in &answers[8..=10] {
        assert!(!redacted.1.contains("train.py") && !redacted.1.contains("n1"), "{redacted:?}");
    }
    assert!(answers[8].1.contains("path-1"), "{}", answers[8].1);
    let [of_gil, hidden, columns] = [11, 12, 13].map(|n| json::<serde_json::Value>(&answers[n].1));
    assert_eq!((&of_gil["state"], &of_gil["top_functions"]), (&"gil".into(), &json!([])));
    assert_eq!(hidden["top_functions"][0]["name"], "function-1");
    assert_eq!((&columns["depth"], &columns["value"][0]), (&json!([0, 1, 2, 2]), &6e9.into()));
    assert!(answers[14].1.contains("form is \"rows\""), "{}", answers[14].1);
}

#[tokio::test]
async fn captures_are_filtered_and_the_newest_kept_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = firing_with(Some(SECRET), Some(settings(&dir, true))).await;
    let bearer = format!("Bearer {SECRET}");
    let of_cpu = put(&driver, 2, CaptureKind::Cpu, &pprof_of(&[("load", 1)]));
    let of_memory = put(&driver, 1, CaptureKind::Memory, &pprof_of(&[("load", 1)]));
    let answers = send(
        &mut driver,
        &[
            ("POST /api/v1/runs", &bearer, r#"{"name":"v42"}"#),
            ("POST /api/v1/profiles", &bearer, ORDER),
            ("GET /api/v1/profiles?kind=memory", "", ""),
            ("GET /api/v1/profiles?to=now-1m", "", ""),
            ("GET /api/v1/profiles?run=v42", "", ""),
            ("GET /api/v1/profiles?run=v43", "", ""),
            ("GET /api/v1/profiles/last", "", ""),
            ("GET /api/v1/profiles/last?kind=cpu&node=n1", "", ""),
            ("GET /api/v1/profiles/last?kind=trace", "", ""),
        ],
    )
    .await;
    let expected = [201, 201, 200, 200, 200, 404, 200, 200, 404];
    assert_eq!(statuses(&answers), expected, "{answers:?}");
    let ids = |answer: &str| {
        let page: ProfilesPage = json(answer);
        page.profiles.iter().map(|row| row.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&answers[2].1), std::slice::from_ref(&of_memory));
    assert_eq!(ids(&answers[3].1), [""; 0]);
    // Those of before have started before the run.
    let ordered: ProfileRow = json(&answers[1].1);
    assert_eq!(ids(&answers[4].1), [ordered.id.to_string()]);
    assert_eq!(json::<ProfileRow>(&answers[6].1).id.to_string(), of_memory);
    assert_eq!(json::<ProfileRow>(&answers[7].1).id.to_string(), of_cpu);
}

#[tokio::test]
async fn a_capture_is_stopped_with_the_token_and_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = firing_with(Some(SECRET), Some(settings(&dir, true))).await;
    let bearer = format!("Bearer {SECRET}");
    let kept = put(&driver, 1, CaptureKind::Cpu, &pprof_of(&[("load", 1)]));
    let ordered = send(&mut driver, &[("POST /api/v1/profiles", &bearer, ORDER)]).await;
    let ordered: ProfileRow = json(&ordered[0].1);
    let [stop, stop_kept, stop_none] = [ordered.id.to_string(), kept, "0".repeat(32)]
        .map(|id| format!("POST /api/v1/profiles/{id}/stop"));
    let requests = [
        (&stop, ""),
        (&stop, &bearer),
        (&stop, &bearer),
        (&stop_kept, &bearer),
        (&stop_none, &bearer),
    ];
    let requests: Vec<_> = requests.iter().map(|(of, token)| (of.as_str(), &**token, "")).collect();
    let answers = send(&mut driver, &requests).await;
    assert_eq!(statuses(&answers), [401, 200, 409, 409, 404], "{answers:?}");
    let stopped: ProfileRow = json(&answers[1].1);
    assert_eq!(stopped.reason.as_deref(), Some("stopped"));
}

#[tokio::test]
async fn a_trace_is_downloaded_and_has_no_other_form() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = firing_with(None, Some(settings(&dir, true))).await;
    let trace = put(&driver, 1, CaptureKind::Trace, &gzip(br#"{"traceEvents":[]}"#));
    let cpu = put(&driver, 2, CaptureKind::Cpu, &pprof_of(&[("load", 1)]));
    let forms = ["pprof", "svg", "flamegraph.svg", "flame.json", "top.json", "pprof?redact=true"];
    let paths: Vec<String> = forms
        .map(|form| format!("GET /api/v1/profiles/{trace}/{form}"))
        .into_iter()
        .chain([
            format!("GET /api/v1/profiles/compare?a={cpu}&b={trace}"),
            format!("GET /api/v1/profiles/{cpu}/trace"),
            format!("GET /api/v1/profiles/{trace}/trace"),
        ])
        .collect();
    let requests: Vec<_> = paths.iter().map(|path| (path.as_str(), "", "")).collect();
    let answers = send(&mut driver, &requests).await;
    assert_eq!(statuses(&answers), [400, 400, 400, 400, 400, 400, 400, 400, 200], "{answers:?}");
    assert!(answers[0].1.contains(&format!("profiles/{trace}/trace has it")), "{}", answers[0].1);
    assert!(answers[7].1.contains(&format!("profiles/{cpu}/pprof has it")), "{}", answers[7].1);
    let file = format!("filename=\"{trace}.trace.json.gz\"");
    assert!(answers[8].1.contains(&file), "{}", answers[8].1);
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
