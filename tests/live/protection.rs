//! Pages beyond this machine: over TLS for those with a token, which the operator's command reads;
//! without both the process warns. Names of other sites get nothing.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use plimsoll_mesh::broker::Broker;
use plimsoll_mesh::certificates::{Certificates, write_secret};
use plimsoll_mesh::child::{free_port, until};
use plimsoll_runtime::client::{Api, series_value};
use plimsoll_runtime::trust::trust;
use plimsoll_tests::metrics_page::await_value;
use plimsoll_tests::program::{ProgramOutput, RunningProgram, program, run};

const WAIT: Duration = Duration::from_secs(20);
const READER: &str = "the-token-of-the-readers";
const CHANGE: &str = "the-token-of-the-changes";

/// An aggregator or a node that listens beyond this machine.
struct Exposed {
    running: RunningProgram,
    port: u16,
}

impl Exposed {
    fn start(name: &str, broker: &Broker, settings: &[String]) -> Self {
        let port = free_port().unwrap();
        let mut command = program(name).unwrap();
        command.args(["--mesh", "local", "--nats", &broker.url()]);
        command.args(["--http", &format!("0.0.0.0:{port}")]);
        if name == "plimsoll-node" {
            command.args(["--udp", "127.0.0.1:0"]);
        }
        for setting in settings {
            command.args(["--set", setting]);
        }
        Self { running: RunningProgram::start(command).unwrap(), port }
    }

    async fn ended(self) -> String {
        self.running.signal(Signal::SIGTERM);
        self.running.end(WAIT).await.unwrap().stderr
    }
}

/// What the settings name, in one directory.
struct Files {
    certificates: Certificates,
    reader: PathBuf,
    change: PathBuf,
}

impl Files {
    fn make(dir: &Path) -> Self {
        let (reader, change) = (dir.join("reader"), dir.join("change"));
        write_secret(&reader, READER).unwrap();
        write_secret(&change, CHANGE).unwrap();
        Self { certificates: Certificates::make(dir).unwrap(), reader, change }
    }

    fn settings(&self) -> Vec<String> {
        let Certificates { certificate_file, key_file, .. } = &self.certificates;
        let files = [
            ("certificate_file", certificate_file),
            ("key_file", key_file),
            ("reader_token_file", &self.reader),
        ];
        files.map(|(key, path)| format!("http.{key}={}", path.display())).into()
    }

    fn api(&self, port: u16, token: Option<&str>) -> Api {
        let api = Api::of_url(&format!("https://127.0.0.1:{port}")).unwrap();
        let api = api.with_trust(trust("ca", Some(&self.certificates.ca_file)).unwrap());
        api.with_token(token.map(str::to_owned))
    }
}

async fn serves(api: &Api) {
    let alive = async || api.get("/healthz").await.ok();
    until("it serves", WAIT, alive).await.unwrap();
}

async fn plimsoll(words: &str, url: &str, more: &[&str]) -> ProgramOutput {
    let mut command = program("plimsoll").unwrap();
    command.args(words.split(' ')).args(["--url", url]).args(more);
    command.env_remove("PLIMSOLL_TOKEN").env_remove("PLIMSOLL_CA_FILE");
    run(command, WAIT).await.unwrap()
}

