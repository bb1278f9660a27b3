//! The command line of `plimsoll-profiler`.

use clap::{Parser, Subcommand};
use plimsoll_runtime::build::version;
use plimsoll_runtime::exit::TABLE;
use plimsoll_runtime::settings::SettingsArgs;

/// Reads the stacks of Python processes from outside, without pausing them
#[derive(Debug, Parser)]
#[command(
    name = "plimsoll-profiler",
    version = version(),
    after_help = format!("{EXAMPLES}\n\n{TABLE}")
)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Carry out the orders of the node on this machine, which come over a Unix socket
    Serve(SettingsArgs),
}

const EXAMPLES: &str = "Examples:
  plimsoll-profiler serve --print-config                  # every key of the service
  plimsoll profile cpu --pid 4711                         # by hand, without the service

Supported: CPython 3.9 to 3.14 with the GIL, on 64-bit Linux; native code with --native. The process
is never paused.";
