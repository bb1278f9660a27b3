//! What rules are judged by.

use crate::core::fleet::Fleet;
use crate::core::ingest::BrokerHealth;

/// What rules are judged by at one evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// Everything that was merged.
    pub fleet: &'a Fleet,
    /// How far silence can be trusted.
    pub broker: BrokerHealth,
}
