//! Drops slots that are older than their tier keeps, and the oldest of a tier that has too many
//! bytes. Once a minute, since each series is looked up in each tier. A clock that leaps by hours
//! has to stay there for ten minutes before anything is dropped by it.

use std::collections::BTreeSet;

use plimsoll_schemas::time::{Wall, nanos};
use redb::{ReadableTable, Table, WriteTransaction};

use super::HistoryStore;
use super::tables::{COVERAGE, SLOTS, SlotKey, tier_number};
use crate::core::history::Resolution;
use crate::limits::{HISTORY_EXPIRY_EVERY, HISTORY_EXPIRY_STEPS_MAX, HISTORY_SERIES_EXPIRY_EVERY};

impl HistoryStore {
    pub(super) fn expire(
        &mut self,
        transaction: &WriteTransaction,
        now: Wall,
    ) -> Result<(), redb::Error> {
        if !self.is_expiry_due(now) {
            return Ok(());
        }
        let mut slots = transaction.open_table(SLOTS)?;

        for (place, resolution) in Resolution::ALL.into_iter().enumerate() {
            let by_age = resolution.number(now.minus(self.bounds[place].age));
            self.drop_before(&mut slots, place, by_age)?;

            for _ in 0..HISTORY_EXPIRY_STEPS_MAX {
                if self.meta.bytes[place] <= self.bounds[place].bytes_max {
                    break;
                }
                let Some(oldest) = self.oldest(&slots, place)? else { break };
                // A sixteenth of the time that it holds, and at least one slot.
                let span = resolution.number(now).saturating_sub(oldest) / 16;
                self.drop_before(&mut slots, place, oldest + span + 1)?;
            }
        }

        if now.since(self.meta.series_expired_at) >= HISTORY_SERIES_EXPIRY_EVERY {
            self.meta.series_expired_at = now;
            let gone = self.without_slots(&slots)?;
            drop(slots);
            self.names.remove(&gone, transaction)?;
        }

        Ok(())
    }

    fn is_expiry_due(&mut self, now: Wall) -> bool {
        let meta = &mut self.meta;
        let is_due = now.since(meta.expired_at) >= HISTORY_EXPIRY_EVERY && now >= meta.expires_from;
        if is_due {
            meta.expired_at = now;
        }
        is_due
    }

    fn without_slots(
        &self,
        slots: &Table<'_, SlotKey, &'static [u8]>,
    ) -> Result<BTreeSet<u32>, redb::Error> {
        let mut gone = BTreeSet::new();
        for series in self.names.numbers() {
            let mut has_slots = false;
            for place in 0..Resolution::ALL.len() {
                let tier = tier_number(place);
                has_slots |=
                    slots.range((tier, series, 0)..=(tier, series, u64::MAX))?.next().is_some();
            }
            if !has_slots {
                gone.insert(series);
            }
        }
        Ok(gone)
    }

    /// Drops the slots of one tier with lower numbers.
    fn drop_before(
        &mut self,
        slots: &mut Table<'_, SlotKey, &'static [u8]>,
        place: usize,
        number: u64,
    ) -> Result<(), redb::Error> {
        let (tier, resolution) = (tier_number(place), Resolution::ALL[place]);
        let mut dropped = 0;

        for series in self.names.numbers().chain([COVERAGE]) {
            let range = (tier, series, 0)..(tier, series, number);
            for entry in slots.extract_from_if(range, |_, _| true)? {
                dropped += entry?.1.value().len() as u64;
            }
        }

        self.meta.bytes[place] = self.meta.bytes[place].saturating_sub(dropped);

        if dropped > 0 {
            // Ranges that start earlier are answered from coarser slots.
            let kept = &mut self.meta.kept_from[place];
            *kept = (*kept).max(Wall(number.saturating_mul(nanos(resolution.slot()))));
        }

        Ok(())
    }

    fn oldest(
        &self,
        slots: &Table<'_, SlotKey, &'static [u8]>,
        place: usize,
    ) -> Result<Option<u64>, redb::Error> {
        let tier = tier_number(place);
        let mut oldest = None;
        for series in self.names.numbers() {
            let mut range = slots.range((tier, series, 0)..=(tier, series, u64::MAX))?;
            if let Some(first) = range.next() {
                let number = first?.0.value().2;
                oldest = Some(oldest.map_or(number, |found: u64| found.min(number)));
            }
        }
        Ok(oldest)
    }
}
