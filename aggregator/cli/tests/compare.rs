//! `plimsoll compare` as a process: its exit codes, its output, baselines and errors.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use plimsoll_cli::interval_log::write;
use plimsoll_compare::{BucketLayout, Measured, Side, Slot};
use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::ids::{NodeName, Operation};
use serde_json::Value;
use tempfile::TempDir;

/// A directory with logs, and the command that reads them.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        desk.log("a.hlog", "fetch", 100, 10, 1);
        desk.log("again.hlog", "fetch", 100, 10, 2);
        desk.log("slow.hlog", "fetch", 100, 12, 3);
        desk.log("short.hlog", "fetch", 10, 10, 4);
        desk.log("other.hlog", "publish", 100, 10, 5);
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Hundred samples in each slot, evenly spread from 8 to 12 tenths of `middle_ms`.
    fn log(&self, name: &str, operation: &str, slots: u64, middle_ms: u64, seed: u64) {
        let mut measured = Measured::new(BucketLayout::MESH);
        let mut state = seed;
        for slot in 0..slots {
            let mut samples = Histogram::default();
            for _ in 0..100 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1);
                samples.record(middle_ms * (800_000 + (state >> 33) % 400_000));
            }
            measured.slots.push(Slot {
                node: Some(NodeName::new("n1").unwrap()),
                start_ns: slot * 1_000_000_000,
                length_ns: 1_000_000_000,
                samples: Packed::from(&samples),
            });
        }
        let operation = Operation::new(operation).unwrap();
        let side = Side { operations: [(operation, measured)].into(), ..Side::default() };
        let mut bytes = Vec::new();
        write(&side, &mut bytes).unwrap();
        std::fs::write(self.path(name), bytes).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(Path::new(env!("CARGO_BIN_EXE_plimsoll")));
        command.current_dir(self.0.path()).env("XDG_DATA_HOME", self.path("data"));
        command.args(arguments).output().unwrap()
    }

    /// The exit code, and both outputs.
    fn outcome(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self.run(arguments);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }
}

#[test]
fn each_verdict_has_its_exit_code_and_stands_at_the_end() {
    let desk = Desk::new();
    for (b, code, verdict) in [
        ("again.hlog", 0, "same"),
        ("slow.hlog", 7, "worse"),
        ("other.hlog", 8, "not comparable"),
        ("short.hlog", 9, "not enough data"),
    ] {
        let (found, text, error) = desk.outcome(&["compare", "a.hlog", b]);
        assert_eq!((found, error.as_str()), (code, ""), "{b}: {text}");
        assert!(text.ends_with(&format!("verdict: {verdict}\n")), "{b}: {text}");
    }
    let (code, text, _) = desk.outcome(&["compare", "slow.hlog", "a.hlog"]);
    assert_eq!((code, text.lines().last()), (0, Some("verdict: better")));
}

#[test]
fn json_has_the_shift_of_each_quantile_and_the_share_over_the_limit() {
    let desk = Desk::new();
    let (code, text, _) =
        desk.outcome(&["compare", "a.hlog", "slow.hlog", "--json", "--limit", "fetch=11ms"]);
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &json["verdict"]), (7, &"worse".into()));
    let fetch = &json["operations"]["fetch"];
    let median = fetch["shifts"].as_array().unwrap().iter().find(|s| s["quantile"] == 0.5).unwrap();
    let estimate = median["change"]["estimate"].as_f64().unwrap();
    assert!((estimate - 0.2).abs() < 0.02, "{estimate}");
    let share = &fetch["over_limit"];
    // A quarter of 8 to 12 ms, and 3.4 of 4.8 ms from 9.6 ms on.
    assert!((share["a"].as_f64().unwrap() - 0.25).abs() < 0.02, "{share}");
    assert!((share["b"].as_f64().unwrap() - 0.708).abs() < 0.02, "{share}");
}

