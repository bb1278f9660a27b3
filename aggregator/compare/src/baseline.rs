//! The file of a baseline: one side with all its slots, so that a later comparison has intervals.
//!
//! JSON with a format, a version and, for each operation, the buckets in which it was recorded.
//! Reading checks all of it, since people edit and merge such files.
//!
//! DESIGN A79.

use std::collections::BTreeMap;

use plimsoll_schemas::histogram::{Histogram, Packed, layout};
use plimsoll_schemas::ids::{NodeName, Operation};
use plimsoll_schemas::limits::wire::SAMPLES_MAX;
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::side::{BucketLayout, Measured, MeasuredRate, RateSlot, Side, Slot};

/// The name of the format, which is in each file.
const FORMAT: &str = "plimsoll-baseline";
/// The version that is written and read.
const VERSION: u32 = 1;

/// Why a file is no baseline.
#[derive(Debug, Error)]
pub enum BaselineError {
    /// Not JSON, or not of this form.
    #[error("{0}; a baseline is written by `plimsoll compare --baseline save`")]
    Form(#[from] serde_json::Error),
    /// JSON of another kind.
    #[error(
        "it has no histograms of intervals: it is not a baseline, and quantiles alone (such as \
         those that `plimsoll up --json` prints) have no intervals; compare interval logs, or save \
         a baseline with `plimsoll compare --baseline save`"
    )]
    Format,
    /// From another version of the program.
    #[error("version {0} is not {VERSION}: save a new baseline with this version")]
    Version(u32),
    /// An amount or a time that no slot can have.
    #[error("rate {0}: a slot is an amount and the seconds by which it is divided, not below 0")]
    Rate(Operation),
    /// A count that no histogram can have.
    #[error("{operation}: bucket {bucket} cannot have a count of {samples}: {fix}")]
    Bucket {
        operation: Operation,
        bucket: usize,
        /// The samples that it states.
        samples: u64,
        /// What would have been right.
        fix: &'static str,
    },
}

