//! XID events: faults that the driver reports as they happen. One event set per GPU, so that an
//! event belongs to the GPU of its set. Every poll reads the sets without waiting. NVML reports the
//! latest number where several faults fell between two samples.

use std::collections::BTreeMap;

use crate::limits::{GPU_EVENTS_MAX, GPU_XIDS_MAX};
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, EventSet, Nvml};
use plimsoll_schemas::hardware::{GPU_FAULTS_TOTAL, GPU_XID_TOTAL, MissingReading};

use super::aside::Finding;
use super::query::queried;

/// Subscribes to the driver's reports of this GPU's faults.
pub(super) fn subscribe<'nvml>(
    nvml: &'nvml Nvml,
    device: &Device<'nvml>,
) -> Result<EventSet<'nvml>, MissingReading> {
    let set = queried(nvml.create_event_set())?;
    let registered = device.register_events(EventTypes::CRITICAL_XID_ERROR, set);
    queried(registered.map_err(|error| error.error))
}

/// Faults of one GPU since the agent began.
#[derive(Default)]
pub(super) struct Faults {
    total: u64,
    by_number: BTreeMap<String, u64>,
    missing: Option<MissingReading>,
}

impl Faults {
    /// Takes what the driver reported since the last sample.
    pub(super) fn drain(&mut self, set: &Result<EventSet<'_>, MissingReading>) {
        self.missing = set.as_ref().err().copied();
        let Ok(set) = set else { return };
        for _ in 0..GPU_EVENTS_MAX {
            match set.wait(0) {
                Ok(event) => self.count(event.event_data.as_ref()),
                Err(NvmlError::Timeout) => return,
                Err(error) => return self.missing = queried::<()>(Err(error)).err(),
            }
        }
    }

    fn count(&mut self, fault: Option<&XidError>) {
        let number = match fault {
            Some(XidError::Value(number)) => number.to_string(),
            Some(XidError::Unknown) => "unknown".to_owned(),
            None => return,
        };
        self.total += 1;
        let full = self.by_number.len() >= GPU_XIDS_MAX && !self.by_number.contains_key(&number);
        let number = if full { "other".to_owned() } else { number };
        *self.by_number.entry(number).or_default() += 1;
    }

    /// All faults, and those of each number that was ever seen.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let raw = |count: u64| self.missing.map_or(Ok(count as f64), Err);
        let numbers = self.by_number.iter();
        let mut findings = vec![Finding::once(&GPU_FAULTS_TOTAL, raw(self.total))];
        findings.extend(
            numbers.map(|(number, count)| Finding::of(&GPU_XID_TOTAL, "xid", number, raw(*count))),
        );
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(faults: &Faults) -> Vec<(String, f64)> {
        let findings = faults.findings().into_iter();
        findings
            .map(|one| (one.label.map_or_else(String::new, |(_, xid)| xid), one.raw.unwrap()))
            .collect()
    }

    #[test]
    fn faults_count_in_all_and_by_number() {
        let mut faults = Faults::default();
        assert_eq!(figures(&faults), [(String::new(), 0.0)]);
        for fault in [Some(&XidError::Value(79)), Some(&XidError::Unknown), None] {
            faults.count(fault);
        }
        faults.count(Some(&XidError::Value(79)));
        let want = [("", 3.0), ("79", 2.0), ("unknown", 1.0)];
        assert_eq!(figures(&faults), want.map(|(xid, count)| (xid.to_owned(), count)));
    }

    #[test]
    fn numbers_are_bounded_and_no_fault_is_lost() {
        let mut faults = Faults::default();
        (0..1_000).for_each(|number| faults.count(Some(&XidError::Value(number))));
        let figures = figures(&faults);
        assert_eq!(figures.len(), 1 + GPU_XIDS_MAX + 1);
        assert_eq!(figures[0].1, 1_000.0);
        assert_eq!(figures[1..].iter().map(|(_, count)| count).sum::<f64>(), 1_000.0);
    }
}
