//! `plimsoll profile memory` and `trace`: what the Python client inside of a process sees of it.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, value_parser};
use plimsoll_runtime::exit::Exit;
use plimsoll_schemas::limits::wire::CAPTURE_PROFILE_BYTES_MAX;
use serde_json::{Value, json};

use super::files::{Form, OutputFile};
use super::output::OutputArgs;
use super::remote;
use crate::targets::Target;

/// A trace as the client wrote it.
const TRACES: [(&str, Form); 1] = [(".json.gz", Form::Trace)];

/// A process of a node whose job has the Python client, with PLIMSOLL_CAPTURES=1.
#[derive(Args, Clone, Debug)]
struct ProcessArgs {
    /// The node on which the process is
    #[arg(long)]
    node: String,
    /// The process
    #[arg(long, required_unless_present = "job", value_parser = value_parser!(i32).range(1..))]
    pid: Option<i32>,
    /// The process that sends this operation, instead of --pid
    #[arg(long, value_name = "OPERATION", conflicts_with = "pid")]
    job: Option<String>,
    /// With --job: a label that its samples have; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", requires = "job")]
    labels: Vec<String>,
    /// For how long
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u32).range(1..=60))]
    seconds: u32,
    #[command(flatten)]
    at: Target,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll profile memory --node n7 --pid 4711                     # a table of functions
  plimsoll profile memory --node n7 --job epoch_hook -o leak.svg   # a flame graph of bytes

Each allocation is traced meanwhile, which makes code that allocates several times slower.")]
pub(super) struct MemoryArgs {
    #[command(flatten)]
    of: ProcessArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll profile trace --node n7 --job train_step -o step.trace.json.gz   # for ui.perfetto.dev")]
pub(super) struct TraceArgs {
    #[command(flatten)]
    of: ProcessArgs,
    /// File to write, which ends in .json.gz
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

/// Shows what a process allocated meanwhile and still uses.
///
/// # Errors
/// When a file cannot be written, or nothing can be asked.
pub(super) async fn memory(args: &MemoryArgs) -> Result<Exit> {
    let output = args.output.prepare()?;
    let body = args.of.body("memory")?;
    output.finish_captured(remote::kept(&args.of.at.api()?, &body).await?)
}

/// Fetches the spans of a process.
///
/// # Errors
/// When the file cannot be written, or nothing can be asked.
pub(super) async fn trace(args: &TraceArgs) -> Result<Exit> {
    let file = OutputFile::create(&args.output, &TRACES)?;
    let api = args.of.at.api()?;
    let row = match remote::ordered(&api, &args.of.body("trace")?).await? {
        Ok(row) => row,
        Err(exit) => return Ok(exit),
    };
    let path = format!("{}/{}/trace", remote::PATH, row.id);
    file.write(&api.fetch(&path, "application/gzip", CAPTURE_PROFILE_BYTES_MAX).await?)?;
    eprintln!("plimsoll: {} spans in {}", row.facts.samples, args.output.display());
    Ok(Exit::Success)
}

impl ProcessArgs {
    fn body(&self, kind: &str) -> Result<Value> {
        let Self { node, pid, job, labels, seconds, .. } = self;
        let labels = remote::labels(labels)?;
        Ok(json!({
            "kind": kind, "node": node, "pid": pid, "operation": job, "labels": labels,
            "seconds": seconds,
        }))
    }
}
