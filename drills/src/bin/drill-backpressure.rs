//! `drill-backpressure`: stops the broker for a while and sees whether anything is lost.

use std::process::ExitCode;

use plimsoll_drills::live::backpressure::backpressure;
use plimsoll_drills::live::frame::Program;

const PROGRAM: Program = Program {
    name: "drill-backpressure",
    about: "Stop the broker for some seconds: queues must grow, nothing may be lost, depth must recover",
    examples: "Examples:
  drill-backpressure                           the broker stops for 12 s; about 40 s in all
  drill-backpressure --pause-seconds 30        and for longer
  drill-backpressure --json --junit drill.xml  reports for scripts and build servers
  drill-backpressure --dir ./run               keep logs, raw samples and streams",
};

fn main() -> ExitCode {
    PROGRAM.main(backpressure)
}
