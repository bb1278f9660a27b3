//! `plimsoll report` of a running mesh: its figures are those of the API, in each of its forms.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_mesh::stack::{Stack, StackOptions, bin_dir};
use plimsoll_schemas::hardware::{LOAD1, Reading};
use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::summary::RunsPage;
use plimsoll_schemas::wire::{Body, Hardware};
use plimsoll_tests::drill::{MISSED, run_drill};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::oracle::{RawSamples, check_drained};
use plimsoll_tests::publisher::Publisher;
use serde_json::{Value, from_str};

use crate::history::{JOBS, await_samples, query};
use crate::hostile::forgery::{header_of_now, message};

const WAIT: Duration = Duration::from_secs(30);

fn report(stack: &Stack, arguments: &[&str]) -> Output {
    let mut command = Command::new(bin_dir().unwrap().join("plimsoll"));
    command.arg("report").args(arguments).args(["--url", stack.api().url()]).output().unwrap()
}

fn read_json(path: impl AsRef<Path>) -> Value {
    from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The row of an operation in a report's JSON.
fn figures<'a>(report: &'a Value, operation: &str) -> &'a Value {
    figures_if_any(report, operation).unwrap()
}

#[tokio::test]
async fn a_report_has_the_figures_of_the_api_for_the_same_range() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = Stack::start(with_jobs(dir.path())).await.unwrap();
    await_samples(&stack, 60).await;
    let drained = stack.drain().await.unwrap();
    check_drained(&drained, stack.stations()).unwrap();
    let raw = RawSamples::of_all(stack.stations()).unwrap();
    for name in ["report.json", "report.html", "report.md"] {
        let path = dir.path().join(name).display().to_string();
        let output = report(&stack, &["--last", "10m", "--output", &path]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let json = read_json(dir.path().join("report.json"));
    let range = &json["range"];
    let html = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    let markdown = std::fs::read_to_string(dir.path().join("report.md")).unwrap();
    for operation in JOBS {
        let row = figures(&json, operation);
        let limit_ns = (row["limit_seconds"].as_f64().unwrap() * 1e9).round();
        let (from, to) = (&range["from_seconds"], &range["to_seconds"]);
        let parameters = format!(
            "operation={operation}&from={from}&to={to}&quantiles=0.01,0.5,0.9,0.99,0.999\
             &over={limit_ns}ns&distribution=true"
        );
        let of_api = query(&stack, &parameters).await;
        let point = serde_json::to_value(&of_api.points[0]).unwrap();
        for field in ["count", "mean", "min", "max", "distribution", "completeness"] {
            assert_same(&row[field], &point[field]);
        }
        assert_eq!(row["count"], raw.count(operation), "{operation}");
        for found in point["quantiles"].as_array().unwrap() {
            let mut all = row["quantiles"].as_array().unwrap().iter();
            assert_same(all.find(|of| of["quantile"] == found["quantile"]).unwrap(), found);
        }
        let mut over = row["over"].as_array().unwrap().iter();
        let is_limit = |of: &&Value| (of["limit"].as_f64().unwrap() * 1e9).round() == limit_ns;
        assert_same(over.find(is_limit).unwrap(), &point["over"][0]);
        let columns = row["over_time"]["columns"].as_array().unwrap();
        let sum: u64 = columns.iter().map(|column| column["count"].as_u64().unwrap()).sum();
        assert_eq!(sum, raw.count(operation), "{operation}");
        let cells = row["over_time"]["counts"].as_array().unwrap().iter();
        let cells: u64 =
            cells.flat_map(|row| row.as_array().unwrap()).filter_map(Value::as_u64).sum();
        assert_eq!(cells, raw.count(operation), "{operation}");
        let grouped = thousands(raw.count(operation));
        let in_html =
            format!("<th scope=\"row\">{operation}</th><td class=\"figure\">{grouped}</td>");
        assert!(html.contains(&in_html), "{operation} {grouped}");
        let in_markdown = format!("| {operation} | {grouped} |");
        assert!(markdown.contains(&in_markdown), "{markdown}");
    }
    let summary = json["summary"].as_str().unwrap();
    assert!(html.contains(summary) && markdown.contains(summary), "{summary}");
    let described = json["hardware"]["described"].as_object().unwrap();
    let machines: Vec<&Value> = described.values().collect();
    assert!(machines.iter().all(|of| of["kernel"].is_string()), "{machines:?}");
    assert_eq!(machines.len(), stack.stations().len());
    let epochs = json["epoch_time_ms"].as_array().unwrap();
    assert_eq!(epochs.len() as u64, raw.count("epoch_hook"));
    let merged = &json["ledger"]["fleet"]["merged"];
    assert_eq!((merged, &json["ledger"]["fleet"]["recorded"]), (merged, merged));
    // Refusals name what is wrong.
    for (arguments, code, words) in [
        (&["run:v43"][..], 1, "run \"v43\" is not in the history"),
        (&["--operation", "epoch_hok"], 1, "--operation epoch_hok: it has "),
        (&["--from", "now-1h", "--to", "now-2h"], 2, "the range ends before it starts"),
        (&["--output", "report.pdf"], 2, "end it with .html, .md or .json"),
        (&["v42"], 2, "write run:NAME"),
        (&["run:v42", "--last", "1h"], 2, "a run has its own range"),
        (&["--drill", "absent.json"], 1, "--drill absent.json: No such file"),
    ] {
        let output = report(&stack, arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(words), "{error}");
    }
    // Before the history began there is nothing, which is a report too.
    let output = report(&stack, &["--from", "now-3h", "--to", "now-2h", "--format", "json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["operations"].as_array().map(Vec::len), Some(0), "{json}");
    assert!(json["notes"].to_string().contains("There are no samples in this range."), "{json}");
}

/// A drill's own report, with an expectation that was met and one that was missed, in each form.
#[tokio::test]
async fn a_drill_that_ran_is_in_a_report_as_it_judged() {
    let dir = tempfile::tempdir().unwrap();
    let stack = Stack::start(with_jobs(dir.path())).await.unwrap();
    let run = run_drill("drill-load", &["--count", "200", "--plant-miss"]).await.unwrap();
    assert_eq!(run.output.code, MISSED, "{}", run.output.stderr);
    assert!(!run.expectations("met").is_empty() && !run.expectations("missed").is_empty());
    let drill = dir.path().join("drill.json").display().to_string();
    std::fs::write(&drill, &run.output.stdout).unwrap();
    await_samples(&stack, 1).await;
    let of_format = |format: &str| {
        let output = report(&stack, &["--last", "10m", "--drill", &drill, "--format", format]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let json: Value = from_str(&of_format("json")).unwrap();
    let found = &json["drills"][0];
    for field in ["drill", "passed", "seconds"] {
        assert_same(&found[field], &run.report[field]);
    }
    let (shown, judged) = (&found["expectations"], &run.report["expectations"]);
    assert_eq!(shown.as_array().unwrap().len(), judged.as_array().unwrap().len());
    for (shown, judged) in shown.as_array().unwrap().iter().zip(judged.as_array().unwrap()) {
        for field in ["name", "expected", "seen", "took_seconds", "verdict"] {
            assert_same(&shown[field], &judged[field]);
        }
    }
    for text in [of_format("html"), of_format("markdown")] {
        for name in run.expectations("met").iter().chain(&run.expectations("missed")) {
            assert!(text.contains(name), "{name} is not in {text}");
        }
        assert!(text.contains("drill-load") && text.contains("missed"), "{text}");
    }
}

/// Runs of a few seconds have too few slots to be judged, which has an exit code of its own.
#[tokio::test]
async fn two_reports_of_runs_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let stack = Stack::start(with_jobs(dir.path())).await.unwrap();
    let socket = UnixDatagram::unbound().unwrap();
    socket.connect(&stack.stations()[0].socket).unwrap();
    for n in 0..200 {
        for run in ["v41", "v42"] {
            socket.send(format!("fetch:{}|ms|#run:{run}", 5 + n % 7).as_bytes()).unwrap();
        }
    }
    let paths = ["v41", "v42"].map(|run| dir.path().join(format!("{run}.json")));
    let both = async || {
        for (run, path) in ["run:v41", "run:v42"].into_iter().zip(&paths) {
            let arguments = [run, "--operation", "fetch", "--output", path.to_str().unwrap()];
            if !report(&stack, &arguments).status.success() {
                return None;
            }
            let found = read_json(path);
            let count = found["operations"][0]["count"].as_u64();
            count.filter(|count| *count == 200)?;
        }
        Some(())
    };
    until("reports of both runs", WAIT, both).await.unwrap();
    assert_eq!(read_json(&paths[0])["subject"]["run"], "v41");
    let mut command = Command::new(bin_dir().unwrap().join("plimsoll"));
    let output = command.arg("compare").args(&paths).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(9), "{text}");
    assert!(text.contains("fetch: not enough data") && text.contains("200 samples"), "{text}");

    // Beside the other run, a report has what `compare` finds.
    let path = dir.path().join("beside.json");
    let of_fetch = ["--operation", "fetch"];
    let arguments = [&["run:v42", "--beside", "run:v41"][..], &of_fetch].concat();
    let arguments = [&arguments[..], &["--output", path.to_str().unwrap()]].concat();
    assert!(report(&stack, &arguments).status.success());
    let mut beside = read_json(&path)["beside"].take();
    let sides = ["a", "b"].map(|side| beside.as_object_mut().unwrap().remove(side).unwrap());
    assert_eq!(sides, ["v41", "v42"]);
    let compare = |more: &[&str]| -> Value {
        let mut command = Command::new(bin_dir().unwrap().join("plimsoll"));
        command.arg("compare").args(more).args(of_fetch).arg("--json");
        let output = command.args(["--url", stack.api().url()]).output().unwrap();
        assert_eq!(output.status.code(), Some(9), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    assert_eq!(compare(&["run:v41", "run:v42"])["operations"], beside["operations"]);
    let arms = compare(&["range:now-10m/now", "--arms", "run=v41"]);
    assert_eq!(arms["a"], "run=v41");
    let arm = &arms["arms"]["run=v42"]["operations"]["fetch"];
    assert_eq!((&arm["a"]["samples"], &arm["b"]["samples"]), (&200.into(), &200.into()));
}

/// More nodes than one page of `/api/v1/hardware` has.
const MACHINES: usize = 70;

#[tokio::test]
async fn a_run_is_reported_from_its_begin_to_its_end_with_the_machines_of_all_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let options = StackOptions { nodes: 1, ..StackOptions::new(dir.path()) };
    let mut stack = Stack::start(options).await.unwrap();
    let mut publisher = Publisher::connect(stack.broker().url()).await.unwrap();
    for n in 0..MACHINES {
        let (node, readings) =
            (format!("machine-{n:02}"), vec![Reading::ok(&LOAD1, Labels::default(), 1.0)]);
        let payload = message(header_of_now(&node), Body::Hardware(Hardware::all(readings)));
        let subject = format!("plimsoll.v1.local.normal.{node}.hardware");
        publisher.publish(&subject, payload).await.unwrap();
    }
    let socket = &stack.stations()[0].socket;
    for run in ["v42", "quiet"] {
        let mut command = Command::new(bin_dir().unwrap().join("plimsoll"));
        command.args(["run", "--name", run, "--socket"]).arg(socket);
        // Longer than a slot of the history, of which its samples are a small part.
        let running = command.args(["--", "sleep", "12"]).spawn().unwrap();
        if run == "v42" {
            let client = UnixDatagram::unbound().unwrap();
            client.connect(socket).unwrap();
            (1..=50).for_each(|ms| {
                client.send(format!("fetch:{ms}|ms|#run:v42").as_bytes()).unwrap();
            });
        }
        assert!(running.wait_with_output().unwrap().status.success());
    }
    let ended = async || {
        let page: RunsPage = from_str(&stack.api().get("/api/v1/runs").await.ok()?).ok()?;
        let ends = page.runs.iter().filter(|run| run.ended_seconds.is_some()).count();
        (ends == 2).then_some(page.runs)
    };
    let runs = until("both runs have ended", WAIT, ended).await.unwrap();
    for (name, is_of_fleet) in [("v42", false), ("quiet", true)] {
        let whole = async || {
            let subject = format!("run:{name}");
            let output = report(&stack, &[&subject, "--format", "json"]);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let json: Value = serde_json::from_slice(&output.stdout).unwrap();
            let machines = json["hardware"]["nodes"].as_object().unwrap();
            let last = machines.contains_key("machine-69");
            let count = figures_if_any(&json, "fetch")?["count"].as_u64()?;
            (last && count == 50).then_some(json)
        };
        // The fleet's samples in the range of `quiet` are those of no job.
        let json = match is_of_fleet {
            false => until("the report of the run", WAIT, whole).await.unwrap(),
            true => {
                let output = report(&stack, &["run:quiet", "--format", "json"]);
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                serde_json::from_slice(&output.stdout).unwrap()
            }
        };
        let run = runs.iter().find(|run| run.name.as_str() == name).unwrap();
        let range = &json["range"];
        let (from, to) = (&range["requested_from_seconds"], &range["requested_to_seconds"]);
        let (from, to) = (from.as_f64().unwrap(), to.as_f64().unwrap());
        // Slots of 10 s with samples may reach beyond both.
        assert!(from <= run.begun_seconds && run.begun_seconds - from < 15.0, "{from} {run:?}");
        let end = run.ended_seconds.unwrap();
        assert!(end <= to && to - end < 20.0, "{to} {run:?}");
        let notes = json["notes"].to_string();
        assert_eq!(notes.contains("No samples are labelled run=quiet"), is_of_fleet, "{notes}");
    }
}

fn figures_if_any<'a>(report: &'a Value, operation: &str) -> Option<&'a Value> {
    report["operations"].as_array()?.iter().find(|row| row["operation"] == operation)
}

/// Equal but for the last digit of numbers, which a reader of JSON may round.
fn assert_same(a: &Value, b: &Value) {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).for_each(|(a, b)| assert_same(a, b));
        }
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
            a.iter().for_each(|(key, of)| assert_same(of, &b[key]));
        }
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            assert!((a - b).abs() <= 1e-12 * b.abs(), "{a} {b}");
        }
        (a, b) => assert_eq!(a, b),
    }
}

/// Digits in groups of three, as reports have them.
fn thousands(n: u64) -> String {
    if n < 1_000 { n.to_string() } else { format!("{},{:03}", thousands(n / 1_000), n % 1_000) }
}
