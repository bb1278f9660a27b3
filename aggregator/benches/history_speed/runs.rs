//! The comparison of two runs of 10^8 samples each, in slots of 10 s.

use anyhow::{Context, Result, ensure};
use plimsoll_clock::Stopwatch;
use plimsoll_compare::{BucketLayout, Measured, Options, Side, Slot, compare};
use plimsoll_schemas::ids::Operation;
use serde_json::{Value, json};

use crate::past::{OPERATION, SLOT_SECONDS};
use crate::samples::Shapes;

/// 10 000 samples a second for 10 000 s.
const SLOTS: u64 = 1_000;

pub(crate) fn compared(shapes: &Shapes) -> Result<Value> {
    let (a, b) = (run(shapes, 0)?, run(shapes, SLOTS)?);
    let watch = Stopwatch::start();
    let compared = compare(&a, &b, &Options::default());
    let seconds = watch.elapsed().as_secs_f64();
    let operation = compared.operations.get(OPERATION).context("both have the operation")?;
    let extent = operation.a.context("A has the operation")?;
    ensure!(extent.blocks > 0, "no verdict: {:?}", operation.reason);
    Ok(json!({
        "samples": extent.samples, "slots": extent.slots, "blocks": extent.blocks,
        "seconds": seconds, "verdict": compared.verdict,
    }))
}

fn run(shapes: &Shapes, first: u64) -> Result<Side> {
    let slot = |number: u64| Slot {
        node: None,
        start_ns: number * SLOT_SECONDS * 1_000_000_000,
        length_ns: SLOT_SECONDS * 1_000_000_000,
        samples: shapes.of_slot(number).packed.clone(),
    };
    let mut measured = Measured::new(BucketLayout::MESH);
    measured.slots = (first..first + SLOTS).map(slot).collect();
    let mut side = Side::default();
    side.operations.insert(Operation::new(OPERATION)?, measured);
    Ok(side)
}
