//! A node's response: the state of the order, facts about the capture, and a chunk of its bytes.

use serde::{Deserialize, Serialize};

use super::id::CaptureId;
use super::kind::CaptureKind;
use super::reason::CaptureState;
use super::versioned::{decode, encode};
use crate::limits::wire::{
    CAPTURE_CHUNK_BYTES_MAX, CAPTURE_PROFILE_BYTES_MAX, CAPTURE_RESPONSE_BYTES_MAX, COUNT_MAX,
};
use crate::remote_text::one_line;
use crate::wire::error::WireError;

/// A node's response to a request of either step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureResponse {
    /// As in the request.
    pub number: u64,
    /// As in the request.
    pub id: CaptureId,
    /// What became of the order.
    pub state: CaptureState,
    /// How the capture went, as far as it did.
    #[serde(default)]
    pub facts: CaptureFacts,
    /// Bytes of the whole profile, 0 while there is none.
    #[serde(default)]
    pub bytes: u64,
    /// The requested part of them; empty in a response to an order.
    #[serde(default, with = "serde_bytes")]
    pub chunk: Vec<u8>,
}

/// How a capture went, as the node reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CaptureFacts {
    /// What was measured. A program of an earlier version measures stacks, whatever is ordered.
    #[serde(skip_serializing_if = "CaptureKind::is_cpu")]
    pub kind: CaptureKind,
    /// Whether its stacks have native frames too; likewise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub native: bool,
    /// How stacks were read: `profiler` from outside, `client` by the client inside.
    pub rung: String,
    /// The process; before it is found the one that was ordered, or 0.
    pub pid: u32,
    /// The name of its program.
    pub command: String,
    /// The version of Python.
    pub python: String,
    /// Stacks in the profile.
    pub samples: u64,
    /// Stacks that changed while they were read.
    pub torn: u64,
    /// Samples that were not taken in time, or had no room.
    pub lost: u64,
    /// What to change for a profile, or for a better one.
    #[serde(rename = "advice")]
    pub fix: String,
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
        encode(self, None)
    }

    /// Reads a response. Its number and id are for the caller to compare with the request's.
    ///
    /// # Errors
    /// On anything that is not exactly one well-formed response.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut response: Self = decode(bytes, CAPTURE_RESPONSE_BYTES_MAX)?;
        let Self { state, facts, bytes, chunk, .. } = &mut response;

        let size_max = if state.has_profile() { CAPTURE_PROFILE_BYTES_MAX as u64 } else { 0 };
        let chunk_max = (*bytes).min(CAPTURE_CHUNK_BYTES_MAX as u64);
        let counts = [facts.samples, facts.torn, facts.lost];
        for (is_within, field) in [
            (*bytes <= size_max, "bytes"),
            (chunk.len() as u64 <= chunk_max, "chunk"),
            (counts.iter().all(|count| *count <= COUNT_MAX), "facts"),
        ] {
            if !is_within {
                return Err(WireError::Bounds { field });
            }
        }

        let CaptureFacts { rung, command, python, fix, .. } = facts;
        for text in [rung, command, python, fix] {
            *text = one_line(text);
        }
        Ok(response)
    }
}
