//! `plimsoll profile`: which functions a process spends its time in, on this machine and without a
//! mesh, or on a node; and pprof files of any tool, as tables and in other forms.

mod captured;
mod files;
mod inside;
mod local;
mod output;
mod query;
mod remote;
mod stored;
mod text;

use anyhow::{Result, bail};
use clap::{Args, Subcommand, value_parser};
use plimsoll_runtime::exit::Exit;

use crate::targets::Target;
use output::OutputArgs;
use stored::{DiffArgs, ShowArgs};

/// Sample the stacks of a process; show, convert and compare profiles
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll profile cpu --pid 4711                       # functions of a running script
  plimsoll profile cpu --pid 4711 -o flame.html         # a flame graph to search and zoom
  plimsoll profile query --from 15:00 --to 15:05        # a past minute
  plimsoll profile diff slow.pb.gz fast.pb.gz           # what one has more than another

Each command has more: plimsoll profile cpu --help")]
pub struct ProfileArgs {
    #[command(subcommand)]
    command: ProfileCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum ProfileCommand {
    /// Sample the Python stacks of a process on this machine or on a node, without pausing it
    Cpu(CpuArgs),
    /// Show which functions of a Python process of a node allocate what stays in use
    Memory(inside::MemoryArgs),
    /// Fetch the spans of a Python process of a node, as a Chrome trace
    Trace(inside::TraceArgs),
    /// Show what nodes have recorded before: which functions a past minute was spent in
    Query(query::QueryArgs),
    /// Show a pprof file, or convert it
    Show(ShowArgs),
    /// Show what one pprof file has more than another, or less
    Diff(DiffArgs),
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll profile cpu --pid 4711                                  # a table of functions
  plimsoll profile cpu --pid 4711 --seconds 30 -o flame.svg        # a flame graph
  plimsoll profile cpu --pid 4711 --colour module -o flame.html    # to search and zoom
  plimsoll profile cpu --pid 4711 -o rank2.pb.gz                   # for go tool pprof
  plimsoll profile cpu --pid 4711 --json --top 5                   # for a program
  plimsoll profile cpu --pid 4711 --mode gil                       # who holds the GIL, and where
  plimsoll profile cpu --pid 4711 --native -o flame.svg            # with C, C++ and Rust
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
    /// Samples a second
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
    /// Frames of native code too, of any program: Python, C, C++, Rust
    #[arg(long)]
    native: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// Whose time counts: wall, of all threads; cpu, of those that run; gil, of the one that holds
    /// the global interpreter lock, which needs --pid
    #[arg(long, value_parser = ["wall", "cpu", "gil"], conflicts_with = "state")]
    mode: Option<String>,
    #[command(flatten)]
    at: Target,
}

impl CpuArgs {
    fn is_of_gil_holder(&self) -> bool {
        self.mode.as_deref() == Some("gil")
    }

    /// The options of what is shown, with the state that the mode asks for.
    fn shown(&self) -> OutputArgs {
        let state = match self.mode.as_deref() {
            None => return self.output.clone(),
            Some("cpu") => "running",
            Some(_) => "all",
        };
        self.output.in_state(state)
    }
}

/// Samples a process, or shows files.
///
/// # Errors
/// When a file cannot be read or written, or the process cannot be read.
pub async fn profile(args: ProfileArgs) -> Result<Exit> {
    match args.command {
        ProfileCommand::Cpu(args) => return cpu(&args).await,
        ProfileCommand::Memory(args) => return inside::memory(&args).await,
        ProfileCommand::Trace(args) => return inside::trace(&args).await,
        ProfileCommand::Query(args) => return query::query(&args).await,
        ProfileCommand::Show(args) => stored::show(&args)?,
        ProfileCommand::Diff(args) => stored::diff(&args)?,
    }
    Ok(Exit::Success)
}

async fn cpu(args: &CpuArgs) -> Result<Exit> {
    if args.is_of_gil_holder() && args.node.is_some() {
        bail!("--mode gil: give --pid, on the machine of the process; a node captures all threads");
    }
    if args.is_of_gil_holder() && args.native {
        bail!("--mode gil: leave out --native; what native code does with the lock is not seen");
    }
    let shown = args.shown();
    let output = shown.prepare()?;
    let captured = match &args.node {
        Some(node) => remote::captured(node, args).await?,
        None => local::captured(args).await?,
    };
    output.finish_captured(captured)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        profile: ProfileArgs,
    }

    #[test]
    fn a_mode_chooses_the_threads_that_are_shown() {
        let shown = |options: &str| {
            let words = format!("plimsoll cpu --pid 7 {options}");
            let line = Line::try_parse_from(words.split_whitespace()).ok()?;
            let ProfileCommand::Cpu(args) = line.profile.command else { return None };
            Some((args.shown().state, args.is_of_gil_holder()))
        };
        let state = |word: &str| Some(word.to_owned());
        for (options, expected) in [
            ("", Some((None, false))),
            ("--state gil", Some((state("gil"), false))),
            ("--state all", Some((state("all"), false))),
            ("--mode wall", Some((state("all"), false))),
            ("--mode cpu", Some((state("running"), false))),
            ("--mode gil", Some((state("all"), true))),
            ("--mode off", None),
            ("--mode cpu --state all", None),
        ] {
            assert_eq!(shown(options), expected, "{options}");
        }
    }
}
