//! What `plimsoll run --results` and `--profile` leave: how the command ended, the epochs that its
//! processes wrote to the file that it named for them, each as recorded and in order, and what took
//! most of its time.
//!
//! The lines are those of processes of the job, so they are read as hostile: one that is damaged is
//! counted and costs nothing else. DESIGN A198.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::unit::Unit;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

/// Names the file for the Python client.
pub(crate) const VARIABLE: &str = "PLIMSOLL_EPOCHS_FILE";
const FORMAT: &str = "plimsoll-run";
const VERSION: u32 = 1;
/// Bytes of lines that are read: some 25 processes with as many epochs of a name as each may have.
const LINES_BYTES_MAX: u64 = 16 << 20;
/// Bytes of a results file: the epochs of as many lines, at some 20 bytes each.
const RESULTS_BYTES_MAX: u64 = 16 << 20;
/// Characters of what is wrong with a line.
const FAULT_CHARS_MAX: usize = 120;
/// The longest latency that a client records, in nanoseconds.
const NS_MAX: u64 = 1 << 53;

/// The results of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunResults {
    format: String,
    version: u32,
    pub(crate) run: String,
    pub(crate) exit_code: u8,
    pub(crate) seconds: f64,
    #[serde(flatten)]
    pub(crate) epochs: RecordedEpochs,
    /// Of a run with `--profile`: operators of PyTorch if it left traces, else functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) top_ops: Option<Vec<TopOperator>>,
    /// Why some are missing, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) top_ops_missing: Vec<String>,
}

/// An operator, a kernel or a function, and its time in all processes together.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TopOperator {
    pub(crate) name: String,
    /// Without what it calls.
    pub(crate) self_ms: f64,
    pub(crate) total_ms: f64,
    /// Unknown of a function that was sampled.
    pub(crate) calls: Option<u64>,
    /// `cpu` or `cuda`.
    pub(crate) device: String,
}

/// The epochs of a run and what its processes stated beside them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordedEpochs {
    pub(crate) epoch_operation: Option<String>,
    /// In the order in which the processes wrote them.
    pub(crate) epoch_time_ms: Vec<f64>,
    pub(crate) epoch_time_ms_avg: Option<f64>,
    /// Processes that wrote some.
    pub(crate) epoch_processes: usize,
    /// Why epochs are missing, in words; empty if none is.
    pub(crate) epochs_missing: Vec<String>,
    /// The most of one process, of those that ended in order.
    pub(crate) peak_resident_bytes: Option<u64>,
}

/// A line of a process.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Epoch {
        process: u64,
        operation: Operation,
        ns: u64,
    },
    /// It wrote as many as it may.
    Full {
        full: u64,
        operation: Operation,
    },
    Peak {
        peak_resident_bytes: u64,
    },
}

/// The file that processes write, in a directory of its own.
pub(crate) struct Recording {
    dir: TempDir,
}

impl Recording {
    /// Makes the empty file.
    ///
    /// # Errors
    /// When it cannot be made, or results that are to be written have no directory.
    pub(crate) fn start(results: Option<&Path>) -> Result<Self> {
        if let Some(results) = results {
            let folder = std::path::absolute(results)?.parent().map(Path::to_path_buf);
            let has_folder = folder.is_some_and(|folder| folder.is_dir());
            ensure!(has_folder, "--results {}: its directory does not exist", results.display());
        }
        let dir = tempfile::tempdir().context("a directory for the epochs of the run")?;
        let recording = Self { dir };
        File::create(recording.lines()).context("a file for the epochs of the run")?;
        Ok(recording)
    }

    pub(crate) fn lines(&self) -> PathBuf {
        self.dir.path().join("epochs.jsonl")
    }

    /// The results.
    pub(crate) fn end(self, run: &str, exit_code: u8, seconds: f64) -> RunResults {
        // What is known of the run is written whatever its job made of the file.
        let epochs = match lines_of(&self.lines()) {
            Ok(lines) => RecordedEpochs::of(&lines),
            Err(error) => {
                let epochs_missing = vec![format!("the file of the epochs: {error:#}")];
                RecordedEpochs { epochs_missing, ..RecordedEpochs::default() }
            }
        };
        RunResults {
            format: FORMAT.to_owned(),
            version: VERSION,
            run: run.to_owned(),
            exit_code,
            seconds,
            epochs,
            top_ops: None,
            top_ops_missing: Vec::new(),
        }
    }
}

impl RunResults {
    /// Writes them to the file that this option names.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write(&self, option: &str, path: &Path) -> Result<()> {
        std::fs::write(path, serde_json::to_string(self)? + "\n")
            .with_context(|| format!("{option} {}", path.display()))
    }

    /// The results in a file.
    ///
    /// # Errors
    /// When it cannot be read, or `plimsoll run` of this version did not write it.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let name = || format!("--results {}", path.display());
        let mut text = String::new();
        let file = File::open(path).with_context(name)?;
        file.take(RESULTS_BYTES_MAX + 1).read_to_string(&mut text).with_context(name)?;
        let is_short = text.len() as u64 <= RESULTS_BYTES_MAX;
        ensure!(is_short, "{}: more than {RESULTS_BYTES_MAX} bytes", name());
        let found: Self = serde_json::from_str(&text)
            .with_context(|| format!("{}: write it with `plimsoll run --results`", name()))?;
        let is_ours = found.format == FORMAT && found.version == VERSION;
        ensure!(
            is_ours,
            "{}: {:?} {} is not {FORMAT:?} {VERSION}",
            name(),
            found.format,
            found.version
        );
        Ok(found)
    }
}

