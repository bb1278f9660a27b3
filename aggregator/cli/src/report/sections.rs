//! The sections of a report as paragraphs and tables, which Markdown and HTML both have.

use jiff::tz::TimeZone;
use plimsoll_schemas::alert::{AlertState, DataStatus, Evidence};
use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::summary::{Ledger, Verdict};

use super::document::{
    BudgetResult, Document, DrillResult, LatestVerdict, LedgerResult, OperationResult, Subject,
    TimeRanking,
};
use super::words::{
    completeness, evidence, grouped, milliseconds_or_so, over, percent, quantile_name, reading,
};
use crate::time_range::shown;

/// The quantiles of the table of operations.
const SHOWN: [f64; 6] = [0.01, 0.5, 0.9, 0.95, 0.99, 0.999];

/// A heading with what stands below it.
pub(super) struct Section {
    /// Names it in a link.
    pub(super) id: &'static str,
    pub(super) heading: &'static str,
    pub(super) paragraphs: Vec<String>,
    pub(super) tables: Vec<Table>,
}

/// A table; a sentence instead of one without rows.
pub(super) struct Table {
    pub(super) caption: String,
    pub(super) heading: Vec<String>,
    pub(super) rows: Vec<Vec<Cell>>,
    pub(super) empty: &'static str,
}

/// A cell, and how it is shown.
pub(super) struct Cell {
    pub(super) words: String,
    pub(super) tone: Tone,
}

/// How a cell is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Text,
    /// As a figure, so that digits are below each other.
    Figure,
    /// As what is as it should be.
    Good,
    /// As what is open.
    Open,
    /// As what is not as it should be.
    Bad,
}

impl Tone {
    fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Within => Self::Good,
            Verdict::Breach => Self::Bad,
            Verdict::NoData | Verdict::Insufficient | Verdict::Uncertain => Self::Open,
        }
    }
}

fn text(words: impl Into<String>) -> Cell {
    Cell { words: words.into(), tone: Tone::Text }
}

fn figure(words: impl Into<String>) -> Cell {
    Cell { words: words.into(), tone: Tone::Figure }
}

/// What a report is called.
pub(super) fn title(of: &Document) -> String {
    match &of.subject {
        Subject::Run(name) => format!("Run {name} on mesh {}", of.mesh),
        Subject::Fleet => format!("Mesh {}", of.mesh),
    }
}

/// All sections but the plots.
pub(super) fn sections(of: &Document, zone: &TimeZone) -> Vec<Section> {
    vec![
        about(of, zone),
        budgets(&of.budgets, zone),
        operations(&of.operations),
        time(&of.where_the_time_goes),
        hardware(of),
        alerts(of, zone),
        events(of, zone),
        ledger(&of.ledger, zone),
        drills(&of.drills),
    ]
}

fn table(caption: &str, heading: &[&str], rows: Vec<Vec<Cell>>, empty: &'static str) -> Table {
    let heading = heading.iter().map(|name| (*name).to_owned()).collect();
    Table { caption: caption.to_owned(), heading, rows, empty }
}

fn about(of: &Document, zone: &TimeZone) -> Section {
    let range = &of.range;
    let (from, to) = (shown(range.from_seconds, zone), shown(range.to_seconds, zone));
    let subject = match &of.subject {
        Subject::Run(name) => format!("run {name}"),
        Subject::Fleet => "all samples of the fleet".to_owned(),
    };
    let resolution = range.resolution.as_deref().unwrap_or("unknown");
    let (error, least) = (percent(range.quantile_error_ratio), range.quantile_error_min_seconds);
    let error = format!("{error} of the value, or {}", milliseconds_or_so(Some(least)));
    let rows = [
        ("Mesh", of.mesh.clone()),
        ("Of", subject),
        ("From", from),
        ("To", to),
        ("Time zone", of.time_zone.clone()),
        ("Complete", completeness(range.completeness)),
        ("Slots of the history", resolution.to_owned()),
        ("Error of quantiles, at most", error),
        ("Made", shown(of.asked_at_seconds, zone)),
        ("By", format!("plimsoll {}", of.plimsoll_version)),
    ];
    let rows = rows.into_iter().map(|(name, value)| vec![text(name), text(value)]).collect();
    Section {
        id: "about",
        heading: "What it is of",
        paragraphs: of.notes.clone(),
        tables: vec![table("Range and mesh", &["What", "Value"], rows, "")],
    }
}

