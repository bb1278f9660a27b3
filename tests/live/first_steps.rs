//! `deploy/FIRST-STEPS.md`, run as it is written: the real programs on a real broker, at their
//! default ports, in a network of their own.

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

/// A file below `deploy`.
fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(name)
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

#[tokio::test]
async fn the_first_steps_end_with_an_acknowledged_alert() {
    if let Some(refusal) = network_refusal() {
        return skip(&refusal);
    }
    let scratch = ScratchDir::new().unwrap();
    let mut command = Command::new("unshare");
    command.args(ALONE).args(["bash", "-ec", &format!("ip link set lo up\n{}", lines())]);
    command.env("PATH", search_path()).env("TMPDIR", scratch.path());
    command.env_remove("PLIMSOLL_TOKEN").current_dir(scratch.path());

    let outcome = run(command, WAIT).await.unwrap();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let printed = &outcome.stdout;
    let at = |text: &str| printed.find(text).unwrap_or_else(|| panic!("no {text:?}: {outcome:?}"));
    let fired = at("firing   critical epoch_hook (fleet");
    let acknowledged = at("acknowledged at http://127.0.0.1:9900: epoch_hook (fleet");
    assert!(at("epoch_hook of fleet, all time: ") < fired, "samples, then the alert");
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
