//! `plimsoll up`: runs a local mesh, shows it in the terminal or as a table, drains it and prints
//! the ledger.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use nkeys::KeyPair;
use plimsoll_bus::advisories;
use plimsoll_clock::{Deadline, Stopwatch};
use plimsoll_mesh::broker;
use plimsoll_mesh::certificates::write_secret;
use plimsoll_mesh::stack::{Stack, StackOptions, Workload, bin_dir};
use plimsoll_runtime::exit::Exit;
use plimsoll_runtime::signals::{SignalEvent, Signals};
use plimsoll_runtime::stdout::{print, print_line};
use plimsoll_schemas::figure::counted;
use plimsoll_schemas::summary::Summary;

use crate::table::table;
use crate::top::{self, Watched};
use crate::up_report::Report;

/// Interval at which the processes are polled, and the timeout of a summary request.
const POLL_EVERY: Duration = Duration::from_millis(500);
/// Interval of the table on a terminal, and elsewhere.
const DRAW_EVERY: Duration = Duration::from_secs(1);
const PRINT_EVERY: Duration = Duration::from_secs(5);

/// Before the line that sends a sample.
const SAMPLE: &str = "a sample, in bash: ";

/// Run a broker, an aggregator and nodes with jobs on this machine
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "In a terminal, `plimsoll top` opens: q or Ctrl-C drains and stops, ? lists the \
keys.

It prints where each process listens, a line that sends one sample to the first node, and the token \
needed to acknowledge alerts. Only --http can listen beyond loopback."
)]
pub struct UpArgs {
    /// Stop after this many seconds [default: run until Ctrl-C]
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Print the report as JSON on standard output; everything else goes to standard error
    #[arg(long)]
    json: bool,
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u8).range(1..=50))]
    nodes: u8,
    /// Servers of the broker, as one cluster in which each stores every stream: 1, 3 or 5
    #[arg(long, value_name = "SERVERS", default_value_t = 1, value_parser = servers)]
    cluster: u8,
    /// Address of the aggregator's HTTP pages
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9900")]
    http: String,
    /// Keep logs, raw samples and streams in this directory [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Show a table in the terminal, not the screen of `plimsoll top`
    #[arg(long)]
    no_top: bool,
}

/// An even number of servers survives no more failures than one less.
fn servers(text: &str) -> Result<u8, String> {
    match text.parse() {
        Ok(servers @ (1 | 3 | 5)) => Ok(servers),
        _ => Err("a cluster has 3 or 5 servers".to_owned()),
    }
}

/// States that the installed broker has published advisories, if it has.
fn print_advisories() {
    // A broker that cannot be run fails the start with the reason.
    let Ok(version) = broker::installed_version() else { return };
    let count = advisories::of(&version).map_or(0, |found| found.len());
    if count > 0 {
        let (newest, sound) = (advisories::NEWEST, advisories::SOUND);
        let count = counted(count as u64, "published advisory");
        eprintln!(
            "nats-server {version} has {count} (as of {newest}); install {sound} or newer, or name \
             it in {}",
            broker::SERVER_VARIABLE
        );
    }
}

/// Runs a mesh until the time is over or a signal arrives.
///
/// # Errors
/// When a process does not start, ends early or cannot be drained, and when a signal arrives
/// while the mesh starts or drains. No process keeps running then.
pub async fn up(args: &UpArgs) -> Result<Exit> {
    let mut signals = Signals::listen()?;
    let temporary = tempfile::Builder::new().prefix("plimsoll-up-").tempdir()?;
    let dir = args.dir.as_deref().unwrap_or(temporary.path());
    let dir = std::path::absolute(dir)?;
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    // A token in a file that only this user reads: acknowledging is then possible with one command
    // that is printed, and not for others on the machine.
    let token = dir.join("token");
    write_secret(&token, &KeyPair::new_user().seed()?)?;

    let options = StackOptions {
        nodes: args.nodes.into(),
        servers: args.cluster.into(),
        http: Some(args.http.clone()),
        aggregator_settings: format!("[http]\ntoken_file = {:?}\n", token.display().to_string()),
        udp: true,
        workload: Some(Workload::at(bin_dir()?.join("plimsoll-workload"))),
        ..StackOptions::new(&dir)
    };

    print_advisories();

    let broker = match args.cluster {
        1 => "a broker".to_owned(),
        servers => format!("a cluster of {servers} brokers"),
    };

    let nodes = counted(args.nodes.into(), "node");
    eprintln!("starting {broker}, an aggregator and {nodes}, each with a job");

    // Dropped on a signal, the start kills what it has started.
    let mut stack = tokio::select! {
        started = Stack::start(options) => started?,
        _ = signals.next() => bail!("interrupted while the mesh was starting"),
    };

    eprint!("{}", listeners(&stack, &token)?);
    let watch = Stopwatch::start();
    watch_mesh(args, &mut stack, &mut signals, &watch).await?;

    // The draining future owns the mesh: dropped, it kills every process.
    tokio::select! {
        finished = finish(args, stack, &watch) => finished,
        () = end_signal(&mut signals) => {
            bail!("interrupted while draining: the ledger was not settled")
        }
    }
}

