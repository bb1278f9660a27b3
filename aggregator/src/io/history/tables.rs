//! The tables of a history file, and their keys.

use std::sync::{Arc, RwLock};

use redb::{Database, TableDefinition};

/// The open file; none after a write has failed, until the next one opens it again.
pub(super) type OpenFile = Arc<RwLock<Option<Database>>>;

/// Where a slot is kept: tier, series, number of the slot. Series 0 is coverage.
pub(super) type SlotKey = (u8, u32, u64);

pub(super) const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
pub(super) const SLOTS: TableDefinition<'_, SlotKey, &[u8]> = TableDefinition::new("slots");
/// What the latest batch has replaced; empty bytes for a slot that was new.
pub(super) const UNDO: TableDefinition<'_, SlotKey, &[u8]> = TableDefinition::new("undo");
pub(super) const SERIES: TableDefinition<'_, u32, &str> = TableDefinition::new("series");

pub(super) const COVERAGE: u32 = 0;

/// A tier's number in a key.
pub(super) fn tier_number(place: usize) -> u8 {
    u8::try_from(place).expect("there are four tiers")
}
