//! `plimsoll profile`: which functions a process spends its time in, on this machine and without a
//! mesh, or on a node.

mod files;
mod local;
mod remote;
mod text;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand, value_parser};
use plimsoll_profile::{Profile, ThreadState};
use plimsoll_runtime::exit::Exit;
use plimsoll_runtime::stdout::print_line;

use crate::targets::Target;
use files::OutputFile;

/// Functions that a table shows.
const SHOWN: usize = 20;

/// Sample the stacks of a process
#[derive(Args, Clone, Debug)]
pub struct ProfileArgs {
    #[command(subcommand)]
    command: ProfileCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum ProfileCommand {
    /// Sample the Python stacks of a process on this machine or on a node, without pausing it
    Cpu(CpuArgs),
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll profile cpu --pid 4711                                  # a table of functions
  plimsoll profile cpu --pid 4711 --seconds 30 -o flame.svg        # a flame graph
  plimsoll profile cpu --pid 4711 -o rank2.pb.gz                   # for go tool pprof
  plimsoll profile cpu --node n7 --job epoch_hook --label rank=3 -o flame.svg

With --node the aggregator orders it, which needs its token, and captures.enabled on the node. A process of your own may be read unless Yama forbids it; one of another user needs CAP_SYS_PTRACE.
What is refused names the fix. Interrupted, it writes what it has.")]
struct CpuArgs {
    /// The process
    #[arg(long, required_unless_present = "node", value_parser = value_parser!(i32).range(1..))]
    pid: Option<i32>,
    /// The node on which the process is; without it, this machine
    #[arg(long)]
    node: Option<String>,
    /// With --node: the process that sends this operation to it, instead of --pid
    #[arg(long, value_name = "OPERATION", requires = "node", conflicts_with = "pid")]
    job: Option<String>,
    /// With --job: a label that its samples have; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", requires = "job")]
    labels: Vec<String>,
    /// For how long; with --node up to 60
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Samples a second; with --node up to 100
    #[arg(
        long,
        visible_alias = "hz",
        default_value_t = 100,
        value_name = "HZ",
        value_parser = value_parser!(u32).range(1..=1_000)
    )]
    rate: u32,
    /// Keep whole paths of source files; without it, the last two parts
    #[arg(long)]
    full_paths: bool,
    /// Threads in this state alone. A pprof file has all of them
    #[arg(long, default_value = "running", value_parser = ["running", "waiting", "gil", "all"])]
    state: String,
    /// File to write instead of a table: .svg (a flame graph) or .pb.gz (pprof)
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    at: Target,
}

/// A profile, its name, and how its capture went, in one line each.
struct Captured {
    title: String,
    facts: String,
    profile: Profile,
}

/// Samples a process.
///
/// # Errors
/// When a file cannot be written, or the process cannot be read.
pub async fn profile(args: ProfileArgs) -> Result<Exit> {
    let ProfileCommand::Cpu(args) = args.command;
    // First: a capture whose result cannot be kept is not made.
    let output = args.output.as_deref().map(OutputFile::create).transpose()?;

    let captured = match &args.node {
        Some(node) => remote::captured(node, &args).await?,
        None => local::captured(&args).await?,
    };
    let Captured { title, facts, profile } = match captured {
        Ok(captured) => captured,
        Err(exit) => return Ok(exit),
    };
    eprintln!("plimsoll: {facts}");

    let state = ThreadState::ALL.into_iter().find(|state| state.as_str() == args.state);
    match output {
        None => print_line(text::functions(&profile, state, SHOWN)),
        Some(output) => output.write(&title, &profile, state)?,
    }
    Ok(Exit::Success)
}
