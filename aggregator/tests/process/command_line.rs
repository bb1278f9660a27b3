//! The command line of `plimsoll-aggregator`: environments that it ignores, and errors.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::Command;

use plimsoll_aggregator::config::EXAMPLE;

/// Exit code, standard output and standard error.
type Outcome = (Option<i32>, String, String);

fn run(arguments: &[&str], variables: &[(&str, OsString)]) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll-aggregator"));
    let variables = variables.iter().map(|(name, value)| (name, value));
    let output = command.args(arguments).envs(variables).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn foreign_environment_variables_change_nothing() {
    let variables = [
        ("OTHER_PROGRAMS", OsString::from_vec(b"\xff".to_vec())),
        ("PLIMSOLL_AGGREGATOR_SERVICE_HOST", "10.0.0.7".into()),
        ("PLIMSOLL_AGGREGATOR_SERVICE_PORT", "9900".into()),
        ("PLIMSOLL_AGGREGATOR_PORT", "tcp://10.0.0.7:9900".into()),
        ("PLIMSOLL_AGGREGATOR_PORT_9900_TCP", "tcp://10.0.0.7:9900".into()),
        ("PLIMSOLL_AGGREGATOR_PORT_9900_TCP_PROTO", "tcp".into()),
    ];
    let (code, stdout, stderr) = run(&["--check-config"], &variables);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(!stdout.contains("set by environment"), "{stdout}");
    let mistyped = [("PLIMSOLL_AGGREGATOR_HTTP_PORT", "9900".into())];
    let (code, _, stderr) = run(&["--check-config"], &mistyped);
    assert_eq!(code, Some(3));
    assert!(stderr.contains("environment: unknown key \"http_port\""), "{stderr}");
}

#[test]
fn a_check_reports_the_same_errors_as_a_start() {
    for (set, key) in [
        ("bus.url=http://h", "bus.url"),
        ("bus.credentials_file=absent.creds", "bus.credentials_file"),
        ("log.filter=x=loud", "log.filter"),
        ("rules.time_scale=0", "rules.time_scale"),
        ("rules.files=['absent.toml']", "absent.toml: No such file"),
        ("budget=[{name='new'}]", "--set: budget \"new\": operation is missing"),
    ] {
        let checked = run(&["--set", set, "--check-config"], &[]);
        assert_eq!(checked.0, Some(3), "{set}: {checked:?}");
        assert!(checked.2.contains(key), "{key} is not in {}", checked.2);
        assert_eq!(run(&["--set", set], &[]), checked);
    }
}

#[test]
fn the_printed_file_is_a_valid_configuration() {
    let (code, stdout, stderr) = run(&["--print-config"], &[]);
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), EXAMPLE, ""));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), stdout).unwrap();
    let (code, _, stderr) =
        run(&["--check-config", "--config", file.path().to_str().unwrap()], &[]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
}

#[test]
fn the_printed_rules_are_a_valid_rule_file() {
    let (code, stdout, stderr) = run(&["--print-rules"], &[]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), stdout).unwrap();
    let path = file.path().to_str().unwrap();
    let (code, stdout, stderr) = run(&["--check-config", "--rules", path], &[]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(
        stdout.contains("rules.files: set by flags") && !stdout.contains("warning"),
        "{stdout}"
    );
}

#[test]
fn a_check_rejects_invalid_rules_and_warns_of_unlikely_ones() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    std::fs::write(path, "[[budget]]\nname = 'publish'\nlimit = 25").unwrap();
    let (code, _, stderr) = run(&["--check-config", "--rules", path], &[]);
    let expected = "line 3, column 1: budget \"publish\": limit: 25 has no unit; write \"25ms\"";
    assert_eq!(code, Some(3));
    assert!(stderr.contains(&format!("{path}: {expected}")), "{stderr}");
    let text = "[[budget]]\nname = 'publish'\nobjective = 0.9\nwindow = '1h'\nroutes = ['absent']";
    std::fs::write(path, text).unwrap();
    let (code, stdout, stderr) = run(&["--check-config", "--rules", path], &[]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    for expected in [
        "warning: budget \"publish\": objective 0.9 is spent at no more than 10 times its pace",
        "warning: budget \"publish\": window 1h is longer than windows.nodes_up_to (5m)",
        "warning: budget \"publish\": routes name no receiver \"absent\"",
    ] {
        assert!(stdout.contains(expected), "{stdout}");
    }
}
