//! `plimsoll bottlenecks`: where the time of a run or a range goes, and what is too much of it.

use anyhow::Result;
use clap::Args;
use jiff::Zoned;
use jiff::tz::TimeZone;
use plimsoll_compare::history::SecondsRange;
use plimsoll_runtime::exit::Exit;
use plimsoll_schemas::figure::{count, counted, percent, span};
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::summary::{
    BottleneckRow, BottleneckState, BottlenecksPage, CycleShares, OperationShare,
};

use crate::query::missing;
use crate::runs::run_of;
use crate::targets::{Targets, with_parameters};
use crate::time_range::{TimeRange, shown};

pub(crate) const PATH: &str = "/api/v1/bottlenecks";
/// Operations that the table shows; JSON has all.
const OPERATIONS_SHOWN: usize = 15;

/// Show where the time of a run or a range goes, and what is too much of it
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll bottlenecks run:v42
  plimsoll bottlenecks --last 2h
  plimsoll bottlenecks --from 10:05 --to 10:30 --rollup rank --value 3
  plimsoll bottlenecks --node gpu7 --last 30m         one node, by its own history
  plimsoll bottlenecks run:v42 --cycle agent_turn     operations with a class as shares of it
  plimsoll bottlenecks run:v42 --json | jq '.bottlenecks[] | select(.state == \"found\")'

Each step with phases (`train_step.input` with class=input is one of `train_step`) is a cycle, and
its phases are shares of it. Where no step has phases, name a cycle, or operations with a class are
shares of the time of the nodes. Shares add up to more than 100 % where threads run side by side.
A rule needs 100 samples and 99 % of the nodes' time, and those about machines need nodes that keep
their own histories (plimsoll-node --history); the rest is not measured, with the reason.")]
pub struct BottlenecksArgs {
    /// run:NAME; without it, the fleet in a range
    subject: Option<String>,
    #[command(flatten)]
    range: TimeRange,
    /// The operation that is a cycle, if no phases are below its name
    #[arg(long, value_name = "OPERATION")]
    cycle: Option<String>,
    /// The roll-up, such as rank; without it, the fleet
    #[arg(long, value_name = "NAME", requires = "value", conflicts_with = "subject")]
    rollup: Option<String>,
    /// Value of a label of the roll-up; repeat it for each label, in their order
    #[arg(long, value_name = "VALUE", requires = "rollup")]
    value: Vec<String>,
    /// A node, by its own history
    #[arg(long, value_name = "NAME", conflicts_with_all = ["subject", "rollup"])]
    node: Option<String>,
    #[command(flatten)]
    at: Targets,
}

/// Shows the shares and bottlenecks of each aggregator.
///
/// # Errors
/// When a time or the subject is not understood, or an aggregator does not respond or rejects the
/// request.
pub async fn bottlenecks(args: &BottlenecksArgs) -> Result<Exit> {
    let now = Zoned::now();
    let run = args.subject.as_deref().map(run_of).transpose()?.map(str::to_owned);
    // Without times the range of a run is its own.
    let range = (args.range.is_given() || run.is_none()).then(|| args.range.seconds(&now));
    let range = range.transpose()?;

    let mut parameters = vec![
        ("run", run),
        ("from", range.map(|range| range.from.to_string())),
        ("to", range.map(|range| range.to.to_string())),
        ("cycle", args.cycle.clone()),
        ("rollup", args.rollup.clone()),
        ("node", args.node.clone()),
    ];
    parameters.extend(args.value.iter().map(|value| ("value", Some(value.clone()))));
    let parameters: Vec<_> = parameters.iter().map(|(key, value)| (*key, value)).collect();

    args.at.show(&with_parameters(PATH, &parameters), |page| text(page, now.time_zone())).await
}

fn text(page: &BottlenecksPage, zone: &TimeZone) -> String {
    let mut text = head(page, zone);
    page.cycles.iter().for_each(|cycle| text += &of_cycle(cycle));
    text += &of_nodes(page);

    let rows = |state| page.bottlenecks.iter().filter(move |row| row.state == state);
    text += "\nBOTTLENECKS\n";
    let is_judged = page.bottlenecks.iter().any(|row| row.state != BottleneckState::NotMeasured);
    if !is_judged {
        text += "nothing could be judged\n";
    } else if rows(BottleneckState::Found).next().is_none() {
        text += "none found\n";
    }
    for row in rows(BottleneckState::Found).chain(rows(BottleneckState::NotMeasured)) {
        text += &line(row);
    }
    let within: Vec<&str> = rows(BottleneckState::Within).map(|row| row.rule.as_str()).collect();
    if !within.is_empty() {
        text += &format!("within limits: {}\n", within.join(", "));
    }
    text
}

