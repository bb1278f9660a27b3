//! Profiles of several nodes, added up in memory as they arrive until the last one is here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_profile::series::encode_within;
use plimsoll_profile::{Profile, merge, pprof};
use plimsoll_schemas::limits::wire::CAPTURE_PROFILE_BYTES_MAX;
use plimsoll_schemas::wire::capture::CaptureId;

/// Shared by the tasks of the driver. Each sum has as many stacks as one profile may.
#[derive(Clone, Debug, Default)]
pub struct Sums(Arc<Mutex<BTreeMap<CaptureId, Profile>>>);

impl Sums {
    /// Adds the bytes of a node to a sum.
    ///
    /// # Errors
    /// In one word, and the sum is as before.
    pub fn add(&self, sum: CaptureId, bytes: &[u8]) -> Result<(), &'static str> {
        let part = pprof::decode(bytes).map_err(|_| "unreadable")?;
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = match sums.get(&sum) {
            Some(before) => merge(&[before, &part]).map_err(|_| "not_supported")?,
            None => part,
        };
        sums.insert(sum, whole);
        Ok(())
    }

    /// All that was added, as bytes, of which the lightest stacks are left out beyond the bound; it
    /// is forgotten here.
    ///
    /// # Errors
    /// In one word.
    pub fn take(&self, sum: CaptureId) -> Result<Vec<u8>, &'static str> {
        let whole = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&sum);
        let whole = whole.ok_or("unreadable")?;
        encode_within(&whole, CAPTURE_PROFILE_BYTES_MAX).map_err(|_| "too_large")
    }
}
