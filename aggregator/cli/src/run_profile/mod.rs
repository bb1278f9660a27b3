//! `plimsoll run --profile`: where the Python processes of a run spend their time, and which
//! operators of PyTorch take most, in files beside each other.
//!
//! [`tree`] samples the processes from outside, [`events`] reads the traces that the job leaves as
//! streams, [`operators`] adds them up, [`nesting`] finds what each does itself.

mod event;
mod events;
mod nesting;
mod operators;
mod tree;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use plimsoll_profile::flame::of_profile;
use plimsoll_profile::{Profile, ThreadState, functions, pprof, svg};

use crate::run_results::TopOperator;
use operators::Operators;
use tree::TreeSampler;

/// Where a job is to leave traces, and for how long it traces.
pub(crate) const TRACE_DIR: &str = "PLIMSOLL_TRACE_DIR";
pub(crate) const TRACE_SECONDS: (&str, &str) = ("PLIMSOLL_TRACE_SECONDS", "60");
/// Endings of traces: those of our client, and of PyTorch (`.pt.trace.json`).
const TRACES: [&str; 2] = [".trace.json", ".trace.json.gz"];
/// Traces that are read: one for each rank of a machine with 16 devices.
const TRACES_MAX: usize = 16;
/// Operators and functions in the results.
const TOP: usize = 50;

/// What is recorded of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunProfile {
    /// The stacks of its Python processes
    Cpu,
    /// Traces that its processes write
    Trace,
}

/// A run that is being profiled.
pub(crate) struct RunProfiler<'a> {
    dir: &'a Path,
    sampler: Option<TreeSampler>,
    /// Traces that were there before.
    before: BTreeMap<PathBuf, SystemTime>,
}

/// What takes most of a run, and what could not be read.
#[derive(Debug, Default)]
pub(crate) struct RunOperators {
    pub(crate) top: Vec<TopOperator>,
    pub(crate) missing: Vec<String>,
}

impl<'a> RunProfiler<'a> {
    /// Prepares the folder.
    ///
    /// # Errors
    /// When it cannot be made or read.
    pub(crate) fn prepare(dir: &'a Path) -> Result<Self> {
        let name = || format!("--trace-dir {}", dir.display());
        std::fs::create_dir_all(dir).with_context(name)?;
        let before = traces(dir).with_context(name)?;
        Ok(Self { dir, sampler: None, before })
    }

    /// Samples the processes below this one, which has started.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub(crate) fn sample(&mut self, root: i32) -> Result<()> {
        self.sampler = Some(TreeSampler::start(root).context("the profiler")?);
        Ok(())
    }

    /// Writes the profile, once the command has ended, and reads the traces.
    pub(crate) fn end(self, run: &str) -> RunOperators {
        let mut found = RunOperators::default();
        let mut of_functions = Vec::new();
        if let Some(sampler) = self.sampler {
            let sampled = sampler.stop();
            found.missing.extend(sampled.refusals);
            match sampled.profile {
                Some(profile) => {
                    of_functions = top_functions(&profile);
                    let written = write(self.dir, run, &profile);
                    found.missing.extend(written.err().map(|error| format!("{error:#}")));
                }
                None => found.missing.push("no Python process was sampled".to_owned()),
            }
        }

        let operators = read_traces(self.dir, &self.before, &mut found.missing);
        found.top = if operators.is_empty() { of_functions } else { operators };
        found.top.truncate(TOP);
        found
    }
}

/// The traces in a folder with their times of change.
fn traces(dir: &Path) -> Result<BTreeMap<PathBuf, SystemTime>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if TRACES.iter().any(|ending| name.ends_with(ending)) && entry.file_type()?.is_file() {
            found.insert(entry.path(), entry.metadata()?.modified()?);
        }
    }
    Ok(found)
}

/// The operators of traces that the run wrote.
fn read_traces(
    dir: &Path,
    before: &BTreeMap<PathBuf, SystemTime>,
    missing: &mut Vec<String>,
) -> Vec<TopOperator> {
    let mut operators = Operators::default();
    let all = traces(dir).unwrap_or_else(|error| {
        missing.push(format!("{}: {error:#}", dir.display()));
        BTreeMap::new()
    });
    let mut new: Vec<_> = all.iter().filter(|(path, at)| before.get(*path) != Some(at)).collect();
    // Only PyTorch's have operators; each process of the job leaves one of its own beside them.
    new.sort_by_key(|(path, _)| !path.to_string_lossy().contains(".pt.trace.json"));
    if new.len() > TRACES_MAX {
        missing.push(format!("{} traces of {} were not read", new.len() - TRACES_MAX, new.len()));
    }

    for (path, _) in new.into_iter().take(TRACES_MAX) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let read = File::open(path).map_err(anyhow::Error::from);
        let read = read.and_then(|file| Ok(events::read(file, &mut operators)?));
        missing.extend(read.err().map(|error| {
            format!("{name}: {error:#}; what is before that, {} events, counts", operators.events)
        }));
        operators.next_trace();
    }
    missing.extend(operators.faults());
    operators.top()
}

