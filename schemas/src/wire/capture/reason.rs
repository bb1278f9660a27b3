//! What became of an order, and why; labels of metrics and texts of the wire.

use serde::{Deserialize, Serialize};

use crate::labelled;

/// What became of an order. A node counts each order under exactly one of them, but for `Unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureState {
    /// Its instant is to come, or its process is searched for.
    Waiting,
    /// Samples are taken.
    Running,
    /// The profile is kept, whole.
    Kept,
    /// A profile is kept of a part of the time: the process ended, or it could no longer be read.
    Torn,
    /// There is no profile, although it was permitted.
    Failed(CaptureFailure),
    /// It was not permitted, or its process not found.
    Refused(CaptureRefusal),
    /// It arrived, or would have started, after its last instant.
    Expired,
    /// The node has no such order: it restarted, or no longer keeps it.
    Unknown,
}

labelled! {
    /// Why a capture that was permitted has no profile.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum CaptureFailure {
        /// The profiler's socket is not there, or accepts no connection.
        NoProfiler = "no_profiler",
        /// The profiler does not serve this node's user.
        ProfilerRefused = "profiler_refused",
        /// It has another order.
        ProfilerBusy = "profiler_busy",
        /// It closed the connection before the end.
        ProfilerEnded = "profiler_ended",
        /// It did not respond in time.
        ProfilerTimeout = "profiler_timeout",
        /// Its response could not be read.
        ProfilerResponse = "profiler_response",
        /// The process ended before its first sample.
        ProcessEnded = "process_ended",
        /// The process is not CPython of a supported version.
        NotSupported = "not_supported",
        /// The profiler may not read the process.
        Denied = "denied",
        /// The memory of the process could not be read, for another reason.
        Unreadable = "unreadable",
        /// The profile is larger than a node keeps.
        TooLarge = "too_large",
        /// The node is leaving.
        Cancelled = "cancelled",
        /// A reason of a later version.
        #[serde(other)]
        Other = "other",
    }
}

labelled! {
    /// Why a node does not start a capture.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum CaptureRefusal {
        /// It has no key of confirmations: it could not verify who orders.
        NoKey = "no_key",
        /// It has no credentials for the broker: any client could order.
        NoCredentials = "no_credentials",
        /// The request has no signature.
        Unsigned = "unsigned",
        /// The signature is that of another key, mesh or text.
        Signature = "signature",
        /// The request names another node.
        OtherNode = "other_node",
        /// The instant is too far ahead: the clocks differ.
        Early = "early",
        /// The id is that of an order with other content.
        Replayed = "replayed",
        /// Another order waits or runs.
        Busy = "busy",
        /// The last capture for the same rule was a short time ago.
        TooSoon = "too_soon",
        /// There were enough captures within the hour.
        TooMany = "too_many",
        /// As many orders as a node keeps are known already.
        Full = "full",
        /// No process sends the operation with these labels over a Unix socket, or has the number.
        ProcessNotFound = "process_not_found",
        /// Several processes do.
        ProcessAmbiguous = "process_ambiguous",
        /// The owner of the process is not among the users whose processes may be read.
        ProcessNotPermitted = "process_not_permitted",
        /// A reason of a later version.
        #[serde(other)]
        Other = "other",
    }
}

impl CaptureState {
    /// Its label and that of its reason, which is empty when there is none.
    #[must_use]
    pub const fn labels(self) -> (&'static str, &'static str) {
        match self {
            Self::Waiting => ("waiting", ""),
            Self::Running => ("running", ""),
            Self::Kept => ("kept", ""),
            Self::Torn => ("torn", ""),
            Self::Failed(failure) => ("failed", failure.as_str()),
            Self::Refused(refusal) => ("refused", refusal.as_str()),
            Self::Expired => ("expired", ""),
            Self::Unknown => ("unknown", ""),
        }
    }

    /// Whether a profile is kept.
    #[must_use]
    pub const fn has_profile(self) -> bool {
        matches!(self, Self::Kept | Self::Torn)
    }

    /// Whether it changes no more.
    #[must_use]
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}
