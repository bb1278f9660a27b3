//! Pools of short-lived Python workers, which are ended with SIGTERM as soon as their last task has
//! returned: a worker loses at most what it recorded in its last 50 ms.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_mesh::stack::StackOptions;
use plimsoll_schemas::summary::Summary;

use crate::live::expectation::{Drill, Expectation, Look};
use crate::live::report::Report;
use crate::live::rig::Rig;
use crate::live::settings::options;

const POOL: &str = include_str!("pool.py");
const OPERATION: &str = "pool_task";
const WORKERS: u64 = 4;
/// Of each pool: a fifth of a second's work.
const TASKS: u64 = 160;
/// One after the other.
const POOLS: u64 = 5;
/// How long one task takes, at least.
const TASK_MS: u64 = 5;
/// A worker that is ended may lose what it recorded in that time.
const UNSENT_MS: u64 = 50;
const UNSENT_MAX: u64 = POOLS * WORKERS * UNSENT_MS / TASK_MS;
/// Samples that a planted miss counts as recorded although no task ran.
const PHANTOMS: u64 = 1_000;

pub(super) async fn short(mut drill: Drill, dir: &Path) -> Result<Report> {
    let python = run_python(&["-c", "import plimsoll"], None)?;
    if !python.status.success() {
        let expectation = Expectation::new("Python client", "python3 can import plimsoll");
        let reason = "python3 cannot import plimsoll: set PYTHONPATH to node/client-python";
        drill.skip(expectation, reason);
        return Ok(Report::new(&drill));
    }

    let options = StackOptions { nodes: 1, workload: None, ..options(dir)? };
    let mut rig = Rig::start(drill, options).await?;
    let socket = rig.stack.stations()[0].socket.clone();
    let ran = tokio::task::spawn_blocking(move || run_pool(&socket)).await?;
    let returned = judge_pool(&mut rig.drill, &ran);
    let phantoms = if rig.drill.take_planted_miss() { PHANTOMS } else { 0 };
    let summary = rig.drain(ran.map(drop)).await;
    judge_samples(&mut rig.drill, returned + phantoms, summary);
    Ok(rig.end().await)
}

fn run_python(arguments: &[&str], socket: Option<&Path>) -> Result<Output> {
    let mut command = Command::new("python3");
    command.args(arguments);
    if let Some(socket) = socket {
        command.env("PLIMSOLL_SOCKET", socket);
    }
    command.output().context("python3 cannot be run")
}

/// Runs the pools; returns how many tasks have returned.
fn run_pool(socket: &Path) -> Result<u64> {
    let [pools, workers, tasks] = [POOLS, WORKERS, TASKS].map(|number| number.to_string());
    let file = socket.with_extension("pool.py");
    std::fs::write(&file, POOL)?;
    let file = file.to_str().context("a path that is no text")?;
    let Output { stdout, stderr, .. } =
        run_python(&[file, &pools, &workers, &tasks], Some(socket))?;
    let returned = String::from_utf8_lossy(&stdout).trim().parse();
    returned.with_context(|| String::from_utf8_lossy(&stderr).into_owned())
}

fn judge_pool(drill: &mut Drill, ran: &Result<u64>) -> u64 {
    let returned = ran.as_ref().map_or(0, |returned| *returned);
    let all = POOLS * TASKS;
    let expected = format!("{all} tasks of {POOLS} pools of {WORKERS} workers return");
    let look = Look::of(ran, &format!("{returned} tasks"));
    let look = Look { met: returned == all, ..look };
    drill.judge(Expectation::new("pools", expected), Duration::ZERO, look);
    returned
}

fn judge_samples(drill: &mut Drill, recorded: u64, summary: Result<Summary>) {
    let expectation = Expectation::new(
        "samples of short workers",
        format!("of {recorded} at most {UNSENT_MAX} are missing, and none is doubled"),
    );
    let look = summary.map(|summary| {
        let rows = summary.operations.iter();
        let of_fleet = rows.filter(|row| row.operation == OPERATION && row.scope.node().is_empty());
        let merged: u64 = of_fleet.map(|row| row.total.count).sum();
        let met = merged + UNSENT_MAX >= recorded && merged <= recorded;
        Look::new(met, format!("{merged} merged, lost {:?}", summary.ledger.lost))
    });
    let since = drill.elapsed();
    drill.judge(expectation, since, look);
}
