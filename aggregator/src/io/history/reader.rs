//! Reads the history while it is written: a reading is of one point in time.

use std::sync::PoisonError;

use plimsoll_schemas::histogram::Packed;
use plimsoll_schemas::time::Wall;
use redb::{ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, TableError};

use super::ahead;
use super::meta::{self, Meta};
use super::record::ReadError;
use super::record::{Damaged, unpack};
use super::tables::{COVERAGE, META, OpenFile, SERIES, SLOTS, SlotKey, tier_number};
use crate::core::history::{
    Accumulator, BatchId, HistoryKey, KeptFrom, MetricTotals, Resolution, Span, spans,
};
use crate::limits::HISTORY_AHEAD_SLOTS;

/// Makes readings of a history file.
#[derive(Clone, Debug)]
pub struct HistoryReader {
    database: OpenFile,
}

/// The file as it was at one point in time.
pub struct Reading {
    transaction: ReadTransaction,
    meta: Option<Meta>,
}

impl HistoryReader {
    pub(super) fn new(database: OpenFile) -> Self {
        Self { database }
    }

    /// The file as it is now.
    pub fn read(&self) -> Result<Reading, ReadError> {
        let transaction = {
            // Held until the transaction has started and no longer: a reading keeps
            // its point in time by itself, and the writer may close the file.
            let slot = self.database.read().unwrap_or_else(PoisonError::into_inner);
            let database = slot.as_ref().ok_or(ReadError::Closed)?;
            database.begin_read().map_err(redb::Error::from)?
        };
        let meta = match opened(transaction.open_table(META))? {
            None => None,
            Some(table) => {
                let bytes = table.get(meta::KEY).map_err(redb::Error::from)?;
                bytes.map(|bytes| Meta::of_bytes(bytes.value())).transpose()?
            }
        };
        Ok(Reading { transaction, meta })
    }
}

impl Reading {
    pub fn batch(&self) -> BatchId {
        self.meta.as_ref().map(|meta| meta.batch).unwrap_or_default()
    }

    /// Since when there is a history; `None` before the first batch.
    pub fn begun(&self) -> Option<Wall> {
        self.meta.as_ref().map(|meta| meta.begun)
    }

    /// From when on each tier keeps everything.
    pub fn kept_from(&self) -> KeptFrom {
        self.meta.as_ref().map(|meta| meta.kept_from).unwrap_or_default()
    }

    pub fn bytes(&self) -> [u64; Resolution::ALL.len()] {
        self.meta.as_ref().map(|meta| meta.bytes).unwrap_or_default()
    }

    /// All keys that it knows, by their names.
    pub fn keys(&self) -> Result<Vec<HistoryKey>, ReadError> {
        let Some(table) = opened(self.transaction.open_table(SERIES))? else {
            return Ok(Vec::new());
        };
        let mut keys = Vec::new();
        for entry in table.iter().map_err(redb::Error::from)? {
            let (_, name) = entry.map_err(redb::Error::from)?;
            keys.extend(HistoryKey::named(name.value()));
        }
        Ok(keys)
    }

    fn series(&self, key: &HistoryKey) -> Result<Option<u32>, ReadError> {
        let Some(table) = opened(self.transaction.open_table(SERIES))? else { return Ok(None) };
        let wanted = key.to_string();
        for entry in table.iter().map_err(redb::Error::from)? {
            let (number, name) = entry.map_err(redb::Error::from)?;
            if name.value() == wanted {
                return Ok(Some(number.value()));
            }
        }
        Ok(None)
    }

    /// Adds the slots of keys and the coverage of a whole range to an answer. Returns for each key
    /// whether the file knows it.
    pub fn add_to(
        &self,
        answer: &mut Accumulator,
        keys: &[HistoryKey],
    ) -> Result<Vec<bool>, ReadError> {
        let Some(slots) = opened(self.transaction.open_table(SLOTS))? else {
            return Ok(vec![false; keys.len()]);
        };
        let kept_from = self.kept_from();
        let layout = answer.layout.clone();
        let series = keys.iter().map(|key| self.series(key)).collect::<Result<Vec<_>, _>>()?;
        let known = series.iter().map(Option::is_some).collect();
        let Some(finest) = layout.resolution else { return Ok(known) };
        let spans: Vec<Span> =
            layout.points().flat_map(|point| spans(&point, finest, &kept_from)).collect();

        for (key, series) in keys.iter().zip(series) {
            let Some(series) = series else { continue };
            let spans = kept(&slots, series, &spans)?;
            match key {
                HistoryKey::Samples(_) => add_samples(&slots, &spans, series, answer)?,
                HistoryKey::Metric(metric) => each(&slots, &spans, series, |at, bytes| {
                    answer.add_values(at, metric, &unpack::<MetricTotals>(bytes)?);
                    Ok(())
                })?,
            }
        }

        each(&slots, &spans, COVERAGE, |at, bytes| {
            answer.cover(at, unpack(bytes)?);
            Ok(())
        })?;

        Ok(known)
    }
}

