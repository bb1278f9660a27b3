//! The bytes of one slot: four of CRC-32, and MessagePack. The checksum is the slot's own, since no
//! query reads the whole file.

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

const FRAME_BYTES: usize = 4;

/// Bytes that are not what was written.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("a record of the history is damaged: {0}")]
pub(super) struct Damaged(pub(super) String);

pub(super) fn pack<T: Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = vec![0; FRAME_BYTES];
    rmp_serde::encode::write_named(&mut bytes, value)
        .expect("the history holds only maps, numbers and text, which MessagePack can express");
    let checksum = crc32fast::hash(&bytes[FRAME_BYTES..]);
    bytes[..FRAME_BYTES].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

pub(super) fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Damaged> {
    let Some((checksum, body)) = bytes.split_first_chunk::<FRAME_BYTES>() else {
        return Err(Damaged("too short".to_owned()));
    };
    if crc32fast::hash(body).to_be_bytes() != *checksum {
        return Err(Damaged("its checksum does not fit".to_owned()));
    }
    rmp_serde::from_slice(body).map_err(|error| Damaged(error.to_string()))
}

#[derive(Debug, Error)]
pub enum ReadError {
    #[error("the history cannot be read: {0}")]
    Failed(#[from] redb::Error),
    #[error("the history could not be written and is closed until the next checkpoint")]
    Closed,
    #[error("{0}")]
    Damaged(String),
}

impl From<Damaged> for ReadError {
    fn from(damaged: Damaged) -> Self {
        Self::Damaged(damaged.to_string())
    }
}
