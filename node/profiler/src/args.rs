//! The command line of `plimsoll-profiler`.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use plimsoll_runtime::build::version;
use plimsoll_runtime::exit::TABLE;

/// Reads the stacks of a Python process from outside, without pausing it
#[derive(Debug, Parser)]
#[command(
    name = "plimsoll-profiler",
    version = version(),
    after_help = format!("{EXAMPLES}\n\n{TABLE}")
)]
pub struct Args {
    /// Process to read
    #[arg(long)]
    pub pid: i32,
    /// Print what may be read of the process, and what would let more be read
    #[arg(long)]
    pub probe: bool,
    /// Length of the capture, 1 to 600
    #[arg(long, default_value_t = 10)]
    pub seconds: u32,
    /// Samples a second, 1 to 1000
    #[arg(long, default_value_t = 100, value_name = "HZ")]
    pub rate: u32,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = Format::Folded)]
    pub format: Format,
    /// File to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A line for each stack and its count, as flame graph programs read it
    Folded,
    /// One object with stacks and facts
    Json,
}

const EXAMPLES: &str = "Examples:
  plimsoll-profiler --pid 4711                            # 10 s at 100 Hz, folded stacks
  plimsoll-profiler --pid 4711 --seconds 60 --rate 20 -o stacks.folded
  plimsoll-profiler --pid 4711 --format json -o stacks.json
  plimsoll-profiler --pid 4711 --probe                    # what may be read, and the fix

Supported: CPython 3.11 to 3.13 with the GIL, on 64-bit Linux. The process is never paused.";
