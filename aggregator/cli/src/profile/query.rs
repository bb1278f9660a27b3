//! `plimsoll profile query`: a stretch of the past, as nodes that profile all the time have
//! recorded it, of one node, of several as one, or from a directory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, value_parser};
use jiff::Zoned;
use plimsoll_node::io::profiles::read_range;
use plimsoll_profile::Name;
use plimsoll_profile::series::{Past, PastQuery};
use plimsoll_runtime::exit::{Exit, fail};
use plimsoll_schemas::time::Wall;
use serde_json::json;

use super::captured::Captured;
use super::output::OutputArgs;
use super::remote;
use crate::targets::Target;
use crate::time_range::TimeRange;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll profile query --from 15:00 --to 15:05                 # all nodes that are up, as one
  plimsoll profile query --from 15:00 --to 15:05 --node n7 -o flame.svg
  plimsoll profile query --dir /var/lib/plimsoll-node/profiles --last 10m

It needs profiles.continuous and captures.enabled on the nodes, and the aggregator's token; with --dir
the directory alone. Profiles of 10 s are in the range that their middle is in.")]
pub(super) struct QueryArgs {
    #[command(flatten)]
    range: TimeRange,
    /// A node; may be repeated. Without it all nodes that are up, at most 64
    #[arg(long = "node", value_name = "NODE")]
    nodes: Vec<String>,
    /// Read the directory of a node's profiles (profiles.directory) instead
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "nodes")]
    dir: Option<PathBuf>,
    /// This process alone
    #[arg(long, value_parser = value_parser!(u32).range(1..))]
    pid: Option<u32>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    at: Target,
}

/// Whole seconds since 1970.
#[derive(Clone, Copy)]
struct Range {
    from: u64,
    to: u64,
}

/// # Errors
/// When a file cannot be written, or nothing can be asked.
pub(super) async fn query(args: &QueryArgs) -> Result<Exit> {
    let output = args.output.prepare()?;
    output.finish_captured(captured(args).await?)
}

async fn captured(args: &QueryArgs) -> Result<Result<Captured, Exit>> {
    let range = args.range.seconds(&Zoned::now())?;
    let second = |at: f64| Duration::try_from_secs_f64(at).unwrap_or_default().as_secs();
    let range = Range { from: second(range.from.floor()), to: second(range.to.ceil()) };
    ensure!(range.from < range.to, "--to must be later than --from");
    match &args.dir {
        Some(dir) => of_directory(dir, args.pid, range),
        None => of_nodes(args, range).await,
    }
}

fn of_directory(dir: &Path, pid: Option<u32>, range: Range) -> Result<Result<Captured, Exit>> {
    let at = |seconds: u64| Wall(seconds.saturating_mul(1_000_000_000));
    let query = PastQuery { from: at(range.from), to: at(range.to), pid, node: Name::default() };
    let past = read_range(dir, query).with_context(|| format!("--dir {}", dir.display()))?;
    let Past { profile, profiles, covered_seconds, unread_segments } = past;
    if profiles == 0 {
        fail("plimsoll", Exit::Failure, &format!("no profile of it is in {}", dir.display()));
        return Ok(Err(Exit::Failure));
    }
    let asked = range.to - range.from;
    let facts = format!(
        "{profiles} profiles in {covered_seconds} of {asked} s; {unread_segments} segments damaged \
         or of another version"
    );
    Ok(Ok(Captured { title: dir.display().to_string(), id: None, facts, profile }))
}

async fn of_nodes(args: &QueryArgs, range: Range) -> Result<Result<Captured, Exit>> {
    let Range { from, to } = range;
    let body =
        json!({ "kind": "past", "nodes": args.nodes, "pid": args.pid, "from": from, "to": to });
    remote::kept(&args.at.api()?, &body).await
}

#[cfg(test)]
mod tests {
    use plimsoll_profile::series::{SEGMENT_BEGIN, Writer};
    use plimsoll_profile::{Frame, Profile, SampleLabels, Stack, ValueType};

    use super::*;

    #[test]
    fn a_directory_answers_for_its_range_and_process() {
        let folder = tempfile::tempdir().unwrap();
        let mut profile = Profile::new(ValueType::wall(), 1);
        (profile.started_at, profile.duration_ns) = (Wall(95_000_000_000), 10_000_000_000);
        let stack = Stack::new(vec![Frame::new("planted", "a.py", 1)]);
        profile.add(stack, SampleLabels::default(), 5);
        let mut segment = SEGMENT_BEGIN.to_vec();
        Writer::default().append(7, &"python3 (7)".into(), &profile, &mut segment).unwrap();
        std::fs::write(folder.path().join("open-1.segment"), segment).unwrap();

        let found = |pid, from, to| of_directory(folder.path(), pid, Range { from, to }).unwrap();
        let captured = found(Some(7), 100, 160).unwrap();
        assert_eq!(captured.profile.value(), 5);
        assert!(captured.facts.starts_with("1 profiles in 5 of 60 s"), "{}", captured.facts);
        for (pid, from, to) in [(Some(8), 100, 160), (None, 40, 100), (None, 101, 160)] {
            assert!(found(pid, from, to).is_err(), "{pid:?} {from} {to}");
        }
        let none = of_directory(&folder.path().join("none"), None, Range { from: 1, to: 2 });
        assert!(none.err().unwrap().to_string().starts_with("--dir "));
    }
}
