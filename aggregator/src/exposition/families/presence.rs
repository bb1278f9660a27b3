//! Whether each node is up, since when it was last seen, its clock and its own labels.
//!
//! DESIGN A37.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_schemas::summary::Presence;

use crate::exposition::external_labels::valid_labels;
use crate::exposition::labelled_view::LabelledView;
use crate::exposition::writer::{Family, Value, Writer};
use crate::limits::NODE_SILENT_AFTER;

pub(super) fn write(writer: &mut Writer, page: &LabelledView<'_>) {
    let help = "1 while the node is silent for longer than it takes to reconnect, and has not \
                left; also 0 while the broker is disconnected, when nodes are unobserved";
    let broker = &page.view.own.broker;
    let is_long = |silence: Duration| {
        let beyond = broker.silence(silence.as_secs_f64());
        beyond.is_some_and(|seconds| seconds >= NODE_SILENT_AFTER.as_secs_f64())
    };
    writer.family(Family::gauge("plimsoll_node_silent", help), |rows| {
        for ((labels, row), (_, node)) in page.node_rows().zip(page.nodes()) {
            let silence = page.view.at.since(node.node.last_seen);
            let is_silent = row.presence == Presence::Silent && is_long(silence);
            rows.add(&[labels], Value::flag(is_silent));
        }
    });

    let help = "Time at which the node was last seen";
    let name = "plimsoll_node_last_seen_timestamp_seconds";
    writer.family(Family::gauge(name, help), |rows| {
        for (labels, node) in page.nodes() {
            rows.add(&[labels], Value::nanos(node.node.last_seen.0));
        }
    });

    let help = "Offset of the node's clock from the broker's; negative when the node's is behind";
    writer.family(Family::gauge("plimsoll_node_clock_skew_seconds", help), |rows| {
        for (labels, node) in page.up_nodes() {
            if let Some(ahead) = node.node.clock_ahead_seconds() {
                rows.add(&[labels], Value::Float(ahead));
            }
        }
    });

    let help = "1 per node, with its software version and its own labels, for joins";
    writer.family(Family::gauge("plimsoll_node_info", help), |rows| {
        for (labels, node) in page.nodes() {
            let own = valid_labels(&node.node.labels.value);
            let mut own: BTreeMap<Cow<'_, str>, &str> = own.into_iter().collect();
            if let Some(of_job) = own.remove("version") {
                own.insert("label_version".into(), of_job);
            }
            let version = &*node.node.bus.value.version;
            let version = (!version.is_empty()).then_some(("version", version));
            let own = own.iter().map(|(key, value)| (&**key, *value));
            let own = rows.labels(own.chain(version));
            rows.add(&[labels, &own], Value::flag(true));
        }
    });

    let help = "Snapshots of an incarnation that continued after a later one had started: two \
                nodes with the same name";
    writer.family(Family::counter("plimsoll_node_duplicate_name_snapshots_total", help), |rows| {
        for (labels, node) in page.nodes() {
            rows.add(&[labels], Value::Count(node.node.account.conflicts()));
        }
    });
}
