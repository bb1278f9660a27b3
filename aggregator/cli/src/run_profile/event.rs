//! An event of a Chrome trace, as far as it is read.

use serde::Deserialize;
use serde_json::value::RawValue;

/// What is read of an event, as it is written: programs name threads by numbers or by texts.
#[derive(Debug, Deserialize)]
pub(super) struct Event {
    #[serde(rename = "ph")]
    pub(super) phase: Raw,
    pub(super) name: Raw,
    #[serde(rename = "cat")]
    pub(super) category: Raw,
    #[serde(rename = "ts")]
    pub(super) start: Raw,
    #[serde(rename = "dur")]
    pub(super) duration: Raw,
    #[serde(rename = "pid")]
    pub(super) process: Raw,
    #[serde(rename = "tid")]
    pub(super) thread: Raw,
}

/// A value that may be missing.
pub(super) type Raw = Option<Box<RawValue>>;