#[test]
fn a_baseline_is_kept_and_judges_a_later_run() {
    let desk = Desk::new();
    let save = ["compare", "--baseline", "save", "v1.4", "a.hlog"];
    let (code, text, _) = desk.outcome(&save);
    assert_eq!(code, 0, "{text}");
    assert!(desk.path("data/plimsoll/baselines/v1.4.json").exists(), "{text}");
    for (b, code) in [("again.hlog", 0), ("slow.hlog", 7)] {
        let check = ["compare", "--baseline", "check", "v1.4", b];
        assert_eq!(desk.outcome(&check).0, code, "{b}");
    }
    let direct = ["compare", "data/plimsoll/baselines/v1.4.json", "slow.hlog"];
    assert_eq!(desk.outcome(&direct).0, 7);
    let (code, _, error) = desk.outcome(&["compare", "--baseline", "check", "v1", "a.hlog"]);
    assert_eq!(code, 1);
    assert!(error.contains("no baseline v1 in ") && error.ends_with(": v1.4\n"), "{error}");
    let convert = ["hlog", "data/plimsoll/baselines/v1.4.json", "copy.hlog"];
    assert_eq!(desk.outcome(&convert).0, 0);
    let read = |name| std::fs::read_to_string(desk.path(name)).unwrap();
    assert_eq!(read("copy.hlog"), read("a.hlog"));
}

#[test]
fn two_baselines_of_other_units_or_other_buckets_are_not_comparable() {
    let desk = Desk::new();
    desk.outcome(&["compare", "--baseline", "save", "v1", "a.hlog"]);
    let own = std::fs::read_to_string(desk.path("data/plimsoll/baselines/v1.json")).unwrap();
    for (was, is, words) in [
        ("\"unit_ns\":1,", "\"unit_ns\":1000,", "in units of 1000 ns"),
        ("\"digits\":3", "\"digits\":2", "B has 2 digits"),
    ] {
        let other = own.replace(was, is);
        assert_ne!(other, own, "{was} is not in the file");
        std::fs::write(desk.path("own.json"), &own).unwrap();
        std::fs::write(desk.path("other.json"), other).unwrap();
        let (code, text, _) = desk.outcome(&["compare", "own.json", "other.json"]);
        assert_eq!(code, 8, "{text}");
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn the_picture_names_the_verdict_and_is_well_formed() {
    let desk = Desk::new();
    desk.outcome(&["compare", "a.hlog", "slow.hlog", "--svg", "shift.svg"]);
    let svg = std::fs::read_to_string(desk.path("shift.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    assert!(svg.contains("<title id=\"title\">Latency of B compared with A: worse</title>"));
    assert_eq!(svg.matches("<polyline ").count(), 2);
    // Each quantile has its interval and estimate, p99.9 too: ten of 10 000 samples exceed it.
    assert_eq!((svg.matches("<circle ").count(), svg.matches("class=\"bar\"").count()), (10, 10));
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    let opened = svg.matches('<').count();
    assert_eq!(opened, svg.matches('>').count());
}

#[test]
fn an_error_names_the_file_the_line_and_the_fix() {
    let desk = Desk::new();
    std::fs::write(desk.path("bad.hlog"), "# a log\n1,2,3\n").unwrap();
    std::fs::write(desk.path("report.json"), r#"{"seconds":5.0,"fleet":{}}"#).unwrap();
    for (arguments, code, words) in [
        ("a.hlog bad.hlog", 1, "bad.hlog: line 2: expected `Tag=OPERATION"),
        ("a.hlog report.json", 1, "report.json: it has no histograms of intervals"),
        ("a.hlog none.hlog", 1, "none.hlog: No such file"),
        ("a.hlog", 2, "give two sides, or use --baseline check NAME"),
        ("--baseline save x a.hlog slow.hlog", 2, "takes one side"),
        ("--baseline keep x a.hlog", 2, "write save or check"),
        ("a.hlog slow.hlog --limit fetch=18", 2, "with its unit"),
        ("a.hlog slow.hlog --operation fetsh", 1, "they have fetch"),
    ] {
        let arguments: Vec<&str> = ["compare"].into_iter().chain(arguments.split(' ')).collect();
        let (found, _, error) = desk.outcome(&arguments);
        assert_eq!(found, code, "{error}");
        assert!(error.contains(words), "{error}");
    }
}