/// For longer than a process leaves its files alone.
async fn poll_for_a_look_at_the_files(api: &Api) {
    for _ in 0..12 {
        api.get("/metrics").await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Every subcommand that reads pages.
const READING: [&str; 12] = [
    "top --once",
    "top --json",
    "alerts",
    "blame",
    "silence --list",
    "ledger",
    "nodes",
    "runs",
    "query",
    "bottlenecks",
    "report",
    "doctor --json",
];

#[tokio::test]
async fn every_command_reads_over_tls_with_the_authority_and_the_token() {
    let dir = tempfile::tempdir().unwrap();
    let (broker, files) = (Broker::start(dir.path(), true).await.unwrap(), Files::make(dir.path()));
    let mut settings = files.settings();
    settings.push(format!("http.token_file={}", files.change.display()));
    settings.push(format!("state.path={}", dir.path().join("state").display()));
    settings.push(format!("history.path={}", dir.path().join("history").display()));
    let aggregator = Exposed::start("plimsoll-aggregator", &broker, &settings);
    serves(&files.api(aggregator.port, None)).await;

    let url = format!("https://127.0.0.1:{}", aggregator.port);
    let ca_file = files.certificates.ca_file.to_str().unwrap();
    let reader = files.reader.to_str().unwrap();
    let both = ["--ca-file", ca_file, "--token-file", reader];
    for words in READING {
        let read = plimsoll(words, &url, &both).await;
        // Doctor looks for the broker at its default address, where there is none.
        let is_read = match words.starts_with("doctor") {
            true => read.stdout.contains("\"passed\":[\"aggregator\""),
            false => read.code == Some(0) && !read.stdout.contains("does not answer"),
        };
        assert!(is_read, "{words}: {read:?}");
    }
    // There is no such operation or node yet, which the aggregator answers.
    let ranges = "compare range:now-10m/now-5m range:now-5m/now";
    let node = "baseline check x86 --node a";
    for words in ["query a", "statistics --operation a", ranges, node] {
        let read = plimsoll(words, &url, &both).await;
        assert_eq!(read.code, Some(1), "{words}: {read:?}");
        for wrong in ["certificate", "401", "no HTTP"] {
            assert!(!read.stderr.contains(wrong), "{words}: {read:?}");
        }
        let read = plimsoll(words, &url, &both[..2]).await;
        assert!(read.stderr.contains("401"), "{words}: {read:?}");
    }
    let change = ["--ca-file", ca_file, "--token-file", files.change.to_str().unwrap()];
    let silence = "silence --rule epoch_* --for 1h --by ann";
    assert_eq!(plimsoll(silence, &url, &change).await.code, Some(0));
    let refused = plimsoll(silence, &url, &both).await;
    assert!(refused.stderr.contains("401"), "a reader's token changes nothing: {refused:?}");
    let untrusted = plimsoll("ledger", &url, &both[2..]).await;
    assert!(untrusted.stderr.contains("certificate"), "{untrusted:?}");
    let plain = url.replace("https", "http");
    let plain = plimsoll("ledger", &plain, &both).await;
    assert!(plain.stderr.contains("if it serves TLS, write https://"), "{plain:?}");
    let absent = plimsoll("ledger", &url, &["--ca-file", "/absent"]).await;
    assert!(absent.stderr.contains("--ca-file: /absent: "), "{absent:?}");
    let log = aggregator.ended().await;
    assert!(!log.contains("listens beyond this machine"), "{log}");
}

#[tokio::test]
async fn a_new_certificate_is_served_without_a_restart_and_a_damaged_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (broker, files) = (Broker::start(dir.path(), true).await.unwrap(), Files::make(dir.path()));
    let node = Exposed::start("plimsoll-node", &broker, &files.settings());
    serves(&files.api(node.port, None)).await;
    let old = files.api(node.port, Some(READER));
    assert!(old.get("/metrics").await.unwrap().contains("plimsoll_agent_values_total"));
    // A certificate without the key that belongs to it, as in the middle of a renewal.
    let former = std::fs::read(&files.certificates.key_file).unwrap();
    Certificates::make(dir.path()).unwrap();
    let renewed = std::fs::read(&files.certificates.key_file).unwrap();
    std::fs::write(&files.certificates.key_file, former).unwrap();
    let new = files.api(node.port, Some(READER));
    poll_for_a_look_at_the_files(&old).await;
    std::fs::write(&files.certificates.key_file, renewed).unwrap();
    let served = async || new.get("/metrics").await.ok();
    until("the new certificate is served", WAIT, served).await.unwrap();
    let error = old.get("/metrics").await.unwrap_err();
    assert!(format!("{error:#}").contains("certificate"), "{error:#}");
    let log = node.ended().await;
    assert_eq!(log.matches("certificate not reloaded").count(), 1, "{log}");
    assert_eq!(log.matches("certificate reloaded").count(), 1, "{log}");
}

/// The status of a request for a host, with these headers.
async fn status(port: u16, path: &str, headers: &[(&str, &str)]) -> u16 {
    let mut request = reqwest::Client::new().get(format!("http://127.0.0.1:{port}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.unwrap().status().as_u16()
}

/// The value of a series of the page of metrics.
async fn value(api: &Api, series: &str) -> f64 {
    let page = api.get("/metrics").await.unwrap();
    series_value(&page, series).unwrap_or_else(|| panic!("{series} is not in {page}"))
}

#[tokio::test]
async fn a_process_without_protection_beyond_this_machine_warns_and_refuses_foreign_names() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), true).await.unwrap();
    let hosts = ["http.hosts=[\"mesh.example.org\"]".to_owned()];
    for (name, metrics, listener) in [
        ("plimsoll-aggregator", "plimsoll_aggregator", ""),
        ("plimsoll-node", "plimsoll_agent", "listener=\"http.address\","),
    ] {
        let process = Exposed::start(name, &broker, &hosts);
        let (port, api) = (process.port, Api::at(&format!("127.0.0.1:{}", process.port)).unwrap());
        serves(&api).await;
        for lacks in ["tls", "token"] {
            let exposed = format!("{metrics}_http_exposed{{lacks=\"{lacks}\"}}");
            assert_eq!(value(&api, &exposed).await, 1.0, "{name}");
        }
        let refused = format!("{metrics}_requests_refused_total{{{listener}reason=\"host\"}}");
        assert_eq!(value(&api, &refused).await, 0.0, "{name}");
        for (host, expected) in [
            ("evil.example", 421),
            (&*format!("evil.example:{port}"), 421),
            ("mesh.example.org", 200),
            ("localhost", 200),
            ("[::1]", 200),
            ("plimsoll", 200),
        ] {
            assert_eq!(status(port, "/metrics", &[("host", host)]).await, expected, "{host}");
        }
        assert_eq!(status(port, "/healthz", &[("host", "evil.example")]).await, 200, "{name}");
        await_value(&api, &refused, 2.0).await.unwrap();
        let log = process.ended().await;
        assert_eq!(log.matches("listens beyond this machine").count(), 1, "{log}");
        assert!(log.contains("http.reader_token_file"), "{log}");
    }
}

