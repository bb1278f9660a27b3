//! Spools, histories and profiles on a disk that is full: nodes and aggregator count what they
//! cannot write, and no sample is late or lost. What the aggregator wrote can still be queried, and
//! all write again once there is room. A spool that cannot be written fires an alert.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_runtime::client::Api;
use plimsoll_schemas::alert::{AlertState, AlertsPage};
use plimsoll_tests::capability::{mount_refusal, skip};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::metrics_page::MetricsPage;
use plimsoll_tests::process::{await_summary, fleet_samples};

use crate::captures::{self, Place};
use crate::history::{await_samples, query};

/// Both try again every 30 s.
const WAIT: Duration = Duration::from_secs(60);
/// Operations that need more room than a file may have of its own.
const OPERATIONS: u64 = 150;
const NODE_DROPPED: &str = "plimsoll_agent_history_dropped_total{reason=\"disk_full\"}";
const NODE_WRITTEN: &str = "plimsoll_agent_history_messages_total";
const FAILURES: &str = "plimsoll_aggregator_checkpoint_failures_total{reason=\"history\"}";

/// A file system of 16 MiB.
pub(crate) struct SmallDisk(pub(crate) PathBuf);

impl SmallDisk {
    pub(crate) fn mount(at: PathBuf) -> Self {
        std::fs::create_dir(&at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"]).arg(&at);
        let output = mount.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        Self(at)
    }

    pub(crate) fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }

