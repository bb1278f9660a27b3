//! The history file: slots of every tier, found by index; no query opens all of them.
//!
//! Each checkpoint writes its batch here first and its state afterwards. A batch keeps what it has
//! replaced until the next one, so if a crash comes between the two files, the batch is undone and
//! made again from the streams. A file that cannot be used is quarantined under a new name.
//!
//! DESIGN A75, A76.

mod ahead;
mod expiry;
mod meta;
mod reader;
mod record;
mod series;
mod tables;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::time::Wall;
use redb::{
    Builder, Database, ReadableDatabase, ReadableTable, Table, TableError, WriteTransaction,
};

use super::database::{self, Fault, StoreError, create, texts};
use crate::core::history::{
    BatchId, Bounds, Coverage, HistoryBatch, HistoryKey, MetricTotals, Resolution, SlotSamples,
    StoredHistory, by_slot,
};
use crate::limits::HISTORY_CACHE_BYTES;
use meta::Meta;
use record::{pack, unpack};
use series::SeriesNames;
use tables::{COVERAGE, META, OpenFile, SLOTS, SlotKey, UNDO, tier_number};

pub use reader::{HistoryReader, Reading};
pub use record::ReadError;

/// The key of the settings that names the file.
const KEY: &str = "history.path";

/// An open history file. One thread writes, any number read.
#[derive(Debug)]
pub struct HistoryStore {
    path: PathBuf,
    database: OpenFile,
    bounds: Bounds,
    meta: Meta,
    names: SeriesNames,
}

/// What a write has stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryWritten {
    pub bytes: u64,
    /// Samples of series for which there is no room.
    pub dropped: u64,
    /// Values of metrics for which there is no room.
    pub dropped_values: u64,
    /// Series that have slots now.
    pub series: usize,
}

/// What was found at the start.
#[derive(Debug)]
pub struct OpenedHistory {
    pub store: HistoryStore,
    pub stored: StoredHistory,
    /// Why a file was quarantined and its new path, if one was.
    pub quarantined: Option<(String, PathBuf)>,
    /// Whether state and history are of different times, so that samples may be missing here or
    /// counted twice.
    pub has_diverged: bool,
}

impl HistoryStore {
    /// Opens or creates the history of `mesh` at `path`. `generation` is that of the state; `None`
    /// if there is no state.
    ///
    /// # Errors
    /// When a new file would not help.
    pub fn open(
        path: &Path,
        mesh: &MeshName,
        bounds: Bounds,
        generation: Option<u64>,
        now: Wall,
    ) -> Result<OpenedHistory, StoreError> {
        let inspect = || inspect(path, mesh, bounds, generation);
        let ((store, has_diverged), quarantined) = match inspect() {
            Ok(found) => (found, None),
            Err(Fault::Unusable(faults)) => {
                let moved_to = database::quarantine(path, now)
                    .map_err(|source| Fault::Inaccessible(source).at(KEY, path))?;
                let found = inspect().map_err(|fault| fault.at(KEY, path))?;
                (found, Some((texts(&faults), moved_to)))
            }
            Err(fault) => return Err(fault.at(KEY, path)),
        };

        let stored = StoredHistory {
            batch: store.meta.batch,
            is_empty: store.meta.is_new(),
            read: store.meta.read.clone(),
            series: store.names.numbers().count(),
        };

        Ok(OpenedHistory { store, stored, quarantined, has_diverged })
    }

    /// Undoes the latest batch if the state was not written after it. Returns whether state and
    /// history are of different times.
    fn align(&mut self, generation: Option<u64>) -> Result<bool, redb::Error> {
        let Some(generation) = generation else { return Ok(false) };
        // Of a file that is created beside an older state:
        // its batches continue with the state's number.
        if self.meta.is_new() {
            self.meta.batch.generation = generation;
        }
        // The state was not written after this batch, so the streams bring its samples again.
        if self.meta.batch.generation == generation + 1 {
            let transaction = self.begin()?;
            self.undo(&transaction)?;
            self.meta.batch = BatchId { generation, attempt: 0 };
            self.meta.write(&transaction)?;
            transaction.commit()?;
        }
        Ok(self.meta.batch.generation != generation)
    }

    pub fn reader(&self) -> HistoryReader {
        HistoryReader::new(Arc::clone(&self.database))
    }

    /// Tiers that had too many bytes for their age, each with the time since which it keeps
    /// samples.
    pub fn cut_short(&self, now: Wall) -> Vec<(Resolution, Wall)> {
        let tiers = Resolution::ALL.into_iter().zip(self.meta.kept_from).zip(self.bounds);
        let cut = tiers.filter(|((_, kept), bound)| *kept > now.minus(bound.age));
        cut.map(|(tier, _)| tier).collect()
    }