fn write(dir: &Path, run: &str, profile: &Profile) -> Result<()> {
    let picture = svg::render(run, &of_profile(profile, Some(ThreadState::Running)));
    let files = [("cpu.pb.gz", pprof::encode(profile)?), ("cpu.svg", picture.into_bytes())];
    for (ending, bytes) in files {
        let path = dir.join(format!("{run}.{ending}"));
        if let Err(error) = std::fs::write(&path, bytes) {
            bail!("{}: {error}", path.display());
        }
        eprintln!("plimsoll: {}", path.display());
    }
    Ok(())
}

/// Functions in place of operators: a sample has no calls.
fn top_functions(profile: &Profile) -> Vec<TopOperator> {
    let mut all = functions(profile, Some(ThreadState::Running));
    all.sort_by_key(|of| std::cmp::Reverse(of.own));
    let row = |of: plimsoll_profile::FunctionTotal| TopOperator {
        name: of.frame.to_string(),
        self_ms: of.own as f64 / 1e6,
        total_ms: of.total as f64 / 1e6,
        calls: None,
        device: "cpu".to_owned(),
    };
    all.into_iter().take(TOP).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded; see its README.md.
    const TORCH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/torch");

    #[test]
    fn operators_equal_what_pytorch_states_itself() {
        // The older one has whole microseconds, so that calls seem to overlap.
        for (recorded, rows, tolerance_us) in [("kineto", 52, 0.01), ("plain", 54, 5.5)] {
            let dir = Path::new(TORCH).join(recorded);
            let mut missing = Vec::new();
            let found = read_traces(&dir, &BTreeMap::new(), &mut missing);
            assert_eq!((missing.len(), found.len()), (0, rows), "{recorded}: {missing:?}");

            let averages = std::fs::read_to_string(dir.join("averages.json")).unwrap();
            let averages: Vec<(String, f64, f64, u64)> = serde_json::from_str(&averages).unwrap();
            assert_eq!(averages.len(), rows, "{recorded}");
            for (name, self_us, total_us, calls) in averages {
                let of = found.iter().find(|of| of.name == name).expect(&name);
                assert!((of.self_ms * 1e3 - self_us).abs() < tolerance_us, "{of:?} {self_us}");
                assert!((of.total_ms * 1e3 - total_us).abs() < tolerance_us, "{of:?} {total_us}");
                assert_eq!((of.calls, of.device.as_str()), (Some(calls), "cpu"), "{of:?}");
            }
        }
    }

    #[test]
    fn traces_of_the_run_are_read_and_earlier_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let event = |name: &str, ts: u32| {
            let ids = r#""dur":5,"pid":1,"tid":1"#;
            format!(r#"{{"ph":"X","cat":"cpu_op","name":"{name}","ts":{ts},{ids}}}"#)
        };
        let write = |file: &str, text: String| std::fs::write(dir.path().join(file), text).unwrap();
        write("old.trace.json", format!("[{}]", event("before", 0)));
        let profiler = RunProfiler::prepare(dir.path()).unwrap();
        write(
            "r0.pt.trace.json",
            format!("{{\"traceEvents\":[{},{}", event("mm", 0), event("cut", 9)),
        );
        write("r1.trace.json", format!("[{}]", event("mm", 0)));
        write("notes.json", "{".to_owned());

        let found = profiler.end("v42");
        let rows: Vec<_> =
            found.top.iter().map(|of| (of.name.as_str(), of.calls, of.total_ms)).collect();
        assert_eq!(rows, [("mm", Some(2), 0.01), ("cut", Some(1), 0.005)]);
        let [missing] = &found.missing[..] else { panic!("{found:?}") };
        assert!(missing.starts_with("r0.pt.trace.json: EOF while parsing"), "{missing}");
        assert!(missing.ends_with("what is before that, 2 events, counts"), "{missing}");
    }
}
