//! The NVLinks of one GPU: which of them work, and the errors of all together by kind. Per link
//! and kind they would be more readings than all others; `nvidia-smi nvlink -e` has those.

use crate::limits::GPU_LINKS_MAX;
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::nv_link::ErrorCounter;
use nvml_wrapper::error::NvmlError;
use plimsoll_schemas::hardware::{GPU_NVLINK_ERRORS_TOTAL, GPU_NVLINK_UP, MissingReading};

use super::aside::Finding;
use super::query::queried;
use super::units;

const KINDS: [(&str, ErrorCounter); 4] = [
    ("replay", ErrorCounter::DlReplay),
    ("recovery", ErrorCounter::DlRecovery),
    ("crc_flit", ErrorCounter::DlCrcFlit),
    ("crc_data", ErrorCounter::DlCrcData),
];

/// The last count of each link and kind that could be read: a link that goes down takes nothing
/// from the sum.
#[derive(Default)]
pub(super) struct Links {
    errors: [[Option<u64>; GPU_LINKS_MAX as usize]; KINDS.len()],
}

impl Links {
    pub(super) fn query(&mut self, device: &Device<'_>) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut refused = MissingReading::unsupported("no_link");

        for link in (0..GPU_LINKS_MAX).map(|link| device.link_wrapper_for(link)) {
            let up = match link.is_active() {
                // Past the last link.
                Err(NvmlError::InvalidArg) => break,
                up => queried(up).map(|up| f64::from(u8::from(up))),
            };

            // A GPU without NVLink returns this for every number that a link might have.
            if let (Err(missing), 0) = (up, link.link()) {
                refused = missing;
                break;
            }

            findings.push(Finding::of(&GPU_NVLINK_UP, "link", &link.link(), up));

            for ((_, kind), errors) in KINDS.iter().zip(&mut self.errors) {
                match queried(link.error_counter(*kind)) {
                    Ok(count) => errors[link.link() as usize] = Some(count),
                    Err(missing) => refused = missing,
                }
            }
        }

        if findings.is_empty() {
            findings.push(Finding::once(&GPU_NVLINK_UP, Err(refused)));
        }

        findings.extend(KINDS.iter().zip(&self.errors).map(|((kind, _), errors)| {
            let counted = errors.iter().flatten().copied().reduce(u64::saturating_add);
            let raw = counted.ok_or(refused).and_then(units::count);
            Finding::of(&GPU_NVLINK_ERRORS_TOTAL, "kind", *kind, raw)
        }));

        findings
    }
}
