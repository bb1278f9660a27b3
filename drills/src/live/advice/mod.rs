//! A job that writes to a database row by row: `plimsoll advise` must find the database slow and
//! write a changed configuration, the job must run with it, and `plimsoll compare` must find it
//! better.
//!
//! The job, its database and its configuration are real, as are node, broker and aggregator; the
//! commands are those of a user.
//!
//! DESIGN D37.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use plimsoll_mesh::stack::{StackOptions, bin_dir};
use plimsoll_runtime::client::Api;
use plimsoll_schemas::figure::percent;
use serde_json::{Value, json};
use tokio::process::Command;

use super::account::Terms;
use super::expectation::{Drill, Expectation, Look, Span};
use super::report::Report;
use super::rig::Rig;
use super::settings::{no_budgets_but, options};

mod job;

use job::{BATCH, Job, ROWS, TURN};

/// Two dozen slots of the history, which a verdict needs.
const RUN: Duration = Duration::from_secs(250);
/// Messages of a second wait for a checkpoint at most as long, until a page has them.
const STORED_WAIT: Duration = Duration::from_secs(30);

/// What the drill is to miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlantedMiss {
    /// The second run has the configuration of the first: it must not be better
    SameConfiguration,
}

/// Options of the drill of advice.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct AdviceArgs {
    /// Miss an expectation, to see this drill fail with exit code 6
    #[arg(long, value_enum)]
    pub plant_miss: Option<PlantedMiss>,
}

/// Runs the drill.
///
/// # Errors
/// When the mesh does not start.
pub async fn advice(args: AdviceArgs, dir: &Path) -> Result<Report> {
    let aggregator_settings = no_budgets_but("");
    let options = StackOptions { nodes: 1, aggregator_settings, ..options(dir)? };
    let drill = Drill::begin("drill-advice");
    let disturb = async |rig: &mut Rig| disturb(rig, args, dir).await;
    Rig::run(drill, options, Terms::NOTHING, disturb).await
}

async fn disturb(rig: &mut Rig, AdviceArgs { plant_miss }: AdviceArgs, dir: &Path) -> Result<()> {
    let (first, better) = (dir.join("job.json"), dir.join("better.json"));
    let config = json!({ "job": { BATCH: 1, "rows": ROWS } });
    std::fs::write(&first, serde_json::to_string_pretty(&config)?)?;

    run(rig, "v1", &first, dir).await?;
    expect_advice(rig, &first, &better).await?;
    let second = if plant_miss.is_some() { &first } else { &better };
    run(rig, "v2", second, dir).await?;
    expect_better(rig).await;
    Ok(())
}

/// The job as a run of this name, with this configuration.
async fn run(rig: &mut Rig, name: &str, config: &Path, dir: &Path) -> Result<()> {
    let station = rig.stack.stations().first().context("the mesh has no node")?;
    let job = Job::start(name, config, &dir.join(format!("{name}.redb")), &station.socket)?;
    let command = Command::new(program()?)
        .args(["run", "--name", name, "--socket"])
        .arg(&station.socket)
        .args(["--", "sleep", &RUN.as_secs().to_string()])
        .kill_on_drop(true)
        .spawn();

    rig.pass(&format!("run {name}"), RUN).await;
    let ended = command.context("plimsoll run")?.wait().await?;
    let samples = job.stop()?;
    let node = rig.nodes()[0].clone();
    rig.fed.entry(node).or_default().extend(samples);
    if !ended.success() {
        bail!("plimsoll run --name {name}: {ended}");
    }
    Ok(())
}

/// The advice on the first run: its database, and a copy of the configuration with larger batches.
async fn expect_advice(rig: &mut Rig, config: &Path, better: &Path) -> Result<()> {
    let span = Span { since: rig.drill.elapsed(), within: STORED_WAIT };
    let expected = format!("database_batches recommended, {BATCH} 1 -> 10 in a copy");
    let wanted = json!({ "job": { BATCH: 10, "rows": ROWS } });

    let look = async || -> Result<Look> {
        let (config, better) = (config.display().to_string(), better.display().to_string());
        let args = ["advise", "run:v1", "--config", &config, "--output", &better, "--json"];
        let advised = plimsoll(rig.stack.api(), &args).await?;
        let advice: Vec<Value> = serde_json::from_slice(&advised.stdout)
            .with_context(|| String::from_utf8_lossy(&advised.stderr).into_owned())?;
        let of = |key: &str| advice.iter().filter_map(|of| of[key].as_str()).collect::<Vec<_>>();

        let is_recommended = of("name").contains(&"database_batches");
        let copy: Value = serde_json::from_str(&std::fs::read_to_string(&better)?)?;
        let seen = format!("{}; {}; {copy}", of("name").join(", "), of("evidence").join(", "));
        if !is_recommended || copy != wanted {
            // The next attempt writes it anew.
            std::fs::remove_file(&better)?;
        }
        Ok(Look::new(is_recommended && copy == wanted, seen))
    };
    rig.drill.expect(Expectation::new("advice on the first run", expected), span, look).await;
    if better.exists() { Ok(()) } else { bail!("there is no changed configuration to run") }
}

/// The comparison of both runs: turns are shorter and rows a second more, beyond the noise.
async fn expect_better(rig: &mut Rig) {
    let span = Span { since: rig.drill.elapsed(), within: STORED_WAIT };
    let rows = format!("{TURN}.rows");
    let expected = format!("better: exit code 0, {TURN} shorter, {rows}/s higher");

    let look = async || -> Result<Look> {
        let args =
            ["compare", "run:v1", "run:v2", "--operation", TURN, "--operation", &rows, "--json"];
        let compared = plimsoll(rig.stack.api(), &args).await?;
        let page: Value = serde_json::from_slice(&compared.stdout)
            .with_context(|| String::from_utf8_lossy(&compared.stderr).into_owned())?;
        let verdicts = [&page["operations"][TURN], &page["rates"][&rows]]
            .map(|of| of["verdict"].as_str().unwrap_or("missing").to_owned());

        let is_better = verdicts.iter().all(|verdict| verdict == "better");
        let rate = page["rates"][&rows]["change"]["estimate"].as_f64();
        let rate = rate.map_or_else(|| "unknown".to_owned(), percent);
        let code = compared.status.code().unwrap_or(-1);
        let seen =
            format!("exit code {code}, {TURN} {}, {rows}/s {} by {rate}", verdicts[0], verdicts[1]);
        Ok(Look::new(is_better && code == 0, seen))
    };
    rig.drill.expect(Expectation::new("the second run is better", expected), span, look).await;
}

fn program() -> Result<PathBuf> {
    Ok(bin_dir()?.join("plimsoll"))
}

/// A command of the operator's program on this mesh.
async fn plimsoll(api: &Api, args: &[&str]) -> Result<Output> {
    let url = api.url();
    let command = Command::new(program()?)
        .args(args)
        .args(["--url", url])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    command.await.context("plimsoll")
}
