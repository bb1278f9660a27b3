//! Samples over a limit, and how sure that is.

use serde::{Deserialize, Serialize};

/// Samples over one limit: at least `over` and at most `over + unsure`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Over {
    /// Samples that are over it.
    pub over: u64,
    /// Samples in the limit's own bucket that were recorded when nobody knew the limit.
    pub unsure: u64,
}

impl Over {
    /// Adds those of other samples.
    pub fn add(&mut self, other: Self) {
        self.over = self.over.saturating_add(other.over);
        self.unsure = self.unsure.saturating_add(other.unsure);
    }
}