fn budgets(of: &[BudgetResult], zone: &TimeZone) -> Section {
    let rows = of.iter().map(|row| {
        let limit = milliseconds_or_so(Some(row.limit_seconds));
        let LatestVerdict { verdict: latest, alert, .. } = row.latest;
        let now = verdict_now(&row.latest, zone);
        let (over, count) = (over(row.over, row.uncertain), grouped(row.count));
        vec![
            text(row.budget.clone()),
            text(row.operation.clone()),
            text(format!("{} ≤ {limit}", quantile_name(row.quantile))),
            Cell { words: verdict(row.verdict).to_owned(), tone: Tone::of(row.verdict) },
            figure(milliseconds_or_so(row.value.map(|value| value.value))),
            figure(format!("{over} of {count}")),
            Cell {
                words: match alert {
                    AlertState::Pending | AlertState::Firing | AlertState::Resolved => {
                        format!("{now}, alert {}", alert.as_str())
                    }
                    AlertState::Inactive | AlertState::Insufficient | AlertState::NoData => now,
                },
                tone: Tone::of(latest),
            },
        ]
    });
    let heading =
        ["Budget", "Operation", "Limit", "In the range", "Value", "Over the limit", "Now"];
    Section {
        id: "budgets",
        heading: "Budgets",
        paragraphs: vec![
            "In the range: whether the share of samples over the limit is within the allowed one, \
             of all samples of the operation. Now: the aggregator's verdict when the report was \
             made, which considers chance and the budget's own labels."
                .to_owned(),
        ],
        tables: vec![table(
            "Budgets of the fleet",
            &heading,
            rows.collect(),
            "No budget is defined for these operations.",
        )],
    }
}

/// A verdict, and since when nothing is known if it is stale.
fn verdict_now(of: &LatestVerdict, zone: &TimeZone) -> String {
    let words = verdict(of.verdict);
    let is_old = of.freshness.stale || of.verdict == Verdict::NoData;
    let since = of.freshness.as_of_seconds.filter(|_| is_old).map(|at| shown(at, zone));
    match (since, of.verdict) {
        (None, _) => words.to_owned(),
        (Some(since), Verdict::NoData) => format!("no data since {since}"),
        (Some(since), _) => format!("{words}, no data since {since}"),
    }
}

fn verdict(of: Verdict) -> &'static str {
    match of {
        Verdict::NoData => "no data",
        Verdict::Insufficient => "too few samples",
        Verdict::Within => "within",
        Verdict::Uncertain => "uncertain",
        Verdict::Breach => "breach",
    }
}

fn operations(of: &[OperationResult]) -> Section {
    let quantiles = SHOWN.map(quantile_name);
    let mut heading = vec!["Operation", "Samples", "Mean"];
    heading.extend(quantiles.iter().map(String::as_str));
    heading.extend(["Max", "Over the limit"]);
    let rows = of.iter().map(|row| {
        let mark = match (row.approximate, row.own) {
            (true, _) => " (approximate)",
            (false, true) => " (of the system)",
            (false, false) => "",
        };
        let mut cells = vec![text(row.operation.clone() + mark), figure(grouped(row.count))];
        cells.push(figure(milliseconds_or_so(row.mean)));
        cells.extend(SHOWN.map(|quantile| {
            let found = row.quantiles.iter().find(|found| found.quantile == quantile);
            figure(milliseconds_or_so(found.map(|found| found.value)))
        }));
        cells.extend([figure(milliseconds_or_so(row.max)), figure(share_over(row))]);
        cells
    });
    Section {
        id: "operations",
        heading: "Operations",
        paragraphs: Vec::new(),
        tables: vec![table("Operations", &heading, rows.collect(), "No samples.")],
    }
}

