//! `drill-sim`: thousands of fault schedules on the real cores in virtual time, one seed each.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use plimsoll_drills::sim::act::Shown;
use plimsoll_drills::sim::campaign::{Campaign, Failure, Findings, run};
use plimsoll_drills::sim::plan::Plan;
use plimsoll_drills::sim::report::{SimulationReport, words};
use plimsoll_runtime::build::version;
use plimsoll_runtime::exit::{Exit, TABLE};
use plimsoll_runtime::stdout::print_line;

const EXAMPLES: &str = "Examples:
  drill-sim --seeds 10000                 ten thousand schedules of 200 events
  drill-sim --seeds 2000 --from 40000     other ones
  drill-sim --seed 4711 --trace           one run, step by step, in words
  drill-sim --seeds 1000 --json           a report for scripts";

/// Lines of a failure's trace that are printed.
const TRACE_LINES_MAX: usize = 60;

/// Run the real cores through fault schedules in virtual time and check every invariant
#[derive(Debug, Parser)]
#[command(
    name = "drill-sim",
    version = version(),
    after_help = format!("{EXAMPLES}\n\n{TABLE}")
)]
struct Cli {
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Events in each schedule
    #[arg(long, default_value_t = 200)]
    events: usize,
    /// Threads; each works on runs of its own [default: one a core]
    #[arg(long)]
    jobs: Option<usize>,
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Print the report as JSON on standard output; all else goes to standard error
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // A panic in a core is a finding, reported with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    if let (Some(seed), true) = (cli.seed, cli.trace) {
        return trace(seed, cli.events).into();
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);

    let campaign = Campaign {
        from: cli.seed.unwrap_or(cli.from),
        seeds: if cli.seed.is_some() { 1 } else { cli.seeds },
        steps: cli.events,
        threads: cli.jobs.unwrap_or(cores).max(1),
    };

    let shows = std::io::stderr().is_terminal();
    let findings = campaign.run(&|findings| {
        if shows && findings.runs.is_multiple_of(64) {
            show(findings, campaign.seeds);
        }
    });

    conclude(&campaign, &findings, cli.json).into()
}

fn trace(seed: u64, steps: usize) -> Exit {
    let (outcome, _) = run(&Plan::draw(seed, steps), true);
    let mut out = std::io::stdout().lock();

    for line in &outcome.trace {
        if writeln!(out, "{line}").is_err() {
            return Exit::Failure;
        }
    }

    print_line(format_args!(
        "ended at {} after {} events",
        Shown(outcome.ended_at),
        outcome.events
    ));

    match outcome.broken {
        None => Exit::Success,
        Some(broken) => {
            print_line(format_args!("BROKEN: {}: {}", broken.invariant, broken.what));
            Exit::Missed
        }
    }
}

fn show(findings: &Findings, seeds: u64) {
    let unread = findings.reached.unread().len();
    eprint!(
        "\r{:>8} of {seeds} seeds, {:>6} a second, {unread:>2} branches not reached yet ",
        findings.runs,
        findings.runs_per_second()
    );
}

fn conclude(campaign: &Campaign, findings: &Findings, json: bool) -> Exit {
    let report = SimulationReport::new(campaign, findings);
    let text = words(&report);

    if json {
        eprintln!("{text}");
        match serde_json::to_string_pretty(&report) {
            Ok(json) => print_line(json),
            Err(_) => return Exit::Failure,
        }
    } else {
        print_line(text);
    }

    if let Some(Failure { trace, .. }) = &findings.failure {
        let first = trace.len().saturating_sub(TRACE_LINES_MAX);
        eprintln!("how the shortest schedule ends:\n{}", trace[first..].join("\n"));
    }

    if report.passed { Exit::Success } else { Exit::Missed }
}
