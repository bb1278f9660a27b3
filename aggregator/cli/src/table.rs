//! A summary as a table for the terminal: operations and budgets, nodes, and the ledger.

use plimsoll_schemas::alert::{AlertState, Notification, Scope};
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::figure::{number, percent, quantile, span};
use plimsoll_schemas::summary::{
    BudgetRow, Ledger, OperationRow, Quantiles, SampleTotals, Summary, Verdict,
};
use plimsoll_schemas::time::seconds;
use plimsoll_schemas::unit::Unit;

/// The window of the table: long enough for a quantile, short enough to show change.
const SHOWN: Window = Window::TenSeconds;

/// One line for each budget and node. Rates are those since `before`, an earlier summary.
pub fn table(summary: &Summary, before: Option<&Summary>) -> String {
    let heading = ["OPERATION", "SCOPE", "P50", "P99", "BUDGET", "HEADROOM", "SAMPLES/s", "STATE"];
    let mut text = budget_line(heading);

    let own = |row: &OperationRow| {
        let of_row =
            |budget: &&BudgetRow| budget.operation == row.operation && budget.scope == row.scope;
        let mut of_row = summary.budgets.iter().filter(of_row);
        // Prefer the budget named like the operation: others may cover a part of it.
        of_row.clone().find(|budget| budget.budget == row.operation).or_else(|| of_row.next())
    };

    // The system's own operations come after all that jobs send.
    let of_jobs = summary.operations.iter().filter(|row| !row.own);

    for row in of_jobs.chain(summary.operations.iter().filter(|row| row.own)) {
        let rate = rate(summary, before, row);
        text.extend(operation_line(row, own(row), summary, rate));
    }

    let shown: Vec<_> = summary.operations.iter().filter_map(own).collect();
    let is_shown = |budget: &BudgetRow| shown.iter().any(|other| std::ptr::eq(*other, budget));

    for budget in summary.budgets.iter().filter(|budget| !is_shown(budget)) {
        let (limit, headroom, state) = budget_cells(budget, summary);
        let (name, scope) = (budget.budget.as_str(), scope(&budget.scope));
        text += &budget_line([name, scope, "-", "-", &limit, &headroom, "-", &state]);
    }

    text += &format!(
        "\n{:<14} {:>8} {:>8} {:>8} {:>8} {:>11} {:>11} {:>7} {:>11} {:>7}\n",
        "NODE",
        "STATE",
        "OUTBOX",
        "REROUTE",
        "DROPS",
        "RECORDED",
        "MERGED",
        "HELD",
        "UNACCOUNTED",
        "GAP"
    );

    for node in &summary.nodes {
        text += &format!(
            "{:<14} {:>8} {:>8} {:>8} {:>8} {:>11} {:>11} {:>7} {:>11} {:>7}\n",
            node.node,
            node.presence.as_str(),
            node.outbox_depth_max,
            node.rerouted,
            node.dropped,
            node.ledger.recorded,
            node.ledger.merged,
            node.ledger.held,
            node.ledger.unaccounted,
            node.gap_samples
        );
    }

    text + &samples_line(summary) + &ledger_line(summary)
}

/// The samples of jobs and of the system's own operations; nothing without the fleet.
fn samples_line(summary: &Summary) -> String {
    let Some(SampleTotals { jobs, own }) = summary.samples else { return String::new() };
    format!("\nsamples: {jobs} from jobs, {own} from the system's own operations")
}

/// The sum of all nodes' ledgers in one line.
fn ledger_line(summary: &Summary) -> String {
    let Ledger { recorded, merged, held, unaccounted, unread, surplus, lost, .. } = &summary.ledger;
    let lost_sum: u64 = lost.values().sum();

    let mut line = format!(
        "\nledger: recorded {recorded} = merged {merged} + held {held} + lost {lost_sum} + \
         unaccounted {unaccounted} + unread {unread}"
    );

    if *surplus > 0 {
        line += &format!(" - surplus {surplus}");
    }

    if !lost.is_empty() {
        let reasons: Vec<String> = lost.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
        line += &format!("; lost: {}", reasons.join(", "));
    }

    line + &crashes(&summary.ledger) + "\n"
}