#[tokio::test]
async fn reading_needs_the_token_and_a_probe_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), true).await.unwrap();
    let token = dir.path().join("token");
    write_secret(&token, READER).unwrap();
    let settings = [format!("http.reader_token_file={}", token.display())];
    // As a browser sends what a person enters: `any:` and the token.
    let basic = ("authorization", "Basic YW55OnRoZS10b2tlbi1vZi10aGUtcmVhZGVycw==");
    let (bearer, wrong) = (format!("Bearer {READER}"), format!("Bearer {READER}x"));
    for (name, metrics, listener) in [
        ("plimsoll-aggregator", "plimsoll_aggregator", ""),
        ("plimsoll-node", "plimsoll_agent", "listener=\"http.address\","),
    ] {
        let process = Exposed::start(name, &broker, &settings);
        let api = Api::at(&format!("127.0.0.1:{}", process.port)).unwrap();
        serves(&api).await;
        for (headers, expected) in [
            (&[][..], 401),
            (&[("authorization", &*wrong)], 401),
            (&[("authorization", &*bearer)], 200),
            (&[basic], 200),
        ] {
            assert_eq!(status(process.port, "/metrics", headers).await, expected, "{headers:?}");
        }
        assert_ne!(status(process.port, "/readyz", &[]).await, 401, "{name}");
        let api = api.with_token(Some(READER.to_owned()));
        let refused = format!("{metrics}_requests_refused_total{{{listener}reason=\"token\"}}");
        await_value(&api, &refused, 2.0).await.unwrap();
        let lacks_token = format!("{metrics}_http_exposed{{lacks=\"token\"}}");
        assert_eq!(value(&api, &lacks_token).await, 0.0, "{name}");
        let log = process.ended().await;
        assert!(log.contains("listens beyond this machine"), "it has no TLS: {log}");
    }
    std::fs::set_permissions(&token, PermissionsExt::from_mode(0o644)).unwrap();
    for name in ["plimsoll-aggregator", "plimsoll-node"] {
        let mut command = program(name).unwrap();
        command.args(["--check-config", "--set", &settings[0]]);
        let checked = run(command, WAIT).await.unwrap();
        let fix = format!("(mode 0644); chmod 0600 {}", token.display());
        assert!(checked.code != Some(0) && checked.stderr.contains(&fix), "{checked:?}");
    }
}
