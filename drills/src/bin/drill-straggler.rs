//! `drill-straggler`: makes one rank of a job slow; its alert must name it and clear.

use std::process::ExitCode;

use plimsoll_drills::live::frame::Program;
use plimsoll_drills::live::straggler::straggler;

const PROGRAM: Program = Program {
    name: "drill-straggler",
    about: "Make one rank of a job slow: its alert must name rank, node and class, and clear",
    examples: "Examples:
  drill-straggler                           eight ranks on two nodes, about five minutes
  drill-straggler --json --junit drill.xml  reports for scripts and build servers
  drill-straggler --plant-miss not-slow     see the drill miss its alert
  drill-straggler --plant-miss slow-control see the drill find a name that should not be",
};

fn main() -> ExitCode {
    PROGRAM.main(straggler)
}
