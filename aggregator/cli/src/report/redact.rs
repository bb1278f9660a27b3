//! `--redact`: every name in a document becomes a pseudonym, before any form of it is written.
//! The document is taken apart whole, so that a new field of it does not compile until it is
//! decided here.
//!
//! DESIGN A192.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use plimsoll_compare::{Compared, ComparedRate, Comparison};
use plimsoll_schemas::alert::{Evidence, Scope};
use plimsoll_schemas::ids::{Labels, NodeName};
use plimsoll_schemas::run::REPORT_LABEL;
use plimsoll_schemas::summary::{BottlenecksPage, EventRow, MachineDescription};
use serde_json::{Value, to_value};

use super::beside::THIS_RANGE;
use super::document::{
    AlertResult, Beside, ChangeResult, Document, DrillResult, Expectation, LedgerResult, Machines,
    NodeMachine, RankedNode, RankedOperation, Subject, TimeRanking,
};
use super::machines::HardwarePage;
use super::material::Material;
use super::pseudonyms::{NameKind, Pseudonyms};

/// Replaces names in a document that was composed of this material.
///
/// # Errors
/// When the material cannot be searched for names: then none is written.
pub(super) fn redact(document: &mut Document, material: &Material) -> Result<()> {
    let mut names = known(material)?;
    let Document {
        mesh,
        subject,
        notes,
        beside,
        where_the_time_goes,
        bottlenecks,
        bottlenecks_left_out,
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
        // Written afterwards.
        summary: _,
        range: _,
        budgets: _,
        operations: _,
        metrics: _,
        epoch_operation: _,
        epoch_source: _,
        peak_resident_bytes: _,
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
    beside.iter_mut().for_each(|of| of_beside(of, &mut names));
    ranking(where_the_time_goes, &mut names);
    bottlenecks.iter_mut().for_each(|page| of_bottlenecks(page, &mut names));
    bottlenecks_left_out.iter_mut().for_each(|why| *why = names.text(why));
    let Machines { source: _, nodes, described } = hardware;
    *described = std::mem::take(described)
        .into_iter()
        .map(|(node, of)| (names.name(&node, NameKind::Node), description(of, &mut names)))
        .collect();
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
    Ok(())
}

/// Every name that a text may have, also of nodes for which the document has no row.
fn known(material: &Material) -> Result<Pseudonyms> {
    let mut names = Pseudonyms::default();
    names.know(&material.summary.mesh, NameKind::Mesh);
    if let Subject::Run(run) = &material.subject {
        names.know(run, NameKind::Run);
    }
    if let Some(of) = &material.beside {
        let runs = of.comparison.a_runs.iter().chain(&of.comparison.b_runs);
        let runs = runs.filter(|run| !is_range(run));
        runs.for_each(|run| names.know(run, NameKind::Run));
    }
    let nodes = (material.nodes.iter().map(|row| row.node.as_str()))
        .chain(material.nodes_silent.keys().map(String::as_str))
        .chain(material.hardware.iter().flat_map(HardwarePage::names))
        .chain(material.machines.keys().map(String::as_str));
    nodes.for_each(|node| names.know(node, NameKind::Node));

    // Names of operations stay, whatever else has them.
    let of_history = material.operations.iter().map(|of| of.whole.operation.as_str());
    let of_summary = material.summary.operations.iter().map(|of| of.operation.as_str());
    let operations: BTreeSet<&str> = of_history.chain(of_summary).collect();
    let metrics = material.metrics.iter().map(|page| page.metric.as_str());
    operations.iter().copied().chain(metrics).for_each(|name| names.keep(name));
    // Not the labels of sensors: many are plain words, such as `memory`, that sentences have too.
    let Material { summary, alerts, events, ledger, .. } = material;
    let pages = [to_value(summary)?, to_value(alerts)?, to_value(events)?, to_value(ledger)?];
    pages.iter().for_each(|page| know_those_of(page, &operations, &mut names));
    Ok(names)
}

/// The names of a page, by the keys that all pages have them under.
fn know_those_of(page: &Value, operations: &BTreeSet<&str>, names: &mut Pseudonyms) {
    let label = |names: &mut Pseudonyms, key: &str, value: &str| {
        // `plimsoll run` writes that label itself, with an ordinary word.
        if !operations.contains(value) && key != REPORT_LABEL {
            names.know(value, NameKind::of_label(key, value));
        }
    };
    match page {
        Value::Array(all) => all.iter().for_each(|of| know_those_of(of, operations, names)),
        Value::Object(fields) => {
            for (key, of) in fields {
                match (key.as_str(), of) {
                    ("node" | "host", Value::String(node)) => names.know(node, NameKind::Node),
                    ("peer", Value::String(peer)) => label(names, "peer", peer),
                    ("labels" | "cohort", Value::Object(labels)) => {
                        let pairs = labels.iter().filter_map(|(key, of)| Some((key, of.as_str()?)));
                        pairs.for_each(|(key, value)| label(names, key, value));
                    }
                    // Those of a roll-up are in the order of its definition.
                    ("labels", Value::Array(pairs)) => {
                        let pairs = pairs
                            .iter()
                            .filter_map(|of| Some((of.get(0)?.as_str()?, of.get(1)?.as_str()?)));
                        pairs.for_each(|(key, value)| label(names, key, value));
                    }
                    _ => know_those_of(of, operations, names),
                }
            }
        }
        _ => {}
    }
}

fn texts(of: &mut [String], names: &mut Pseudonyms) {
    of.iter_mut().for_each(|text| *text = names.text(text));
}

fn of_beside(of: &mut Beside, names: &mut Pseudonyms) {
    let Beside { a, b, comparison } = of;
    let Comparison {
        a_runs,
        b_runs,
        operations,
        rates,
        // Operations and figures stay.
        verdict: _,
        confidence: _,
        floor_confidence: _,
        tolerance: _,
        within_runs_only: _,
    } = comparison;

    // Before sentences: these name the runs at fault.
    let runs = a_runs.iter_mut().chain(b_runs);
    runs.for_each(|run| *run = run_name(run, names));
    for Compared { reason, a_runs, b_runs, .. } in operations.values_mut() {
        let runs = a_runs.iter_mut().chain(b_runs);
        runs.for_each(|of| of.run = run_name(&of.run, names));
        reason.iter_mut().for_each(|why| *why = names.text(why));
    }
    for ComparedRate { reason, a_runs, b_runs, .. } in rates.values_mut() {
        let runs = a_runs.iter_mut().chain(b_runs);
        runs.for_each(|of| of.run = run_name(&of.run, names));
        reason.iter_mut().for_each(|why| *why = names.text(why));
    }
    for side in [a, b] {
        let parts = side.split(',').map(|run| run_name(run, names));
        *side = parts.collect::<Vec<_>>().join(",");
    }
}

/// A range of times names nothing.
fn run_name(of: &str, names: &mut Pseudonyms) -> String {
    match is_range(of) {
        true => of.to_owned(),
        false => names.name(of, NameKind::Run),
    }
}

fn is_range(of: &str) -> bool {
    of.starts_with("range:") || of == THIS_RANGE
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

fn of_bottlenecks(page: &mut BottlenecksPage, names: &mut Pseudonyms) {
    let BottlenecksPage { mesh, run, rollup, values, node, bottlenecks, .. } = page;
    *mesh = names.name(mesh, NameKind::Mesh);
    run.iter_mut().for_each(|run| *run = names.name(run, NameKind::Run));
    // The keys of a roll-up's labels are not on the page: its name states the only one of most.
    let by = rollup.as_deref().unwrap_or_default();
    let values = values.iter_mut().flatten();
    values.for_each(|value| *value = names.name(value, NameKind::of_label(by, value)));

    if let Some(of) = node {
        of.node = names.name(&of.node, NameKind::Node);
        of.error = of.error.as_deref().map(|why| names.text(why));
    }
    for row in bottlenecks {
        if let Some(node) = &mut row.node {
            let name = names.name(node.as_str(), NameKind::Node);
            *node = NodeName::new(&name).expect("letters, a hyphen and a number");
        }
        row.evidence = names.text(&row.evidence);
    }
}

/// Kernels and systems that a site built may be named by it.
fn description(of: NodeMachine, names: &mut Pseudonyms) -> NodeMachine {
    let NodeMachine { machine, plimsoll_version } = of;
    let MachineDescription { cpu, cores, memory_bytes, gpus, gpu_driver, kernel, os } = machine;
    let texts = [cpu, gpu_driver, kernel, os];
    let [cpu, gpu_driver, kernel, os] = texts.map(|of| of.map(|of| names.text(&of)));
    let gpus = gpus.into_iter().map(|(model, n)| (names.text(&model), n)).collect();
    let machine = MachineDescription { cpu, cores, memory_bytes, gpus, gpu_driver, kernel, os };
    NodeMachine { machine, plimsoll_version }
}

/// Readings by sensor, whose labels follow its name.
fn machine(of: BTreeMap<String, Value>, names: &mut Pseudonyms) -> BTreeMap<String, Value> {
    let reading = |(sensor, value): (String, Value)| {
        let value = match value {
            Value::String(text) => Value::String(names.text(&text)),
            other => other,
        };
        (sensor_of(&sensor, names), value)
    };
    of.into_iter().map(reading).collect()
}

/// A sensor with its labels, whose values may have spaces.
fn sensor_of(text: &str, names: &mut Pseudonyms) -> String {
    let mut words = text.split(' ');
    let name = words.next().unwrap_or_default().to_owned();
    let mut labels: Vec<(&str, String)> = Vec::new();
    for word in words {
        match (word.split_once('='), labels.last_mut()) {
            (Some((key, value)), _) => labels.push((key, value.to_owned())),
            (None, Some((_, value))) => *value += &format!(" {word}"),
            (None, None) => labels.push(("", word.to_owned())),
        }
    }

    labels.into_iter().fold(name, |all, (key, value)| {
        // The kernel's words for what tasks wait for name nothing.
        let is_kept = key == "resource" && ["cpu", "io", "memory"].contains(&value.as_str());
        let kind = NameKind::of_label(key, &value);
        let value = if is_kept { value } else { names.name(&value, kind) };
        all + &format!(" {key}={value}")
    })
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