impl RecordedEpochs {
    /// What lines of processes state.
    fn of(lines: &[u8]) -> Self {
        let whole = &lines[..lines.len().min(usize::try_from(LINES_BYTES_MAX).unwrap_or_default())];
        let mut found: BTreeMap<(usize, String), Vec<(u64, u64)>> = BTreeMap::new();
        let (mut damaged, mut first, mut peak) = (0_u64, String::new(), None);
        let mut full: BTreeMap<String, u64> = BTreeMap::new();

        for (at, line) in whole.split_inclusive(|byte| *byte == b'\n').enumerate() {
            match parse(line) {
                Ok(Line::Epoch { process, operation, ns }) => {
                    let rank = epoch_rank(operation.as_str()).unwrap_or(usize::MAX);
                    found.entry((rank, operation.to_string())).or_default().push((process, ns));
                }
                Ok(Line::Full { full: most, operation }) => {
                    full.insert(operation.to_string(), most);
                }
                Ok(Line::Peak { peak_resident_bytes }) => {
                    peak = peak.max(Some(peak_resident_bytes));
                }
                Err(why) => {
                    damaged += 1;
                    if first.is_empty() {
                        first = format!("line {}: {why}", at + 1);
                    }
                }
            }
        }

        let mut missing = Vec::new();
        let mut miss = |is: bool, words: String| missing.extend(is.then_some(words));
        miss(damaged > 0, format!("lines that could not be read: {damaged}, the first is {first}"));
        let rest = lines.len() > whole.len();
        miss(rest, format!("what follows {LINES_BYTES_MAX} bytes of lines was not read"));

        let best = found.into_iter().next();
        let most = best.as_ref().and_then(|((_, name), _)| full.get(name));
        if let Some(most) = most {
            missing.push(format!("a process had more than the {most} that it may write"));
        }
        let (operation, epochs) =
            best.map_or((None, Vec::new()), |((_, name), epochs)| (Some(name), epochs));
        let processes: BTreeSet<u64> = epochs.iter().map(|(process, _)| *process).collect();
        let sum: u128 = epochs.iter().map(|(_, ns)| u128::from(*ns)).sum();
        let avg = (!epochs.is_empty()).then(|| sum as f64 / epochs.len() as f64 / 1e6);

        Self {
            epoch_operation: operation,
            epoch_time_ms: epochs.iter().map(|(_, ns)| *ns as f64 / 1e6).collect(),
            epoch_time_ms_avg: avg,
            epoch_processes: processes.len(),
            epochs_missing: missing,
            peak_resident_bytes: peak,
        }
    }
}

/// The bytes of a file, up to one more than are read as lines. Nothing but a file is waited for.
fn lines_of(path: &Path) -> Result<Vec<u8>> {
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(nonblocking).open(path)?;
    ensure!(file.metadata()?.is_file(), "it is no file any more");
    let mut lines = Vec::new();
    file.take(LINES_BYTES_MAX + 1).read_to_end(&mut lines)?;
    Ok(lines)
}

/// A line, or what is wrong with it.
fn parse(line: &[u8]) -> Result<Line, String> {
    let Some(line) = line.strip_suffix(b"\n") else { return Err("it was cut".to_owned()) };
    let parsed: Line = serde_json::from_slice(line).map_err(|error| {
        let words = error.to_string();
        words.chars().take(FAULT_CHARS_MAX).collect::<String>()
    })?;
    match &parsed {
        Line::Epoch { operation, .. } if epoch_rank(operation.as_str()).is_none() => {
            Err("its operation is none of epochs".to_owned())
        }
        Line::Epoch { ns, .. } if *ns > NS_MAX => Err("its time is too long".to_owned()),
        _ => Ok(parsed),
    }
}