    /// Adds a batch in one transaction.
    ///
    /// # Errors
    /// When it may not have been written. It may be tried again, with a later attempt's samples
    /// beside it.
    pub fn write(&mut self, batch: &HistoryBatch) -> Result<HistoryWritten, redb::Error> {
        let written = self.try_write(batch);
        if written.is_err() {
            self.close();
        }
        written
    }

    /// Closes the file: redb refuses all that follows a failed write. The next write opens it again
    /// and reads what it states about itself.
    pub fn close(&mut self) {
        *self.database.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Opens a closed file for readers, if that is possible. Close it again before the next write.
    pub fn open_for_readers(&mut self) {
        let opened = create(&builder(), &self.path).ok();
        *self.database.write().unwrap_or_else(PoisonError::into_inner) = opened;
    }

    fn try_write(&mut self, batch: &HistoryBatch) -> Result<HistoryWritten, redb::Error> {
        let transaction = self.begin()?;
        // An attempt before may have been written although its answer was an error.
        let held = Meta::read(&transaction)?.map_or(self.meta.batch, |meta| meta.batch);
        if held.generation == batch.id.generation {
            self.undo(&transaction)?;
        }
        // The state has the batch before, or this one would
        // not have been taken: that is never undone.
        self.meta.forget_undo(&transaction)?;

        // Before samples are added, whose ages count from the time that is trusted.
        self.meta.on_clock(batch.at);
        let mut written = self.add(&transaction, batch)?;
        self.meta.begun = if self.meta.is_new() { batch.at } else { self.meta.begun };
        self.meta.on_read(&batch.positions);

        self.expire(&transaction, batch.at)?;
        self.meta.batch = batch.id;
        self.meta.write(&transaction)?;
        transaction.commit()?;
        written.series = self.names.numbers().count();
        Ok(written)
    }

    fn begin(&mut self) -> Result<WriteTransaction, redb::Error> {
        let mut slot = self.database.write().unwrap_or_else(PoisonError::into_inner);
        let database = match slot.take() {
            Some(database) => database,
            None => {
                // The file may be another one by now, or hold what seemed to have failed.
                let database = create(&builder(), &self.path)?;
                (self.meta, self.names) = read_head(&database, &self.meta.mesh)?;
                database
            }
        };

        let transaction = database.begin_write();
        *slot = Some(database);
        let mut transaction = transaction?;
        // With it, a restart after kill -9 does not scan the whole file for repair.
        transaction.set_quick_repair(true);
        Ok(transaction)
    }

    fn add(
        &mut self,
        transaction: &WriteTransaction,
        batch: &HistoryBatch,
    ) -> Result<HistoryWritten, redb::Error> {
        let mut slots = transaction.open_table(SLOTS)?;
        let mut undo = transaction.open_table(UNDO)?;
        let mut tables = Tables { slots: &mut slots, undo: &mut undo, written: 0 };
        let mut dropped: u64 = 0;
        let mut dropped_values: u64 = 0;
        let SlotSamples { pools, metrics, coverage } = &batch.samples;

        for (place, resolution) in Resolution::ALL.into_iter().enumerate() {
            let tier = tier_number(place);
            // What would be dropped at the next search is not written.
            let oldest = resolution.number(self.meta.trusted_at.minus(self.bounds[place].age));
            let (mut grown, mut is_short) = (0, false);

            for (pool, of_pool) in pools {
                let (key, next) = (HistoryKey::Samples(pool.clone()), &mut self.meta.next_series);
                let Some(series) = self.names.number(&key, next, transaction)? else {
                    // Once, and not again for each tier.
                    if place == 0 {
                        dropped += of_pool.values().map(Histogram::count).sum::<u64>();
                    }
                    continue;
                };

                for (number, parts) in by_slot(of_pool, resolution) {
                    match number >= oldest {
                        true => grown += tables.add_samples((tier, series, number), &parts)?,
                        false => is_short = true,
                    }
                }
            }

            for (metric, of_metric) in metrics {
                let (key, next) = (HistoryKey::Metric(metric.clone()), &mut self.meta.next_series);
                let Some(series) = self.names.number(&key, next, transaction)? else {
                    if place == 0 {
                        dropped_values += of_metric.values().map(|of| of.count).sum::<u64>();
                    }
                    continue;
                };

                for (number, parts) in by_slot(of_metric, resolution) {
                    match number >= oldest {
                        true => grown += tables.add_values((tier, series, number), &parts)?,
                        false => is_short = true,
                    }
                }
            }

            for (number, parts) in by_slot(coverage, resolution) {
                if number >= oldest {
                    grown += tables.add_coverage((tier, COVERAGE, number), &parts)?;
                }
            }

            self.meta.bytes[place] += grown;

            if is_short {
                // From here on it lacks samples that the coarser ones have.
                let kept = &mut self.meta.kept_from[place];
                *kept = (*kept).max(resolution.begin(oldest));
            }
        }

        Ok(HistoryWritten { bytes: tables.written, dropped, dropped_values, series: 0 })
    }

    /// Puts back what the latest batch has replaced.
    fn undo(&mut self, transaction: &WriteTransaction) -> Result<(), redb::Error> {
        self.meta.undo_read();
        let mut slots = transaction.open_table(SLOTS)?;
        let undo = transaction.open_table(UNDO)?;

        for entry in undo.iter()? {
            let (key, before) = entry?;
            let (key, before) = (key.value(), before.value());
            let place = usize::from(key.0);
            let now = slots.get(key)?.map_or(0, |now| now.value().len() as u64);

            if before.is_empty() {
                slots.remove(key)?;
            } else {
                slots.insert(key, before)?;
            }

            if let Some(bytes) = self.meta.bytes.get_mut(place) {
                *bytes = (*bytes + before.len() as u64).saturating_sub(now);
            }
        }

        Ok(())
    }
}

struct Tables<'s, 't> {
    slots: &'s mut Table<'t, SlotKey, &'static [u8]>,
    undo: &'s mut Table<'t, SlotKey, &'static [u8]>,
    written: u64,
}

impl Tables<'_, '_> {
    /// Adds samples to a slot. Returns by how many bytes it has grown; a slot never shrinks by it.
    fn add_samples(&mut self, key: SlotKey, parts: &[&Histogram]) -> Result<u64, redb::Error> {
        let mut samples = Histogram::default();
        if let Some(before) = self.before(key)? {
            // A damaged slot was counted when it was read; its samples are lost to this tier.
            if let Ok(stored) = unpack::<Packed>(&before) {
                samples.merge_packed(&stored);
            }
        }
        parts.iter().for_each(|part| samples.merge(part));
        self.put(key, &pack(&Packed::from(&samples)))
    }

