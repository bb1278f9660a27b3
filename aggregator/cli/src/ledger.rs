//! `plimsoll ledger`: where every sample is, by node.

use anyhow::{Result, ensure};
use clap::Args;
use plimsoll_runtime::exit::Exit;
use plimsoll_schemas::summary::{Ledger, LedgerPage};

use crate::targets::{Targets, page};

const PATH: &str = "/api/v1/ledger";

/// Show the ledger: where every sample is, by node
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll ledger
  plimsoll ledger --node n7
  plimsoll ledger --open                    only nodes with samples held, unaccounted or lost
  plimsoll ledger --json | jq '.nodes[] | {node, ledger}'

recorded = merged + held + unaccounted + unread + lost, for each node. If more samples were merged
than the node recorded, the surplus is shown: another sender used the node's name. The fleet's row
is the sum of all nodes and of evicted nodes, which have one row together.")]
pub struct LedgerArgs {
    /// Show only this node
    #[arg(long)]
    node: Option<String>,
    /// Show only nodes whose samples are not all merged
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    at: Targets,
}

/// Shows the ledger of each aggregator.
///
/// # Errors
/// When an aggregator does not respond, or the node is unknown.
pub async fn ledger(args: &LedgerArgs) -> Result<Exit> {
    for api in args.at.apis()? {
        let mut page: LedgerPage = page(&api, PATH).await?;
        if let Some(node) = &args.node {
            let known = page.nodes.iter().any(|row| row.node == *node);
            ensure!(known, "node {node:?} is unknown; plimsoll ledger lists all nodes");
        }
        select(&mut page, args.node.as_deref(), args.open);
        args.at.print(&serde_json::to_string(&page)?, || table(&page, args.node.is_none()));
    }
    Ok(Exit::Success)
}

/// Leaves the rows of this node, or of those with samples that are not merged. The sums stay.
fn select(page: &mut LedgerPage, node: Option<&str>, open: bool) {
    page.nodes.retain(|row| {
        node.is_none_or(|node| node == row.node)
            && (!open || row.ledger.recorded != row.ledger.merged)
    });
}

fn table(page: &LedgerPage, has_sums: bool) -> String {
    let mut text = format!(
        "{:<24} {:>13} {:>13} {:>9} {:>11} {:>9} {:>9}  LOST BY REASON\n",
        "NODE", "RECORDED", "MERGED", "HELD", "UNACCOUNTED", "UNREAD", "LOST"
    );

    text.extend(page.nodes.iter().map(|row| line(&row.node, &row.ledger)));

    if has_sums {
        if page.evicted != Ledger::default() {
            text += &line("(evicted nodes)", &page.evicted);
        }
        text += &line("fleet", &page.fleet);
    }

    if page.behind {
        text.push_str(
            "\nA stream has unread messages; their samples count as held, or as \
             unaccounted if their run has ended.\n",
        );
    }

    text
}

fn line(name: &str, ledger: &Ledger) -> String {
    let lost: u64 = ledger.lost.values().sum();
    let reasons: Vec<String> =
        ledger.lost.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
    let Ledger { recorded, merged, held, unaccounted, unread, surplus, .. } = ledger;
    let surplus = (*surplus > 0).then(|| format!("surplus {surplus}"));
    let reasons = reasons.into_iter().chain(surplus).collect::<Vec<_>>().join(", ");
    let row = format!(
        "{name:<24} {recorded:>13} {merged:>13} {held:>9} {unaccounted:>11} {unread:>9} {lost:>9}  \
         {reasons}"
    );
    format!("{}\n", row.trim_end())
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::summary::NodeLedger;

    use super::*;

    fn page() -> LedgerPage {
        let settled = Ledger { recorded: 7, merged: 7, ..Ledger::default() };
        let lost = [("crash".to_owned(), 2)].into();
        let open = Ledger { recorded: 9, merged: 4, held: 3, lost, ..Ledger::default() };
        let mut fleet = settled.clone();
        fleet.add(&open);

        let row = |node: &str, ledger: Ledger| NodeLedger {
            node: node.to_owned(),
            ledger,
            gap_samples: 0,
            duplicates: 0,
            duplicate_names: 0,
            runs: Vec::new(),
            past: Ledger::default(),
        };

        LedgerPage {
            mesh: "m".to_owned(),
            at_seconds: 1.0,
            ready: true,
            behind: false,
            fleet,
            nodes: vec![row("a", settled), row("b", open)],
            evicted: Ledger::default(),
        }
    }

    fn rows(node: Option<&str>, open: bool) -> Vec<Vec<String>> {
        rows_of(page(), node, open)
    }

    fn rows_of(mut page: LedgerPage, node: Option<&str>, open: bool) -> Vec<Vec<String>> {
        select(&mut page, node, open);
        let text = table(&page, node.is_none());
        let rows = text.lines().skip(1);
        rows.map(|row| row.split_whitespace().map(str::to_owned).collect()).collect()
    }

    #[test]
    fn every_row_adds_up_and_losses_have_their_reason() {
        let all = rows(None, false);
        assert_eq!(all[0], ["a", "7", "7", "0", "0", "0", "0"]);
        assert_eq!(all[1], ["b", "9", "4", "3", "0", "0", "2", "crash", "2"]);
        assert_eq!(all[2][..4], ["fleet", "16", "11", "3"]);
    }

    #[test]
    fn evicted_nodes_have_one_row_before_the_fleet() {
        let mut page = page();
        page.evicted = Ledger { recorded: 5, merged: 5, ..Ledger::default() };
        page.fleet.add(&page.evicted);
        let all = rows_of(page.clone(), None, false);
        assert_eq!(all[2][..4], ["(evicted", "nodes)", "5", "5"]);
        assert_eq!(all[3][..3], ["fleet", "21", "16"]);
        assert_eq!(rows_of(page, Some("a"), false).len(), 1);
    }

    #[test]
    fn samples_merged_beyond_those_recorded_are_shown() {
        let surplus = Ledger { recorded: 7, merged: 9, surplus: 2, ..Ledger::default() };
        let text = line("a", &surplus);
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words, ["a", "7", "9", "0", "0", "0", "0", "surplus", "2"]);
    }

    #[test]
    fn one_node_or_those_that_are_open_can_be_shown_alone() {
        assert_eq!(rows(Some("a"), false).len(), 1);
        let open: Vec<String> = rows(None, true).into_iter().map(|row| row[0].clone()).collect();
        assert_eq!(open, ["b", "fleet"]);
    }

    #[test]
    fn json_has_the_rows_that_the_table_has() {
        for (node, open, names) in
            [(None, false, &["a", "b"][..]), (None, true, &["b"]), (Some("a"), false, &["a"])]
        {
            let mut page = page();
            select(&mut page, node, open);
            let json = serde_json::to_value(&page).unwrap();
            let shown = json["nodes"].as_array().unwrap().iter().map(|row| row["node"].as_str());
            assert_eq!(shown.map(Option::unwrap).collect::<Vec<_>>(), names, "{node:?} {open}");
            assert_eq!(json["fleet"]["recorded"], 16);
        }
    }
}
