//! A producer of OTLP, which is a process with the official SDK for Python, and its node.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use plimsoll_schemas::summary::Summary;
use plimsoll_tests::process::operation_row;
use plimsoll_tests::program::run_with_input;
use plimsoll_tests::rng::SeededRng;
use plimsoll_tests::single_node::SingleNodeMesh;
use serde_json::json;

const WAIT: Duration = Duration::from_secs(60);
const SPAN_RULE: &str = "[[otlp.span]]\nname = 'GET *'\nattributes = ['http.request.method=GET']\n\
    operation = 'http_get'\n";

/// A mesh whose node receives OTLP on ports that it chooses itself.
pub(crate) async fn mesh(dir: &Path) -> SingleNodeMesh {
    let settings = dir.join("node.toml");
    let ports = "[otlp]\nhttp = '127.0.0.1:0'\ngrpc = '127.0.0.1:0'\n";
    std::fs::write(&settings, format!("{ports}{SPAN_RULE}")).unwrap();
    SingleNodeMesh::start_node_with(dir, &["--config", settings.to_str().unwrap()]).await.unwrap()
}

/// One way to export.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) protocol: &'static str,
    pub(crate) cumulative: bool,
    pub(crate) exponential: bool,
    pub(crate) gzip: bool,
}

impl Way {
    /// All of them, with and without gzip by turns.
    pub(crate) fn all() -> Vec<Self> {
        let ways = (0..8).map(|n| Self {
            protocol: if n & 1 == 0 { "http" } else { "grpc" },
            cumulative: n & 2 != 0,
            exponential: n & 4 != 0,
            gzip: [0, 3, 5, 6].contains(&n),
        });
        ways.collect()
    }
}

/// From a microsecond to a quarter of a second, in rounds.
pub(crate) fn rounds(seed: u64, values: usize) -> Vec<Vec<u64>> {
    let mut rng = SeededRng::new(seed);
    let mut round = || (0..values).map(|_| 1_000 + rng.next_u64() % 250_000_000).collect();
    vec![round(), round(), round()]
}

/// Exports `rounds` as this producer, one at a time, and returns when all were accepted.
pub(crate) async fn export(
    mesh: &SingleNodeMesh,
    way: Way,
    producer: &str,
    operation: &str,
    rounds: &[Vec<u64>],
) -> Result<()> {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let mut command = Command::new(here.join(".venv/bin/python"));
    command.arg(here.join("python/clients/otlp_client.py"));
    let task = json!({
        "protocol": way.protocol,
        "address": mesh.node.otlp(way.protocol)?.to_string(),
        "gzip": way.gzip,
        "cumulative": way.cumulative,
        "exponential": way.exponential,
        "producer": producer,
        "operation": operation,
        "rounds": rounds,
    });
    let outcome = run_with_input(command, &task.to_string(), WAIT).await?;
    let (code, stderr) = (outcome.code, outcome.stderr);
    ensure!(code == Some(0), "{way:?}: {stderr}\n(deploy/test installs the packages)");
    Ok(())
}

/// Samples of an operation in one scope.
pub(crate) fn count(summary: &Summary, scope: &str, name: &str) -> u64 {
    operation_row(summary, scope, name).map_or(0, |row| row.total.count)
}
