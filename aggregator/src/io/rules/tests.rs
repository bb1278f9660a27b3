//! Files of every kind, and what a check of them finds.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use plimsoll_clock::Deadline;
use plimsoll_runtime::settings::SettingsArgs;
use plimsoll_runtime::supervision::Supervisor;
use plimsoll_schemas::limits::rules::FILE_BYTES_MAX;
use plimsoll_schemas::rule::Rules;
use tempfile::TempDir;

use super::watch::Checker;
use super::*;

const WAIT: std::time::Duration = std::time::Duration::from_secs(30);

struct Dir {
    dir: TempDir,
}

impl Dir {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name).display().to_string()
    }

    /// Sources of a settings file with this text.
    fn settings(&self, text: &str, set: &[&str]) -> Sources {
        let config = Some(PathBuf::from(self.write("aggregator.toml", text)));
        let set = set.iter().map(|&key| key.to_owned()).collect();
        Sources::new(SettingsArgs { config, set, ..SettingsArgs::default() }, [])
    }

    /// Sources of one file of rules.
    fn rules(&self, path: &str) -> Sources {
        self.settings(&format!("[rules]\nfiles = [{path:?}]"), &[])
    }
}

fn limit_ms(rules: &Rules) -> u64 {
    let of = |budget: &&plimsoll_schemas::budget::Budget| budget.name.as_str() == "publish";
    rules.budgets.iter().find(of).unwrap().limit_ns / 1_000_000
}

fn publish(limit: &str) -> String {
    format!("[[budget]]\nname = 'publish'\nlimit = {limit}\n")
}

#[test]
fn settings_override_files_and_later_files_override_earlier_ones() {
    let dir = Dir::new();
    let (a, b) = (dir.write("a.toml", publish("'1ms'")), dir.write("b.toml", publish("'2ms'")));
    let files = format!("[rules]\nfiles = [{a:?}, {b:?}]\n");
    let of = |text: &str, set: &[&str]| dir.settings(text, set).load().0.unwrap();
    assert_eq!(limit_ms(&of(&files, &[]).rules), 2);
    let own = format!("{files}{}", publish("'3ms'"));
    assert_eq!(limit_ms(&of(&own, &[]).rules), 3);
    let set = "budget=[{name='publish', limit='4ms'}]";
    assert_eq!(limit_ms(&of(&own, &[set]).rules), 4);
    let loaded = of(&own, &["rules.time_scale=60"]);
    assert_eq!(loaded.rules.time_scale, 60);
}

#[test]
fn errors_name_the_file_and_its_line() {
    let dir = Dir::new();
    let of = |text: &str, set: &[&str]| dir.settings(text, set).load().0.unwrap_err();
    let config = dir.path("aggregator.toml").display().to_string();
    let error = of(&format!("mesh = 'm'\n{}", publish("18")), &[]);
    let text = "line 4, column 1: budget \"publish\": limit: 18 has no unit; write \"18ms\"";
    assert_eq!(error, format!("{config}: {text}"));
    let error = of("", &["rule=[{name='x', metric='dropped', greater=nan}]"]);
    let text = "rule \"x\": greater: NaN cannot be compared; write a finite number";
    assert_eq!(error, format!("--set: {text}"));
    let error = of("rules = { files = ['/gone/r.toml'] }", &[]);
    assert_eq!(error, "/gone/r.toml: No such file or directory (os error 2)");
    let text = "line 1, column 10: budget: must be a list of tables; write [[budget]]";
    assert_eq!(of("budget = 3", &[]), format!("{config}: {text}"));
}

#[test]
fn only_regular_files_are_read_and_none_blocks() {
    let dir = Dir::new();
    let pipe = dir.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let large = dir.write("large.toml", vec![b' '; FILE_BYTES_MAX + 1]);
    let here = dir.dir.path().display().to_string();
    for (path, text) in [
        (pipe.display().to_string(), "is not a regular file"),
        ("/dev/zero".to_owned(), "is not a regular file"),
        (here, "is a directory; name the files in it"),
        (large, "more than 1048576 bytes; split it with `include`"),
        (dir.write("latin.toml", b"# \xfc"), "line 1, column 3: not UTF-8; save it as UTF-8"),
    ] {
        let error = dir.rules(&path).load().0.unwrap_err();
        assert_eq!(error, format!("{path}: {text}"));
    }
}

