//! `drill-hardware`: disturbs a machine of files; its alerts must fire and clear.

use std::process::ExitCode;

use clap::Parser;
use plimsoll_drills::live::frame::{FrameArgs, run};
use plimsoll_drills::live::hardware::{HardwareArgs, hardware};
use plimsoll_runtime::build::version;
use plimsoll_runtime::exit::TABLE;

const EXAMPLES: &str = "Examples:
  drill-hardware                           a mesh of two nodes, about 25 s
  drill-hardware --json --junit drill.xml  reports for scripts and build servers
  drill-hardware --dir ./run               keep machines, logs, raw samples and streams
  drill-hardware --plant-miss memory_critical  see the drill miss an alert

GPUs are a stand-in that rustc builds; RUSTC names another one. Without it that part is skipped.";

/// Disturb a machine of files: its alerts must fire, be published, and clear
#[derive(Debug, Parser)]
#[command(
    name = "drill-hardware",
    version = version(),
    after_help = format!("{EXAMPLES}\n\n{TABLE}")
)]
struct Cli {
    #[command(flatten)]
    hardware: HardwareArgs,
    #[command(flatten)]
    frame: FrameArgs,
}

fn main() -> ExitCode {
    let Cli { hardware: args, frame } = Cli::parse();
    run("drill-hardware", &frame, async |dir| hardware(&args, &dir).await)
}
