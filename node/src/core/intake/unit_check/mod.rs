//! The unit check: finds timers that are sent in seconds as `ms`.
//!
//! Owns the evidence of each operation's first values, the operations whose unit is suspect, and
//! the warnings about them. It reads lines only until their operation is decided: the recorder
//! caches a form of a line from then on, and a cached form never comes here.
//!
//! Refuses to change a value: a wrong guess would change a figure. `[units]` decides.
//!
//! DESIGN N52.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::Operation;

use crate::core::intake::scan::take_until;
use crate::limits::{
    SUSPECT_UNITS_MAX, UNIT_CHECK_EVIDENCE_MIN, UNIT_CHECK_LARGE_VALUES_MAX,
    UNIT_CHECK_OPERATIONS_MAX, UNIT_CHECK_VALUES,
};

/// How far from a whole nanosecond a value may be that a clock of milliseconds gave: single
/// precision of values below a millisecond.
const NANOSECOND_TOLERANCE: f64 = 0.1;

#[derive(Default)]
pub(super) struct UnitCheck {
    by_operation: BTreeMap<Operation, Progress>,
    pub(super) suspects: Vec<Operation>,
    warnings: Vec<String>,
}

/// How far the check of one operation is.
enum Progress {
    Open(Evidence),
    Decided,
}

/// What the values of an operation show so far.
#[derive(Default)]
struct Evidence {
    values: u32,
    /// Values of 1 or more.
    large: u32,
    /// Positive values of an operation that is named after seconds, and values that no clock gives
    /// in milliseconds.
    of_seconds: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Finding {
    TooFew,
    Plausible,
    Suspect,
}

impl UnitCheck {
    /// Reads the values of one line, and returns whether its operation is decided. The last part
    /// of its name is seconds if `is_named_seconds`.
    pub(super) fn on_line(
        &mut self,
        operation: &Operation,
        values: &[u8],
        is_named_seconds: bool,
    ) -> bool {
        if self.suspects.len() >= SUSPECT_UNITS_MAX {
            return true;
        }
        if !self.by_operation.contains_key(operation) {
            self.make_room();
        }

        let progress = self.by_operation.entry(operation.clone()).or_default();
        let Progress::Open(evidence) = progress else { return true };
        let mut rest = values;

        while let Some(value) = next_value(&mut rest) {
            evidence.add(value, is_named_seconds);

            match evidence.finding() {
                Finding::TooFew => continue,
                Finding::Plausible => {}
                Finding::Suspect => {
                    self.warnings.push(warning(operation, value));
                    self.suspects.push(operation.clone());
                }
            }

            *progress = Progress::Decided;
            return true;
        }

        false
    }

    /// New warnings for the operator, one for each suspect operation.
    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Begins anew when the map is full, except for operations that were reported.
    fn make_room(&mut self) {
        if self.by_operation.len() < UNIT_CHECK_OPERATIONS_MAX {
            return;
        }
        let reported = self.suspects.iter().cloned();
        self.by_operation = reported.map(|operation| (operation, Progress::Decided)).collect();
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::Open(Evidence::default())
    }
}

impl Evidence {
    fn add(&mut self, value: f64, is_named_seconds: bool) {
        self.values += 1;
        self.large += u32::from(value >= 1.0);
        let is_evidence = value > 0.0 && value < 1.0;
        // A float of seconds has digits below the nanosecond, which no clock of milliseconds has.
        let is_evidence = is_evidence && (is_named_seconds || !is_of_a_clock_in_ms(value));
        self.of_seconds += u32::from(is_evidence);
    }

    fn finding(&self) -> Finding {
        if self.large > UNIT_CHECK_LARGE_VALUES_MAX {
            return Finding::Plausible;
        }
        match self.values < UNIT_CHECK_VALUES {
            true => Finding::TooFew,
            false if self.of_seconds >= UNIT_CHECK_EVIDENCE_MIN => Finding::Suspect,
            false => Finding::Plausible,
        }
    }
}

/// Whether a clock can have given a value between 0 and 1 in milliseconds: as whole nanoseconds, or
/// as a float of seconds times a thousand, which keeps the factor 125 in the mantissa.
fn is_of_a_clock_in_ms(value: f64) -> bool {
    let ns = value * 1e6;
    let mantissa = (value.to_bits() & ((1 << 52) - 1)) | (1 << 52);
    (ns - ns.round()).abs() <= NANOSECOND_TOLERANCE || mantissa.is_multiple_of(125)
}

/// Takes a value off the front of the values of a line; the recorder has read them before.
fn next_value(rest: &mut &[u8]) -> Option<f64> {
    str::from_utf8(take_until(b':', rest)).ok()?.parse().ok()
}

fn warning(operation: &Operation, value: f64) -> String {
    let recorded_us = value * 1e3;
    format!(
        "{operation} looks like seconds: {value}|ms is recorded as {recorded_us:.3} us. If it is, \
         set units.patterns = [\"{operation}=s\"], or use_ms=True in the datadog client"
    )
}

#[cfg(test)]
mod tests;
