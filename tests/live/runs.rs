//! Runs over HTTP and by the command, through kills of the aggregator.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_mesh::stack::{Stack, StackOptions, bin_dir};
use plimsoll_runtime::client::Api;
use plimsoll_schemas::summary::{BottlenecksPage, RunOrigin, RunPage, RunState};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::process::await_checkpoint;
use serde_json::{Value, from_str, json};

use crate::history::query;

const WAIT: Duration = Duration::from_secs(30);
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A mesh whose aggregator has a history and a token.
async fn mesh(dir: &Path) -> Stack {
    let settings = format!("[http]\ntoken = '{TOKEN}'\n");
    Stack::start(StackOptions { aggregator_settings: settings, ..with_jobs(dir) }).await.unwrap()
}

fn api(stack: &Stack) -> Api {
    stack.api().clone().with_token(Some(TOKEN.to_owned()))
}

/// Sends samples of `fetch` with the label of a run to the first node, in milliseconds.
fn send(stack: &Stack, run: &str, values: std::ops::Range<u64>) {
    let socket = UnixDatagram::unbound().unwrap();
    socket.connect(&stack.stations()[0].socket).unwrap();
    for value in values {
        socket.send(format!("fetch:{value}|ms|#run:{run}").as_bytes()).unwrap();
    }
}

async fn page(stack: &Stack, run: &str) -> Option<RunPage> {
    from_str(&stack.api().get(&format!("/api/v1/runs/{run}")).await.ok()?).ok()
}

/// Waits until a run has this many samples.
async fn await_samples(stack: &Stack, run: &str, count: u64) -> RunPage {
    let enough = async || {
        let page = page(stack, run).await?;
        (page.operations.first()?.count >= count).then_some(page)
    };
    until("the samples of the run are in its page", WAIT, enough).await.unwrap()
}

#[tokio::test]
async fn a_run_over_http_has_exact_counts_although_the_aggregator_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = mesh(dir.path()).await;
    let begin = json!({"name": "v42", "labels": {"branch": "main"}, "by": "ann"});
    let begun = api(&stack).request("POST", "/api/v1/runs", Some(&begin)).await.unwrap();
    assert_eq!(from_str::<Value>(&begun).unwrap()["state"], "running");
    await_checkpoint(stack.api()).await.unwrap();
    send(&stack, "v42", 1..101);
    stack.kill_aggregator();
    send(&stack, "v42", 101..201);
    stack.restart_aggregator().await.unwrap();
    await_samples(&stack, "v42", 200).await;
    stack.kill_aggregator();
    stack.restart_aggregator().await.unwrap();
    let socket = UnixDatagram::unbound().unwrap();
    socket.send_to(b"shard_bytes:512:1536|h", &stack.stations()[0].socket).unwrap();
    send(&stack, "v42", 201..301);
    send(&stack, "other", 1..11);
    await_samples(&stack, "v42", 300).await;
    let stop = Some(json!({"exit_code": 0}));
    for _ in 0..2 {
        let ended = api(&stack).request("POST", "/api/v1/runs/v42/stop", stop.as_ref()).await;
        let ended: RunPage = from_str(&ended.unwrap()).unwrap();
        assert_eq!((ended.run.state, ended.run.exit_code), (RunState::Ended, Some(0)));
        let counts: Vec<_> = ended.operations.iter().map(|of| (&*of.operation, of.count)).collect();
        assert_eq!((ended.by_label, counts), (true, vec![("fetch", 300)]));
    }
    await_checkpoint(stack.api()).await.unwrap();
    stack.kill_aggregator();
    stack.restart_aggregator().await.unwrap();

    let page = await_samples(&stack, "v42", 300).await;
    let run = &page.run;
    assert_eq!(
        (run.state, run.exit_code, run.origin),
        (RunState::Ended, Some(0), RunOrigin::Client)
    );
    assert_eq!((run.by.as_deref(), run.labels.get("branch")), (Some("ann"), Some("main")));
    assert!(run.ended_seconds.unwrap() > run.begun_seconds && page.by_label);
    assert_eq!((run.nodes.len(), run.has_more_nodes), (1, false), "{:?}", run.nodes);
    assert_eq!(page.operations.len(), 1, "{:?}", page.operations);
    let fetch = &page.operations[0];
    assert_eq!((&*fetch.operation, fetch.count, fetch.max), ("fetch", 300, Some(0.3)));
    for (found, exact) in fetch.quantiles.iter().zip([0.150, 0.270, 0.297, 0.300]) {
        assert!(found.lower <= exact && exact <= found.upper, "{found:?} {exact}");
    }
    let last: RunPage = from_str(&stack.api().get("/api/v1/runs/last").await.unwrap()).unwrap();
    assert_eq!(last.run.name.as_str(), "v42");
    let unknown = api(&stack).request("GET", "/api/v1/runs/v43", None).await.unwrap_err();
    assert!(format!("{unknown:#}").contains("similar: \"v42\""), "{unknown:#}");
    check_sizes(&stack).await;
}