/// Where each process listens, what is off, and commands to try.
fn listeners(stack: &Stack, token: &Path) -> Result<String> {
    let (url, token) = (stack.api().url(), token.display());
    let program = std::env::current_exe().context("the path of this program is unknown")?;

    let mut text = format!(
        "running:\n  \
         page    {url} (/metrics for Prometheus, /api/v1 for scripts)\n  \
         broker  {}\n",
        stack.broker_url()
    );

    for station in stack.stations() {
        let (name, udp, socket) = (&station.name, station.udp()?, station.socket.display());
        text += &format!("  {name}  UDP {udp}, socket {socket}\n");
    }

    text += &format!(
        "  off     UDP 127.0.0.1:8125, OTLP, stream sockets of Rust clients\n\
         {SAMPLE}{}\n\
         acknowledge an alert: {} acknowledge --rule NAME --url {url} --token-file {token}\n",
        sample(stack)?,
        program.display()
    );

    Ok(text)
}

/// A line of bash that sends one sample to the first node.
fn sample(stack: &Stack) -> Result<String> {
    let first = stack.stations().first().context("a mesh without nodes")?.udp()?;
    Ok(format!("echo 'my_operation:12.5|ms' > /dev/udp/{}/{}", first.ip(), first.port()))
}

/// Shows the mesh until the time is over, a signal arrives or the operator quits.
async fn watch_mesh(
    args: &UpArgs,
    stack: &mut Stack,
    signals: &mut Signals,
    watch: &Stopwatch,
) -> Result<()> {
    let end = args.seconds.map(|seconds| Deadline::within(Duration::from_secs(seconds)));
    if !args.json && !args.no_top && top::is_terminal() {
        let api = stack.api().clone();
        let hint = format!("{SAMPLE}{}", sample(stack)?);

        return top::watch(&[api], Some(hint), signals, || {
            stack.check_all_alive()?;
            let is_over = end.is_some_and(|end| end.has_passed());
            Ok(if is_over { Watched::Over } else { Watched::Running })
        })
        .await;
    }

    let live = !args.json && std::io::stdout().is_terminal();
    let mut screen = Screen::new(live);

    while end.is_none_or(|end| !end.has_passed()) {
        let pause = end.map_or(POLL_EVERY, |end| POLL_EVERY.min(end.remaining()));
        tokio::select! {
            () = end_signal(signals) => break,
            () = tokio::time::sleep(pause) => {}
        }
        stack.check_all_alive()?;
        screen.draw_when_due(stack, watch).await;
    }

    Ok(())
}

/// The next signal that ends the run; there is no configuration to reload.
async fn end_signal(signals: &mut Signals) {
    while signals.next().await == SignalEvent::Reload {}
}

struct Screen {
    /// Whether a table overwrites the one before it.
    live: bool,
    /// The summary of the last table, for rates.
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
        // A summary that is late is skipped; the next round requests another.
        let response = tokio::time::timeout(POLL_EVERY, stack.api().summary()).await;
        let Ok(Ok(summary)) = response else { return };
        let seconds = watch.elapsed().as_secs();
        let table = table(&summary, self.before.as_ref());
        self.before = Some(summary);

        if self.live {
            let url = stack.api().url();
            let heading = format!("plimsoll up, {seconds} s, {url}, Ctrl-C drains and stops");
            print(format_args!("\x1b[H\x1b[J{heading}\n\n{table}"));
            // If the terminal is gone, SIGHUP ends this process.
        } else {
            eprintln!("after {seconds} s\n{table}");
        }
    }
}

async fn finish(args: &UpArgs, mut stack: Stack, watch: &Stopwatch) -> Result<Exit> {
    eprintln!("draining");
    // The report's seconds are those in which jobs ran, without the drain.
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
        let json =
            serde_json::to_string_pretty(&report).context("cannot write the report as JSON")?;
        print_line(json);
    }

    if let Some(dir) = &args.dir {
        eprintln!("logs, raw samples and streams are in {}", dir.display());
    }
    Ok(if report.accounted { Exit::Success } else { Exit::Failure })
}
