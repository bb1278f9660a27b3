//! Invalid settings, addresses in use, and the options that every program has.

use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use plimsoll_tests::program::{ProgramOutput, program, run};

const WAIT: Duration = Duration::from_secs(20);
const NODE: &str = "plimsoll-node";
const AGGREGATOR: &str = "plimsoll-aggregator";
const CLI: &str = "plimsoll";

fn command(name: &str, arguments: &[&str]) -> Command {
    let mut command = program(name).unwrap();
    command.args(arguments);
    command
}

async fn outcome(name: &str, arguments: &[&str]) -> ProgramOutput {
    run(command(name, arguments), WAIT).await.unwrap()
}

fn refused(outcome: &ProgramOutput, code: i32, parts: &[&str]) {
    assert_eq!(outcome.code, Some(code), "{outcome:?}");
    for part in parts {
        assert!(outcome.stderr.contains(part), "{part:?} is not in {}", outcome.stderr);
    }
    assert_eq!(outcome.stderr.lines().count(), 1, "one line, not {}", outcome.stderr);
}

#[tokio::test]
async fn a_taken_address_is_named_with_its_key_and_exit_code_4() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = tcp.local_addr().map(|address| (address.to_string(), tcp)).unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let udp = udp.local_addr().map(|address| (address.to_string(), udp)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("taken.sock");
    let _unix = UnixDatagram::bind(&path).unwrap();
    let unix = path.to_str().unwrap();
    let quiet = ["--name", "n", "--http", ""];
    for (name, key, place, arguments) in [
        (NODE, "http.address", &*tcp.0, ["--udp", "", "--http", &tcp.0]),
        (NODE, "listen.udp", &*udp.0, ["--http", "", "--udp", &udp.0]),
        (AGGREGATOR, "http.address", &*tcp.0, ["--mesh", "m", "--http", &tcp.0]),
    ] {
        refused(&outcome(name, &arguments).await, 4, &[name, key, place, "in use"]);
    }
    let arguments = [&quiet[..], &["--udp", "", "--unix", unix]].concat();
    refused(&outcome(NODE, &arguments).await, 4, &["listen.unix", unix, "another process"]);
}

/// As `head` does, which leaves when it has read enough.
#[test]
fn a_reader_that_closes_standard_output_is_no_failure() {
    for (name, arguments) in [
        (NODE, &["--check-config", "--name", "n"][..]),
        (AGGREGATOR, &["--print-rules"]),
        (CLI, &["completions", "bash"]),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(name, arguments).stdout(writer).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {}: {text}", output.status);
        assert_eq!(text, "", "{name}");
    }
}

#[tokio::test]
async fn a_wrong_setting_is_named_with_where_it_was_set_and_exit_code_3() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("settings.toml");
    let path = file.to_str().unwrap();
    for (name, text, parts) in [
        (NODE, "[listen]\nupd = ''", ["unknown key", "listen.upd"]),
        (NODE, "[interval]\nlength_ms = 'soon'", ["interval.length_ms", "invalid type"]),
        (NODE, "name = 7", ["name", "invalid type"]),
        (NODE, "[interval", ["line 1", "column"]),
        (AGGREGATOR, "[[budget]]\nname = 'publish'\nlimt = '1s'", ["unknown key", "limt"]),
        (AGGREGATOR, "[http]\naddress = 9900", ["http.address", "invalid type"]),
    ] {
        std::fs::write(&file, text).unwrap();
        let outcome = outcome(name, &["--config", path, "--check-config"]).await;
        assert_eq!(outcome.code, Some(3), "{text}: {outcome:?}");
        for part in [path, parts[0], parts[1]] {
            assert!(outcome.stderr.contains(part), "{part:?} is not in {}", outcome.stderr);
        }
    }
    refused(&outcome(NODE, &["--config", "absent.toml"]).await, 3, &["--config absent.toml"]);
    let spool = ["--check-config", "--spool", "/proc/foo"];
    refused(&outcome(NODE, &spool).await, 3, &["spool.path", "/proc", "another directory"]);
    let state = ["--check-config", "--state", "/proc/foo/state"];
    refused(&outcome(AGGREGATOR, &state).await, 3, &["state.path", "/proc", "another directory"]);
    let set = ["--set", "interval.length_ms=5"];
    refused(&outcome(NODE, &set).await, 3, &["interval.length_ms", "100 and 60000"]);
    refused(&outcome(NODE, &["--set", "log.x=1"]).await, 3, &["--set", "unknown key", "log.x"]);
    refused(&outcome(AGGREGATOR, &["--http", "here"]).await, 3, &["flags", "http.address"]);
    let mut by_environment = command(AGGREGATOR, &[]);
    by_environment.env("PLIMSOLL_AGGREGATOR_HTP__ADDRESS", "127.0.0.1:1");
    let outcome = run(by_environment, WAIT).await.unwrap();
    refused(&outcome, 3, &["environment", "unknown key", "htp"]);
}

#[tokio::test]
async fn a_checked_configuration_prints_the_origin_of_every_key() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("settings.toml");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "mesh = 'below'\n[interval]\nlength_ms = 500").unwrap();
    let mut node = command(NODE, &["--config", path, "--check-config", "--mesh", "above"]);
    node.args(["--set", "interval.series_max=9"]);
    node.env("PLIMSOLL_NODE_BUS__URL", "nats://elsewhere:4222");
    let outcome = run(node, WAIT).await.unwrap();
    refused(&outcome, 3, &["bus.url", "no credentials", "bus.allow_open"]);
    let mut node = command(NODE, &["--config", path, "--check-config", "--mesh", "above"]);
    node.args(["--set", "interval.series_max=9", "--set", "bus.allow_open=true"]);
    node.env("PLIMSOLL_NODE_BUS__URL", "nats://elsewhere:4222");
    let outcome = run(node, WAIT).await.unwrap();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    for line in [
        "configuration is valid",
        "  bus.url: set by environment",
        &format!("  interval.length_ms: set by file {path}"),
        "  interval.series_max: set by --set",
        "  mesh: set by flags",
        "  everything else: default",
    ] {
        assert!(outcome.stdout.lines().any(|printed| printed == line), "{line}: {outcome:?}");
    }
    std::fs::write(&file, "").unwrap();
    for name in [NODE, AGGREGATOR] {
        let outcome = self::outcome(name, &["--config", path, "--check-config"]).await;
        assert_eq!(outcome.code, Some(0), "an empty file is no fault: {outcome:?}");
    }
}

#[tokio::test]
async fn every_program_prints_its_usage_its_exit_codes_and_its_version() {
    for name in ["plimsoll", NODE, AGGREGATOR, "plimsoll-workload"] {
        let help = outcome(name, &["--help"]).await;
        assert_eq!((help.code, &*help.stderr), (Some(0), ""), "{name}");
        for part in ["Usage: ", "Examples:", "Exit codes:", name] {
            assert!(help.stdout.contains(part), "{name}: {part} is not in {}", help.stdout);
        }
        let version = outcome(name, &["--version"]).await;
        // The example job depends on nothing that knows the commit.
        let commit = if name == "plimsoll-workload" { "" } else { " (commit unknown)" };
        let printed = format!("{name} {}{commit}\n", env!("CARGO_PKG_VERSION"));
        assert_eq!((version.code, version.stdout), (Some(0), printed), "{name}");
        let wrong = outcome(name, &["--no-such-flag"]).await;
        assert_eq!(wrong.code, Some(2), "{wrong:?}");
        assert!(wrong.stderr.contains("--no-such-flag"), "{wrong:?}");
    }
}
