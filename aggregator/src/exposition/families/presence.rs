//! Whether each node is up, since when it was last seen, its clock and its own labels.
//!
//! DESIGN A37.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_schemas::summary::Presence;

use crate::core::fleet::Node;
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

    let nodes = page.nodes().zip(&page.view.summary.nodes);
    let nodes = nodes.map(|((labels, node), row)| (labels, (node, row)));

    writer.each(Family::gauge("plimsoll_node_silent", help), nodes, |(node, row)| {
        let silence = page.view.at.since(node.last_seen);
        Some(row.presence == Presence::Silent && is_long(silence))
    });

    let help = "Time at which the node was last seen";
    let family = Family::gauge("plimsoll_node_last_seen_timestamp_seconds", help);
    writer.each(family, page.nodes(), |node| Some(Value::nanos(node.last_seen.0)));

    let help = "Offset of the node's clock from the broker's; negative when the node's is behind";
    let family = Family::gauge("plimsoll_node_clock_skew_seconds", help);
    writer.each(family, page.up_nodes(), Node::clock_ahead_seconds);

    let help = "1 per node, with its software version and its own labels, for joins";
    writer.family(Family::gauge("plimsoll_node_info", help), |rows| {
        for (labels, node) in page.nodes() {
            let own = valid_labels(&node.labels.value);
            let mut own: BTreeMap<Cow<'_, str>, &str> = own.into_iter().collect();
            if let Some(of_job) = own.remove("version") {
                own.insert("label_version".into(), of_job);
            }
            let version = &*node.bus.value.version;
            let version = (!version.is_empty()).then_some(("version", version));
            let own = own.iter().map(|(key, value)| (&**key, *value));
            let own = rows.labels(own.chain(version));
            rows.add(&[labels, &own], true.into());
        }
    });

    let help = "Snapshots of an incarnation that continued after a later one had started: two \
                nodes with the same name";
    let family = Family::counter("plimsoll_node_duplicate_name_snapshots_total", help);
    writer.each(family, page.nodes(), |node| Some(node.account.conflicts()));
}