/// Samples are read ahead on threads: a slot of them takes some 20 KiB.
fn add_samples(
    slots: &ReadOnlyTable<SlotKey, &'static [u8]>,
    spans: &[Span],
    series: u32,
    answer: &mut Accumulator,
) -> Result<(), ReadError> {
    let read = |part: &Vec<Span>| {
        let mut found: Vec<(Wall, Packed)> = Vec::new();
        each(slots, part, series, |at, bytes| {
            found.push((at, unpack(bytes)?));
            Ok(())
        })?;
        Ok(found)
    };
    ahead::each(&parts(spans), read, |found| {
        found.iter().for_each(|(at, samples)| answer.add(*at, samples));
    })
}

/// The same without what is before the first slot of a series: a range may begin in 1970.
fn kept(
    slots: &ReadOnlyTable<SlotKey, &'static [u8]>,
    series: u32,
    spans: &[Span],
) -> Result<Vec<Span>, ReadError> {
    let mut first = [u64::MAX; Resolution::ALL.len()];
    for (place, first) in first.iter_mut().enumerate() {
        let tier = tier_number(place);
        let range = slots.range((tier, series, 0)..=(tier, series, u64::MAX));
        if let Some(entry) = range.map_err(redb::Error::from)?.next() {
            *first = entry.map_err(redb::Error::from)?.0.value().2;
        }
    }
    let kept = |Span { resolution, slots }: &Span| {
        let start = slots.start.max(first[place(*resolution)]);
        Span { resolution: *resolution, slots: start..slots.end }
    };
    Ok(spans.iter().map(kept).collect())
}

fn place(resolution: Resolution) -> usize {
    Resolution::ALL.iter().position(|other| *other == resolution).unwrap_or_default()
}

/// The same slots in parts, each of which one thread reads at once.
fn parts(spans: &[Span]) -> Vec<Vec<Span>> {
    let (mut parts, mut last, mut room) = (Vec::new(), Vec::new(), HISTORY_AHEAD_SLOTS);

    for Span { resolution, slots } in spans {
        let (resolution, mut slots) = (*resolution, slots.clone());
        while !slots.is_empty() {
            let end = slots.end.min(slots.start.saturating_add(room));
            room -= end - slots.start;
            last.push(Span { resolution, slots: slots.start..end });
            slots.start = end;

            if room == 0 {
                parts.push(std::mem::take(&mut last));
                room = HISTORY_AHEAD_SLOTS;
            }
        }
    }

    parts.extend((!last.is_empty()).then_some(last));
    parts
}

/// Visits the slots of some spans, with the time at which each begins.
fn each(
    slots: &ReadOnlyTable<SlotKey, &'static [u8]>,
    spans: &[Span],
    series: u32,
    mut visit: impl FnMut(Wall, &[u8]) -> Result<(), Damaged>,
) -> Result<(), ReadError> {
    for Span { resolution, slots: numbers } in spans {
        let tier = tier_number(place(*resolution));
        let range = (tier, series, numbers.start)..(tier, series, numbers.end);
        for entry in slots.range(range).map_err(redb::Error::from)? {
            let (key, bytes) = entry.map_err(redb::Error::from)?;
            visit(resolution.begin(key.value().2), bytes.value())?;
        }
    }
    Ok(())
}

fn opened<T>(table: Result<T, TableError>) -> Result<Option<T>, ReadError> {
    match table {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(ReadError::Failed(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Each slot by itself.
    fn single(spans: &[Span]) -> Vec<(Resolution, u64)> {
        let slots = |span: &Span| {
            let resolution = span.resolution;
            span.slots.clone().map(move |slot| (resolution, slot)).collect::<Vec<_>>()
        };
        spans.iter().flat_map(slots).collect()
    }

    proptest! {
        #[test]
        fn parts_have_each_slot_once_and_in_order(
            drawn in prop::collection::vec((0..4_usize, 0..1_000_u64, 0..40_u64), 0..12),
        ) {
            let span = |(place, start, length): &(usize, u64, u64)| Span {
                resolution: Resolution::ALL[*place],
                slots: *start..start + length,
            };
            let spans: Vec<Span> = drawn.iter().map(span).collect();
            let parts = parts(&spans);
            prop_assert_eq!(single(&parts.concat()), single(&spans));
            let full = usize::try_from(HISTORY_AHEAD_SLOTS).unwrap();
            let mut lengths: Vec<usize> = parts.iter().map(|part| single(part).len()).collect();
            prop_assert!(lengths.pop().is_none_or(|last| (1..=full).contains(&last)));
            prop_assert!(lengths.into_iter().all(|length| length == full));
        }
    }
}
