//! `--redact`: every name in a document becomes a pseudonym, before any form of it is written.
//! Structs are taken apart whole, so that a new field does not compile until it is decided here.
//!
//! DESIGN A192.

use std::collections::BTreeMap;

use plimsoll_schemas::alert::{Evidence, Scope};
use plimsoll_schemas::ids::{Labels, NodeName};
use plimsoll_schemas::summary::EventRow;
use serde_json::Value;

use super::document::{
    AlertResult, ChangeResult, Document, DrillResult, Expectation, LedgerResult, Machines,
    RankedNode, RankedOperation, Subject, TimeRanking,
};
use super::material::Material;
use super::pseudonyms::{NameKind, Pseudonyms};

/// Replaces names in a document that was composed of this material.
pub(super) fn redact(document: &mut Document, material: &Material) {
    let mut names = known(material);
    let Document {
        mesh,
        subject,
        notes,
        where_the_time_goes,
        hardware,
        alerts,
        alert_changes,
        events,
        ledger,
        drills,
        // Operations, budgets and figures stay.
        format: _,
        version: _,
        time_zone: _,
        asked_at_seconds: _,
        plimsoll_version: _,
        range: _,
        budgets: _,
        operations: _,
        epoch_operation: _,
        epoch_time_ms: _,
        epoch_time_ms_avg: _,
        samples: _,
        samples_left_out: _,
    } = document;

    *mesh = names.name(mesh, NameKind::Mesh);
    if let Subject::Run(run) = subject {
        *run = names.name(run, NameKind::Run);
    }
    texts(notes, &mut names);
    ranking(where_the_time_goes, &mut names);
    let Machines { source: _, nodes } = hardware;
    *nodes = std::mem::take(nodes)
        .into_iter()
        .map(|(node, of)| (names.name(&node, NameKind::Node), machine(of, &mut names)))
        .collect();

    for AlertResult { scope: of, summary, evidence: found, .. } in alerts {
        *of = scope(of, &mut names);
        *summary = names.text(summary);
        found.iter_mut().for_each(|found| evidence(found, &mut names));
    }
    for ChangeResult { scope: of, summary, evidence: found, .. } in alert_changes {
        *of = scope(of, &mut names);
        *summary = names.text(summary);
        evidence(found, &mut names);
    }

    events.iter_mut().for_each(|of| event(of, &mut names));
    let LedgerResult { nodes, .. } = ledger;
    nodes.iter_mut().for_each(|row| row.node = names.name(&row.node, NameKind::Node));
    drills.iter_mut().for_each(|of| drill(of, &mut names));
}

/// Every name that a text may have, also of nodes for which the document has no row.
fn known(material: &Material) -> Pseudonyms {
    let mut names = Pseudonyms::default();
    names.know(&material.summary.mesh, NameKind::Mesh);
    if let Subject::Run(run) = &material.subject {
        names.know(run, NameKind::Run);
    }

    let scope = |scope: &Scope| scope.node().to_owned();
    let alerts = || material.alerts.alerts.iter();
    let worst = alerts().flat_map(|row| row.context.iter()).flat_map(|of| &of.worst);
    let nodes = (material.summary.nodes.iter().map(|row| row.node.clone()))
        .chain(material.summary.budgets.iter().map(|row| scope(&row.scope)))
        .chain(material.summary.changes.iter().map(|row| scope(&row.key.scope)))
        .chain(material.ledger.nodes.iter().map(|row| row.node.clone()))
        .chain(material.nodes.iter().map(|row| row.node.clone()))
        .chain(material.nodes_silent.keys().cloned())
        .chain(material.hardware.iter().flat_map(|page| page.names().map(str::to_owned)))
        .chain(alerts().map(|row| scope(&row.key.scope)))
        .chain(worst.map(|of| of.node.to_string()))
        .chain(material.events.events.iter().flat_map(|of| [of.node.clone(), of.host.clone()]));
    nodes.for_each(|node| names.know(&node, NameKind::Node));

    let is_operation = |value: &str| {
        material.operations.iter().any(|of| of.whole.operation == value)
            || material.summary.operations.iter().any(|of| of.operation == value)
    };
    let mut label = |key: &str, value: &str| {
        // Names of operations stay, whatever else has them.
        if !is_operation(value) {
            names.know(value, NameKind::of_label(key, value));
        }
    };
    let labels = |of: &Labels, label: &mut dyn FnMut(&str, &str)| {
        of.iter().for_each(|(key, value)| label(key, value));
    };

    for row in &material.summary.rollups {
        row.labels.iter().for_each(|(key, value)| label(key, value));
    }
    material.events.events.iter().for_each(|of| labels(&of.labels, &mut label));
    let readings = material.hardware.iter().flat_map(|page| page.labels());
    readings.for_each(|(key, value)| label(key, value));

    let of_alerts = alerts().filter_map(|row| row.evidence.as_ref());
    let of_changes = material.summary.changes.iter().map(|row| &row.evidence);
    for found in of_alerts.chain(of_changes) {
        match found {
            Evidence::Value(of) => labels(&of.labels, &mut label),
            Evidence::Straggler(of) => {
                labels(&of.cohort, &mut label);
                label(&of.by, &of.peer);
            }
            Evidence::Latency(_) | Evidence::Burn(_) | Evidence::Gap(_) => {}
        }
    }

    names
}

