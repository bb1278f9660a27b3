//! `drill-faults`: stops, kills and wipes processes under load, and accounts for every sample.

use std::process::ExitCode;

use clap::Parser;
use plimsoll_drills::live::faults::{FaultsArgs, faults, list};
use plimsoll_drills::live::frame::{FrameArgs, run};
use plimsoll_runtime::build::version;
use plimsoll_runtime::exit::TABLE;
use plimsoll_runtime::stdout::print_line;

const EXAMPLES: &str = "Examples:
  drill-faults                                 every scenario, one after the other; minutes
  drill-faults --list                          list the scenarios
  drill-faults --only node-killed              one of them
  drill-faults --json --junit faults.xml       reports for scripts and build servers
  drill-faults --dir ./run                     keep logs, raw samples and streams";

/// Stop, kill and wipe processes under load: every sample must be merged once or lost by name
#[derive(Debug, Parser)]
#[command(
    name = "drill-faults",
    version = version(),
    after_help = format!("{EXAMPLES}\n\n{TABLE}")
)]
struct Cli {
    #[command(flatten)]
    faults: FaultsArgs,
    #[command(flatten)]
    frame: FrameArgs,
}

fn main() -> ExitCode {
    let Cli { faults: args, frame } = Cli::parse();
    if args.list {
        print_line(list());
        return ExitCode::SUCCESS;
    }
    run("drill-faults", &frame, async |dir| faults(&args, &dir).await)
}
