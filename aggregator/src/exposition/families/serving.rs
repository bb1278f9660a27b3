//! What the HTTP pages cost: read views, which the driver makes, and rendering, which other
//! threads do; then responses and connections.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_runtime::http::ServerStats;

use crate::exposition::writer::{Family, Value, Writer};

/// What serving has cost since the start.
#[derive(Clone, Debug, Default)]
pub struct ServingStats {
    pub views: ReadViewStats,
    /// Connections and refused requests of HTTP clients.
    pub connections: ServerStats,
    /// By page and format.
    pub pages: BTreeMap<(&'static str, &'static str), PageStats>,
    /// Streams of pages that stay open.
    pub streams: StreamStats,
    /// Responses by page, format and encoding.
    pub responses: BTreeMap<(&'static str, &'static str, &'static str), u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStats {
    pub open: usize,
    pub refused: RefusedStreams,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusedStreams {
    /// Because all were open.
    pub full: u64,
    /// Because the client's address had its share.
    pub share: u64,
}

/// What read views have cost the driver's task.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadViewStats {
    /// Number of read views.
    pub count: u64,
    /// Time that all of them took.
    pub total: Duration,
    pub longest: Duration,
}

/// What one page has cost in one format.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageStats {
    pub rendered: u64,
    /// Time that took, on threads of its own.
    pub total: Duration,
    /// Bytes of the latest one.
    pub bytes: u64,
}

pub(super) fn write(writer: &mut Writer, serving: &ServingStats) {
    write_views(writer, serving.views);
    write_pages(writer, serving);
    write_connections(writer, &serving.connections);
    write_streams(writer, serving.streams);
}

fn write_views(writer: &mut Writer, views: ReadViewStats) {
    let help = "Read views of the whole state made for pages";
    writer.counter("plimsoll_aggregator_views_total", help, views.count);
    let help = "Time that making read views blocked merging";
    writer.counter("plimsoll_aggregator_view_seconds_total", help, views.total);
    let help = "Duration of the longest read view";
    writer.gauge("plimsoll_aggregator_view_max_seconds", help, views.longest);
}

fn write_pages(writer: &mut Writer, serving: &ServingStats) {
    let mut pages = |family: Family<'_>, of: fn(&PageStats) -> Value| {
        writer.family(family, |rows| {
            for ((page, format), stats) in &serving.pages {
                let labels = rows.labels([("page", *page), ("format", *format)]);
                rows.add(&[&labels], of(stats));
            }
        });
    };

    let help = "Pages rendered, by page and format";
    pages(Family::counter("plimsoll_aggregator_pages_total", help), |of| of.rendered.into());
    let help = "Duration of rendering pages, by page and format";
    pages(Family::counter("plimsoll_aggregator_page_seconds_total", help), |of| of.total.into());
    let help = "Bytes of the latest page before compression, by page and format";
    pages(Family::gauge("plimsoll_aggregator_page_bytes", help), |of| of.bytes.into());
    let help = "Responses with a page; several can share one rendered page";

    writer.family(Family::counter("plimsoll_aggregator_responses_total", help), |rows| {
        for ((page, format, encoding), n) in &serving.responses {
            let labels = [("page", *page), ("format", *format), ("encoding", *encoding)];
            rows.add(&[&rows.labels(labels)], Value::Count(*n));
        }
    });
}

fn write_connections(writer: &mut Writer, server: &ServerStats) {
    let help = "Open HTTP connections, by stage";
    let open = server.open.map(|(stage, n)| (stage.as_str(), n as u64));
    writer.by_label(Family::gauge("plimsoll_aggregator_connections", help), "stage", open);
    let help = "Closed HTTP connections, by reason";
    let closed = server.closed().map(|(reason, n)| (reason.as_str(), n));
    let family = Family::counter("plimsoll_aggregator_connections_closed_total", help);
    writer.by_label(family, "reason", closed);
    let help = "Unsent bytes of HTTP responses";
    writer.gauge("plimsoll_aggregator_unsent_response_bytes", help, server.unsent_bytes);

    let help = "HTTP requests refused before their route, by reason";
    let refused = server.refused().map(|(reason, n)| (reason.as_str(), n));
    let family = Family::counter("plimsoll_aggregator_requests_refused_total", help);
    writer.by_label(family, "reason", refused);
    let help = "Protection that HTTP beyond this machine lacks, 1 if it does";
    let family = Family::gauge("plimsoll_aggregator_http_exposed", help);
    writer.by_label(family, "lacks", server.exposure.rows());
}

fn write_streams(writer: &mut Writer, streams: StreamStats) {
    let help = "Open event streams of the page";
    writer.gauge("plimsoll_aggregator_streams", help, streams.open as u64);
    let help = "Event streams refused because too many were open, of all clients or of one address";
    let RefusedStreams { full, share } = streams.refused;
    let family = Family::counter("plimsoll_aggregator_streams_refused_total", help);
    writer.by_label(family, "reason", [("full", full), ("share", share)]);
}