    /// Leaves room for nothing.
    pub(crate) fn fill(&self) {
        let mut file = File::options().create(true).append(true).open(self.ballast()).unwrap();
        loop {
            match file.write(&[7; 4_096]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

/// Samples of many operations, which jobs have not sent before.
pub(crate) fn send_others(socket: &Path) {
    let client = UnixDatagram::unbound().unwrap();
    client.connect(socket).unwrap();
    for operation in 0..OPERATIONS {
        let lines: Vec<String> =
            (1..60).map(|n| format!("other_{operation}:{}|ms", n * n + operation)).collect();
        client.send(lines.join("\n").as_bytes()).unwrap();
    }
}

async fn await_metric(api: &Api, series: &str, least: f64) -> f64 {
    let enough = async || {
        let value = MetricsPage::of(api).await.ok()?.value(series)?;
        (value >= least).then_some(value)
    };
    until(&format!("{series} is {least} or more"), WAIT, enough).await.unwrap()
}

#[tokio::test]
async fn a_full_disk_costs_history_alone_and_it_is_written_again_when_there_is_room() {
    if let Some(refusal) = mount_refusal() {
        return skip(&refusal);
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mount(dir.path().join("small"));
    std::fs::create_dir(disk.0.join("nodes")).unwrap();
    symlink(disk.0.join("nodes"), dir.path().join("history")).unwrap();
    symlink(disk.0.join("fleet.redb"), dir.path().join("history.redb")).unwrap();
    let mut stack = Stack::start(with_jobs(dir.path())).await.unwrap();
    let had = await_samples(&stack, 60).await;

    disk.fill();
    send_others(&stack.stations()[0].socket);
    for station in stack.stations() {
        await_metric(&station.api, NODE_DROPPED, 1.0).await;
    }
    await_metric(stack.api(), FAILURES, 1.0).await;
    let more = |summary: &_| fleet_samples(summary, "epoch_hook") >= had + 60;
    await_summary(stack.api(), "samples are merged as before", more).await.unwrap();
    let page = query(&stack, "operation=epoch_hook&last=1h").await;
    assert!(page.points[0].count >= had, "what was written can be queried: {page:?}");
    let of_nodes = query(&stack, "operation=epoch_hook&node=*&last=1h").await;
    for row in of_nodes.nodes.unwrap() {
        let error = row.error.unwrap_or_default();
        assert!(error.contains("disk error"), "{}: {error:?}", row.node);
    }

    let mut written = Vec::new();
    for station in stack.stations() {
        written.push(station.api.metric(NODE_WRITTEN).await.unwrap().unwrap());
    }
    std::fs::remove_file(disk.ballast()).unwrap();
    for (station, written) in stack.stations().iter().zip(written) {
        await_metric(&station.api, NODE_WRITTEN, written + 3.0).await;
        let again = station.node_log().contains("history is written again");
        assert!(again, "{}", station.node_log());
    }
    let of_nodes = query(&stack, "operation=epoch_hook&node=*&last=1h").await;
    let rows = of_nodes.nodes.unwrap();
    assert!(rows.iter().all(|row| row.error.is_none() && row.missing > 0), "{rows:?}");

    // Samples that the aggregator could not write have waited for room: none is missing.
    let drained = stack.drain().await.unwrap();
    for row in &drained.nodes {
        let ledger = &row.ledger;
        assert!(ledger.is_settled() && ledger.lost.is_empty(), "{}: {ledger:?}", row.node);
    }
    for operation in ["epoch_hook", "other_7"] {
        let merged = fleet_samples(&drained, operation);
        let whole = async || {
            let page = query(&stack, &format!("operation={operation}&last=1h")).await;
            (page.points[0].count == merged).then_some(())
        };
        until("the history has all samples", WAIT, whole).await.unwrap();
    }
}

#[tokio::test]
async fn a_full_disk_costs_profiles_alone_and_they_are_stored_again_when_there_is_room() {
    if let Some(refusal) = mount_refusal() {
        return skip(&refusal);
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mount(dir.path().join("small"));
    let profiles = disk.0.join("profiles");
    std::fs::create_dir(&profiles).unwrap();
    disk.fill();
    let settings = format!("[profiles]\ncontinuous = true\ndirectory = {profiles:?}\n");
    let mut place = Place::start_with(&settings, captures::job).await;

    let of = |outcome, reason| {
        format!("plimsoll_agent_profiles_total{{outcome=\"{outcome}\",reason=\"{reason}\"}}")
    };
    let api = place.stack.stations()[0].api.clone();
    await_metric(&api, &of("dropped", "disk_full"), 1.0).await;
    std::fs::remove_file(disk.ballast()).unwrap();
    await_metric(&api, &of("stored", ""), 1.0).await;
    let sent = place.end_job();
    let drained = place.stack.drain().await.unwrap();
    assert_eq!(fleet_samples(&drained, "step"), sent);
}

/// The state of the alert that a node cannot write its spool.
async fn spool_alert(stack: &Stack) -> Option<AlertState> {
    let page = stack.api().get("/api/v1/alerts").await.ok()?;
    let page: AlertsPage = serde_json::from_str(&page).unwrap();
    let mut rows = page.alerts.iter();
    rows.find(|row| row.key.rule.as_str() == "spool_not_durable").map(|row| row.state)
}

#[tokio::test]
async fn a_spool_on_a_full_disk_fires_until_it_can_be_written_again() {
    if let Some(refusal) = mount_refusal() {
        return skip(&refusal);
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mount(dir.path().join("small"));
    let spools = Some(disk.0.join("spools"));
    let options = StackOptions { spools, nodes: 1, ..with_jobs(dir.path()) };
    let mut stack = Stack::start(options).await.unwrap();
    await_metric(&stack.stations()[0].api, "plimsoll_agent_spool_durable", 1.0).await;
    await_samples(&stack, 20).await;
    assert_eq!(spool_alert(&stack).await, None);

    // A write that fails removes its file, which makes room for the next one.
    let fires = async || {
        disk.fill();
        spool_alert(&stack).await.filter(|state| *state == AlertState::Firing)
    };
    until("the alert fires", WAIT, fires).await.unwrap();
    let durable = stack.api().metric("plimsoll_node_spool_durable{node=\"node-1\"}").await;
    assert_eq!(durable.unwrap(), Some(0.0));

    std::fs::remove_file(disk.ballast()).unwrap();
    let resolves =
        async || spool_alert(&stack).await.filter(|state| *state == AlertState::Resolved);
    until("the alert resolves", WAIT, resolves).await.unwrap();
    let drained = stack.drain().await.unwrap();
    let ledger = &drained.nodes[0].ledger;
    assert!(ledger.is_settled() && ledger.lost.is_empty(), "{ledger:?}");
}