fn head(page: &BottlenecksPage, zone: &TimeZone) -> String {
    let (from, to) = (shown(page.from_seconds, zone), shown(page.to_seconds, zone));
    let complete = page.completeness.map_or("unknown".to_owned(), percent);
    let mut text = format!("{}, {from} to {to}, complete {complete}\n", subject(page));
    if page.by_label == Some(false) {
        text += "no sample has the run's label: these are all samples of the fleet\n";
    }
    let range = SecondsRange { from: page.from_seconds, to: page.to_seconds };
    text.extend(page.node.iter().map(|node| missing(node, range, zone)));
    text
}

fn subject(page: &BottlenecksPage) -> String {
    match (&page.run, &page.rollup, &page.values) {
        (Some(run), _, _) => format!("run {run}"),
        (None, Some(rollup), Some(values)) => format!("{rollup} {}", values.join(", ")),
        _ => page.node.as_ref().map_or("fleet".to_owned(), |of| format!("node {}", of.node)),
    }
}

fn of_cycle(of: &CycleShares) -> String {
    let (name, cycles) = (&of.operation, counted(of.count, "cycle"));
    let mut text = match of.mean {
        Some(mean) => format!("\n{name}: {cycles}, {}, mean {}\n", span(of.seconds), span(mean)),
        None => format!("\n{name}: no cycle has ended, so there are no shares\n"),
    };
    let classes = of.classes.iter().map(|of| format!("{} {}", of.class, share(of.share)));
    text += &format!("by class: {}\n", classes.collect::<Vec<_>>().join(", "));
    if of.parallel {
        text += "its phases take more than the cycle: threads run side by side\n";
    }
    text + &table("PHASE", &of.phases)
}

fn of_nodes(page: &BottlenecksPage) -> String {
    let whole = match page.wall.node_seconds {
        Some(seconds) => format!("{} of all nodes", span(seconds)),
        None => "nodes that are not known".to_owned(),
    };
    let shown = &page.operations[..page.operations.len().min(OPERATIONS_SHOWN)];
    let mut text = format!("\nof the time of {whole}; an operation includes those within it\n");
    text += &table("OPERATION", shown);
    let more = page.operations.len() - shown.len() + page.operations_omitted;
    if more > 0 {
        text += &format!("{} not shown\n", counted(more as u64, "operation"));
    }
    text
}

fn table(what: &str, rows: &[OperationShare]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let (class, share_of) = ("CLASS", "SHARE");
    let mut text =
        format!("{what:<32} {class:<10} {share_of:>8} {:>10} {:>13}\n", "TIME", "SAMPLES");
    for of in rows {
        let (name, class) = (&of.operation, of.class.as_deref().unwrap_or("-"));
        let (share, time, samples) = (share(of.share), span(of.seconds), count(of.count));
        text += &format!("{name:<32} {class:<10} {share:>8} {time:>10} {samples:>13}\n");
    }
    text
}

fn line(row: &BottleneckRow) -> String {
    let severity = row.severity.map_or("-", |severity| severity.as_str());
    let (rule, of) = (row.rule.as_str(), about(row));
    let words = match row.state {
        // What the rule is about would read as if it had been found.
        BottleneckState::NotMeasured => row.evidence.clone(),
        BottleneckState::Found | BottleneckState::Within => {
            format!("{} {}", row.summary, row.evidence)
        }
    };
    format!("{severity:<9} {rule:<16} {of:<20} {words}\n")
}

/// The cycle or node that a finding is about.
pub(crate) fn about(row: &BottleneckRow) -> &str {
    let node = row.node.as_ref().map(NodeName::as_str);
    row.cycle.as_deref().or(node).unwrap_or("-")
}

