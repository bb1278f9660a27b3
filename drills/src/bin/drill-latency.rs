//! `drill-latency`: makes one job slow; its alert must fire and clear.

use std::process::ExitCode;

use plimsoll_drills::live::frame::Program;
use plimsoll_drills::live::latency::latency;

const PROGRAM: Program = Program {
    name: "drill-latency",
    about: "Make one job slow by real work: its alert must fire, be published, and clear",
    examples: "Examples:
  drill-latency                           a mesh of three nodes, about 25 s
  drill-latency --json --junit drill.xml  reports for scripts and build servers
  drill-latency --dir ./run               keep logs, raw samples and streams
  drill-latency --without-rule            see the drill miss its alert",
};

fn main() -> ExitCode {
    PROGRAM.main(latency)
}
