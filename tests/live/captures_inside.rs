//! Orders of memory and of spans, by the operator's command and by HTTP, through aggregator, broker
//! and node, to the client inside a real Python job; and to a process without it.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Child;

use flate2::read::GzDecoder;
use plimsoll_mesh::child::until;
use plimsoll_tests::program::{program, run};
use serde_json::{Value, json};

use crate::captures::{NODE, Place, TOKEN, WAIT, python};

/// A job whose `hoard` keeps what it allocates. It times `planted_step` until its input ends.
const JOB: &str = "
import os, select, sys
os.environ['PLIMSOLL_CAPTURES'] = '1'
import plimsoll
plimsoll.configure(enable=True, socket=sys.argv[1])
kept = []

def hoard():
    kept.append(bytearray(50_000))

while not select.select([sys.stdin], [], [], 0.02)[0]:
    with plimsoll.timer('planted_step'):
        hoard()
";
const WITHOUT_CLIENT: &str = "
import sys
sys.stdin.read()
";

/// The exit code and all output of `plimsoll profile KIND` for a process.
async fn profile(place: &Place, kind: &str, of: &Child, more: &[&str]) -> (Option<i32>, String) {
    let mut command = program("plimsoll").unwrap();
    command.args(["profile", kind, "--node", NODE, "--seconds", "2"]);
    command.args(["--pid", &of.id().to_string(), "--url", place.stack.api().url(), "--token-file"]);
    command.arg(place.folder.path().join("token")).args(more).env_remove("PLIMSOLL_TOKEN");
    let output = run(command, WAIT).await.unwrap();
    (output.code, output.stdout + &output.stderr)
}

/// Orders over HTTP, and waits for the row of what is kept.
async fn ordered(place: &Place, kind: &str, of: &Child) -> Value {
    let api = place.stack.api().clone().with_token(Some(TOKEN.to_owned()));
    let order = json!({"node": NODE, "kind": kind, "pid": of.id(), "seconds": 1});
    let made = api.request("POST", "/api/v1/profiles", Some(&order)).await.unwrap();
    let made: Value = serde_json::from_str(&made).unwrap();
    let path = format!("/api/v1/profiles/{}", made["id"].as_str().unwrap());
    let is_final = async || {
        let row: Value = serde_json::from_str(&api.get(&path).await.ok()?).ok()?;
        (row["state"] == "kept").then_some(row)
    };
    until("the profile is kept", WAIT, is_final).await.unwrap()
}

/// Waits until the aggregator knows the node, and the first value has opened the client's socket.
async fn poll_ready(place: &Place) {
    let name = format!("@plimsoll-captures.{}", place.job.id());
    let is_ready = async || {
        place.stack.api().get(&format!("/api/v1/nodes/{NODE}")).await.ok()?;
        fs::read_to_string("/proc/net/unix").ok()?.contains(&name).then_some(())
    };
    until("node and client are there", WAIT, is_ready).await.unwrap();
}

fn unpacked(file: &Path) -> Value {
    let mut text = String::new();
    GzDecoder::new(fs::File::open(file).unwrap()).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn memory_and_spans_come_from_the_client_inside_and_without_it_the_fix_is_named() {
    // Lines are found by file: many modules compile code as that of `<string>`, which `-c` is, too.
    let in_file = format!("exec(compile({JOB:?}, 'planted/job.py', 'exec'))");
    let mut place = Place::start_with("", |socket| python(&in_file, socket)).await;
    let mut other = python(WITHOUT_CLIENT, Path::new("unused"));
    poll_ready(&place).await;

    let (code, shown) = profile(&place, "memory", &place.job, &[]).await;
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("hoard (planted/job.py") && shown.contains("by the client"), "{shown}");
    let file = place.folder.path().join("job.trace.json.gz");
    let (code, shown) = profile(&place, "trace", &place.job, &["-o", file.to_str().unwrap()]).await;
    assert_eq!(code, Some(0), "{shown}");
    let trace = unpacked(&file);
    let events = trace["traceEvents"].as_array().unwrap();
    let planted = events.iter().filter(|event| event["name"] == "planted_step").count();
    // One in some 20 ms, for 2 s.
    assert!((20..=200).contains(&planted), "{planted} of {}", events.len());

    for kind in ["memory", "trace"] {
        let row = ordered(&place, kind, &place.job).await;
        assert_eq!(row["facts"]["rung"], "client", "{row}");
        assert_eq!(row["kind"], kind);
        let more: &[&str] = if kind == "trace" { &["-o", "none.json.gz"] } else { &[] };
        let (code, shown) = profile(&place, kind, &other, more).await;
        let fix = "(not_supported); start the job with PLIMSOLL_CAPTURES=1";
        assert!(code == Some(1) && shown.contains(fix), "{shown}");
    }

    drop((place.job.stdin.take(), other.stdin.take()));
    assert!(place.job.wait().unwrap().success() && other.wait().unwrap().success());
}
