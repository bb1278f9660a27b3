//! What a history file states about itself, in one record.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Wall;
use redb::{ReadableTable, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::record::{Damaged, pack, unpack};
use super::tables::{META, UNDO};
use crate::core::history::{BatchId, KeptFrom, Resolution};
use crate::core::ingest::Position;
use crate::limits::{HISTORY_CLOCK_LEAP_LASTS, HISTORY_CLOCK_LEAP_MIN};

/// Where the record is.
pub(super) const KEY: &str = "head";
/// Version of the file; another one is not read.
const VERSION: u16 = 1;
const TIERS: usize = Resolution::ALL.len();

/// The head of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Meta {
    version: u16,
    pub(super) mesh: MeshName,
    pub(super) batch: BatchId,
    /// How far each lane had been read when it was taken.
    pub(super) read: BTreeMap<Lane, Position>,
    /// The same before the latest batch.
    read_before: BTreeMap<Lane, Position>,
    pub(super) begun: Wall,
    /// From when on each tier keeps everything; 0 while nothing was dropped.
    pub(super) kept_from: KeptFrom,
    /// Bytes of each tier's slots.
    pub(super) bytes: [u64; TIERS],
    /// When slots were last expired.
    pub(super) expired_at: Wall,
    /// When series without slots were last removed.
    pub(super) series_expired_at: Wall,
    /// Nothing expires before this: the clock has leapt.
    pub(super) expires_from: Wall,
    /// When the latest batch was taken.
    at: Wall,
    /// The same, before a leap until the clock has stayed there. Ages count from it.
    pub(super) trusted_at: Wall,
    /// The highest number given to a series.
    pub(super) next_series: u32,
}

impl Meta {
    pub(super) fn new(mesh: MeshName) -> Self {
        Self {
            version: VERSION,
            mesh,
            batch: BatchId::default(),
            read: BTreeMap::new(),
            read_before: BTreeMap::new(),
            begun: Wall(0),
            kept_from: [Wall(0); TIERS],
            bytes: [0; TIERS],
            expired_at: Wall(0),
            series_expired_at: Wall(0),
            expires_from: Wall(0),
            at: Wall(0),
            trusted_at: Wall(0),
            next_series: 0,
        }
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Result<Self, Damaged> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u16,
        }
        // First, since another version may have other fields.
        match unpack::<Versioned>(bytes)?.version {
            VERSION => unpack(bytes),
            other => Err(Damaged(format!("its version is {other}; this program reads {VERSION}"))),
        }
    }

    /// True before the first batch.
    pub(super) fn is_new(&self) -> bool {
        self.begun == Wall(0)
    }

    /// Lanes have been read so far. An aggregator that has lost its state reads again what the
    /// history holds: until it is past that, the positions of before stand.
    pub(super) fn on_read(&mut self, positions: &BTreeMap<Lane, Position>) {
        self.read_before = self.read.clone();
        for (lane, position) in positions {
            let read = self.read.entry(*lane).or_default();
            if read.stream_id != position.stream_id || position.read > read.read {
                read.clone_from(position);
            }
        }
    }

    /// A batch was taken at `now`. A clock that leaps ahead is not trusted until it stays; one that
    /// is set back ends that, and what counted as dropped by it counts again.
    pub(super) fn on_clock(&mut self, now: Wall) {
        let before = std::mem::replace(&mut self.at, now);
        if now < before {
            self.kept_from = self.kept_from.map(|kept| kept.min(now));
            (self.expired_at, self.expires_from) = (Wall(0), Wall(0));
            self.series_expired_at = self.series_expired_at.min(now);
        } else if now.since(before) > HISTORY_CLOCK_LEAP_MIN && before > Wall(0) {
            self.expires_from = now.plus(HISTORY_CLOCK_LEAP_LASTS);
        }
        if now >= self.expires_from {
            self.trusted_at = now;
        }
    }

    /// The latest batch is undone.
    pub(super) fn undo_read(&mut self) {
        self.read = self.read_before.clone();
    }

    pub(super) fn read(transaction: &WriteTransaction) -> Result<Option<Self>, redb::Error> {
        let table = transaction.open_table(META)?;
        let bytes = table.get(KEY)?;
        Ok(bytes.and_then(|bytes| Self::of_bytes(bytes.value()).ok()))
    }

    pub(super) fn write(&self, transaction: &WriteTransaction) -> Result<(), redb::Error> {
        transaction.open_table(META)?.insert(KEY, pack(self).as_slice())?;
        Ok(())
    }

    /// What the batch before has replaced is needed no longer.
    pub(super) fn forget_undo(&self, transaction: &WriteTransaction) -> Result<(), redb::Error> {
        transaction.delete_table(UNDO)?;
        Ok(())
    }
}