/// The share over the limit, with the limit; a dash without one.
fn share_over(of: &OperationResult) -> String {
    let over = |limit: f64| of.over.iter().find(|over| (over.limit - limit).abs() < 0.5e-9);
    let Some(over) = of.limit_seconds.and_then(over) else { return "-".to_owned() };
    let share = |n: u64| percent(n as f64 / of.count.max(1) as f64);
    let limit = milliseconds_or_so(Some(over.limit));
    match over.uncertain {
        0 => format!("{} over {limit}", share(over.over)),
        more => format!("{} to {} over {limit}", share(over.over), share(over.over + more)),
    }
}

fn time(of: &TimeRanking) -> Section {
    let operations = of.operations.iter().map(|row| {
        vec![
            text(row.operation.clone()),
            figure(milliseconds_or_so(Some(row.limit_seconds))),
            figure(time_over(row.over_seconds, row.over_error_seconds)),
            figure(percent(row.share)),
            figure(percent(row.share_of_own_time)),
            text(row.advice.clone()),
        ]
    });
    let nodes = of.nodes.iter().map(|row| {
        let readings = row.machine.iter();
        let readings = readings.map(|(name, value)| format!("{name} {}", reading(name, value)));
        let machine = readings.collect::<Vec<_>>().join(", ");
        vec![
            text(row.node.clone()),
            figure(match (row.over_seconds, row.over_error_seconds) {
                (Some(seconds), Some(error)) => time_over(seconds, error),
                _ => "not available".to_owned(),
            }),
            figure(format!("{} of {}", grouped(row.over), grouped(row.samples))),
            figure(percent(row.share)),
            text(if machine.is_empty() { "not available".to_owned() } else { machine }),
            text(row.advice.clone()),
        ]
    });
    let of_operations =
        ["Operation", "Limit", "Time over budget", "Share of all", "Of its own time", "Advice"];
    let of_nodes =
        ["Node", "Time over budget", "Samples over limits", "Share of all", "Machine", "Advice"];
    Section {
        id: "time",
        heading: "Where the time goes",
        paragraphs: vec![of.formula.clone(), of.nodes_by.clone()],
        tables: vec![
            table(
                "Operations by time over budget",
                &of_operations,
                operations.collect(),
                "No operation with samples has a limit.",
            ),
            table("Nodes", &of_nodes, nodes.collect(), ""),
        ],
    }
}

/// A time with the bound of its error.
fn time_over(seconds: f64, error: f64) -> String {
    if seconds == 0.0 && error == 0.0 {
        return "0 s".to_owned();
    }
    format!("{} ± {}", milliseconds_or_so(Some(seconds)), milliseconds_or_so(Some(error)))
}

fn hardware(of: &Document) -> Section {
    let rows = of.hardware.nodes.iter().flat_map(|(node, readings)| {
        readings.iter().map(move |(name, value)| {
            vec![text(node.clone()), text(name.clone()), figure(reading(name, value))]
        })
    });
    Section {
        id: "hardware",
        heading: "Hardware",
        paragraphs: vec![format!("Latest state of machines: {}.", of.hardware.source)],
        tables: vec![table("Machines", &["Node", "Reading", "Value"], rows.collect(), "")],
    }
}

fn alerts(of: &Document, zone: &TimeZone) -> Section {
    let alerts = of.alerts.iter().map(|row| {
        let tone = match (row.state, row.severity) {
            (AlertState::Firing, Severity::Critical | Severity::Warning) => Tone::Bad,
            (AlertState::Firing | AlertState::Pending, _) => Tone::Open,
            _ => Tone::Good,
        };
        let data = match row.data {
            DataStatus::Enough => String::new(),
            data => format!(" (data: {})", data.as_str()),
        };
        vec![
            Cell { words: row.state.as_str().to_owned(), tone },
            text(row.severity.as_str()),
            text(format!("{} ({}, {})", row.rule, row.scope, row.operation)),
            text(shown(row.firing_since_seconds.unwrap_or(row.since_seconds), zone)),
            text(with_evidence(&row.summary, row.evidence.as_ref()) + &data),
        ]
    });
    let changes = of.alert_changes.iter().map(|row| {
        vec![
            text(shown(row.at_seconds, zone)),
            text(format!("{} ({}, {})", row.rule, row.scope, row.operation)),
            text(format!("{} to {}", row.from.as_str(), row.to.as_str())),
            text(with_evidence(&row.summary, Some(&row.evidence))),
        ]
    });
    Section {
        id: "alerts",
        heading: "Alerts",
        paragraphs: vec![
            "An aggregator drops alerts some time after they end, so those of an old range may \
             be absent."
                .to_owned(),
        ],
        tables: vec![
            table(
                "Alerts of the range",
                &["State", "Severity", "Alert", "Since", "Evidence"],
                alerts.collect(),
                "No alert of this range is known to the aggregator.",
            ),
            table("Changes", &["Time", "Alert", "Change", "Evidence"], changes.collect(), ""),
        ],
    }
}

