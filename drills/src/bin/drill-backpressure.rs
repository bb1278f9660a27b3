//! `drill-backpressure`: stops the broker for a while and sees whether anything is lost.

use std::process::ExitCode;

use clap::Parser;
use plimsoll_drills::live::backpressure::{BackpressureArgs, backpressure};
use plimsoll_drills::live::frame::{FrameArgs, run};
use plimsoll_runtime::build::version;
use plimsoll_runtime::exit::TABLE;

const EXAMPLES: &str = "Examples:
  drill-backpressure                           the broker stops for 12 s; about 40 s in all
  drill-backpressure --pause-seconds 30        and for longer
  drill-backpressure --json --junit drill.xml  reports for scripts and build servers
  drill-backpressure --dir ./run               keep logs, raw samples and streams";

/// Stop the broker for some seconds: queues must grow, nothing may be lost, depth must recover
#[derive(Debug, Parser)]
#[command(
    name = "drill-backpressure",
    version = version(),
    after_help = format!("{EXAMPLES}\n\n{TABLE}")
)]
struct Cli {
    #[command(flatten)]
    backpressure: BackpressureArgs,
    #[command(flatten)]
    frame: FrameArgs,
}

fn main() -> ExitCode {
    let Cli { backpressure: args, frame } = Cli::parse();
    run("drill-backpressure", &frame, async |dir| backpressure(args, &dir).await)
}
