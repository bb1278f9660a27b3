//! Metrics of the OTLP servers: requests, bytes, connections.

use plimsoll_runtime::http;
use plimsoll_runtime::page::{Family, Page};

use crate::io::otlp::stats::OtlpStats;

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
pub(super) fn add(page: &Page, stats: &OtlpStats) {
    let requests = &stats.requests;
    let rows: Vec<_> = requests
        .endings
        .iter()
        .map(|((from, ending), n)| ([from.protocol, from.signal, ending.as_str()], *n as f64))
        .collect();
    let help = "OTLP requests, per outcome";
    let labels = &["protocol", "signal", "outcome"];
    let family = Family { name: "plimsoll_agent_otlp_requests_total", help, labels };
    page.counters(family, rows.iter().map(|(values, n)| (&values[..], *n)));
    let rows: Vec<_> = requests
        .volumes
        .iter()
        .flat_map(|(from, volume)| {
            let row = |form, bytes| ([from.protocol, from.signal, form], bytes as f64);
            [row("sent", volume.sent), row("inflated", volume.inflated)]
        })
        .collect();
    let help = "Bytes of complete OTLP bodies, as sent and inflated";
    let labels = &["protocol", "signal", "form"];
    let family = Family { name: "plimsoll_agent_otlp_body_bytes_total", help, labels };
    page.counters(family, rows.iter().map(|(values, n)| (&values[..], *n)));
    let help = "Memory held by OTLP bodies that are not recorded yet";
    page.gauge("plimsoll_agent_otlp_buffered_bytes", help, requests.buffered_bytes as f64);
    add_connections(page, &stats.connections);
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn add_connections(page: &Page, ports: &[(&'static str, http::ServerStats)]) {
    let rows: Vec<_> = ports
        .iter()
        .flat_map(|(port, figures)| {
            figures.open.map(|(stage, n)| ([*port, stage.as_str()], n as f64))
        })
        .collect();
    let (name, help) =
        ("plimsoll_agent_otlp_connections", "Open connections to the OTLP ports, per stage");
    let family = Family { name, help, labels: &["protocol", "stage"] };
    page.gauges(family, rows.iter().map(|(values, n)| (&values[..], *n)));
    let rows: Vec<_> = ports
        .iter()
        .flat_map(|(port, figures)| {
            figures.closed().map(|(reason, n)| ([*port, reason.as_str()], n as f64))
        })
        .collect();
    let name = "plimsoll_agent_otlp_connections_closed_total";
    let help = "Closed connections to the OTLP ports, per reason";
    let family = Family { name, help, labels: &["protocol", "reason"] };
    page.counters(family, rows.iter().map(|(values, n)| (&values[..], *n)));
}
