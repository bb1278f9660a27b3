//! Metrics of the OTLP servers: requests, bytes, connections.

use plimsoll_runtime::page::Page;

use crate::io::otlp::stats::OtlpStats;

pub(super) fn add(page: &Page, stats: &OtlpStats) {
    let requests = &stats.requests;
    page.about("OTLP requests, per outcome").counters(
        "plimsoll_agent_otlp_requests_total",
        ["protocol", "signal", "outcome"],
        requests
            .endings
            .iter()
            .map(|((from, ending), n)| ([from.protocol, from.signal, ending.as_str()], n)),
    );

    let bytes = requests.volumes.iter().flat_map(|(from, volume)| {
        let row = |form, bytes| ([from.protocol, from.signal, form], bytes);
        [row("sent", volume.sent), row("inflated", volume.inflated)]
    });

    page.about("Bytes of complete OTLP bodies, as sent and inflated").counters(
        "plimsoll_agent_otlp_body_bytes_total",
        ["protocol", "signal", "form"],
        bytes,
    );

    page.about("Memory held by OTLP bodies that are not recorded yet")
        .gauge("plimsoll_agent_otlp_buffered_bytes", requests.buffered_bytes);

    let ports = stats.connections.iter();
    let open =
        ports.clone().flat_map(|(port, of)| of.open.map(|(stage, n)| ([*port, stage.as_str()], n)));

    page.about("Open connections to the OTLP ports, per stage").gauges(
        "plimsoll_agent_otlp_connections",
        ["protocol", "stage"],
        open,
    );

    let closed =
        ports.flat_map(|(port, of)| of.closed().map(|(reason, n)| ([*port, reason.as_str()], n)));

    page.about("Closed connections to the OTLP ports, per reason").counters(
        "plimsoll_agent_otlp_connections_closed_total",
        ["protocol", "reason"],
        closed,
    );
}
