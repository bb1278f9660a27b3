//! The section on where the time goes: shares of cycles and operations, and bottlenecks.

use plimsoll_schemas::figure::{count, counted, span};
use plimsoll_schemas::rule::BottleneckSeverity;
use plimsoll_schemas::summary::{
    BottleneckRow, BottleneckState, BottlenecksPage, CycleShares, OperationShare,
};

use super::document::Document;
use super::tables::{Cell, Section, Table, Tone, figure, table, text};
use crate::bottlenecks::{about, share};

/// Operations of the table; the JSON has all.
const OPERATIONS_SHOWN: usize = 30;

pub(super) fn shares(of: &Document) -> Section {
    let (paragraphs, tables) = match (&of.bottlenecks, &of.bottlenecks_left_out) {
        (Some(page), _) => (paragraphs(page), tables(page)),
        (None, why) => {
            let why = why.as_deref().unwrap_or("the aggregator has no such page");
            (vec![format!("Not available: {why}.")], Vec::new())
        }
    };
    Section { id: "shares", heading: "Where the time goes", paragraphs, tables }
}

fn paragraphs(page: &BottlenecksPage) -> Vec<String> {
    let cycles = page.cycles.iter().map(|cycle| {
        let (name, cycles) = (&cycle.operation, counted(cycle.count, "cycle"));
        let Some(mean) = cycle.mean else {
            return format!("{name}: no cycle has ended, so its phases have no shares.");
        };
        let parallel = match cycle.parallel {
            true => " Its phases take more than that: threads run side by side.",
            false => "",
        };
        let (all, mean) = (span(cycle.seconds), span(mean));
        format!("{name}: {cycles} took {all}, {mean} each.{parallel}")
    });

    let whole = match page.wall.node_seconds {
        Some(seconds) => format!("{} of all nodes", span(seconds)),
        None => "the nodes, which is not known".to_owned(),
    };
    let about = format!(
        "Shares of operations are of the time of {whole}. The time of an operation includes that \
         of others within it."
    );
    cycles.chain([about]).collect()
}

fn tables(page: &BottlenecksPage) -> Vec<Table> {
    let is_shown = |row: &&BottleneckRow| row.state != BottleneckState::Within;
    let found = page.bottlenecks.iter().filter(is_shown).map(bottleneck).collect();
    let heading = ["Severity", "Bottleneck", "Of", "What", "Evidence"];
    let mut tables = vec![table("Bottlenecks", &heading, found, "None was found.")];

    for cycle in &page.cycles {
        tables.push(classes(cycle));
        tables.push(operations(&format!("Phases of {}", cycle.operation), &cycle.phases));
    }
    let shown = &page.operations[..page.operations.len().min(OPERATIONS_SHOWN)];
    tables.push(operations("Operations by their time", shown));
    tables
}

fn bottleneck(row: &BottleneckRow) -> Vec<Cell> {
    let tone = match row.severity {
        Some(BottleneckSeverity::High | BottleneckSeverity::Critical) => Tone::Bad,
        Some(BottleneckSeverity::Medium) | None => Tone::Open,
    };
    let severity = row.severity.map_or("not measured", |severity| severity.as_str());
    let words = severity.to_owned();
    // What the rule is about would read as if it had been found.
    let what = if row.severity.is_some() { row.summary.as_str() } else { "-" };
    let rest = [row.rule.as_str(), about(row), what, row.evidence.as_str()];
    [Cell { words, tone }].into_iter().chain(rest.map(text)).collect()
}

fn classes(cycle: &CycleShares) -> Table {
    let rows = cycle
        .classes
        .iter()
        .map(|of| vec![text(of.class.as_str()), figure(share(of.share)), figure(span(of.seconds))]);
    let caption = format!("Classes of time of {}", cycle.operation);
    table(&caption, &["Class", "Share", "Time"], rows.collect(), "It has no phases.")
}

fn operations(caption: &str, of: &[OperationShare]) -> Table {
    let rows = of.iter().map(|of| {
        vec![
            text(of.operation.as_str()),
            text(of.class.as_deref().unwrap_or("-")),
            figure(share(of.share)),
            figure(span(of.seconds)),
            figure(count(of.count)),
        ]
    });
    let heading = ["Operation", "Class", "Share", "Time", "Samples"];
    table(caption, &heading, rows.collect(), "No samples.")
}
