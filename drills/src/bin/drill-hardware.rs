//! `drill-hardware`: disturbs a machine of files; its alerts must fire and clear.

use std::process::ExitCode;

use plimsoll_drills::live::frame::Program;
use plimsoll_drills::live::hardware::hardware;

const PROGRAM: Program = Program {
    name: "drill-hardware",
    about: "Disturb a machine of files: its alerts must fire, be published, and clear",
    examples: "Examples:
  drill-hardware                           a mesh of two nodes, about 25 s
  drill-hardware --json --junit drill.xml  reports for scripts and build servers
  drill-hardware --dir ./run               keep machines, logs, raw samples and streams
  drill-hardware --plant-miss memory_critical  see the drill miss an alert

GPUs are a stand-in that rustc builds; RUSTC names another one. Without it that part is skipped.",
};

fn main() -> ExitCode {
    PROGRAM.main(hardware)
}
