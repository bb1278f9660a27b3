//! Limits of a server and their defaults.

use std::time::Duration;

/// The protocol of a port; there is no upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0 and 1.1.
    Http1,
    /// HTTP/2 in the clear, from the first byte on.
    Http2,
}

/// Limits of a server, for all clients together and for each.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Protocol of the port.
    pub protocol: Protocol,
    /// Connections that are open at once.
    pub connections_max: usize,
    /// Bytes of one request body; a larger body gets a plain 413. Routes with a limit and an answer
    /// of their own use `usize::MAX` here.
    pub body_bytes_max: usize,
    /// Bytes of responses that all clients together have not received yet.
    pub unsent_bytes_max: u64,
    /// Time for the head of a request, since the last answer or the start of the connection. Over
    /// HTTP/2 it applies to the first request; later it is the time between two pings, each of
    /// which must be answered within [`Self::stall_timeout`].
    pub head_timeout: Duration,
    /// Time in which a client receives nothing of its answer.
    pub stall_timeout: Duration,
    /// Time for one request, from its head to the start of its answer.
    pub request_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            protocol: Protocol::Http1,
            connections_max: crate::limits::CONNECTIONS_MAX,
            body_bytes_max: crate::limits::BODY_BYTES_MAX,
            unsent_bytes_max: crate::limits::UNSENT_BYTES_MAX,
            head_timeout: crate::limits::HEAD_TIMEOUT,
            stall_timeout: crate::limits::STALL_TIMEOUT,
            request_timeout: crate::limits::REQUEST_TIMEOUT,
        }
    }
}
