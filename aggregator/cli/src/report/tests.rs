//! Whole reports from the pages of an aggregator: what each form holds, and what it must not.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use plimsoll_compare::history::SecondsRange;
use plimsoll_compare::table::percent;
use plimsoll_compare::{
    BucketLayout, Measured, MeasuredRate, Named, Options, RateSlot, Side, Slot, compare_runs,
};
use plimsoll_schemas::alert::AlertState;
use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::summary::{BudgetRow, Freshness, Ledger, Verdict};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::document::{Beside, DrillResult, Expectation, NodeMachine, Subject};
use super::material::{Material, NodePoint, OperationPages};
use super::{Form, Format};
use crate::run_results::RecordedEpochs;

const HOSTILE: &str = "</title><script>alert('x')</script>\" onload=\"y|`[z](w)";

fn now() -> Zoned {
    Timestamp::from_second(1_000).unwrap().to_zoned(TimeZone::UTC)
}

fn point(from: f64, to: f64, count: u64, over: u64) -> Value {
    let value = |quantile: f64, value: f64| json!({"quantile": quantile, "value": value, "lower": value, "upper": value});
    json!({
        "from_seconds": from, "to_seconds": to, "count": count, "mean": 0.012, "min": 0.008,
        "max": 0.05, "approximate": false, "completeness": 1.0,
        "quantiles": [value(0.5, 0.01), value(0.99, 0.03), value(0.999, 0.05)],
        "over": [{"limit": 0.018, "over": over, "uncertain": 0}],
        "distribution": [
            {"lower": 0.00999424, "upper": 0.010002431, "count": count - over},
            {"lower": 0.029999104, "upper": 0.030015487, "count": over},
        ],
    })
}

fn pages(operation: &str) -> OperationPages {
    let page = |points: Value, step: f64| {
        json!({
            "mesh": "m", "operation": operation, "unit": "seconds", "from_seconds": 900.0,
            "to_seconds": 920.0, "resolution": "10s", "step_seconds": step,
            "kept_from_seconds": 0.0, "points": points,
        })
    };
    let columns = json!([point(900.0, 910.0, 60, 1), point(910.0, 920.0, 40, 4)]);
    let heatmap = json!({
        "mesh": "m", "operation": operation, "unit": "seconds", "from_seconds": 900.0,
        "to_seconds": 920.0, "resolution": "10s", "step_seconds": 10.0,
        "bands": [{"lower": 0.008, "upper": 0.02}, {"lower": 0.02, "upper": 0.05}],
        "counts": [[59, 1], [36, 4]],
    });
    let read = |page: Value| serde_json::from_value(page).unwrap();
    let slots: Vec<_> = columns
        .as_array()
        .unwrap()
        .iter()
        .cloned()
        .map(serde_json::from_value)
        .map(Result::unwrap)
        .collect();
    OperationPages {
        whole: read(page(json!([point(900.0, 920.0, 100, 5)]), 20.0)),
        columns: read(page(columns, 10.0)),
        heatmap: serde_json::from_value(heatmap).unwrap(),
        slots,
    }
}

/// A step with one phase, and a finding about it.
fn bottlenecks(name: &str) -> Value {
    let phase = json!({
        "operation": name, "class": name, "count": 200, "seconds": 1.4, "share": 0.7,
    });
    json!({
        "mesh": name, "run": name, "from_seconds": 900.0, "to_seconds": 920.0,
        "resolution": "10s", "kept_from_seconds": 0.0, "completeness": 1.0,
        "wall": {"seconds": 20.0, "node_seconds": 40.0},
        "cycles": [{
            "operation": name, "count": 200, "seconds": 2.0, "mean": 0.01, "p99": 0.02,
            "max": 0.03, "classes": [{"class": name, "seconds": 1.4, "share": 0.7}],
            "phases": [phase], "parallel": true,
        }],
        "classes": [], "operations": [phase], "operations_omitted": 0,
        "bottlenecks": [{
            "rule": "input_wait", "state": "found", "severity": "high", "cycle": name,
            "value": 0.7, "limit": 0.5, "evidence": name, "summary": name, "runbook": name,
        }],
    })
}

/// A counter of an operation over 20 s.
fn tokens(operation: &str) -> Value {
    json!({
        "mesh": "m", "metric": format!("{operation}.tokens"), "kind": "counter",
        "operation": operation, "from_seconds": 900.0, "to_seconds": 920.0, "resolution": "10s",
        "step_seconds": 20.0, "kept_from_seconds": 0.0, "points": [{
            "from_seconds": 900.0, "to_seconds": 920.0, "count": 20, "sum": 4_000.0,
            "per_second": 200.0, "operation_seconds": 2.0, "per_operation_second": 2_000.0,
            "completeness": 1.0,
        }],
    })
}

