//! `drill-faults`: stops, kills and wipes processes under load, and accounts for every sample.

use std::process::ExitCode;

use plimsoll_drills::live::faults::{FaultsArgs, faults, list};
use plimsoll_drills::live::frame::{FrameArgs, Program};
use plimsoll_runtime::stdout::print_line;

const PROGRAM: Program = Program {
    name: "drill-faults",
    about: "Stop, kill and wipe processes under load: every sample must be merged once or lost by name",
    examples: "Examples:
  drill-faults                                 every scenario, one after the other; minutes
  drill-faults --list                          list the scenarios
  drill-faults --only node-killed              one of them
  drill-faults --json --junit faults.xml       reports for scripts and build servers
  drill-faults --dir ./run                     keep logs, raw samples and streams",
};

fn main() -> ExitCode {
    let (args, frame): (FaultsArgs, FrameArgs) = PROGRAM.flags();
    if args.list {
        print_line(list());
        return ExitCode::SUCCESS;
    }
    PROGRAM.run(&frame, async |dir| faults(&args, dir).await)
}
