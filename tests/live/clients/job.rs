//! A job that feeds a node through our Rust client. It reads the samples to record as JSON on
//! standard input, `{"operation": name, "values_ns": [..], "spread_ms": 0, "go_on": [path, ..]}`.
//!
//! Records in the main thread and in others that end, over the time `spread_ms`, and exits without
//! a wait: the library must deliver all samples. Files of `go_on` divide the values into equal
//! parts: before each further part it waits until the next file exists.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use plimsoll_client::{Counter, Gauge, Operation};
use plimsoll_clock::Deadline;
use serde_json::Value;

/// Values that one thread records before it ends.
const VALUES_PER_THREAD: usize = 100;
/// Longest wait for the file; only a hang reaches it.
const WAIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);

fn main() -> Result<()> {
    let task: Value = serde_json::from_reader(std::io::stdin())?;
    let name = task["operation"].as_str().unwrap_or_default();
    let operation = Operation::with_labels(name, [("outcome", "hit")]);
    let values: Vec<u64> = serde_json::from_value(task["values_ns"].clone())?;
    let spread = Duration::from_millis(task["spread_ms"].as_u64().unwrap_or_default());
    let go_on: Option<Vec<PathBuf>> = serde_json::from_value(task["go_on"].clone())?;
    let mut go_on = go_on.unwrap_or_default().into_iter();
    let parts = values.chunks(VALUES_PER_THREAD);
    let stretch = parts.len() / (go_on.len() + 1);
    let pause = spread / u32::try_from(parts.len())?.max(1);
    for (number, part) in parts.enumerate() {
        if number > 0
            && number % stretch == 0
            && let Some(file) = go_on.next()
        {
            await_file(&file);
        }
        let record = || part.iter().for_each(|ns| operation.record_ns(*ns));
        match number % 2 {
            0 => record(),
            _ => std::thread::scope(|scope| drop(scope.spawn(record))),
        }
        let _over = Deadline::within(pause).pause(pause);
    }
    Counter::with_labels("rust_count", [("zone", "x")]).add(7);
    Gauge::new("rust_gauge").set(1.25);
    std::process::exit(0);
}

fn await_file(path: &Path) {
    let deadline = Deadline::within(WAIT);
    while !path.exists() && deadline.pause(POLL) {}
}
