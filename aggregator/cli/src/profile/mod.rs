//! `plimsoll profile`: which functions a process spends its time in, on this machine and without a
//! mesh or on a node, and by which functions two profiles differ.

mod files;
mod remote;
mod text;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use plimsoll_profile::{ThreadState, flame, subtract};
use plimsoll_profiler::capture;
use plimsoll_profiler::order::Order;
use plimsoll_profiler::output::Capture;
use plimsoll_profiler::reader::Paths;
use plimsoll_profiler::refusal::Refusal;
use plimsoll_profiler::sampler::Cancel;
use plimsoll_runtime::exit::{Exit, fail};
use plimsoll_runtime::stdout::print_line;

use crate::targets::Target;
use files::OutputFile;
use remote::{ListArgs, RemoteOrder, RemoteProfile};

/// Functions that a table shows.
const SHOWN: usize = 20;

/// Sample the stacks of a process; compare two profiles
#[derive(Args, Clone, Debug)]
pub struct ProfileArgs {
    #[command(subcommand)]
    command: ProfileCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum ProfileCommand {
    /// Sample the Python stacks of a process on this machine or on a node, without pausing it
    Cpu(CpuArgs),
    /// Show by which functions a profile differs from that of a healthy peer
    Diff(DiffArgs),
    List(ListArgs),
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll profile cpu --pid 4711                                  # a table of functions
  plimsoll profile cpu --pid 4711 --seconds 30 -o flame.svg        # a flame graph
  plimsoll profile cpu --pid 4711 --state all -o rank2.pb.gz       # for go tool pprof, or for diff
  plimsoll profile cpu --node n7 --job epoch_hook --label rank=3 -o flame.svg

With --node the aggregator orders it, which needs its token, and captures.enabled on the node. A process of your own may be read unless Yama forbids it; one of another user needs CAP_SYS_PTRACE.
What is refused names the fix. Interrupted, it writes what it has.")]
struct CpuArgs {
    /// The process
    #[arg(long, required_unless_present = "node")]
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
    /// For how long, 1 to 600; with --node to 60
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Samples a second, 1 to 1000; with --node to 100
    #[arg(long, visible_alias = "hz", default_value_t = 100, value_name = "HZ")]
    rate: u32,
    /// Keep whole paths of source files; without it, the last two parts
    #[arg(long)]
    full_paths: bool,
    #[command(flatten)]
    shown: Shown,
    #[command(flatten)]
    at: Target,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll profile diff rank2.pb.gz rank0.pb.gz
  plimsoll profile diff rank2.pb.gz rank0.pb.gz --state running -o diff.svg")]
struct DiffArgs {
    /// The profile of the slow process: a pprof file of any tool
    culprit: PathBuf,
    /// The profile of a healthy peer
    peer: PathBuf,
    #[command(flatten)]
    shown: Shown,
}

/// What is shown of a profile, and where.
#[derive(Args, Clone, Debug)]
struct Shown {
    /// Threads in this state alone. A pprof file of `cpu` has all of them
    #[arg(long, value_enum, default_value_t = StateChoice::Running)]
    state: StateChoice,
    /// File to write instead of a table: .svg, .json (a flame graph), .folded or .pb.gz (pprof)
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StateChoice {
    /// On a processor, or ready for one
    Running,
    /// Blocked, and not on the global interpreter lock
    Waiting,
    /// Blocked on the global interpreter lock
    Gil,
    /// Any
    All,
}

impl StateChoice {
    fn state(self) -> Option<ThreadState> {
        match self {
            Self::Running => Some(ThreadState::Running),
            Self::Waiting => Some(ThreadState::Waiting),
            Self::Gil => Some(ThreadState::Gil),
            Self::All => None,
        }
    }
}

/// Samples a process, or compares two profiles.
///
/// # Errors
/// When a file cannot be read or written, or the process cannot be read.
pub async fn profile(args: ProfileArgs) -> Result<Exit> {
    match args.command {
        ProfileCommand::Cpu(args) => match args.node.clone() {
            Some(node) => cpu_of_node(node, args).await,
            None => cpu(args).await,
        },
        ProfileCommand::List(args) => remote::list(&args).await,
        ProfileCommand::Diff(args) => diff(&args),
    }
}

async fn cpu(args: CpuArgs) -> Result<Exit> {
    let pid = args.pid.context("--pid or --node")?;
    let paths = if args.full_paths { Paths::Full } else { Paths::Short };
    let order = match Order::new(pid, args.rate, args.seconds, paths) {
        Ok(order) => order,
        Err(error) => return Ok(refused(Exit::Usage, &error)),
    };
    // First: a capture whose result cannot be kept is not made.
    let output = args.shown.output.as_deref().map(OutputFile::create).transpose()?;
    eprintln!("plimsoll: {} s at {} Hz of process {}", args.seconds, args.rate, pid);

    let capture = match sampled(order).await? {
        Ok(capture) => capture,
        Err(refusal @ Refusal::Denied { .. }) => return Ok(refused(Exit::Denied, &refusal)),
        Err(refusal) => return Ok(refused(Exit::Failure, &refusal)),
    };

    let profile = &capture.profile;
    let state = args.shown.state.state();
    eprintln!("plimsoll: {}", text::facts(&capture));

    match output {
        None => print_line(text::functions(profile, state, SHOWN)),
        Some(output) => {
            let title = format!("process {pid}, {}", text::ended(&capture));
            output.write_profile(&title, profile, state)?;
        }
    }
    Ok(Exit::Success)
}

/// The same of a process on a node, which the aggregator orders.
async fn cpu_of_node(node: String, args: CpuArgs) -> Result<Exit> {
    let output = args.shown.output.as_deref().map(OutputFile::create).transpose()?;
    let CpuArgs { pid, job, labels, seconds, rate: hz, .. } = args;
    let order = RemoteOrder { node, pid, job, labels, seconds, hz };
    let RemoteProfile { row, profile } = match remote::capture(&args.at, order).await? {
        Ok(captured) => captured,
        Err(exit) => return Ok(exit),
    };
    eprintln!("plimsoll: {}", remote::facts(&row));

    let state = args.shown.state.state();
    match output {
        None => print_line(text::functions(&profile, state, SHOWN)),
        Some(output) => {
            let title = format!("{}, process {}", row.node, row.facts.pid);
            output.write_profile(&title, &profile, state)?;
        }
    }
    Ok(Exit::Success)
}

/// Samples on a thread of its own. An interrupt ends the capture, not the program.
async fn sampled(order: Order) -> Result<Result<Capture, Refusal>> {
    let cancel = Cancel::default();
    let stop = cancel.clone();
    let sampling = tokio::task::spawn_blocking(move || capture(&order, &cancel));
    tokio::pin!(sampling);

    tokio::select! {
        done = &mut sampling => return done.context("the sampler failed"),
        _ = tokio::signal::ctrl_c() => stop.cancel(),
    }
    sampling.await.context("the sampler failed")
}

fn refused(exit: Exit, error: &dyn std::fmt::Display) -> Exit {
    fail("plimsoll", exit, error);
    exit
}

fn diff(args: &DiffArgs) -> Result<Exit> {
    let culprit = files::read(&args.culprit)?;
    let peer = files::read(&args.peer)?;
    let difference = subtract(&culprit, &peer, args.shown.state.state())?;

    match &args.shown.output {
        None => print_line(text::differences(&difference, SHOWN)),
        Some(path) => {
            let title = format!("{} minus {}", args.culprit.display(), args.peer.display());
            let output = OutputFile::create(path)?;
            output.write_graph(&title, &flame::of_difference(&difference))?;
        }
    }
    Ok(Exit::Success)
}
