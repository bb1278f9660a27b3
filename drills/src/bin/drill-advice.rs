//! `drill-advice`: a slow job, the advice on it, a changed configuration, and both runs compared.

use std::process::ExitCode;

use plimsoll_drills::live::advice::advice;
use plimsoll_drills::live::frame::Program;

const PROGRAM: Program = Program {
    name: "drill-advice",
    about: "Run a job with the configuration that plimsoll advise writes: it must be better",
    examples: "Examples:
  drill-advice                                  two runs of a job with a database, nine minutes
  drill-advice --json --junit drill.xml         reports for scripts and build servers
  drill-advice --plant-miss same-configuration  see the drill miss that the second run is better",
};

fn main() -> ExitCode {
    PROGRAM.main(advice)
}
