//! What an aggregator orders of a node: a profile of one process, and then its bytes. One
//! MessagePack map with named fields each.
//!
//! An order that is sent again asks for its state, so a lost message costs nothing. The bytes are
//! handed out in chunks by number, as long as the node keeps them. Each request is signed and names
//! its node: a request to one node is none to another. The node responds where it responds to
//! requests of its history.
//!
//! DESIGN S90.

mod id;
mod profiler;
mod reason;
mod request;
mod response;
#[cfg(test)]
mod tests;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteArray;

use crate::limits::wire::SIGNATURE_BYTES;
use crate::wire::error::{SCHEMA, WireError};
use crate::wire::history::{named, read};

pub use id::{CaptureId, CaptureIdError};
pub use profiler::{ProfilerOrder, ProfilerResponse};
pub use reason::{CaptureFailure, CaptureRefusal, CaptureState};
pub use request::{CaptureOrder, CaptureRequest, CaptureStep, ProcessSelector};
pub use response::{CaptureFacts, CaptureResponse};

/// A request or a response with the version of its format.
#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    schema: u16,
    #[serde(flatten)]
    message: T,
    /// The last field, see [`crate::wire::signature`]; the bytes that stand here are put in
    /// afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none", skip_deserializing)]
    signature: Option<ByteArray<SIGNATURE_BYTES>>,
}

fn encode<T: Serialize>(message: &T, signature: Option<ByteArray<SIGNATURE_BYTES>>) -> Vec<u8> {
    named(&Versioned { schema: SCHEMA, message, signature })
}

fn decode<T: DeserializeOwned>(bytes: &[u8], max: usize) -> Result<T, WireError> {
    read(bytes, max, |versioned: &Versioned<T>| versioned.schema).map(|read| read.message)
}
