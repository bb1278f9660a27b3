//! `plimsoll run --results` names a file for epochs to its command, and writes what came of it.

use std::path::Path;
use std::process::Command;

fn run(results: &Path, script: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["run", "--name", "v42", "--socket", "/nowhere", "--results"]).arg(results);
    let output = command.args(["--", "sh", "-c", script]).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn epochs_that_processes_append_are_in_the_results_with_the_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("results.json");
    let script = "cd /
        for ns in 2500000 1000001; do
            echo '{\"process\":'$$',\"operation\":\"epoch_hook\",\"ns\":'$ns'}' >> \
                \"$PLIMSOLL_EPOCHS_FILE\"
        done
        printf '{\"proc' >> \"$PLIMSOLL_EPOCHS_FILE\"
        echo \"$PLIMSOLL_EPOCHS_FILE\" >&2; exit 7";
    let (code, errors) = run(&results, script);
    assert_eq!(code, Some(7));

    let text = std::fs::read_to_string(&results).unwrap();
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&found["run"], &found["exit_code"]), (&"v42".into(), &7.into()));
    assert_eq!(found["epoch_time_ms"], serde_json::json!([2.5, 1.000_001]));
    let missing = "lines that could not be read: 1, the first is line 3: it was cut";
    assert_eq!(found["epochs_missing"], serde_json::json!([missing]));
    let lines = errors.lines().find(|line| line.ends_with("epochs.jsonl")).unwrap();
    assert!(!Path::new(lines).exists(), "its directory is gone: {lines}");
}

#[test]
fn a_file_of_epochs_that_is_gone_or_no_file_is_named_in_the_results() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("results.json");
    for (script, words) in [
        ("rm $PLIMSOLL_EPOCHS_FILE; exit 4", "No such file"),
        (
            "rm $PLIMSOLL_EPOCHS_FILE; mkfifo $PLIMSOLL_EPOCHS_FILE; exit 4",
            "it is no file any more",
        ),
        ("rm $PLIMSOLL_EPOCHS_FILE; mkdir $PLIMSOLL_EPOCHS_FILE; exit 4", "it is no file any more"),
    ] {
        let (code, errors) = run(&results, script);
        assert_eq!(code, Some(4), "{errors}");
        let text = std::fs::read_to_string(&results).unwrap();
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(found["exit_code"], 4);
        let missing = found["epochs_missing"][0].as_str().unwrap();
        assert!(
            missing.starts_with("the file of the epochs: ") && missing.contains(words),
            "{missing}"
        );
    }
}

#[test]
fn results_that_cannot_be_written_leave_the_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("folder");
    let (code, errors) = run(&results, &format!("mkdir {}; exit 3", results.display()));
    assert_eq!(code, Some(3));
    assert!(errors.contains(&format!("--results {}", results.display())), "{errors}");
    let (code, errors) = run(&dir.path().join("absent/results.json"), "exit 3");
    assert_eq!(code, Some(1));
    assert!(errors.contains("its directory does not exist"), "{errors}");
}
