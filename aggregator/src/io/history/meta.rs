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
    /// The latest batch.
    pub(super) batch: BatchId,
    /// How far each lane had been read when it was taken.
    pub(super) read: BTreeMap<Lane, Position>,
    /// When the history began.
    pub(super) begun: Wall,
    /// From when on each tier keeps everything; 0 while nothing was dropped.
    pub(super) kept_from: KeptFrom,
    /// Bytes of each tier's slots.
    pub(super) bytes: [u64; TIERS],
    /// When slots were last expired.
    pub(super) expired_at: Wall,
}

impl Meta {
    pub(super) fn new(mesh: MeshName) -> Self {
        Self {
            version: VERSION,
            mesh,
            batch: BatchId::default(),
            read: BTreeMap::new(),
            begun: Wall(0),
            kept_from: [Wall(0); TIERS],
            bytes: [0; TIERS],
            expired_at: Wall(0),
        }
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Result<Self, Damaged> {
        let meta: Self = unpack(bytes)?;
        match meta.version {
            VERSION => Ok(meta),
            other => Err(Damaged(format!("its version is {other}; this program reads {VERSION}"))),
        }
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
