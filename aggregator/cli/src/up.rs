//! `plimsoll up`: a whole mesh on this machine, watched live, drained and accounted for.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use plimsoll_clock::{Deadline, Stopwatch};
use plimsoll_runtime::exit::Exit;
use plimsoll_runtime::signals::{SignalEvent, Signals};
use plimsoll_schemas::summary::Summary;

use crate::report::Report;
use crate::stack::{Stack, StackOptions};
use crate::table::table;

/// How often the processes are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often the table is drawn on a terminal, and printed elsewhere.
const DRAW_EVERY: Duration = Duration::from_secs(1);
const PRINT_EVERY: Duration = Duration::from_secs(5);

/// Start a broker, an aggregator and nodes with real jobs here, and watch them
#[derive(Args, Clone, Debug)]
pub struct UpArgs {
    /// End after this many seconds; without it, Ctrl-C ends
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Print the report as JSON on standard output; all else goes to standard error
    #[arg(long)]
    json: bool,
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u8).range(1..=50))]
    nodes: u8,
    /// Address of the aggregator's pages
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9900")]
    http: String,
    /// Keep logs, raw samples and streams in this directory [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Runs a mesh until the time is over or someone asks it to end.
///
/// # Errors
/// When a part does not start, dies, or cannot be drained, and when someone asks to end while
/// the mesh starts or drains. Nothing keeps running then.
pub async fn up(args: &UpArgs) -> Result<Exit> {
    let mut signals = Signals::listen()?;
    let temporary = tempfile::Builder::new().prefix("plimsoll-up-").tempdir()?;
    let dir = args.dir.as_deref().unwrap_or(temporary.path());
    let options = StackOptions {
        nodes: args.nodes.into(),
        http: Some(args.http.clone()),
        ..StackOptions::new(dir)
    };
    eprintln!("starting a broker, an aggregator and {} nodes with their jobs", args.nodes);
    let mut stack = tokio::select! {
        started = Stack::start(options) => started?,
        _ = signals.next() => bail!("interrupted while the mesh was starting"),
    };
    eprintln!("{}/metrics (summary as JSON: /metrics/summary)", stack.api().url());
    let watch = Stopwatch::start();
    watch_mesh(args, &mut stack, &mut signals, &watch).await?;
    // The mesh goes with the future that drains it: whatever still runs is killed.
    tokio::select! {
        finished = finish(args, stack, &watch) => finished,
        () = asked_to_end(&mut signals) => {
            bail!("interrupted while draining: the ledger was not settled")
        }
    }
}

/// Draws the table until the time is over or someone asks to end.
async fn watch_mesh(
    args: &UpArgs,
    stack: &mut Stack,
    signals: &mut Signals,
    watch: &Stopwatch,
) -> Result<()> {
    let end = args.seconds.map(|seconds| Deadline::within(Duration::from_secs(seconds)));
    let live = !args.json && std::io::stdout().is_terminal();
    let mut screen = Screen::new(live);
    while end.is_none_or(|end| !end.has_passed()) {
        let pause = end.map_or(LOOK_EVERY, |end| LOOK_EVERY.min(end.remaining()));
        tokio::select! {
            () = asked_to_end(signals) => break,
            () = tokio::time::sleep(pause) => {}
        }
        stack.check_all_alive()?;
        screen.draw_when_due(stack, watch).await;
    }
    Ok(())
}

/// There is no configuration to read again.
async fn asked_to_end(signals: &mut Signals) {
    while signals.next().await == SignalEvent::Reload {}
}

struct Screen {
    /// Whether the table replaces itself, or is printed below the last one.
    live: bool,
    /// The summary drawn last, for rates.
    before: Option<Summary>,
    due: Deadline,
}

impl Screen {
    fn new(live: bool) -> Self {
        Self { live, before: None, due: Self::next(live) }
    }

    fn next(live: bool) -> Deadline {
        Deadline::within(if live { DRAW_EVERY } else { PRINT_EVERY })
    }

    async fn draw_when_due(&mut self, stack: &Stack, watch: &Stopwatch) {
        if self.due.has_passed() {
            self.due = Self::next(self.live);
            self.draw(stack, watch).await;
        }
    }

    async fn draw(&mut self, stack: &Stack, watch: &Stopwatch) {
        // A summary that does not come is late, not wrong; the next round asks again.
        let asked = tokio::time::timeout(LOOK_EVERY, stack.api().summary()).await;
        let Ok(Ok(summary)) = asked else { return };
        let seconds = watch.elapsed().as_secs();
        let table = table(&summary, self.before.as_ref());
        self.before = Some(summary);
        if self.live {
            let url = stack.api().url();
            let heading = format!("plimsoll up, {seconds} s, {url}, Ctrl-C drains and ends");
            print!("\x1b[H\x1b[J{heading}\n\n{table}");
            // A terminal that is gone ends this process by other means.
            let _shown = std::io::stdout().flush();
        } else {
            eprintln!("after {seconds} s\n{table}");
        }
    }
}

async fn finish(args: &UpArgs, mut stack: Stack, watch: &Stopwatch) -> Result<Exit> {
    eprintln!("draining");
    stack.end_jobs().await?;
    let seconds = watch.elapsed().as_secs_f64();
    let summary = stack.drain().await?;
    let mut raw = BTreeMap::new();
    for station in stack.stations() {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for (operation, _) in station.raw_samples()? {
            *counts.entry(operation).or_default() += 1;
        }
        raw.insert(station.name.clone(), counts);
    }
    stack.end().await?;
    let report = Report::new(seconds, &summary, raw);
    eprintln!("{}", report.words());
    if args.json {
        let json = serde_json::to_string_pretty(&report).context("the report is not JSON")?;
        println!("{json}");
    }
    if let Some(dir) = &args.dir {
        eprintln!("logs, raw samples and streams are in {}", dir.display());
    }
    Ok(if report.accounted { Exit::Success } else { Exit::Failure })
}