#[derive(Deserialize)]
struct Header {
    format: Option<String>,
    version: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    version: u32,
    operations: BTreeMap<String, Recorded>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    rates: BTreeMap<String, RecordedRate>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedRate {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operation: Option<String>,
    /// Amount, and the seconds by which it is divided.
    slots: Vec<(f64, f64)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recorded {
    layout: BucketLayout,
    slots: Vec<RecordedSlot>,
}

/// Buckets are those of the mesh, whatever the layout was in which samples were recorded.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedSlot {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<NodeName>,
    start_ns: u64,
    length_ns: u64,
    buckets: Vec<(usize, u64)>,
}

/// The text of the file that keeps a side.
///
/// # Errors
/// When JSON cannot represent it, which no side is known to cause.
pub fn write(side: &Side) -> Result<String, BaselineError> {
    let recorded = |measured: &Measured| Recorded {
        layout: measured.layout,
        slots: measured.slots.iter().map(recorded_slot).collect(),
    };
    let operations = side.operations.iter();
    let operations = operations.map(|(name, of)| (name.to_string(), recorded(of))).collect();
    let rate = |of: &MeasuredRate| RecordedRate {
        operation: of.operation.clone(),
        slots: of.slots.iter().map(|slot| (slot.amount, slot.seconds)).collect(),
    };
    let rates = side.rates.iter().map(|(name, of)| (name.to_string(), rate(of))).collect();
    let file = File { format: FORMAT.to_owned(), version: VERSION, operations, rates };
    Ok(serde_json::to_string(&file)? + "\n")
}

fn recorded_slot(slot: &Slot) -> RecordedSlot {
    RecordedSlot {
        node: slot.node.clone(),
        start_ns: slot.start_ns,
        length_ns: slot.length_ns,
        buckets: slot.samples.buckets().collect(),
    }
}

/// Reads the text of such a file.
///
/// # Errors
/// When it is not a baseline of this version, or states what no histogram can have.
pub fn read(text: &str) -> Result<Side, BaselineError> {
    // The header alone first: a file of another kind or version is to be named as such, not by the
    // first key that this version does not expect.
    let Header { format, version } = serde_json::from_str(text)?;
    if format.as_deref() != Some(FORMAT) {
        return Err(BaselineError::Format);
    }
    if version != Some(VERSION) {
        return Err(BaselineError::Version(version.unwrap_or_default()));
    }
    let file: File = serde_json::from_str(text)?;
    let mut side = Side::default();

    for (name, recorded) in file.operations {
        let name = Operation::new(name).map_err(serde_json::Error::custom)?;
        let mut measured = Measured::new(recorded.layout);

        for slot in recorded.slots {
            let samples = samples(&name, &slot.buckets)?;
            let RecordedSlot { node, start_ns, length_ns, .. } = slot;
            measured.slots.push(Slot { node, start_ns, length_ns, samples });
        }

        side.operations.insert(name, measured);
    }

    for (name, RecordedRate { operation, slots }) in file.rates {
        let name = Operation::new(name).map_err(serde_json::Error::custom)?;
        if slots
            .iter()
            .any(|(amount, seconds)| !amount.is_finite() || seconds.is_nan() || *seconds < 0.0)
        {
            return Err(BaselineError::Rate(name));
        }
        let slots =
            slots.into_iter().map(|(amount, seconds)| RateSlot { amount, seconds }).collect();
        side.rates.insert(name, MeasuredRate { operation, slots });
    }

    Ok(side)
}

fn samples(operation: &Operation, buckets: &[(usize, u64)]) -> Result<Packed, BaselineError> {
    let mut histogram = Histogram::default();
    for (bucket, samples) in buckets {
        let (bucket, samples) = (*bucket, *samples);

        let refuse = |fix| {
            let operation = operation.clone();
            Err(BaselineError::Bucket { operation, bucket, samples, fix })
        };

        if bucket >= layout::LEN {
            return refuse("buckets end before an hour");
        }
        // Files that were merged or edited are read too: the bound is that of an interval on the
        // wire, so that sums over any number of slots stay exact.
        if samples == 0 || samples > SAMPLES_MAX - histogram.count().min(SAMPLES_MAX) {
            return refuse("an interval has 1 sample or more, and at most 2^40");
        }
        histogram.record_n(layout::highest(bucket), samples);
    }

    Ok(Packed::from(&histogram))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn side(slots: &[(u64, Vec<u64>)]) -> Side {
        let mut measured = Measured::new(BucketLayout::MESH);
        for (start_ns, values) in slots {
            let mut samples = Histogram::default();
            // Ends of buckets: a baseline has no other values.
            let ends = values.iter().map(|value| layout::highest(layout::index_of(*value)));
            ends.for_each(|value| samples.record(value));
            let node = start_ns.is_multiple_of(2).then(|| NodeName::new("n1").unwrap());
            let samples = Packed::from(&samples);
            measured.slots.push(Slot { node, start_ns: *start_ns, length_ns: 5, samples });
        }
        let operation = Operation::new("kernel_fetch").unwrap();
        let slot = |(n, (_, values)): (usize, &(u64, Vec<u64>))| RateSlot {
            amount: values.len() as f64 / 2.0,
            seconds: n as f64,
        };
        let slots = slots.iter().enumerate().map(slot).collect();
        let rate = MeasuredRate { operation: Some("kernel_fetch".to_owned()), slots };
        let tokens = Operation::new("kernel_fetch.tokens").unwrap();
        Side { operations: [(operation, measured)].into(), rates: [(tokens, rate)].into() }
    }

    proptest! {
        #[test]
        fn a_side_reads_back_from_its_file(
            slots in prop::collection::vec(
                (any::<u64>(), prop::collection::vec(0..=layout::MAX_NS, 0..20)), 0..5,
            ),
        ) {
            let side = side(&slots);
            prop_assert_eq!(read(&write(&side).unwrap()).unwrap(), side);
        }

        #[test]
        fn arbitrary_text_never_panics(text in ".{0,80}") {
            let _refused = read(&text);
        }
    }

    #[test]
    fn what_is_no_baseline_is_refused_with_the_fix() {
        let good = write(&side(&[(1, vec![1_000_000])])).unwrap();
        let with = |from: &str, to: &str| good.replace(from, to);
        for (text, words) in [
            ("{".to_owned(), "EOF"),
            (r#"{"seconds":5.0,"fleet":{}}"#.to_owned(), "plimsoll up --json"),
            (with("\"version\":1", "\"version\":2"), "version 2 is not 1"),
            (with("kernel_fetch", "kernel fetch"), "operation contains a space"),
            (with("\"length_ns\"", "\"length_ms\""), "length_ms"),
            (with("\"buckets\":[[", "\"buckets\":[[99"), "buckets end before an hour"),
            (with(",1]]", ",0]]"), "1 sample or more"),
        ] {
            assert_ne!(text, good);
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
