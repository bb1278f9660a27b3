//! Requests of nodes' own histories.
//!
//! DESIGN A88.

use crate::core::view::{AskCounts, View};
use crate::exposition::writer::{Family, Writer};

pub(super) fn write(writer: &mut Writer, view: &View) {
    let AskCounts { answered, refused, invalid, missing, unexpected } = view.own.asks;
    let rows = [
        ("answered", answered),
        ("refused", refused),
        ("invalid", invalid),
        ("missing", missing),
        ("unexpected", unexpected),
    ];
    let help = "Requests of nodes' own histories, and responses to none of them, by result";
    let family = Family::counter("plimsoll_aggregator_history_requests_total", help);
    writer.by_label(family, "result", rows);
}