fn texts(of: &mut [String], names: &mut Pseudonyms) {
    of.iter_mut().for_each(|text| *text = names.text(text));
}

fn ranking(of: &mut TimeRanking, names: &mut Pseudonyms) {
    let TimeRanking { formula: _, operations, nodes_by, nodes } = of;
    for RankedOperation { advice, .. } in operations {
        *advice = names.text(advice);
    }
    *nodes_by = names.text(nodes_by);
    for RankedNode { node, machine: readings, advice, .. } in nodes {
        *node = names.name(node, NameKind::Node);
        *readings = machine(std::mem::take(readings), names);
        *advice = names.text(advice);
    }
}

/// Readings by sensor, whose labels follow its name.
fn machine(of: BTreeMap<String, Value>, names: &mut Pseudonyms) -> BTreeMap<String, Value> {
    let reading = |(sensor, value): (String, Value)| {
        let value = match value {
            Value::String(text) => Value::String(names.text(&text)),
            other => other,
        };
        (names.text(&sensor), value)
    };
    of.into_iter().map(reading).collect()
}

fn scope(of: &Scope, names: &mut Pseudonyms) -> Scope {
    match of {
        Scope::Fleet => Scope::Fleet,
        Scope::Node(node) => {
            let name = names.name(node.as_str(), NameKind::Node);
            Scope::Node(NodeName::new(&name).expect("letters, a hyphen and a number"))
        }
    }
}

fn evidence(of: &mut Evidence, names: &mut Pseudonyms) {
    match of {
        Evidence::Value(of) => of.labels = labels(&of.labels, names),
        Evidence::Straggler(of) => {
            of.cohort = labels(&of.cohort, names);
            of.peer = names.name(&of.peer, NameKind::of_label(&of.by, &of.peer));
        }
        Evidence::Latency(_) | Evidence::Burn(_) | Evidence::Gap(_) => {}
    }
}

fn labels(of: &Labels, names: &mut Pseudonyms) -> Labels {
    let pair = |(key, value): (&str, &str)| {
        (key.to_owned(), names.name(value, NameKind::of_label(key, value)))
    };
    let pairs: Vec<(String, String)> = of.iter().map(pair).collect();
    Labels::new(pairs).expect("the keys are those of labels, and pseudonyms are short")
}

fn event(of: &mut EventRow, names: &mut Pseudonyms) {
    let EventRow { node, title, text, host, aggregation_key, labels: tags, .. } = of;
    *node = names.name(node, NameKind::Node);
    *title = names.text(title);
    *text = names.text(text);
    *host = names.name(host, NameKind::Host);
    *aggregation_key = names.name(aggregation_key, NameKind::Value);
    *tags = labels(tags, names);
}

fn drill(of: &mut DrillResult, names: &mut Pseudonyms) {
    let DrillResult { file, drill, expectations, .. } = of;
    *file = names.name(file, NameKind::Path);
    *drill = names.text(drill);
    for Expectation { name, expected, seen, .. } in expectations {
        for text in [name, expected, seen] {
            *text = names.text(text);
        }
    }
}
