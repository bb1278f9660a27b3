//! `drill-latency`: makes one job slow; its alert must fire and clear.

use std::process::ExitCode;

use clap::Parser;
use plimsoll_drills::live::frame::{FrameArgs, run};
use plimsoll_drills::live::latency::{LatencyArgs, latency};
use plimsoll_runtime::build::version;
use plimsoll_runtime::exit::TABLE;

const EXAMPLES: &str = "Examples:
  drill-latency                           a mesh of three nodes, about 25 s
  drill-latency --json --junit drill.xml  reports for scripts and build servers
  drill-latency --dir ./run               keep logs, raw samples and streams
  drill-latency --without-rule            see the drill miss its alert";

/// Make one job slow by real work: its alert must fire, be published, and clear
#[derive(Debug, Parser)]
#[command(
    name = "drill-latency",
    version = version(),
    after_help = format!("{EXAMPLES}\n\n{TABLE}")
)]
struct Cli {
    #[command(flatten)]
    latency: LatencyArgs,
    #[command(flatten)]
    frame: FrameArgs,
}

fn main() -> ExitCode {
    let Cli { latency: args, frame } = Cli::parse();
    run("drill-latency", &frame, async |dir| latency(args, &dir).await)
}