/// Crashed incarnations and their unobserved time, to be appended to a ledger's sums; nothing
/// without any.
pub fn crashes(ledger: &Ledger) -> String {
    let (crashed, unknown) = (ledger.crashed_runs, span(seconds(ledger.unknown_ns)));
    match (crashed, ledger.unknown_ns) {
        (0, _) => String::new(),
        (_, 0) => format!("; crashed incarnations: {crashed}"),
        _ => format!("; crashed incarnations: {crashed}, {unknown} unobserved"),
    }
}

/// The delay in seconds of the latest change of this alert, if it was late.
fn late(changes: &[Notification], budget: &BudgetRow) -> Option<f64> {
    let about = |notification: &&Notification| {
        notification.key.rule.as_str() == budget.budget && notification.key.scope == budget.scope
    };
    let latest = changes.iter().rev().find(about)?;
    Some(latest.late_seconds).filter(|late| *late >= 1.0)
}

/// Samples a second; `None` without an earlier summary.
#[expect(clippy::cast_precision_loss, reason = "counts of a few seconds")]
fn rate(summary: &Summary, before: Option<&Summary>, row: &OperationRow) -> Option<f64> {
    let before = before?;
    let same =
        |earlier: &&OperationRow| earlier.operation == row.operation && earlier.scope == row.scope;
    let earlier = before.operations.iter().find(same)?;
    let seconds = summary.at_seconds - before.at_seconds;
    let grown = row.total.count.saturating_sub(earlier.total.count) as f64;
    (seconds > 0.0).then_some(grown / seconds)
}

/// The line of an operation; none without figures of the window.
fn operation_line(
    row: &OperationRow,
    budget: Option<&BudgetRow>,
    summary: &Summary,
    rate: Option<f64>,
) -> Option<String> {
    let shown = row.windows.get(&SHOWN).map(|window| &window.quantiles)?;
    let cells = budget.map(|budget| budget_cells(budget, summary));
    let (limit, headroom, state) = cells.unwrap_or_default();
    let rate = rate.map_or_else(|| "-".to_owned(), number);

    // A stale figure is not the current latency.
    let unit = Unit::of(&row.operation);
    let current =
        |raw: Option<u64>| approximately(shown, raw.filter(|_| !row.freshness.stale), unit);
    let (p50, p99) = (current(shown.p50_ns), current(shown.p99_ns));
    let (name, scope) = (row.operation.as_str(), scope(&row.scope));
    Some(budget_line([name, scope, &p50, &p99, &limit, &headroom, &rate, &state]))
}

/// The columns of operations and budgets.
fn budget_line([name, scope, p50, p99, limit, headroom, rate, state]: [&str; 8]) -> String {
    format!(
        "{name:<14} {scope:<8} {p50:>9} {p99:>9} {limit:>16} {headroom:>9} {rate:>10}  {state}\n"
    )
}

fn scope(scope: &Scope) -> &str {
    match scope {
        Scope::Fleet => "fleet",
        Scope::Node(node) => node.as_str(),
    }
}

fn budget_cells(budget: &BudgetRow, summary: &Summary) -> (String, String, String) {
    let unit = Unit::of(&budget.operation);
    let limit = format!("{} <= {}", quantile(budget.quantile), unit.raw_text(budget.limit_ns));
    let sign = if budget.within_ns.is_some() { "~" } else { "" };
    let value_ns = budget.value_ns.filter(|_| !budget.freshness.stale);

    let headroom = value_ns.map_or_else(
        || "-".to_owned(),
        |value| sign.to_owned() + &percent(1.0 - ratio(value, budget.limit_ns)),
    );

    let age = budget.freshness.age_seconds(summary.at_seconds);
    let state = match (budget.alert, budget.verdict) {
        (AlertState::Firing, _) => "FIRING",
        (AlertState::Pending, _) => "pending",
        (_, Verdict::NoData) if age.is_none() => "no samples",
        (_, Verdict::NoData) => "stale",
        (_, Verdict::Insufficient) => "too few samples",
        (_, Verdict::Breach) => "breach",
        (_, Verdict::Within) => "within",
        (_, Verdict::Uncertain) => "uncertain, its bucket spans the limit",
    };

    let is_old = budget.freshness.stale || budget.verdict == Verdict::NoData;
    let old = age.filter(|_| is_old).map(|age| format!(", no data for {}", span(age.round())));
    let late =
        late(&summary.changes, budget).map(|seconds| format!(", {} late", span(seconds.round())));
    let more = [late, old].into_iter().flatten().collect::<String>();
    (limit, headroom, state.to_owned() + &more)
}