pub(crate) fn share(of: Option<f64>) -> String {
    of.map_or("-".to_owned(), percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"{"mesh":"m","run":"v42","by_label":true,"from_seconds":0.0,
        "to_seconds":60.0,"resolution":"10s","kept_from_seconds":0.0,"completeness":0.998,
        "wall":{"seconds":60.0,"node_seconds":120.0},
        "cycles":[{"operation":"step","count":1200,"seconds":60.0,"mean":0.05,"p99":0.06,
          "max":0.07,"parallel":false,
          "classes":[{"class":"input","seconds":42.0,"share":0.7}],
          "phases":[{"operation":"step.read","class":"input","count":1200,"seconds":42.0,
            "share":0.7}]},
          {"operation":"turn","count":0,"seconds":0.0,"mean":null,"p99":null,"max":null,
          "parallel":false,"phases":[],
          "classes":[{"class":"llm","seconds":2.0,"share":null}]}],
        "classes":[],"operations":[{"operation":"step","count":1200,"seconds":60.0,"share":0.5}],
        "operations_omitted":2,
        "bottlenecks":[{"rule":"input_wait","state":"found","severity":"high","cycle":"step",
          "value":0.7,"limit":0.5,"evidence":"70 %, 42 s of 60 s in 1,200 cycles",
          "summary":"Steps wait for their input.","runbook":"deploy/RUNBOOK.md#input_wait"},
          {"rule":"sync_wait","state":"within","severity":null,"cycle":"step","value":0.0,
          "limit":0.2,"evidence":"0 %","summary":"s","runbook":"r"},
          {"rule":"gpu_idle","state":"not_measured","severity":null,"value":null,"limit":null,
          "evidence":"not measured: no node has the sensor gpu_utilization_ratio",
          "summary":"A GPU was idle.","runbook":"r"}]}"#;

    #[test]
    fn shares_and_findings_are_shown_with_what_is_not_measured() {
        let page = serde_json::from_str(PAGE).unwrap();
        let text = text(&page, &TimeZone::UTC);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("run v42, 1970-01-01 00:00:00"), "{text}");
        assert!(lines[0].ends_with("complete 99.8 %"), "{text}");
        assert_eq!(lines[2], "step: 1,200 cycles, 60 s, mean 50 ms");
        assert_eq!(lines[3], "by class: input 70 %");
        assert_eq!(words(lines[5]), ["step.read", "input", "70", "%", "42", "s", "1,200"]);
        assert!(text.contains("turn: no cycle has ended, so there are no shares\n"), "{text}");
        assert!(text.contains("by class: llm -\n"), "{text}");
        assert!(text.contains("2 operations not shown\n"), "{text}");
        let found = lines.iter().position(|line| *line == "BOTTLENECKS").unwrap() + 1;
        assert_eq!(words(lines[found])[..3], ["high", "input_wait", "step"]);
        assert!(lines[found].ends_with("70 %, 42 s of 60 s in 1,200 cycles"), "{text}");
        let gpu = words(lines[found + 1]);
        assert_eq!(gpu[..5], ["-", "gpu_idle", "-", "not", "measured:"], "{text}");
        assert_eq!(lines[found + 2], "within limits: sync_wait");
    }

    #[test]
    fn of_a_node_is_stated_what_its_history_lacks() {
        let mut page: BottlenecksPage = serde_json::from_str(PAGE).unwrap();
        let node = r#"{"node": "gpu7", "samples": 9, "answered_from_seconds": 0.0,
            "kept_from_seconds": 30.0, "missing": 2}"#;
        (page.run, page.node) = (None, serde_json::from_str(node).ok());
        let text = text(&page, &TimeZone::UTC);
        assert!(text.starts_with("node gpu7, 1970"), "{text}");
        assert!(text.contains("gpu7: its history starts at 1970-01-01 00:00:30"), "{text}");
        assert!(text.contains("gpu7: its history lacks 2 messages\n"), "{text}");
    }

    #[test]
    fn without_a_finding_that_is_stated() {
        let mut page: BottlenecksPage = serde_json::from_str(PAGE).unwrap();
        page.bottlenecks.remove(0);
        page.by_label = Some(false);
        let text = text(&page, &TimeZone::UTC);
        assert!(text.contains("BOTTLENECKS\nnone found\n"), "{text}");
        assert!(text.contains("no sample has the run's label"), "{text}");
    }
}