    /// Adds values of a metric, as [`Self::add_samples`] adds samples.
    fn add_values(&mut self, key: SlotKey, parts: &[&MetricTotals]) -> Result<u64, redb::Error> {
        let before = self.before(key)?;
        let mut sum: MetricTotals =
            before.and_then(|bytes| unpack(&bytes).ok()).unwrap_or_default();
        parts.iter().for_each(|part| sum.add(part));
        self.put(key, &pack(&sum))
    }

    fn add_coverage(&mut self, key: SlotKey, parts: &[&Coverage]) -> Result<u64, redb::Error> {
        let before = self.before(key)?;
        let mut sum: Coverage = before.and_then(|bytes| unpack(&bytes).ok()).unwrap_or_default();
        parts.iter().for_each(|part| sum.add(**part));
        self.put(key, &pack(&sum))
    }

    /// What a slot holds, which can be put back from now on.
    fn before(&mut self, key: SlotKey) -> Result<Option<Vec<u8>>, redb::Error> {
        let before = self.slots.get(key)?.map(|bytes| bytes.value().to_vec());
        // Nothing stands for a slot that was not there, since no slot is empty.
        self.undo.insert(key, before.as_deref().unwrap_or_default())?;
        Ok(before)
    }

    fn put(&mut self, key: SlotKey, bytes: &[u8]) -> Result<u64, redb::Error> {
        let length = bytes.len() as u64;
        let before = self.slots.insert(key, bytes)?.map_or(0, |old| old.value().len() as u64);
        self.written += length;
        Ok(length.saturating_sub(before))
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(HISTORY_CACHE_BYTES);
    builder
}

/// Opens a file, reads what it states about itself and undoes what the state lacks.
fn inspect(
    path: &Path,
    mesh: &MeshName,
    bounds: Bounds,
    generation: Option<u64>,
) -> Result<(HistoryStore, bool), Fault> {
    let (path, mesh) = (path.to_owned(), mesh.clone());
    database::inspect("inspect-history", move || {
        let database = create(&builder(), &path)?;
        let (meta, names) = read_head(&database, &mesh)?;
        if meta.mesh != mesh {
            return Err(Fault::OtherMesh { theirs: meta.mesh, ours: mesh });
        }
        let database = Arc::new(RwLock::new(Some(database)));
        let mut store = HistoryStore { path, database, bounds, meta, names };
        let has_diverged = store.align(generation)?;
        Ok((store, has_diverged))
    })
}

/// What a file states about itself; a new one is of this mesh.
fn read_head(database: &Database, mesh: &MeshName) -> Result<(Meta, SeriesNames), redb::Error> {
    let transaction = database.begin_read()?;
    let meta = match transaction.open_table(META) {
        Err(TableError::TableDoesNotExist(_)) => Meta::new(mesh.clone()),
        table => {
            let corrupted = |why: String| redb::Error::Corrupted(why);
            let bytes = table?.get(meta::KEY)?;
            let bytes = bytes.ok_or_else(|| corrupted("its head is missing".to_owned()))?;
            Meta::of_bytes(bytes.value()).map_err(|damaged| corrupted(damaged.to_string()))?
        }
    };
    Ok((meta, SeriesNames::read(&transaction)?))
}

#[cfg(test)]
mod tests;
