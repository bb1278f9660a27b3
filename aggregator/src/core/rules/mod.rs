//! Rules.

pub mod burn_rate;
pub mod evaluate;
pub mod judge;
pub mod reload;
pub mod self_monitoring;
pub mod thresholds;
pub mod unmatched;
