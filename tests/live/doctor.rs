//! `plimsoll doctor` on real parts: nothing wrong with a healthy mesh, and each planted fault found
//! with its fix.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_mesh::child::free_port;
use plimsoll_mesh::jetstream::JetStreamAdmin;
use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::process::{await_summary, fleet_samples};
use plimsoll_tests::program::{program, run};
use serde_json::Value;

const WAIT: Duration = Duration::from_secs(60);

/// A mesh whose first node and aggregator have settings files that say how they were started.
struct Mesh {
    stack: Stack,
    dir: tempfile::TempDir,
}

impl Mesh {
    async fn start(change: impl FnOnce(StackOptions) -> StackOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut stack = {
            let options = StackOptions { udp: true, ..with_jobs(dir.path()) };
            Stack::start(change(options)).await.unwrap()
        };
        let enough = |summary: &_| fleet_samples(summary, "epoch_hook") >= 30;
        await_summary(stack.api(), "30 hooks are merged", enough).await.unwrap();
        let url = stack.broker().url();
        let mesh = Self { stack, dir };
        mesh.write("doctor-node.toml", &mesh.node(&url));
        mesh.write("doctor-aggregator.toml", &mesh.aggregator(&url));
        mesh
    }

    fn node(&self, url: &str) -> String {
        let (dir, socket) = (self.dir.path().display(), self.socket());
        let station = &self.stack.stations()[0];
        let (name, http) = (&station.name, station.api.url().trim_start_matches("http://"));
        let udp = station.udp().unwrap();
        format!(
            "name = {name:?}\nmesh = \"local\"\nbus.url = {url:?}\nspool.path = \"{dir}/spool\"\n\
             listen.udp = \"{udp}\"\nlisten.unix = {socket:?}\nhttp.address = {http:?}\n\
             history.path = \"{dir}/history\"\n"
        )
    }

    fn aggregator(&self, url: &str) -> String {
        let (dir, http) = (self.dir.path().display(), self.http());
        format!(
            "mesh = \"local\"\nbus.url = {url:?}\nhttp.address = {http:?}\n\
             state.path = \"{dir}/state.redb\"\nhistory.path = \"{dir}/history.redb\"\n"
        )
    }

    fn http(&self) -> String {
        self.stack.api().url().trim_start_matches("http://").to_owned()
    }

    fn socket(&self) -> PathBuf {
        self.stack.stations()[0].socket.clone()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.dir.path().join(name), text).unwrap();
    }

    /// The exit code and the report.
    async fn doctor(&self) -> (i32, Value) {
        let mut command = program("plimsoll").unwrap();
        let file = |name: &str| self.dir.path().join(name);
        command.args(["doctor", "--json", "--url", self.stack.api().url()]);
        command.arg("--node-config").arg(file("doctor-node.toml"));
        command.arg("--aggregator-config").arg(file("doctor-aggregator.toml"));
        let output = run(command, WAIT).await.unwrap();
        let report = serde_json::from_str(&output.stdout);
        let report = report.unwrap_or_else(|error| panic!("{error}: {output:?}"));
        (output.code.unwrap(), report)
    }

    /// What a planted change of the file `name` makes the report say.
    async fn doctor_with(&self, name: &str, key: &str, value: &str) -> (i32, Value) {
        let path = self.dir.path().join(name);
        let before = fs::read_to_string(&path).unwrap();
        let lines = before.lines().filter(|line| !line.starts_with(key));
        let lines: Vec<String> = lines.map(str::to_owned).collect();
        fs::write(&path, format!("{}\n{key} = {value}\n", lines.join("\n"))).unwrap();
        let report = self.doctor().await;
        fs::write(&path, before).unwrap();
        report
    }
}

/// Severity, place, text and mend of the findings of a check.
fn found(report: &Value, check: &str) -> Vec<[String; 4]> {
    let of = report["findings"].as_array().unwrap().iter().filter(|of| of["check"] == check);
    of.map(|of| {
        ["severity", "where", "what", "mend"].map(|key| of[key].as_str().unwrap().to_owned())
    })
    .collect()
}

fn errors(report: &Value) -> usize {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().filter(|of| of["severity"] == "error").count()
}

fn names(report: &Value, key: &str) -> Vec<String> {
    let all = report[key].as_array().unwrap().iter();
    all.map(|of| of["check"].as_str().or(of.as_str()).unwrap().to_owned()).collect()
}

/// The last sequence number of a stream to which a healthy mesh sends nothing.
fn dead_letters(stack: &mut Stack) -> u64 {
    let mut streams = JetStreamAdmin::connect(&stack.broker().url()).unwrap();
    let info = streams.request("STREAM.INFO.PLIMSOLL_local_dead", &Value::Null).unwrap();
    info["state"]["last_seq"].as_u64().unwrap()
}

