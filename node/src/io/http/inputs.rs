//! Metrics of the sockets of inputs. What the core counts of their bytes is in `ingest.rs`.

use plimsoll_runtime::page::Page;

use super::otlp;
use crate::io::otlp::stats::OtlpStats;

/// What the sockets of inputs count. One that is off counts 0.
#[derive(Debug)]
pub struct InputStats {
    /// Datagrams that the kernel dropped, per socket.
    pub dropped: [(&'static str, u64); 2],
    /// Connections to the stream socket.
    pub clients: usize,
    /// OTLP requests and connections, when a port is open.
    pub otlp: Option<OtlpStats>,
}

pub(super) fn add(page: &Page, inputs: &InputStats) {
    page.about("Datagrams that the kernel dropped because the receive buffer of a socket was full")
        .by("socket")
        .counters("plimsoll_agent_kernel_dropped_datagrams_total", inputs.dropped);
    page.about("Connections to the stream socket")
        .gauge("plimsoll_agent_client_connections", inputs.clients);
    if let Some(otlp) = &inputs.otlp {
        otlp::add(page, otlp);
    }
}
