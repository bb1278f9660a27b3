//! A node's response: the state of the order, facts about the capture, and a chunk of its bytes.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::id::CaptureId;
use super::reason::CaptureState;
use crate::limits::wire::{
    CAPTURE_CHUNK_BYTES_MAX, CAPTURE_PROFILE_BYTES_MAX, CAPTURE_RESPONSE_BYTES_MAX, COUNT_MAX,
    INTERVAL_NS_MAX,
};
use crate::remote_text::one_line;
use crate::wire::error::{SCHEMA, WireError};
use crate::wire::history::{named, read};

/// A node's response to a request of either step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureResponse {
    /// As in the request.
    pub number: u64,
    /// As in the request.
    pub id: CaptureId,
    /// What became of the order.
    pub state: CaptureState,
    /// How the capture went, as far as it did.
    pub facts: CaptureFacts,
    /// Bytes of the whole profile, 0 while there is none.
    pub bytes: u64,
    /// The requested part of them; empty in a response to an order.
    pub chunk: Vec<u8>,
}

/// How the capture went. Texts are one line each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CaptureFacts {
    /// How the stacks were read: `profiler` from outside, `client` by the client inside.
    pub rung: String,
    /// 0 while no process is found.
    pub pid: u32,
    /// The name of the program.
    pub command: String,
    /// The version of Python.
    pub python: String,
    /// Stacks in the profile.
    pub samples: u64,
    /// Stacks that changed while they were read.
    pub torn: u64,
    /// Samples that were not taken in time, or had no room.
    pub lost: u64,
    /// From the first sample to the last, in nanoseconds.
    pub duration_ns: u64,
    /// What to change for a profile, or for a better one.
    pub fix: String,
}

#[derive(Serialize, Deserialize)]
struct ResponseMap<'a> {
    schema: u16,
    number: u64,
    id: CaptureId,
    #[serde(borrow)]
    state: Cow<'a, str>,
    #[serde(default, borrow)]
    reason: Cow<'a, str>,
    #[serde(default)]
    facts: CaptureFacts,
    #[serde(default)]
    bytes: u64,
    #[serde(default)]
    chunk: ByteBuf,
}

impl CaptureResponse {
    /// A response without facts and bytes.
    #[must_use]
    pub fn new(number: u64, id: CaptureId, state: CaptureState) -> Self {
        let facts = CaptureFacts::default();
        Self { number, id, state, facts, bytes: 0, chunk: Vec::new() }
    }

    /// The bytes of the response.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (state, reason) = self.state.labels();
        named(&ResponseMap {
            schema: SCHEMA,
            number: self.number,
            id: self.id,
            state: state.into(),
            reason: reason.into(),
            facts: self.facts.clone(),
            bytes: self.bytes,
            chunk: ByteBuf::from(self.chunk.clone()),
        })
    }

    /// Reads a response. Its number and id are for the caller to compare with the request's.
    ///
    /// # Errors
    /// On anything that is not exactly one well-formed response.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let map: ResponseMap<'_> =
            read(bytes, CAPTURE_RESPONSE_BYTES_MAX, |map: &ResponseMap<'_>| map.schema)?;
        let ResponseMap { number, id, state, reason, mut facts, bytes, chunk, .. } = map;
        let state = CaptureState::from_labels(&state, &reason);
        let state = state.ok_or(WireError::Bounds { field: "state" })?;
        let chunk = chunk.into_vec();

        let size_max = if state.has_profile() { CAPTURE_PROFILE_BYTES_MAX as u64 } else { 0 };
        let chunk_max = bytes.min(CAPTURE_CHUNK_BYTES_MAX as u64);
        let counts = [facts.samples, facts.torn, facts.lost];
        for (is_within, field) in [
            (bytes <= size_max, "bytes"),
            (chunk.len() as u64 <= chunk_max, "chunk"),
            (counts.iter().all(|count| *count <= COUNT_MAX), "facts"),
            (facts.duration_ns <= INTERVAL_NS_MAX, "facts"),
        ] {
            if !is_within {
                return Err(WireError::Bounds { field });
            }
        }

        let CaptureFacts { rung, command, python, fix, .. } = &mut facts;
        for text in [rung, command, python, fix] {
            *text = one_line(text);
        }
        Ok(Self { number, id, state, facts, bytes, chunk })
    }
}