#[expect(clippy::cast_precision_loss, reason = "latencies are below an hour")]
fn ratio(value: u64, of: u64) -> f64 {
    value as f64 / of as f64
}

/// A value, with a `~` if the value is known only within bounds.
fn approximately(of: &Quantiles, raw: Option<u64>, unit: Unit) -> String {
    let sign = if of.approximate.is_some() && raw.is_some() { "~" } else { "" };
    sign.to_owned() + &raw.map_or_else(|| "-".to_owned(), |raw| unit.raw_text(raw))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use plimsoll_schemas::summary::{
        Freshness, NodeRow, Presence, QuantileBounds, RulesState, WindowRow,
    };

    use super::*;

    fn summary() -> Summary {
        Summary {
            mesh: "m".into(),
            version: "0".into(),
            at_seconds: 0.0,
            ready: true,
            broker: "jetstream".into(),
            freshness: Freshness::default(),
            presence: BTreeMap::new(),
            ledger: Ledger::default(),
            samples: None,
            nodes: Vec::new(),
            operations: Vec::new(),
            rollups: Vec::new(),
            budgets: Vec::new(),
            changes: Vec::new(),
            rules: RulesState::default(),
        }
    }

    #[test]
    fn columns_have_the_names_of_the_ledger() {
        let table = table(&summary(), None);
        let heading = table.lines().find(|line| line.starts_with("NODE")).unwrap();
        let names: Vec<&str> = heading.split_whitespace().collect();
        let outbox = ["OUTBOX", "REROUTE", "DROPS"];
        let ledger = ["RECORDED", "MERGED", "HELD", "UNACCOUNTED", "GAP"];
        assert_eq!(names, [&["NODE", "STATE"][..], &outbox, &ledger].concat());
    }

    #[test]
    fn the_ledger_is_one_line_that_adds_up() {
        let lost = BTreeMap::from([("crash".to_owned(), 3), ("refused".to_owned(), 1)]);
        let ledger =
            Ledger { recorded: 30, merged: 20, held: 5, unaccounted: 1, lost, ..Ledger::default() };
        let node = NodeRow {
            node: "a".into(),
            presence: Presence::Up,
            last_seen_seconds: 0.0,
            ledger: ledger.clone(),
            gap_samples: 5,
            outbox_depth: 0,
            outbox_depth_max: 1,
            rerouted: 2,
            dropped: 3,
            version: String::new(),
            suspect_units: 0,
        };
        let table = table(&Summary { ledger, nodes: vec![node], ..summary() }, None);
        let cells: Vec<&str> = table.lines().rev().nth(2).unwrap().split_whitespace().collect();
        assert_eq!(cells, ["a", "up", "1", "2", "3", "30", "20", "5", "1", "5"]);
        assert_eq!(
            table.lines().last().unwrap(),
            "ledger: recorded 30 = merged 20 + held 5 + lost 4 + unaccounted 1 + unread 0; \
             lost: crash 3, refused 1"
        );
    }

    #[test]
    fn own_operations_are_listed_last_and_counted_apart() {
        let window = WindowRow {
            quantiles: Quantiles::default(),
            nodes: 1,
            nodes_expected: 1,
            nodes_late: 0,
        };
        let row = |operation: &str, own| OperationRow {
            scope: Scope::Fleet,
            operation: operation.into(),
            unit: None,
            own,
            freshness: Freshness::default(),
            total: Quantiles::default(),
            windows: BTreeMap::from([(SHOWN, window.clone())]),
        };
        let operations = vec![row("a", false), row("publish", true), row("z", false)];
        let samples = Some(SampleTotals { jobs: 7, own: 2 });
        let table = table(&Summary { operations, samples, ..summary() }, None);
        let names: Vec<_> = table.lines().map_while(|line| line.split(' ').next()).collect();
        assert_eq!(names[..4], ["OPERATION", "a", "z", "publish"]);
        assert!(
            table.contains("samples: 7 from jobs, 2 from the system's own operations\n"),
            "{table}"
        );
    }

    #[test]
    fn crashed_incarnations_are_counted_with_their_unobserved_time() {
        let of =
            |crashed_runs, unknown_ns| Ledger { crashed_runs, unknown_ns, ..Ledger::default() };
        assert_eq!(crashes(&of(0, 0)), "");
        assert_eq!(crashes(&of(1, 0)), "; crashed incarnations: 1");
        let both = "; crashed incarnations: 2, 1.5 s unobserved";
        assert_eq!(crashes(&of(2, 1_500_000_000)), both);
    }

    #[test]
    fn every_budget_has_a_line_and_a_late_alert_shows_its_delay() {
        let notification = r#"{"mesh":"m","rule":"epoch_hook","scope":"fleet","operation":"epoch_hook",
            "from":"pending","state":"firing","at_seconds":1.0,"late_seconds":340.2,
            "evidence":{"gap_samples":1}}"#;
        let budget = BudgetRow {
            budget: "epoch_hook".into(),
            operation: "epoch_hook".into(),
            unit: None,
            scope: Scope::Fleet,
            quantile: 0.99,
            limit_ns: 18_000_000,
            window: SHOWN,
            samples: 100,
            value_ns: None,
            within_ns: None,
            lower_ns: None,
            verdict: Verdict::Breach,
            upper_ns: None,
            over: 0,
            uncertain: 0,
            completeness: (0, 0),
            nodes_late: 0,
            nodes_reporting: 0,
            overdispersion: 1.0,
            learning: false,
            freshness: Freshness::default(),
            since_limit: None,
            objective: None,
            budget_remaining: None,
            burns: Vec::new(),
            alert: AlertState::Firing,
        };
        let row = OperationRow {
            scope: Scope::Fleet,
            operation: "epoch_hook".into(),
            unit: None,
            own: false,
            freshness: Freshness::default(),
            total: Quantiles::default(),
            windows: BTreeMap::from([(
                SHOWN,
                WindowRow {
                    quantiles: Quantiles::default(),
                    nodes: 1,
                    nodes_expected: 1,
                    nodes_late: 0,
                },
            )]),
        };
        let part = BudgetRow { budget: "of_r1".into(), verdict: Verdict::NoData, ..budget.clone() };
        let part = BudgetRow { alert: AlertState::Inactive, ..part };
        let late = Summary {
            at_seconds: 129.0,
            operations: vec![row],
            budgets: vec![part, budget],
            changes: vec![serde_json::from_str(notification).unwrap()],
            ..summary()
        };
        let shown = table(&late, None);
        assert!(!shown.contains('~'), "{shown}");
        let mut open = late.clone();
        open.budgets[1].within_ns = Some((10_000_000, 25_000_000));
        open.budgets[1].value_ns = Some(12_000_000);
        let window = open.operations[0].windows.get_mut(&SHOWN).unwrap();
        window.quantiles.p99_ns = Some(12_000_000);
        window.quantiles.approximate = Some(QuantileBounds::default());
        let open = table(&open, None);
        let cells: Vec<&str> = open.lines().nth(1).unwrap().split_whitespace().collect();
        let wanted = ["-", "~12", "ms", "p99", "<=", "18", "ms", "~33.3"];
        assert_eq!(cells[2..10], wanted, "{open}");
        let mut stale = late.clone();
        let freshness = Freshness { as_of_seconds: Some(100.0), stale: true };
        stale.operations[0].freshness = freshness;
        for budget in &mut stale.budgets {
            (budget.freshness, budget.value_ns) = (freshness, Some(12_000_000));
        }
        let window = stale.operations[0].windows.get_mut(&SHOWN).unwrap();
        window.quantiles.p99_ns = Some(12_000_000);
        let stale = table(&stale, None);
        let line = |n: usize| stale.lines().nth(n).unwrap();
        assert!(line(1).ends_with("FIRING, 340 s late, no data for 29 s"), "{stale}");
        assert!(line(2).ends_with("stale, no data for 29 s"), "{stale}");
        assert!(!stale.contains("12 ms") && !stale.contains("33.3"), "{stale}");

        let table = shown;
        assert!(table.lines().nth(1).unwrap().ends_with("FIRING, 340 s late"), "{table}");
        let words: Vec<&str> = table.lines().nth(2).unwrap().split_whitespace().collect();
        let of_part =
            ["of_r1", "fleet", "-", "-", "p99", "<=", "18", "ms", "-", "-", "no", "samples"];
        assert_eq!(words, of_part);
    }
}