#[test]
fn a_counter_has_its_total_and_its_rates_in_each_form() {
    let material = material("fetch", "n1");
    let found = &as_json(&material)["metrics"][0];
    assert_eq!((&found["metric"], &found["sum"]), (&"fetch.tokens".into(), &4_000.0.into()));
    for format in [Format::Markdown, Format::Html] {
        let text = rendered(&material, &now(), format).unwrap();
        let rates = "fetch.tokens 200 (2,000 of fetch)";
        for words in ["fetch.tokens", "4,000", "2,000 (fetch)", "Tokens a second", rates] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}

/// One operation with a budget that is in breach, an alert, an event and a drill, all of which
/// are called `name` where an aggregator or a drill leaves it open.
fn material(operation: &str, name: &str) -> Material {
    let budget = |scope: Value, over: u64| {
        json!({
            "budget": operation, "operation": operation, "scope": scope, "quantile": 0.99,
            "limit_ns": 18_000_000, "window": "10s", "samples": 50, "over": over,
            "verdict": "breach", "alert": "firing",
        })
    };
    let ledger = json!({
        "recorded": 105, "merged": 100, "held": 0, "unaccounted": 0, "unread": 0,
        "lost": {name: 5},
    });
    let summary = json!({
        "mesh": name, "version": "0", "at_seconds": 1000.0, "ready": true, "broker": "jetstream",
        "nodes": [], "operations": [], "changes": [],
        "budgets": [
            budget("fleet".into(), 5), budget(json!({"node": "n1"}), 4),
            budget(json!({"node": "n2"}), 1),
        ],
    });
    let alert = json!({
        "rule": "epoch_hook", "scope": "fleet", "operation": "epoch_hook", "state": "firing",
        "since_seconds": 905.0, "firing_since_seconds": 905.0, "severity": "critical",
        "summary": name, "runbook": null, "data": "enough", "flaps": 0, "acknowledged": null,
        "silenced_by": [], "evidence": null, "context": null,
    });
    let event = json!({
        "node": name, "merged_at_seconds": 901.0, "at_seconds": 901.0, "source": "event",
        "title": name, "text": name, "alert_type": "info", "low_priority": false, "host": "",
        "aggregation_key": "", "labels": {},
    });
    let page = |key: &str, rows: Value| {
        let mut page = json!({"mesh": "m", "at_seconds": 1000.0, "ready": true});
        page[key] = rows;
        page
    };
    let mut of_ledger = page(
        "nodes",
        json!([{
            "node": name, "ledger": ledger, "gap_samples": 0, "duplicates": 0, "duplicate_names": 0,
            "runs": [], "past": {"recorded": 0, "merged": 0, "held": 0, "unaccounted": 0, "lost": {}},
        }]),
    );
    let hardware = json!({"nodes": [{"node": "n1", "readings": [
        {"sensor": "gpu_throttled", "labels": {"gpu": name}, "value": 1.0},
        {"sensor": "disk_read_only", "labels": {"mount": "/my disk"}, "value": 0.0},
        {"sensor": "pressure_full_ratio", "labels": {"resource": "memory"}, "value": 0.0},
    ]}]});
    of_ledger["behind"] = false.into();
    of_ledger["fleet"] = ledger;
    Material {
        asked_at: 1_000.0,
        subject: Subject::Run(name.to_owned()),
        is_of_fleet: false,
        range: SecondsRange { from: 901.0, to: 919.0 },
        operations: vec![pages(operation)],
        empty: None,
        operations_left_out: 0,
        slots_left_out: None,
        nodes: Vec::new(),
        nodes_silent: [("n3".to_owned(), "no answer".to_owned())].into(),
        summary: serde_json::from_value(summary).unwrap(),
        alerts: serde_json::from_value(page("alerts", json!([alert]))).unwrap(),
        events: serde_json::from_value(page("events", json!([event]))).unwrap(),
        ledger: serde_json::from_value(of_ledger).unwrap(),
        hardware: Some(serde_json::from_value(hardware).unwrap()),
        bottlenecks: Ok(serde_json::from_value(bottlenecks(name)).unwrap()),
        metrics: vec![serde_json::from_value(tokens(operation)).unwrap()],
        drills: vec![DrillResult {
            file: "d.json".to_owned(),
            drill: name.to_owned(),
            passed: false,
            seconds: 3.0,
            expectations: vec![Expectation {
                name: name.to_owned(),
                expected: name.to_owned(),
                seen: name.to_owned(),
                took_seconds: 1.0,
                verdict: "missed".to_owned(),
            }],
            expectations_left_out: 0,
        }],
        recorded: None,
        machines: BTreeMap::new(),
        beside: None,
    }
}

/// Two runs of two minutes, the second a half slower.
fn side(slower: u64) -> Side {
    let mut measured = Measured::new(BucketLayout::MESH);
    let slot = |n: u64| {
        let mut samples = Histogram::default();
        (0..50).for_each(|at| samples.record(slower * (4_000_000 + 100_000 * ((7 * at + n) % 50))));
        let samples = Packed::from(&samples);
        Slot { node: None, start_ns: n, length_ns: 1, samples }
    };
    measured.slots.extend((0..120).map(slot));
    let slots =
        (0..120).map(|n| RateSlot { amount: 60.0, seconds: slower as f64 + f64::from(n % 3) });
    let rate = MeasuredRate { operation: None, slots: slots.collect() };
    let named = |name: &str| Operation::new(name).unwrap();
    Side { operations: [(named("fetch"), measured)].into(), rates: [(named("rows"), rate)].into() }
}

#[test]
fn another_run_beside_it_is_in_every_form_with_the_figures_of_compare() {
    let (a, b) = (side(2), side(3));
    let sides: [&[Named<Side>]; 2] =
        [&[Named { name: "v41", of: &a }], &[Named { name: "v42", of: &b }]];
    let comparison = compare_runs(sides, &Options { tolerance: 0.01, ..Options::default() });
    let median = comparison.operations["fetch"].shifts[4].change.unwrap();
    let shift = percent(median.estimate);
    let mut material = material("fetch", "v42");
    let beside =
        |a: &str| Beside { a: a.to_owned(), b: "v42".to_owned(), comparison: comparison.clone() };
    material.beside = Some(beside("v41"));

    for format in [Format::Markdown, Format::Html] {
        let text = rendered(&material, &now(), format).unwrap();
        for words in [
            "Beside another run",
            "A is v41, B is v42: worse",
            &shift,
            "rows/s",
            "within these runs only",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
    let json = &as_json(&material)["beside"];
    assert_eq!((&json["a"], &json["verdict"]), (&"v41".into(), &"worse".into()));
    let found = &json["operations"]["fetch"]["shifts"][4]["change"]["estimate"];
    assert_eq!(found.as_f64(), Some(median.estimate));

    for format in [Format::Markdown, Format::Html, Format::Json] {
        let form = Form { format, redact: true };
        let text = super::rendered(&material, &now(), form).unwrap();
        assert!(!text.contains("v41") && text.contains("worse"), "{text}");
    }
}

fn rendered(material: &Material, now: &Zoned, format: Format) -> Result<String> {
    super::rendered(material, now, Form { format, redact: false })
}

fn as_json(material: &Material) -> Value {
    serde_json::from_str(&rendered(material, &now(), Format::Json).unwrap()).unwrap()
}

/// What changes in a mesh, and the sentence or the end of it.
type SentenceCase<'a> = (&'a dyn Fn(&mut Material), String);

#[test]
fn one_sentence_names_what_is_over_or_why_nothing_is() {
    let fires = "alert epoch_hook firing since 1970-01-01 00:15:05+00:00";
    let quiet = |material: &mut Material| material.alerts.alerts.clear();
    let within = |material: &mut Material| {
        quiet(material);
        material.operations[0].whole.points[0].over[0].over = 1;
    };
    let cases: [SentenceCase<'_>; 13] = [
        (
            &|material| {
                quiet(material);
                let whole = &mut material.operations[0].whole;
                whole.operation = "read:bytes".to_owned();
                let point = &mut whole.points[0];
                point.over[0].limit = 18e6;
                point.quantiles.iter_mut().for_each(|found| found.value *= 1e9);
                let budget = &mut material.summary.budgets[0];
                (budget.operation, budget.limit_ns) = ("read:bytes".to_owned(), 18_000_000);
            },
            "Over budget: fetch p99 is 28.6 MiB, limit 17.2 MiB.".to_owned(),
        ),
        (
            &|_| {},
            format!(
                "Over budget: fetch p99 is 30 ms, limit 18 ms, 80 % of the time over it on n1 \
                 since 1970-01-01 00:15:00+00:00; {fires}."
            ),
        ),
        (
            &|material| {
                let key = &mut material.alerts.alerts[0].key;
                key.rule = serde_json::from_value("fetch".into()).unwrap();
                key.scope = serde_json::from_value(json!({"node": "n7"})).unwrap();
            },
            "Over budget: fetch p99 is 30 ms, limit 18 ms, on n7 since 1970-01-01 \
             00:15:05+00:00."
                .to_owned(),
        ),
        (
            &|material| {
                within(material);
                let alert = super::tests::material("fetch", "v42").alerts.alerts.remove(0);
                material.alerts.alerts.push(alert);
            },
            format!("Over the whole range: All is within budget (1 budget), but: {fires}."),
        ),
        (
            &|material| {
                within(material);
                let mut alert = super::tests::material("fetch", "v42").alerts.alerts.remove(0);
                alert.key.scope = serde_json::from_value(json!({"node": "n7"})).unwrap();
                alert.evidence = serde_json::from_value(straggler()).unwrap();
                material.alerts.alerts.push(alert);
            },
            "Over the whole range: All is within budget (1 budget), but: rank 3 on n7 is 40 % slower \
             than the median in train_step since 1970-01-01 00:15:04+00:00."
                .to_owned(),
        ),
        (
            &|material| {
                quiet(material);
                let row = material.summary.budgets[0].clone();
                let more = (0..3).map(|n| BudgetRow { budget: format!("f{n}"), ..row.clone() });
                material.summary.budgets.extend(more);
            },
            "; and 1 more.".to_owned(),
        ),
        (&within, "All is within budget (1 budget).".to_owned()),
        (
            &|material| {
                within(material);
                let mut alert = super::tests::material("fetch", "v42").alerts.alerts.remove(0);
                alert.key.rule = serde_json::from_value("fetch".into()).unwrap();
                alert.key.scope = serde_json::from_value(json!({"node": "n7"})).unwrap();
                material.alerts.alerts.push(alert);
            },
            "Over the whole range: All is within budget (1 budget), but: alert fetch on n7 firing since \
             1970-01-01 00:15:05+00:00."
                .to_owned(),
        ),
        (
            &|material| {
                within(material);
                material.operations[0].whole.points[0].completeness = Some(0.75);
            },
            "All is within budget (1 budget) in the 75 % of the nodes' time that was received."
                .to_owned(),
        ),
        (
            &|material| {
                within(material);
                material.operations[0].whole.points[0].over[0].uncertain = 3;
            },
            "No budget is certainly over, but fetch may be.".to_owned(),
        ),
        (
            &|material| {
                within(material);
                material.subject = Subject::Fleet;
                let row = material.summary.budgets[0].clone();
                let silent = BudgetRow { operation: "load".to_owned(), ..row };
                material.summary.budgets.push(silent);
            },
            "All that was measured is within budget (1; 1 budget without samples).".to_owned(),
        ),
        (
            &|material| {
                quiet(material);
                material.summary.budgets.clear();
            },
            "Nothing was judged: no budget is defined for these operations.".to_owned(),
        ),
        (
            &|material| {
                quiet(material);
                material.operations.clear();
            },
            "Nothing was measured: there are no samples in this range.".to_owned(),
        ),
    ];

    for (change, sentence) in cases {
        let mut material = material("fetch", "v42");
        change(&mut material);
        let found = as_json(&material)["summary"].as_str().unwrap().to_owned();
        assert!(found.ends_with(&sentence), "{found}");
        assert!(sentence.starts_with(';') || found == sentence, "{found}");
        let form = |format| rendered(&material, &now(), format).unwrap();
        let lead = format!("<p class=\"lead\">{found}</p>");
        assert!(form(Format::Html).contains(&lead), "{lead}");
        assert!(form(Format::Markdown).contains(&format!("\n**{found}**\n")), "{found}");
    }
}

fn straggler() -> Value {
    json!({
        "method": "slowest", "operation": "train_step", "cohort": {}, "by": "rank", "peer": "3",
        "peers": 4, "others_of_node": 0, "excess_seconds": 0.02, "lower_seconds": 0.01,
        "upper_seconds": 0.03, "excess_ratio": 0.4, "lower_ratio": 0.3, "upper_ratio": 0.5,
        "allowed_ratio": 0.03, "class": null, "unmeasured": [], "slow_since_seconds": 904.0,
        "peer_hours_per_hour": 1.0, "chance_of_error": 0.001,
    })
}

#[test]
fn hostile_names_are_nothing_but_text() {
    let mut material = material("fetch", HOSTILE);
    material.operations[0].whole.operation = HOSTILE.to_owned();
    // Only an operation that can be one has slots.
    material.operations[0].slots.clear();
    let html = rendered(&material, &now(), Format::Html).unwrap();
    assert!(!html.contains("<script") && !html.contains("\" onload"), "{html}");
    // Title, heading, navigation of plots, tables, events, alerts, ledger, hardware, drills.
    assert!(html.matches("&lt;script&gt;").count() >= 15, "{html}");
    let text = rendered(&material, &now(), Format::Markdown).unwrap();
    assert!(!text.contains('<') && text.contains("&lt;script&gt;"), "{text}");
    let columns = |line: &str| line.replace("\\|", "").matches('|').count();
    let mut table = text.lines().skip_while(|line| !line.starts_with("| Time | Node | Event"));
    let heading = columns(table.next().unwrap());
    assert_eq!(table.nth(1).map(columns), Some(heading), "{text}");
    let json = as_json(&material);
    assert_eq!((&json["mesh"], &json["subject"]["run"]), (&HOSTILE.into(), &HOSTILE.into()));
}

#[test]
fn the_page_is_one_file_that_loads_and_executes_nothing() {
    let html = rendered(&material("fetch", "v42"), &now(), Format::Html).unwrap();
    for absent in ["<script", "<link", "<iframe", "src=", "url(", "@import", "http://", "https://"]
    {
        assert!(!html.contains(absent), "{absent}");
    }
    assert!(html.contains("default-src 'none'"));
    assert!(html.contains("prefers-color-scheme: dark") && html.contains("@media print"));
}

#[test]
fn each_plot_has_its_words_and_its_table() {
    let html = rendered(&material("fetch", "v42"), &now(), Format::Html).unwrap();
    let ids: Vec<&str> = html.split(" id=\"").skip(1).filter_map(|s| s.split('"').next()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
    let plots: Vec<&str> = html.split("<figure>").skip(1).collect();
    assert_eq!(plots.len(), 3, "a distribution, the colours, a heatmap");
    for plot in plots {
        let plot = plot.split("</figure>").next().unwrap();
        assert!(plot.contains("role=\"img\"") && plot.contains("<title "), "{plot}");
        let named = plot.split("aria-labelledby=\"").nth(1).and_then(|of| of.split('"').next());
        assert!(named.unwrap().split(' ').all(|id| ids.contains(&id)), "{plot}");
        assert!(plot.contains("<table>") || plot.contains("Samples in a cell"), "{plot}");
    }
    assert!(!html.contains("NaN") && !html.contains("inf\""), "{html}");
    // The maximum is in words too.
    assert!(html.contains("The maximum is 50 ms"), "{html}");
    assert_eq!(html.matches("class=\"max\"").count(), 1);
    let headings = html.matches("<h2 ").count();
    assert_eq!(html.matches("<li>").count(), headings, "each section has its link");
}

#[test]
fn json_has_the_figures_the_ranks_and_the_epochs() {
    let json = as_json(&material("epoch_hook", "v42"));
    assert_eq!((&json["format"], &json["version"]), (&"plimsoll-report".into(), &1.into()));
    let operation = &json["operations"][0];
    assert_eq!((&operation["count"], &operation["max"]), (&100.into(), &0.05.into()));
    let budget = &json["budgets"][0];
    assert_eq!((&budget["verdict"], &budget["over"]), (&"breach".into(), &5.into()));
    assert_eq!(budget["latest"]["alert"], "firing");
    let ranks = &json["where_the_time_goes"];
    let ranked = &ranks["operations"][0];
    // Five samples of some 30 ms, 12 ms above the limit, and p99 of a hundred allows one of them.
    let over = ranked["over_seconds"].as_f64().unwrap();
    assert!((over - 0.048).abs() < 1e-4, "{ranked}");
    assert_eq!(ranked["share"], 1.0);
    let nodes = ranks["nodes"].as_array().unwrap();
    // p99 of 50 samples allows none of them: four on one node, and one on the other.
    assert_eq!((&nodes[0]["node"], &nodes[0]["share"]), (&"n1".into(), &0.8.into()));
    assert!(nodes[0]["advice"].as_str().unwrap().starts_with("gpu_throttled"), "{nodes:?}");
    assert_eq!(nodes[0]["over_seconds"], Value::Null);
    assert_eq!(json["epoch_operation"], "epoch_hook");
    let epochs = json["epoch_time_ms"].as_array().unwrap();
    assert_eq!((epochs.len(), &epochs[99]), (100, &30.015_487.into()));
    assert_eq!(json["epoch_time_ms_avg"], 12.0);
    let slots = json["samples"]["operations"]["epoch_hook"]["slots"].as_array().unwrap();
    assert_eq!(slots.len(), 2);
    let without = as_json(&material("fetch", "v42"));
    assert_eq!(without.get("epoch_time_ms"), None);
}

#[test]
fn recorded_epochs_are_shown_as_they_are_with_what_is_missing() {
    let mut material = material("epoch_hook", "v42");
    let history = &as_json(&material)["epoch_source"];
    assert!(history.as_str().unwrap().contains("rounded up"), "{history}");
    let recorded = RecordedEpochs {
        epoch_operation: Some("epoch_hook".to_owned()),
        epoch_time_ms: vec![30.000_001, 10.0, 20.0],
        epoch_time_ms_avg: Some(20.0),
        epoch_processes: 2,
        epochs_missing: vec!["lines that could not be read: 1".to_owned()],
        peak_resident_bytes: Some(3 << 20),
    };
    material.recorded = Some(recorded);
    let json = as_json(&material);
    assert_eq!(json["epoch_time_ms"], json!([30.000_001, 10.0, 20.0]));
    assert_eq!(
        (&json["epoch_time_ms_avg"], &json["peak_resident_bytes"]),
        (&20.0.into(), &3_145_728.0.into())
    );
    let source = "as recorded by 2 processes, in the order of their ends";
    assert_eq!(json["epoch_source"], source);
    for format in [Format::Markdown, Format::Html] {
        let text = rendered(&material, &now(), format).unwrap();
        let longest = "3 epochs of epoch_hook, 20 ms on average; the longest is number 1, 30 ms.";
        let missing = "Epochs are missing: lines that could not be read: 1.";
        let shown =
            [longest, missing, source, "Peak memory of a process", "3 MiB", "Epochs in order"];
        for words in shown {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
    let html = rendered(&material, &now(), Format::Html).unwrap();
    assert_eq!(html.matches("id=\"epochs-plot\"").count(), 1);
    assert_eq!(html.matches("<h2 ").count(), html.matches("<li>").count());

    // Without any, what a job sent of its memory is its peak.
    material.recorded = None;
    let mut page = tokens("process");
    page["metric"] = "process.resident_bytes".into();
    (page["kind"], page["points"][0]["max"]) = ("gauge".into(), 5e6.into());
    material.metrics.push(serde_json::from_value(page).unwrap());
    assert_eq!(as_json(&material)["peak_resident_bytes"], 5e6);
}

#[test]
fn where_the_time_goes_is_in_every_form_or_why_it_is_not() {
    let mut material = material("fetch", "v42");
    let forms = |material: &Material| {
        [Format::Markdown, Format::Html].map(|form| rendered(material, &now(), form).unwrap())
    };
    let [markdown, html] = forms(&material);
    for row in ["| v42 | v42 | 70 % | 1.4 s | 200 |", "| high | input_wait | v42 | v42 | v42 |"] {
        assert!(markdown.contains(row), "{markdown}");
    }
    assert!(html.contains("threads run side by side") && html.contains("input_wait"), "{html}");
    assert_eq!(as_json(&material)["bottlenecks"]["cycles"][0]["classes"][0]["share"], 0.7);

    material.bottlenecks = Err("404: no such page".to_owned());
    for text in forms(&material) {
        assert!(text.contains("Not available: 404: no such page."), "{text}");
    }
    assert_eq!(as_json(&material)["bottlenecks_left_out"], "404: no such page");
}

#[test]
fn a_verdict_without_newer_data_has_the_time_of_the_last_in_every_form() {
    let mut material = material("fetch", "v42");
    let freshness = Freshness { as_of_seconds: Some(971.0), stale: true };
    material.summary.freshness = freshness;
    material.summary.broker = "disconnected".to_owned();
    for row in &mut material.summary.budgets {
        (row.verdict, row.alert, row.freshness) =
            (Verdict::NoData, AlertState::Inactive, freshness);
    }
    let latest = &as_json(&material)["budgets"][0]["latest"];
    assert_eq!((&latest["stale"], &latest["as_of_seconds"]), (&true.into(), &971.0.into()));
    let since = "no data since 1970-01-01 00:16:11+00:00";
    for form in [Format::Markdown, Format::Html] {
        let text = rendered(&material, &now(), form).unwrap();
        assert_eq!(text.matches(since).count(), 2, "verdict and note: {text}");
        assert!(text.contains("(broker disconnected): current verdicts are stale"), "{text}");
    }
}

#[test]
fn evicted_nodes_have_one_row_in_every_form_if_there_are_any() {
    let mut material = material("fetch", "v42");
    let forms = |material: &Material| {
        let form = |form| rendered(material, &now(), form).unwrap();
        [form(Format::Markdown), form(Format::Html)]
    };
    assert!(forms(&material).iter().all(|text| !text.contains("evicted")));

    material.ledger.evicted = Ledger { recorded: 7_301, merged: 7_301, ..Ledger::default() };
    let [markdown, html] = forms(&material);
    let row = "| (evicted nodes) | 7,301 | 7,301 | 0 | 0 | 0 | 0 |";
    assert!(markdown.contains(row), "{markdown}");
    let row = "<th scope=\"row\">(evicted nodes)</th><td class=\"figure\">7,301</td>";
    assert!(html.contains(row), "{html}");
    assert_eq!(as_json(&material)["ledger"]["evicted"]["merged"], 7_301);
}

#[test]
fn nodes_that_keep_their_past_are_ranked_by_their_time_over_budget() {
    let mut material = material("fetch", "v42");
    let point = |node: &str, over: u64| NodePoint {
        node: node.to_owned(),
        operation: "fetch".to_owned(),
        point: serde_json::from_value(point(900.0, 920.0, 50, over)).unwrap(),
    };
    material.nodes = vec![point("n1", 0), point("n2", 4), point("n3", 12)];
    let json = as_json(&material);
    let ranks = &json["where_the_time_goes"];
    let nodes = ranks["nodes"].as_array().unwrap();
    let names: Vec<&Value> = nodes.iter().map(|of| &of["node"]).collect();
    assert_eq!(names, ["n3", "n2"]);
    assert!((nodes[0]["share"].as_f64().unwrap() - 0.75).abs() < 1e-9, "{nodes:?}");
    assert_eq!(nodes[0]["over"], 12);
    let over = nodes[0]["over_seconds"].as_f64().unwrap();
    assert!((over - 0.144).abs() < 1e-3, "{over}");
    assert!(
        nodes[0]["advice"].as_str().unwrap().contains("Most of it is on this node"),
        "{nodes:?}"
    );
    let by = ranks["nodes_by"].as_str().unwrap();
    assert!(
        by.contains("from their own histories. No answer for the whole range from 1 node"),
        "{by}"
    );
}

/// A hundred nodes meet a median budget with half of their samples far over it, and have all of its
/// time over the limit. One fires with 60 % of its samples a little over.
#[test]
fn the_firing_node_of_a_median_budget_is_the_first_row() {
    let of = |node: &str, within: u64, over: u64, at_ms: f64| {
        let mut point = point(900.0, 920.0, within + over, over);
        point["distribution"] = json!([
            {"lower": 0.005, "upper": 0.005, "count": within},
            {"lower": at_ms / 1e3, "upper": at_ms / 1e3, "count": over},
        ]);
        point["max"] = json!(at_ms / 1e3);
        let (node, operation) = (node.to_owned(), "fetch".to_owned());
        NodePoint { node, operation, point: serde_json::from_value(point).unwrap() }
    };
    let alert = |operation: &str| {
        json!({
            "rule": "fetch", "scope": {"node": "n99"}, "operation": operation, "state": "firing",
            "since_seconds": 905.0, "firing_since_seconds": 905.0, "severity": "critical",
            "summary": "", "runbook": null, "data": "enough", "flaps": 0, "acknowledged": null,
            "silenced_by": [], "evidence": null, "context": null,
        })
    };
    let mut material = material("fetch", "v42");
    material.summary.budgets.iter_mut().for_each(|row| row.quantile = 0.5);
    let healthy = (0..100).map(|n| of(&format!("n{n:03}"), 51, 49, 900.0));
    material.nodes = healthy.chain([of("n99", 40, 60, 19.0)]).collect();
    material.alerts.alerts = vec![serde_json::from_value(alert("fetch")).unwrap()];

    let ranks = as_json(&material)["where_the_time_goes"].clone();
    let nodes = ranks["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 1, "the others are within their budget: {nodes:?}");
    assert_eq!((&nodes[0]["node"], &nodes[0]["share"]), (&"n99".into(), &1.0.into()));
    // Of a hundred samples the median is the fiftieth: ten of one millisecond over.
    let over = nodes[0]["over_seconds"].as_f64().unwrap();
    assert!((over - 0.01).abs() < 1e-4, "{over}");

    // In windows too: 51 of 100 are forbidden nowhere but there.
    material.nodes.clear();
    let rows = (0..3).map(|n| (format!("n{n}"), 50)).chain([("n99".to_owned(), 60)]);
    let rows: Vec<Value> = rows
        .map(|(node, over)| {
            json!({
                "budget": "fetch", "operation": "fetch", "scope": {"node": node}, "quantile": 0.5,
                "limit_ns": 18_000_000, "window": "10s", "samples": 100, "over": over,
                "verdict": "breach", "alert": "firing",
            })
        })
        .collect();
    material.summary.budgets.truncate(1);
    material
        .summary
        .budgets
        .extend(rows.into_iter().map(|row| serde_json::from_value(row).unwrap()));
    let ranks = as_json(&material)["where_the_time_goes"].clone();
    let nodes = ranks["nodes"].as_array().unwrap();
    assert_eq!((nodes.len(), &nodes[0]["node"]), (1, &"n99".into()), "{nodes:?}");

    // A firing node comes first, whatever its time.
    material.nodes = vec![of("n1", 0, 100, 900.0), of("n99", 40, 60, 19.0)];
    let first =
        |material: &Material| as_json(material)["where_the_time_goes"]["nodes"][0]["node"].clone();
    assert_eq!(first(&material), "n99");
    material.alerts.alerts = vec![serde_json::from_value(alert("another")).unwrap()];
    assert_eq!(first(&material), "n1");
    let operation = &as_json(&material)["where_the_time_goes"]["operations"][0];
    assert_eq!(
        (&operation["limit_quantile"], &operation["over_seconds"]),
        (&0.5.into(), &0.0.into())
    );
}

#[test]
fn a_node_that_is_slow_to_publish_alone_is_not_ranked() {
    // In the windows of budgets, and in what nodes have of the range.
    let mut material = material("publish", "v42");
    let ranked = |material: &Material| {
        let ranks = as_json(material)["where_the_time_goes"].clone();
        assert_eq!(
            ranks["operations"][0]["operation"], "publish",
            "it is an operation all the same"
        );
        (ranks["nodes"].as_array().unwrap().len(), ranks["nodes_by"].as_str().unwrap().to_owned())
    };
    let (nodes, by) = ranked(&material);
    assert_eq!(nodes, 0);
    assert!(by.starts_with("No listed node had more samples of jobs over a limit than"), "{by}");
    material.nodes = vec![NodePoint {
        node: "n1".to_owned(),
        operation: "publish".to_owned(),
        point: serde_json::from_value(point(900.0, 920.0, 50, 12)).unwrap(),
    }];
    assert_eq!(ranked(&material).0, 0);
}

#[test]
fn an_empty_range_and_one_that_is_not_complete_are_stated_in_every_form() {
    let mut empty = material("fetch", "v42");
    empty.operations.clear();
    let mut part = material("fetch", "v42");
    part.operations[0].whole.points[0].completeness = Some(0.75);
    let mut unknown = material("fetch", "v42");
    unknown.operations[0].whole.points[0].completeness = None;
    for (material, words) in [
        (&empty, "There are no samples in this range."),
        (&part, "75 % of the nodes' time was received"),
        (&unknown, "Completeness is unknown"),
    ] {
        let html = rendered(material, &now(), Format::Html).unwrap();
        assert!(html.contains(words), "{html}");
        let text = rendered(material, &now(), Format::Markdown).unwrap();
        assert!(text.contains(words), "{text}");
        let notes = as_json(material)["notes"].to_string();
        assert!(notes.contains(words), "{notes}");
    }
    let json = as_json(&empty);
    assert_eq!((&json["operations"], &json["range"]["resolution"]), (&json!([]), &Value::Null));
    let whole = as_json(&material("fetch", "v42"));
    assert_eq!(whole["notes"], json!([]));
}

/// A mesh in which `node` is in every place that has names.
fn named_everywhere(node: &str) -> Material {
    let mut material = material("fetch", node);
    // Reasons of a loss are no names.
    material.ledger.fleet.lost.clear();
    material.ledger.nodes.iter_mut().for_each(|row| row.ledger.lost.clear());
    let alert = &mut material.alerts.alerts[0];
    alert.key.scope = serde_json::from_value(json!({"node": node})).unwrap();
    alert.summary = format!("{node}.lab: /data/{node} is full (mount=/data/{node}), 7 of 8 GiB");
    alert.evidence = serde_json::from_value(json!({
        "metric": "sensor:disk_used_bytes", "labels": {"mount": format!("/data/{node}")},
        "value": 7.0, "comparison": "greater", "threshold": 6.0,
    }))
    .unwrap();
    material.events.events[0].host = format!("{node}.lab");
    material.events.events[0].text = format!("deployed by ann@{node} to {node}");
    // Operations, classes and texts of rules are no names.
    let mut page = bottlenecks("fetch");
    (page["mesh"], page["run"], page["values"]) = (node.into(), node.into(), json!([node]));
    page["rollup"] = "host".into();
    let found = &mut page["bottlenecks"][0];
    (found["node"], found["evidence"]) = (node.into(), format!("readings of {node}").into());
    material.bottlenecks = Ok(serde_json::from_value(page).unwrap());
    let machine =
        json!({"cpu": "EPYC", "cores": 4, "kernel": format!("6.1-{node}"), "os": "Debian 12"});
    let machine = serde_json::from_value(machine).unwrap();
    let described = NodeMachine { machine, plimsoll_version: "0.1.0".to_owned() };
    material.machines = [("n1".to_owned(), described.clone()), (node.to_owned(), described)].into();
    material.nodes_silent = [(node.to_owned(), format!("no answer of {node}"))].into();
    material.nodes = vec![NodePoint {
        node: node.to_owned(),
        operation: "fetch".to_owned(),
        point: serde_json::from_value(point(900.0, 920.0, 50, 12)).unwrap(),
    }];
    material
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn no_name_of_a_node_is_left_in_any_form(node in "zq[a-z]{1,4}[0-9]{1,2}(-[a-z]{1,3})?") {
        let material = named_everywhere(&node);
        for format in [Format::Json, Format::Markdown, Format::Html] {
            let open = rendered(&material, &now(), format).unwrap();
            prop_assert!(open.matches(&node).count() > 10, "{}", open);
            let redacted =
                super::rendered(&material, &now(), Form { format, redact: true }).unwrap();
            prop_assert!(!redacted.contains(&node), "{}", redacted);
            prop_assert!(redacted.contains("fetch") && redacted.contains("7 of 8 GiB"));
        }
    }
}

#[test]
fn a_redacted_report_has_one_pseudonym_for_a_name_and_all_figures() {
    let material = named_everywhere("gpu7");
    let text = super::rendered(&material, &now(), Form { format: Format::Json, redact: true });
    let redacted: Value = serde_json::from_str(&text.unwrap()).unwrap();
    let open = as_json(&material);
    for key in ["operations", "budgets", "range", "epoch_time_ms", "samples"] {
        assert_eq!(redacted.get(key), open.get(key), "{key}");
    }
    let machine = redacted["hardware"]["described"].as_object().unwrap().values().next().unwrap();
    let name_in = format!("6.1-{}", redacted["mesh"].as_str().unwrap());
    assert_eq!((&machine["kernel"], &machine["cores"]), (&name_in.into(), &4.into()));
    let markdown = rendered(&material, &now(), Format::Markdown).unwrap();
    let row = "| n1 | EPYC, 4 cores, kernel 6.1-gpu7, Debian 12 | 0.1.0 |";
    assert!(markdown.contains(row), "{markdown}");
    // The mesh, the run and the node are called alike here, and so are their pseudonyms.
    let name = &redacted["mesh"];
    let ranked = &redacted["where_the_time_goes"]["nodes"][0]["node"];
    assert_eq!((name, &redacted["subject"]["run"], ranked), (name, name, name));
    assert_eq!(&redacted["ledger"]["nodes"][0]["node"], name);
    // The event's host is called gpu7.lab, which is a name of its own.
    let summary = redacted["alerts"][0]["summary"].as_str().unwrap();
    assert_eq!(summary, "node-2: path-2 is full (mount=path-2), 7 of 8 GiB");
    assert_eq!(redacted["alerts"][0]["evidence"]["labels"]["mount"], "path-2");
    let nodes = redacted["hardware"]["nodes"].as_object().unwrap();
    let sensors: Vec<&String> =
        nodes.values().next().unwrap().as_object().unwrap().keys().collect();
    let mounted = "disk_read_only mount=path-1";
    let throttled = format!("gpu_throttled gpu={}", name.as_str().unwrap());
    assert_eq!(sensors, [mounted, &throttled, "pressure_full_ratio resource=memory"]);
}