/// Whether an operation times epochs, and how surely: the lower, the more.
pub(crate) fn epoch_rank(operation: &str) -> Option<usize> {
    let of = |is: &dyn Fn(&str) -> bool| Unit::of(operation) == Unit::Nanoseconds && is(operation);
    let forms: [&dyn Fn(&str) -> bool; 4] = [
        &|name| name == "epoch",
        &|name| name.ends_with("epoch"),
        &|name| name.starts_with("epoch"),
        &|name| name == "cycle",
    ];
    forms.into_iter().position(of)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(process: u64, operation: &str, ns: u64) -> String {
        format!("{{\"process\":{process},\"operation\":\"{operation}\",\"ns\":{ns}}}\n")
    }

    #[test]
    fn what_is_damaged_is_counted_and_named_and_costs_nothing_else() {
        let whole = |n: u64| line(1, "epoch", n * 1_000_000);
        let names: [(&str, &str); 8] = [
            ("\n", "line 2: EOF"),
            ("{\"process\":1,\"operation\":\"epoch\"}\n", "line 2: data did not match"),
            ("{\"process\":1,\"operation\":\"epoch\",\"ns\":-1}\n", "line 2: data did not match"),
            ("{\"process\":1,\"operation\":\"\",\"ns\":1}\n", "line 2: data did not match"),
            (&line(1, "fetch", 1), "line 2: its operation is none of epochs"),
            (&line(1, "epoch", u64::MAX), "line 2: its time is too long"),
            ("\u{0}\u{1}[[[[\n", "line 2: expected value"),
            (&whole(9)[..12], "line 2: "),
        ];
        for (damaged, words) in names {
            let text = [&whole(3), damaged, &whole(1), &whole(2)].concat();
            let found = RecordedEpochs::of(text.as_bytes());
            // A line without its end takes the next one along.
            let kept = if damaged.ends_with('\n') { vec![3.0, 1.0, 2.0] } else { vec![3.0, 2.0] };
            assert_eq!(found.epoch_time_ms, kept, "{damaged}");
            let [missing] = &found.epochs_missing[..] else { panic!("{found:?}") };
            let start = "lines that could not be read: 1, the first is ";
            assert!(missing.starts_with(&format!("{start}{words}")), "{missing}");
        }
        let cut = RecordedEpochs::of(&whole(3).as_bytes()[..30]);
        assert_eq!(cut.epoch_time_ms, Vec::<f64>::new());
        assert!(cut.epochs_missing[0].ends_with("line 1: it was cut"), "{cut:?}");
        assert_eq!(RecordedEpochs::of(b""), RecordedEpochs::default());
    }

    #[test]
    fn of_several_operations_the_one_most_surely_of_epochs_is_listed() {
        let peaks = "{\"process\":7,\"peak_resident_bytes\":5}\n{\"process\":8,\"peak_resident_bytes\":9}\n";
        let text = line(7, "cycle", 1)
            + &line(7, "epoch_hook", 2_500_000)
            + &line(8, "epoch_hook", 1_000_001)
            + peaks
            + "{\"process\":8,\"full\":10000,\"operation\":\"epoch_hook\"}\n"
            + "{\"process\":8,\"full\":10000,\"operation\":\"cycle\"}\n";
        let found = RecordedEpochs::of(text.as_bytes());
        assert_eq!(found.epoch_operation.as_deref(), Some("epoch_hook"));
        assert_eq!(found.epoch_time_ms, [2.5, 1.000_001]);
        assert_eq!((found.epoch_processes, found.peak_resident_bytes), (2, Some(9)));
        let full = "a process had more than the 10000 that it may write";
        assert_eq!(found.epochs_missing, [full]);
        let ranks = ["epoch", "train_epoch", "epoch_hook", "cycle", "fetch"].map(epoch_rank);
        assert_eq!(ranks, [Some(0), Some(1), Some(2), Some(3), None]);
    }

    #[test]
    fn results_of_another_program_or_version_are_refused_with_their_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        let recording = Recording::start(Some(&path)).unwrap();
        std::fs::write(recording.lines(), line(1, "epoch", 1_500_000)).unwrap();
        let lines = recording.lines();
        recording.end("v42", 3, 2.5).write("--results", &path).unwrap();
        assert!(!lines.exists(), "its directory is gone");
        let found = RunResults::read(&path).unwrap();
        assert_eq!((found.run.as_str(), found.exit_code, found.seconds), ("v42", 3, 2.5));
        assert_eq!((found.epochs.epoch_time_ms, found.epochs.epoch_processes), (vec![1.5], 1));

        let written = std::fs::read_to_string(&path).unwrap();
        for (text, words) in [
            (written.replace(":1,\"run\"", ":2,\"run\""), "\"plimsoll-run\" 2 is not"),
            (written.replace("plimsoll-run", "other"), "\"other\" 1 is not"),
            ("{".to_owned(), "write it with `plimsoll run --results`"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = RunResults::read(&path).unwrap_err().to_string();
            assert!(error.contains("r.json: ") && error.contains(words), "{error}");
        }
        let absent = Recording::start(Some(&dir.path().join("no/r.json"))).map(drop).unwrap_err();
        assert!(absent.to_string().ends_with("its directory does not exist"), "{absent}");
    }

    proptest! {
        #[test]
        fn any_values_come_back_as_recorded_and_in_order(
            values in prop::collection::vec((1_u64..4, 0_u64..NS_MAX), 1..50),
        ) {
            let text: String = values.iter().map(|(of, ns)| line(*of, "epoch", *ns)).collect();
            let found = RecordedEpochs::of(text.as_bytes());
            let exact: Vec<f64> = values.iter().map(|(_, ns)| *ns as f64 / 1e6).collect();
            prop_assert_eq!(found.epoch_time_ms, exact);
            prop_assert!(found.epochs_missing.is_empty());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let found = RecordedEpochs::of(&bytes);
            prop_assert_eq!(found.epoch_time_ms.is_empty(), found.epoch_operation.is_none());
        }
    }
}