/// Sizes are bytes on the metrics page, in the past and in the command.
async fn check_sizes(stack: &Stack) {
    let past = query(stack, "operation=shard:bytes&last=1h&over=1KB").await;
    let point = &past.points[0];
    assert_eq!((&*past.unit, point.count, point.max), ("bytes", 2, Some(1_536.0)));
    assert_eq!((point.over[0].limit, point.over[0].over), (1_000.0, 1));

    let metrics = stack.api().get("/metrics").await.unwrap();
    let row = metrics.lines().find(|row| {
        row.starts_with("plimsoll_distribution_sum_bytes_total{scope=\"fleet\"")
            && row.contains("shard:bytes")
    });
    assert!(row.is_some_and(|row| row.ends_with(" 2048")), "{row:?}");

    let mut command = Command::new(bin_dir().unwrap().join("plimsoll"));
    command.args(["query", "shard:bytes", "--last", "1h", "--url", stack.api().url()]);
    let output = command.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("1.5 KiB") && !shown.contains(" ms"), "{shown}");
}

/// Sends steps of 10 ms to the first node, 7 ms of which wait for input.
fn send_steps(stack: &Stack, run: &str, steps: u64) {
    let socket = UnixDatagram::unbound().unwrap();
    socket.connect(&stack.stations()[0].socket).unwrap();
    let phase = |name: &str, ms: u64| format!("step.{name}:{ms}|ms|#run:{run},class:{name}\n");
    let step = format!("step:10|ms|#run:{run}\n") + &phase("input", 7) + &phase("other", 3);
    for _ in 0..steps {
        socket.send(step.as_bytes()).unwrap();
    }
}

#[tokio::test]
async fn the_shares_of_a_run_are_exact_although_the_aggregator_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut stack = mesh(dir.path()).await;
    let begin = json!({"name": "v42"});
    api(&stack).request("POST", "/api/v1/runs", Some(&begin)).await.unwrap();
    send_steps(&stack, "v42", 150);
    await_checkpoint(stack.api()).await.unwrap();
    stack.kill_aggregator();
    send_steps(&stack, "v42", 150);
    stack.restart_aggregator().await.unwrap();

    let all_steps = async || {
        let page = stack.api().get("/api/v1/bottlenecks?run=v42").await.ok()?;
        let page: BottlenecksPage = from_str(&page).ok()?;
        (page.cycles.first()?.count >= 300).then_some(page)
    };
    let page = until("all steps are in the shares", WAIT, all_steps).await.unwrap();
    let cycle = &page.cycles[0];
    let classes = cycle.classes.iter().map(|of| (of.class.as_str(), of.seconds, of.share));
    let classes: Vec<_> = classes.collect();
    assert_eq!(classes, [("input", 2.1, Some(0.7)), ("other", 0.9, Some(0.3))]);
    assert_eq!((cycle.count, cycle.seconds, cycle.parallel), (300, 3.0, false));
    let names: Vec<&str> = page.operations.iter().map(|of| of.operation.as_str()).collect();
    assert_eq!(names, ["step", "step.input", "step.other"]);

    let mut command = Command::new(bin_dir().unwrap().join("plimsoll"));
    command.args(["bottlenecks", "run:v42", "--url", stack.api().url()]);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("by class: input 70 %, other 30 %\n"), "{text}");
    let mut command = Command::new(bin_dir().unwrap().join("plimsoll"));
    command.args(["bottlenecks", "run:v42", "--cycle", "stpe", "--url", stack.api().url()]);
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    let words = "cycle: no samples of stpe; there are those of step, step.input, step.other";
    assert!(error.contains(words), "{error}");
    let unknown = stack.api().get("/api/v1/bottlenecks?run=v43").await.unwrap_err();
    assert!(format!("{unknown:#}").contains("run \"v43\" is unknown"), "{unknown:#}");
}

