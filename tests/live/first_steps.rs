//! `deploy/FIRST-STEPS.md` and the README's mesh by hand, run as they are written: the real
//! programs on a real broker, at their default ports, in a network of their own.

use std::env::{self, join_paths, split_paths};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use plimsoll_mesh::stack::bin_dir;
use plimsoll_tests::capability::{network_refusal, skip};
use plimsoll_tests::program::{ScratchDir, run};

/// The page promises five minutes, of which reading takes most.
const WAIT: Duration = Duration::from_secs(90);
/// A process that ends takes all that it started along.
const ALONE: [&str; 6] = ["--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child"];

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A file below `deploy`.
fn deploy(name: &str) -> PathBuf {
    checkout().join("deploy").join(name)
}

/// The search path with the mesh's programs before it, and with the folders of servers.
fn search_path() -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let servers = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let programs = std::iter::once(bin_dir().unwrap());
    join_paths(programs.chain(split_paths(&path)).chain(servers)).unwrap()
}

/// The lines of all blocks of bash.
fn lines() -> String {
    let page = std::fs::read_to_string(deploy("FIRST-STEPS.md")).unwrap();
    let blocks = page.split("```bash\n").skip(1);
    blocks.filter_map(|block| block.split("```").next()).collect()
}

/// The README's block that starts a mesh by hand, for the programs of this build.
fn by_hand() -> String {
    let page = std::fs::read_to_string(checkout().join("README.md")).unwrap();
    let (_, behind) = page.split_once("\ncargo build --locked --profile up").unwrap();
    let (_packages, behind) = behind.split_once('\n').unwrap();
    let (lines, _) = behind.split_once("```").unwrap();
    lines.replace("$PWD/target/up:", "")
}

/// Runs lines of bash in a network of their own.
fn alone(lines: &str, scratch: &ScratchDir) -> Command {
    let mut command = Command::new("unshare");
    command.args(ALONE).args(["bash", "-ec", &format!("ip link set lo up\n{lines}")]);
    command.env("PATH", search_path()).env("TMPDIR", scratch.path());
    command.env_remove("PLIMSOLL_TOKEN").current_dir(scratch.path());
    command
}

#[tokio::test]
async fn each_line_of_the_readme_that_sends_brings_a_sample() {
    if let Some(refusal) = network_refusal() {
        return skip(&refusal);
    }
    let scratch = ScratchDir::new().unwrap();
    let all = "until plimsoll statistics my_operation | grep ' 3 samples'; do sleep 1; done";
    let mut command = alone(&format!("{}{all}", by_hand()), &scratch);
    command.current_dir(checkout());

    let outcome = run(command, WAIT).await.unwrap();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let seen = "my_operation of fleet, total: 3 samples";
    assert!(outcome.stdout.contains(seen), "{outcome:?}");
}

#[tokio::test]
async fn the_first_steps_end_with_an_acknowledged_alert() {
    if let Some(refusal) = network_refusal() {
        return skip(&refusal);
    }
    let scratch = ScratchDir::new().unwrap();
    let outcome = run(alone(&lines(), &scratch), WAIT).await.unwrap();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let printed = &outcome.stdout;
    let at = |text: &str| printed.find(text).unwrap_or_else(|| panic!("no {text:?}: {outcome:?}"));
    let fired = at("firing   critical epoch_hook (fleet");
    let acknowledged = at("acknowledged at http://127.0.0.1:9900: epoch_hook (fleet");
    assert!(at("epoch_hook of fleet, total: ") < fired, "samples, then the alert");
    assert!(fired < acknowledged && acknowledged < at("[acknowledged by root]"), "{printed}");
    // Of the history, which has the beginning of the alert with its time.
    let firing =
        |line: &str| line.starts_with("20") && line.contains(" firing   critical epoch_hook");
    assert!(printed.lines().any(firing), "{printed}");
}

#[tokio::test]
async fn a_broker_accepts_the_configuration_for_a_first_try() {
    let scratch = ScratchDir::new().unwrap();
    let mut check = Command::new("nats-server");
    check.env("PATH", search_path()).current_dir(scratch.path());
    check.arg("-t").arg("--config").arg(deploy("nats/local.conf"));
    let outcome = run(check, WAIT).await.unwrap();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("is valid") || outcome.stdout.contains("is valid"));
}
