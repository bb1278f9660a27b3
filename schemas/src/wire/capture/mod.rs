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
mod kind;
mod profiler;
mod reason;
mod request;
mod response;
#[cfg(test)]
mod tests;
mod versioned;

pub use id::{CaptureId, CaptureIdError};
pub use kind::{CaptureKind, PastRange};
pub use profiler::{ProfilerOrder, ProfilerResponse};
pub use reason::{CaptureFailure, CaptureRefusal, CaptureState};
pub use request::{CaptureOrder, CaptureRequest, CaptureStep, ProcessSelector};
pub use response::{CaptureFacts, CaptureResponse};