/// The next result that fits, without a reload request.
fn until(watch: &mut Watch, fits: impl Fn(&Found) -> bool) -> Found {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let deadline = Deadline::within(WAIT);
    while !deadline.has_passed() {
        let next = async { tokio::time::timeout(WAIT, watch.next()).await };
        let found = runtime.block_on(next).expect("news in time");
        if fits(&found) {
            return found;
        }
    }
    panic!("nothing such was found in time")
}

fn has(ms: u64) -> impl Fn(&Found) -> bool {
    move |found| found.rules.as_ref().is_ok_and(|rules| limit_ms(rules) == ms)
}

fn watch(sources: &Sources) -> Watch {
    let (loaded, stamps) = sources.load();
    Watch::start(sources.clone(), loaded.unwrap().resolved.value, stamps, &Supervisor::default())
        .unwrap()
}

#[test]
fn a_file_that_is_written_anew_swapped_or_exchanged_by_a_link_is_read_again() {
    let dir = Dir::new();
    for version in ["v1", "v2"] {
        std::fs::create_dir(dir.path(version)).unwrap();
        let limit = if version == "v1" { "'1ms'" } else { "'2ms'" };
        dir.write(&format!("{version}/site.toml"), publish(limit));
    }
    symlink("v1", dir.path("data")).unwrap();
    let main = dir.write("main.toml", "include = ['data/site.toml']");
    let mut watch = watch(&dir.rules(&main));
    // As a ConfigMap is updated: another link takes the place of the old one.
    symlink("v2", dir.path("data.new")).unwrap();
    std::fs::rename(dir.path("data.new"), dir.path("data")).unwrap();
    until(&mut watch, has(2));
    // As an editor saves.
    dir.write("v2/site.toml.swp", publish("'3ms'"));
    std::fs::rename(dir.path("v2/site.toml.swp"), dir.path("v2/site.toml")).unwrap();
    until(&mut watch, has(3));
    dir.write("v2/site.toml", publish("'4ms'"));
    let found = until(&mut watch, has(4));
    assert!(!found.requested && found.restart.is_empty());
}

#[test]
fn a_file_that_is_written_bit_by_bit_is_read_once_it_rests() {
    let dir = Dir::new();
    let path = dir.write("rules.toml", publish("'1ms'"));
    let sources = dir.rules(&path);
    let (loaded, stamps) = sources.load();
    let mut checker = Checker::new(sources, loaded.unwrap().resolved.value, stamps);
    assert!(checker.check(false).is_none(), "what the start has read is no news");

    // Each part alone is a valid file.
    for part in ["# a", "# all the rules\n", &format!("# all the rules\n{}", publish("'7ms'"))] {
        dir.write("rules.toml", part);
        assert!(checker.check(false).is_none(), "{part:?} may not be all");
    }
    assert!(checker.check(false).as_ref().is_some_and(has(7)));
    assert!(checker.check(false).is_none(), "nothing has changed since");

    dir.write("rules.toml", publish("'8ms'"));
    assert!(checker.check(true).as_ref().is_some_and(has(8)), "a request does not wait");
}

#[test]
fn an_invalid_or_missing_file_is_logged_and_read_once_it_is_valid() {
    let dir = Dir::new();
    let path = dir.write("rules.toml", publish("'1ms'"));
    let mut watch = watch(&dir.rules(&path));
    dir.write("rules.toml", "[[budget]]\nname = 'publ");
    let wrong = until(&mut watch, |found| found.rules.is_err()).rules.unwrap_err();
    assert!(wrong.starts_with(&format!("{path}: line 2, column ")), "{wrong}");
    std::fs::remove_file(&path).unwrap();
    let gone = "No such file or directory";
    until(&mut watch, |found| found.rules.as_ref().is_err_and(|error| error.contains(gone)));
    dir.write("rules.toml", publish("'7ms'"));
    until(&mut watch, has(7));
}

