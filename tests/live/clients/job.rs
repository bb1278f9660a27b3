//! A job that feeds a node through our Rust client. It reads the samples to record as JSON on
//! standard input, `{"operation": name, "values_ns": [..], "spread_ms": 0}`.
//!
//! Records in the main thread and in others that end, over the time `spread_ms`, and exits without
//! a wait: the library must deliver all samples.

use std::time::Duration;

use anyhow::Result;
use plimsoll_client::{Counter, Gauge, Operation};
use plimsoll_clock::Deadline;
use serde_json::Value;

/// Values that one thread records before it ends.
const VALUES_PER_THREAD: usize = 100;

fn main() -> Result<()> {
    let task: Value = serde_json::from_reader(std::io::stdin())?;
    let name = task["operation"].as_str().unwrap_or_default();
    let operation = Operation::with_labels(name, [("outcome", "hit")]);
    let values: Vec<u64> = serde_json::from_value(task["values_ns"].clone())?;
    let spread = Duration::from_millis(task["spread_ms"].as_u64().unwrap_or_default());
    let parts = values.chunks(VALUES_PER_THREAD);
    let pause = spread / u32::try_from(parts.len())?.max(1);
    for (number, part) in parts.enumerate() {
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
