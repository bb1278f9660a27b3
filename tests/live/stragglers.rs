//! Ranks of a real job that wait for each other: the slow one is named with what takes it longer,
//! and none is while all are alike.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_runtime::client::Api;
use plimsoll_schemas::summary::{BlamePage, CohortState};
use plimsoll_tests::process::await_firing;
use plimsoll_tests::program::{RunningProgram, program, run};
use plimsoll_tests::single_node::{NODE, SingleNodeMesh};

use crate::clients::python;

const RANKS: u64 = 8;
/// Eight ranks are known after two minutes: 200 blocks of five seconds.
const LEARNING: Duration = Duration::from_secs(300);
const WAIT: Duration = Duration::from_secs(120);

async fn page(api: &Api) -> Option<BlamePage> {
    serde_json::from_str(&api.get("/api/v1/blame").await.ok()?).ok()
}

/// What `plimsoll blame` prints.
async fn blame(url: &str) -> String {
    let mut command = program("plimsoll").unwrap();
    command.args(["blame", "--url", url]);
    let outcome = run(command, WAIT).await.unwrap();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    outcome.stdout
}

fn create(dir: &Path, file: &str) {
    File::create(dir.join(file)).unwrap();
}

#[tokio::test]
async fn a_slow_rank_is_named_with_its_class() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = SingleNodeMesh::start(dir.path()).await.unwrap();
    let api = mesh.stack.api();
    let url = api.url().to_string();
    assert!(blame(&url).await.starts_with("no phases are seen"));

    let mut command = python("python/clients/ranked_job.py");
    command.env("PLIMSOLL_SOCKET", mesh.node.socket());
    command.args(["--ranks", &RANKS.to_string()]).arg(dir.path());
    let job = RunningProgram::start(command).unwrap();
    let seen = async || {
        let page = page(api).await?;
        let cohort = page.cohorts.first()?;
        (cohort.state == CohortState::Learning && cohort.peers == RANKS).then_some(())
    };
    until("all ranks are seen", WAIT, seen).await.unwrap();
    assert!(blame(&url).await.starts_with("train_step: 8 ranks, learning"));

    let judged = async || {
        let page = page(api).await?;
        (page.cohorts.first()?.state == CohortState::Judged).then_some(page)
    };
    let healthy = until("the ranks are known", LEARNING, judged).await.unwrap();
    assert_eq!((healthy.cohorts.len(), healthy.cohorts[0].named), (1, 0), "{healthy:?}");
    assert!(blame(&url).await.contains("8 ranks, none is slow"));

    create(dir.path(), "slow");
    let named = async || page(api).await?.alerts.pop();
    let alert = until("the slow rank is named", WAIT, named).await.unwrap();
    assert_eq!((alert.node.as_str(), alert.evidence.peer.as_str()), (NODE, "2"), "{alert:?}");
    assert_eq!(alert.evidence.class.as_deref(), Some("compute"), "{alert:?}");
    // A busy machine adds to each sleep, and nothing takes away.
    assert!((0.015..0.030).contains(&alert.evidence.excess_seconds), "{alert:?}");
    await_firing(api, &["straggler"]).await.unwrap();
    let sentence = blame(&url).await;
    assert!(sentence.starts_with("rank 2 on fed holds up 7 ranks: +"), "{sentence}");
    assert!(sentence.contains("; it computes longer; "), "{sentence}");

    // The job ends in order, and with it the alert.
    create(dir.path(), "stop");
    let outcome = job.end(WAIT).await.unwrap();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let over = async || page(api).await?.alerts.is_empty().then_some(());
    until("the alert has ended with its job", WAIT, over).await.unwrap();
    mesh.stack.end().await.unwrap();
}
