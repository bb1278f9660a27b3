//! The samples in a report by slot, so that `plimsoll compare` can judge one report by another:
//! a baseline within the report. Also the epochs of a report, one by one.
//!
//! DESIGN A87.

use anyhow::{Context, Result, bail};
use plimsoll_compare::history::measured;
use plimsoll_compare::{Side, baseline};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::summary::{BucketCount, HistoryPoint};
use plimsoll_schemas::unit::Unit;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::document::{FORMAT, VERSION};
use super::limits::EPOCHS_MAX;

#[derive(Deserialize)]
struct Header {
    format: Option<String>,
    version: Option<u32>,
    samples: Option<Box<RawValue>>,
    samples_left_out: Option<String>,
}

/// The side in the text of a report; `None` if it is another file.
///
/// # Errors
/// When it is a report of another version, or one without samples.
pub(crate) fn side_of(text: &str) -> Result<Option<Side>> {
    // Not a report: `compare` then reads it as a baseline, which has the better error.
    let Ok(header) = serde_json::from_str::<Header>(text) else { return Ok(None) };
    if header.format.as_deref() != Some(FORMAT) {
        return Ok(None);
    }
    if header.version != Some(VERSION) {
        let found = header.version.unwrap_or_default();
        bail!("version {found} of a report is not {VERSION}: write the report with this version");
    }

    let Some(samples) = header.samples else {
        let why = header.samples_left_out.unwrap_or_else(|| "no reason is given".to_owned());
        bail!("a report without samples by slot cannot be compared: {why}");
    };
    Ok(Some(baseline::read(samples.get())?))
}

/// The samples of each operation as a baseline.
pub(super) fn written<'a>(
    operations: impl Iterator<Item = (&'a str, &'a [HistoryPoint])>,
) -> Result<Box<RawValue>> {
    let mut side = Side::default();
    for (name, slots) in operations {
        let operation = Operation::new(name).with_context(|| name.to_owned())?;
        side.operations.insert(operation, measured(slots));
    }
    Ok(RawValue::from_string(baseline::write(&side)?)?)
}

/// Each sample in milliseconds as the upper end of its bucket, slot by slot; `None` if there are
/// too many, or no slots.
pub(super) fn epochs_ms(slots: &[HistoryPoint], count: u64) -> Option<Vec<f64>> {
    if slots.is_empty() || count > EPOCHS_MAX {
        return None;
    }
    let mut epochs = Vec::new();
    for point in slots {
        let max = point.max.unwrap_or(f64::INFINITY);
        let counts = point.distribution.as_ref().map(|of| &of.counts);
        for bucket in counts.into_iter().flat_map(|of| BucketCount::all(of, Unit::Nanoseconds)) {
            let samples = usize::try_from(bucket.count).ok()?;
            // Through whole nanoseconds, so that JSON has no digits that come from the unit.
            let ms = (bucket.upper.min(max) * 1e9).round() / 1e6;
            epochs.extend(std::iter::repeat_n(ms, samples));
        }
    }
    Some(epochs)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plimsoll_schemas::histogram::{Histogram, PackedCounts, layout};
    use plimsoll_schemas::summary::BucketCounts;
    use plimsoll_schemas::time::nanos;

    use super::*;

    fn point(from: f64, buckets: &[(f64, u64)]) -> HistoryPoint {
        let mut recorded = Histogram::default();
        for (value, count) in buckets {
            recorded.record_n(nanos(Duration::from_secs_f64(*value)), *count);
        }
        HistoryPoint {
            from_seconds: from,
            to_seconds: from + 10.0,
            count: buckets.iter().map(|(_, n)| n).sum(),
            mean: None,
            min: None,
            max: buckets.last().map(|(upper, _)| *upper),
            approximate: false,
            quantiles: Vec::new(),
            over: Vec::new(),
            completeness: None,
            distribution: Some(BucketCounts {
                unit: Unit::Nanoseconds,
                counts: PackedCounts::from(&recorded),
            }),
        }
    }

    #[test]
    fn what_is_written_reads_back_and_other_files_are_told_apart() {
        let slots = [point(10.0, &[(0.001_023_999, 2)]), point(20.0, &[(0.017_997_823, 3)])];
        let raw = written([("fetch", &slots[..])].into_iter()).unwrap();
        let report = |version: u32, rest: &str| {
            format!(r#"{{"format":"plimsoll-report","version":{version},"mesh":"m",{rest}}}"#)
        };
        let text = report(1, &format!("\"samples\":{}", raw.get()));
        let side = side_of(&text).unwrap().unwrap();
        let fetch = &side.operations["fetch"];
        assert_eq!((fetch.slots.len(), fetch.samples()), (2, 5));
        assert_eq!(fetch.slots[1].start_ns, 20_000_000_000);
        assert_eq!(side_of(raw.get()).unwrap(), None, "a baseline");
        assert_eq!(side_of("{").unwrap(), None);
        let error = |text: &str| side_of(text).unwrap_err().to_string();
        assert!(error(&report(2, "\"samples\":null")).contains("version 2 of a report is not 1"));
        let without = report(1, "\"samples_left_out\":\"too many\"");
        assert!(error(&without).ends_with("cannot be compared: too many"), "{without}");
    }

    #[test]
    fn epochs_are_in_the_order_of_their_slots() {
        let end_ms = |ms: u64| layout::highest(layout::index_of(ms * 1_000_000)) as f64 / 1e6;
        let slots = [point(10.0, &[(0.2, 1)]), point(20.0, &[(0.1, 2), (0.3, 1)])];
        let epochs = [200.0, end_ms(100), end_ms(100), 300.0];
        assert_eq!(epochs_ms(&slots, 4).unwrap(), epochs);
        assert_eq!(epochs_ms(&slots, EPOCHS_MAX + 1), None);
        assert_eq!(epochs_ms(&[], 4), None);
    }
}