#[tokio::test]
async fn a_healthy_mesh_has_no_error_and_nothing_is_left_behind() {
    let mut mesh = Mesh::start(|options| options).await;
    let (code, report) = mesh.doctor().await;
    assert_eq!((code, errors(&report)), (0, 0), "{report:#}");
    let passed = names(&report, "passed");
    for check in [
        "settings",
        "aggregator",
        "mesh",
        "rules",
        "clocks",
        "versions",
        "history",
        "node",
        "broker",
        "jetstream",
        "max_payload",
        "permissions",
        "streams",
        "sockets",
        "kernel_drops",
        "listeners",
    ] {
        let is_known = check == "clocks" || !found(&report, check).is_empty();
        assert!(is_known || passed.iter().any(|of| of == check), "{check}: {report:#}");
    }
    // No settings name a secret or enable captures, and no clock may be known yet.
    let mut skipped = names(&report, "skipped");
    skipped.retain(|check| check != "clocks");
    assert_eq!(skipped, ["secrets", "captures"], "{report:#}");
    // What was tried was stored nowhere, and the ledger still adds up.
    assert_eq!(dead_letters(&mut mesh.stack), 0);
    let drained = mesh.stack.drain().await.unwrap();
    assert!(drained.ledger.is_settled() && drained.ledger.lost.is_empty(), "{drained:?}");
}

#[tokio::test]
async fn planted_faults_are_found_each_with_its_mend() {
    let unmatched = "[[budget]]\nname = \"checkpoint\"\noperation = \"chekpoint\"\nlimit = \"1s\"\n\
                     quantile = 0.99\n";
    let mesh = Mesh::start(|options| StackOptions {
        aggregator_settings: unmatched.to_owned(),
        ..options
    })
    .await;
    let (code, report) = mesh.doctor().await;
    let rules = found(&report, "rules");
    assert_eq!((code, rules.len()), (0, 1), "{report:#}");
    assert_eq!(rules[0][..2], ["warning", "budget checkpoint"]);
    assert!(
        rules[0][2].contains("\"chekpoint\"") && rules[0][3].contains("[[budget]]"),
        "{rules:?}"
    );

    let socket = mesh.socket();
    fs::set_permissions(&socket, Permissions::from_mode(0o777)).unwrap();
    let (_, report) = mesh.doctor().await;
    let place = socket.display().to_string();
    let sockets = found(&report, "sockets");
    assert_eq!(sockets.len(), 1, "{report:#}");
    assert_eq!(sockets[0][1], place);
    assert!(sockets[0][2].contains("0777") && sockets[0][3] == format!("chmod 0660 {place}"));
    fs::set_permissions(&socket, Permissions::from_mode(0o660)).unwrap();

    let file = "doctor-aggregator.toml";
    let (_, report) = mesh.doctor_with(file, "http.address", "\"0.0.0.0:9900\"").await;
    let listeners = found(&report, "listeners");
    assert_eq!(listeners.len(), 1, "{report:#}");
    assert_eq!(listeners[0][1], "http.address of the aggregator, 0.0.0.0:9900");
    assert!(listeners[0][3].contains("http.address = \"127.0.0.1:9900\""), "{listeners:?}");

    let (_, report) = mesh.doctor_with("doctor-node.toml", "history", "{ days = 7 }").await;
    let history = found(&report, "history");
    assert_eq!(history.len(), 1, "{report:#}");
    assert_eq!(history[0][..2], ["warning", "history.path of the node"]);
    assert!(history[0][3].starts_with("[history] path = "), "{history:?}");

    // Each of these is an error with exit code 10.
    let gone = format!("\"{}/absent.sock\"", mesh.dir.path().display());
    let dead = format!("\"nats://127.0.0.1:{}\"", free_port().unwrap());
    for (file, key, value, check, mend) in [
        ("doctor-node.toml", "listen.unix", gone.as_str(), "sockets", "start plimsoll-node"),
        ("doctor-aggregator.toml", "bus.url", &dead, "broker", "bus.url"),
        ("doctor-aggregator.toml", "mesh", "\"lab\"", "mesh", "set mesh to the same name"),
        ("doctor-node.toml", "interval.length_ms", "1", "settings", "--check-config"),
    ] {
        let (code, report) = mesh.doctor_with(file, key, value).await;
        let found = found(&report, check);
        assert_eq!((code, found.len()), (10, 1), "{key}: {report:#}");
        assert!(found[0][0] == "error" && found[0][3].contains(mend), "{found:?}");
    }
    let (code, report) = mesh.doctor().await;
    assert_eq!((code, errors(&report)), (0, 0), "{report:#}");
}

#[tokio::test]
async fn without_any_mesh_every_absence_is_named() {
    let absent = format!("127.0.0.1:{}", free_port().unwrap());
    let mut command = program("plimsoll").unwrap();
    command.args(["doctor", "--url", &format!("http://{absent}")]);
    command.args(["--nats", &format!("nats://{absent}"), "--mesh", "m"]);
    let output = run(command, WAIT).await.unwrap();
    assert_eq!(output.code, Some(10), "{output:?}");
    let lines: Vec<String> = output
        .stdout
        .lines()
        .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
        .collect();
    for line in ["ERROR aggregator", "ERROR broker", "skipped sockets", "skipped disk"] {
        assert!(lines.iter().any(|of| of == line), "{line}: {}", output.stdout);
    }
}
