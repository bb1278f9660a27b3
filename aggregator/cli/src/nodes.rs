//! `plimsoll nodes`: the state of each node.

use anyhow::{Result, ensure};
use clap::Args;
use plimsoll_runtime::client::Api;
use plimsoll_runtime::exit::Exit;
use plimsoll_schemas::figure::span;
use plimsoll_schemas::summary::{NodeStatus, NodesPage};

use crate::targets::{Targets, page, with_parameters};

const PATH: &str = "/api/v1/nodes";

/// Show the state of each node
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll nodes
  plimsoll nodes --presence silent
  plimsoll nodes --node n7 --json | jq '.nodes[] | {version, labels, incarnations}'

With --node also what machine it is. SEEN is the time since the node's last message. CLOCK is how far its clock is ahead of the broker's.
SAMPLES are those of jobs, merged in total.")]
pub struct NodesArgs {
    /// Show only this node
    #[arg(long)]
    node: Option<String>,
    /// Only nodes in this state: up, silent or left
    #[arg(long)]
    presence: Option<String>,
    #[command(flatten)]
    at: Targets,
}

/// Shows the nodes of each aggregator.
///
/// # Errors
/// When an aggregator does not respond or rejects the request.
pub async fn nodes(args: &NodesArgs) -> Result<Exit> {
    for api in args.at.apis()? {
        let page = all_pages(&api, &args.node, &args.presence).await?;
        let is_one = args.node.is_some();
        args.at.print(&serde_json::to_string(&page)?, || table(&page) + &machines(&page, is_one));
    }
    Ok(Exit::Success)
}

/// All pages of nodes as one, optionally only one name or state. It ends, since each page starts
/// after the previous one.
pub(crate) async fn all_pages(
    api: &Api,
    node: &Option<String>,
    presence: &Option<String>,
) -> Result<NodesPage> {
    let mut whole: Option<NodesPage> = None;
    loop {
        let after = whole.as_ref().and_then(|page| page.next.clone());
        let parameters = [("node", node), ("presence", presence), ("after", &after)];
        let mut page: NodesPage = page(api, &with_parameters(PATH, &parameters)).await?;
        ensure!(page.next.is_none() || page.next > after, "{PATH} repeats a page");
        if let Some(before) = whole.take() {
            page.nodes.splice(0..0, before.nodes);
        }
        if page.next.is_none() {
            return Ok(page);
        }
        whole = Some(page);
    }
}

fn table(page: &NodesPage) -> String {
    let mut text = format!(
        "{:<24} {:<6} {:>9} {:<10} {:>10} {:>7} {:>13} {:>9}  TROUBLES, LABELS\n",
        "NODE", "STATE", "SEEN", "VERSION", "CLOCK", "OUTBOX", "SAMPLES", "LOST"
    );
    text.extend(page.nodes.iter().map(|node| line(page.at_seconds, node)));
    if !page.ready {
        text.push_str("\nThe aggregator still reads the streams' backlog.\n");
    }
    text
}

/// What machine the node runs on that was asked for.
fn machines(page: &NodesPage, is_one: bool) -> String {
    let machines = page.nodes.iter().filter(|_| is_one).filter_map(|node| node.machine.as_ref());
    machines.map(|machine| format!("\n{}\n", machine.words())).collect()
}

fn line(at_seconds: f64, node: &NodeStatus) -> String {
    let row = &node.row;
    let lost: u64 = row.ledger.lost.values().sum();
    let seen = span((at_seconds - row.last_seen_seconds).max(0.0));

    let clock = node.clock_ahead_seconds.map(|ahead| {
        let sign = if ahead > 0.0 { "+" } else { "" };
        format!("{sign}{}", span(ahead))
    });

    let labels = node.labels.iter().map(|(key, value)| format!("{key}={value}"));
    let words: Vec<String> = node.troubles.iter().cloned().chain(labels).collect();

    let line = format!(
        "{:<24} {:<6} {seen:>9} {:<10} {:>10} {:>7} {:>13} {lost:>9}  {}",
        row.node,
        row.presence.as_str(),
        if row.version.is_empty() { "-" } else { &row.version },
        clock.as_deref().unwrap_or("-"),
        row.outbox_depth,
        node.samples.jobs,
        words.join(" ")
    );

    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> NodesPage {
        let ledger = r#"{"recorded":9,"merged":7,"held":0,"unaccounted":0,"lost":{"crash":2}}"#;
        let node = |name: &str, rest: &str| {
            format!(
                r#"{{"node":"{name}","last_seen_seconds":98.5,"ledger":{ledger},"outbox_depth":3,
                "outbox_depth_max":4,"dropped":0,"samples":{{"jobs":7,"own":1}},
                "newest_sample_seconds":98.0,"round_trip_seconds":null,"delay_seconds":null,
                "incarnations":[1],{rest}}}"#
            )
        };
        let up = node(
            "a",
            r#""presence":"up","version":"0.1.0","labels":{"rack":"r1"},
            "clock_ahead_seconds":-0.0021,"troubles":["run_crashed"]"#,
        );
        let left =
            node("b", r#""presence":"left","labels":{},"clock_ahead_seconds":null,"troubles":[]"#);
        let text = format!(
            r#"{{"mesh":"m","at_seconds":100.0,"ready":false,"nodes":[{up},{left}],"next":null}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_node_is_one_line_with_what_is_unknown_marked() {
        let text = table(&page());
        let rows: Vec<Vec<&str>> =
            text.lines().map(|row| row.split_whitespace().collect()).collect();
        let up =
            ["a", "up", "1.5", "s", "0.1.0", "-2.1", "ms", "3", "7", "2", "run_crashed", "rack=r1"];
        assert_eq!(rows[1], up);
        assert_eq!(rows[2], ["b", "left", "1.5", "s", "-", "-", "3", "7", "2"]);
        assert!(text.ends_with("still reads the streams' backlog.\n"), "{text}");
    }

    #[test]
    fn the_machine_of_one_node_is_shown_below_its_line() {
        let mut page = page();
        page.nodes[0].machine = serde_json::from_str(r#"{"cpu":"EPYC","cores":4}"#).unwrap();
        assert_eq!(machines(&page, true), "\nEPYC, 4 cores\n");
        assert_eq!(machines(&page, false), "");
    }
}
