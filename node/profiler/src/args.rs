//! The command line of `plimsoll-profiler`.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use plimsoll_runtime::build::version;
use plimsoll_runtime::exit::TABLE;
use plimsoll_runtime::settings::SettingsArgs;

/// Reads the stacks of a Python process from outside, without pausing it
#[derive(Debug, Parser)]
#[command(
    name = "plimsoll-profiler",
    version = version(),
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = format!("{EXAMPLES}\n\n{TABLE}")
)]
pub struct Args {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Process to read
    #[arg(long, required = true)]
    pub pid: Option<i32>,
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

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Carry out the orders of the node on this machine, which come over a Unix socket
    Serve(SettingsArgs),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A line for each stack and its count, as flame graph programs read it
    Folded,
    /// A compressed profile, with threads and facts
    Pprof,
}

const EXAMPLES: &str = "Examples:
  plimsoll-profiler --pid 4711                            # 10 s at 100 Hz, folded stacks
  plimsoll-profiler --pid 4711 --seconds 60 --rate 20 -o stacks.folded
  plimsoll-profiler --pid 4711 --format pprof -o stacks.pb.gz
  plimsoll-profiler --pid 4711 --probe                    # what may be read, and the fix
  plimsoll-profiler serve --print-config                  # every key of the service

Supported: CPython 3.11 to 3.13 with the GIL, on 64-bit Linux. The process is never paused.";