#[test]
fn settings_that_only_a_restart_takes_are_named() {
    let dir = Dir::new();
    let mut watch = watch(&dir.settings("mesh = 'm'", &[]));
    let webhook = "[[webhook]]\nname = 'chat'\nurl = 'http://h'\n\
                   [[budget]]\nname = 'publish'\nroutes = ['chat']";
    let metrics = "mesh = 'n'\n[metrics]\nnodes_max = 7\n[rules]\ntime_scale = 9\n";
    dir.settings(&format!("{metrics}{webhook}"), &[]);
    let found = until(&mut watch, |found| !found.restart.is_empty());
    assert_eq!(found.restart, ["mesh", "webhook", "metrics"]);
    let route = "budget \"publish\": routes name no receiver \"chat\"; none is defined";
    assert!(found.advice.iter().any(|advice| advice == route), "{:?}", found.advice);
    assert_eq!(found.rules.unwrap().time_scale, 9);
    watch.request();
    assert!(until(&mut watch, |found| found.requested).rules.is_ok());
}

#[test]
fn changed_roll_ups_are_found_and_need_no_restart_unless_they_are_wrong() {
    let dir = Dir::new();
    let mut watch = watch(&dir.settings("mesh = 'm'", &[]));
    let names = |found: &Found| -> Vec<String> {
        found.rollups.iter().map(|rollup| rollup.name.clone()).collect()
    };
    dir.settings("mesh = 'm'\nrollup_labels = ['le']", &[]);
    let wrong = until(&mut watch, |found| found.rules.is_err());
    assert!(wrong.rollups.is_empty(), "{wrong:?}");
    let rack = "[[rollup]]\nname = 'by_rack'\nnodes_by = ['rack']";
    dir.settings(&format!("mesh = 'm'\nrollup_labels = ['run']\n{rack}"), &[]);
    let found = until(&mut watch, |found| found.rules.is_ok());
    assert_eq!((names(&found), found.restart), (vec!["run".into(), "by_rack".into()], vec![]));
}

#[test]
fn a_regression_needs_a_history_and_a_baseline_whose_change_is_noticed() {
    let dir = Dir::new();
    let rule = |path: &str| {
        format!(
            "[[rule]]\nname = 'slower'\nmetric = 'regression:fetch'\ngreater = 0.05\n\
             baseline = {path:?}\n"
        )
    };
    let absent = dir.path("v1.json").display().to_string();
    let refused = dir.settings(&rule(&absent), &[]).load().0.unwrap_err();
    assert!(refused.contains("rule \"slower\": a regression needs a history"), "{refused}");
    let state = format!("state.path={}", dir.path("state.redb").display());
    let history = format!("history.path={}", dir.path("history.redb").display());
    let sources = dir.settings(&rule(&absent), &[&state, &history]);
    let (refused, stamps) = sources.load();
    let refused = refused.unwrap_err();
    assert!(refused.contains("rule \"slower\": baseline: "), "{refused}");
    assert!(refused.contains("No such file"), "{refused}");
    assert!(stamps.contains_key(&dir.path("v1.json")), "a later file is noticed");
    let slot = r#"{"start_ns":0,"length_ns":1000,"buckets":[[5,1]]}"#;
    dir.write(
        "v1.json",
        format!(
            "{{\"format\":\"plimsoll-baseline\",\"version\":1,\"operations\":{{\"fetch\":{{\
             \"layout\":{{\"unit_ns\":1,\"low\":{},\"digits\":{}}},\"slots\":[{slot}]}}}}}}",
            plimsoll_schemas::histogram::layout::LOW_NS,
            plimsoll_schemas::histogram::layout::DIGITS
        ),
    );
    let loaded = sources.load().0.unwrap();
    assert_eq!(loaded.rules.thresholds.last().unwrap().name.as_str(), "slower");
}