#[tokio::test]
async fn a_command_begins_and_ends_its_run_and_both_comparisons_agree() {
    let dir = tempfile::tempdir().unwrap();
    let stack = mesh(dir.path()).await;
    let plimsoll = || Command::new(bin_dir().unwrap().join("plimsoll"));
    let socket = stack.stations()[0].socket.display().to_string();
    let environment = "echo $PLIMSOLL_LABELS $PLIMSOLL_ENABLE $PLIMSOLL_SOCKET";
    for (run, code) in [("train-v1", 0), ("train-v2", 7)] {
        let mut command = plimsoll();
        command.args(["run", "--name", run, "--label", "rank=1", "--socket", &socket]);
        command.env_remove("PLIMSOLL_ENABLE").env("PLIMSOLL_LABELS", "role=train");
        command.args(["--", "sh", "-c", &format!("{environment}; exit {code}")]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let expected = format!("run={run},rank=1,role=train 1 {socket}\n");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
        send(&stack, run, 1..201);
        let rows = UnixDatagram::unbound().unwrap();
        let line = format!("fetch.rows:500|c|#run:{run}");
        rows.send_to(line.as_bytes(), &stack.stations()[0].socket).unwrap();
    }

    let events = async || {
        let page = stack.api().get("/api/v1/events").await.ok()?;
        let words = ["run train-v2 started", "run train-v2 ended", "exit code 7"];
        words.iter().all(|part| page.contains(part)).then_some(())
    };
    until("both events of the run", WAIT, events).await.unwrap();
    for (run, code) in [("train-v1", 0), ("train-v2", 7)] {
        let ended = async || {
            let page = page(&stack, run).await?;
            (page.run.state == RunState::Ended && !page.operations.is_empty()).then_some(page)
        };
        let page = until("the run has ended", WAIT, ended).await.unwrap();
        assert_eq!((page.run.exit_code, page.run.origin), (Some(code), RunOrigin::Command));
        assert_eq!((page.run.commands, page.run.labels.get("rank")), (1, Some("1")));
        await_samples(&stack, run, 200).await;
    }
    let listed = plimsoll().args(["runs", "--url", stack.api().url()]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let rows: Vec<&str> = listed.lines().collect();
    assert!(rows[1].starts_with("train-v2 ") && rows[2].starts_with("train-v1 "), "{listed}");
    let mut command = plimsoll();
    command.args(["compare", "run:train-v1", "run:train-v2", "--json", "--url", stack.api().url()]);
    let output = command.output().unwrap();
    // Two runs of a few seconds have too few slots.
    assert_eq!(output.status.code(), Some(9), "{output:?}");
    let by_command: Value = serde_json::from_slice(&output.stdout).unwrap();
    let by_http = stack.api().get("/api/v1/runs/compare?a=train-v1&b=train-v2").await.unwrap();
    assert_eq!(from_str::<Value>(&by_http).unwrap(), by_command);
    assert_eq!(by_command["operations"]["fetch"]["a"]["samples"], 200, "{by_command}");
    // A counter that is named alone, and all runs of a pattern.
    for parameters in ["a=train-v1&b=train-v2&operation=fetch.rows", "a=train-v1&b=train-*"] {
        let page = format!("/api/v1/runs/compare?{parameters}");
        let by_http: Value = from_str(&stack.api().get(&page).await.unwrap()).unwrap();
        let (b, more) = match parameters.contains("operation") {
            true => ("run:train-v2", &["--operation", "fetch.rows"][..]),
            false => ("run:train-*", &[][..]),
        };
        let mut command = plimsoll();
        command.args(["compare", "run:train-v1", b, "--json", "--url", stack.api().url()]);
        let output = command.args(more).output().unwrap();
        let by_command: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(by_http, by_command, "{parameters}");
        let operations = by_http["operations"].as_object().unwrap().len();
        let expected = if more.is_empty() { (1, 2) } else { (0, 1) };
        assert_eq!((operations, by_http["b_runs"].as_array().unwrap().len()), expected);
        let rate = &by_http["rates"]["fetch.rows"];
        assert_eq!(
            (&rate["operation"], &rate["verdict"]),
            (&"fetch".into(), &"not_enough_data".into())
        );
    }
    let wrong =
        api(&stack).request("GET", "/api/v1/runs/compare?a=train-v1&b=train-v3", None).await;
    let wrong = format!("{:#}", wrong.unwrap_err());
    assert!(wrong.contains("b: run \"train-v3\" is unknown; similar: \"train-v"), "{wrong}");
}