fn with_evidence(summary: &str, of: Option<&Evidence>) -> String {
    match of {
        Some(of) => format!("{summary} {}", evidence(of)).trim_start().to_owned(),
        None => summary.to_owned(),
    }
}

fn events(of: &Document, zone: &TimeZone) -> Section {
    let rows = of.events.iter().map(|row| {
        let words = [shown(row.at_seconds, zone), row.node.clone()];
        words.into_iter().chain([row.title.clone(), row.text.clone()]).map(text).collect()
    });
    Section {
        id: "events",
        heading: "Events",
        paragraphs: Vec::new(),
        tables: vec![table(
            "Events of the range",
            &["Time", "Node", "Event", "Text"],
            rows.collect(),
            "No event of this range is known to the aggregator, which keeps the newest 256.",
        )],
    }
}

fn ledger(of: &LedgerResult, zone: &TimeZone) -> Section {
    let fleet = std::iter::once(("fleet", &of.fleet));
    let nodes = of.nodes.iter().map(|row| (row.node.as_str(), &row.ledger));
    let rows = fleet.chain(nodes).map(|(name, ledger)| account(name, ledger));
    let mut paragraphs = vec![format!(
        "Of all time and not of the range, as of {}: what became of every sample. Recorded is the \
         sum of all others, always.",
        shown(of.at_seconds, zone)
    )];
    if of.nodes_left_out > 0 {
        paragraphs.push(format!("{} more nodes are in none of the rows.", of.nodes_left_out));
    }
    let heading = ["Node", "Recorded", "Merged", "Held", "Unaccounted", "Unread", "Lost by reason"];
    Section {
        id: "ledger",
        heading: "Ledger",
        paragraphs,
        tables: vec![table("Ledger", &heading, rows.collect(), "")],
    }
}

fn account(name: &str, of: &Ledger) -> Vec<Cell> {
    let lost = of.lost.iter().filter(|(_, n)| **n > 0);
    let lost: Vec<String> = lost.map(|(reason, n)| format!("{reason} {}", grouped(*n))).collect();
    let lost = if lost.is_empty() { "0".to_owned() } else { lost.join(", ") };
    let counts = [of.recorded, of.merged, of.held, of.unaccounted, of.unread].map(grouped);
    let counts = counts.into_iter().chain([lost]).map(figure);
    std::iter::once(text(name)).chain(counts).collect()
}

fn drills(of: &[DrillResult]) -> Section {
    let passed = |drill: &DrillResult| {
        let passed = if drill.passed { "passed" } else { "FAILED" };
        let more = match drill.expectations_left_out {
            0 => String::new(),
            more => format!("; {more} more expectations"),
        };
        format!("{} {passed} in {:.0} s, from {}{more}", drill.drill, drill.seconds, drill.file)
    };
    let heading = ["Verdict", "Expectation", "Expected", "Seen", "Took"];
    let tables = of.iter().map(|drill| {
        let rows = drill.expectations.iter().map(|row| {
            let tone = match row.verdict.as_str() {
                "met" => Tone::Good,
                "missed" => Tone::Bad,
                _ => Tone::Open,
            };
            vec![
                Cell { words: row.verdict.clone(), tone },
                text(row.name.clone()),
                text(row.expected.clone()),
                text(row.seen.clone()),
                figure(format!("{:.1} s", row.took_seconds)),
            ]
        });
        table(&passed(drill), &heading, rows.collect(), "")
    });
    let none = of.is_empty().then(|| "No report of a drill was given (--drill).".to_owned());
    Section {
        id: "drills",
        heading: "Drills",
        paragraphs: none.into_iter().collect(),
        tables: tables.collect(),
    }
}
