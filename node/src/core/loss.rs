//! Reasons for which samples are lost, as the ledger and the metrics name them.

/// The outbox was full.
pub(crate) const OUTBOX_FULL: &str = "outbox_full";
/// The broker rejected their message.
pub(crate) const REFUSED: &str = "refused";
/// Their message is longer than the broker's `max_payload`, and cannot be divided.
pub(crate) const MAX_PAYLOAD: &str = "max_payload";
/// They waited in a draft that expired.
pub(crate) const EXPIRED: &str = "expired";
/// A client sent them, and their datagram did not arrive.
pub(crate) const SOCKET: &str = "socket";
/// A client's distribution did not fit into its series, or into the incarnation.
pub(crate) const SAMPLES_CAP: &str = "samples_cap";
/// Their interval was still open when the process ended.
pub const CRASH: &str = "crash";

/// Reasons of samples that no message ever carried.
pub(crate) const NEVER_SENT: [&str; 4] = [OUTBOX_FULL, EXPIRED, SOCKET, SAMPLES_CAP];
