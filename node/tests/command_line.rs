//! `plimsoll-node` as it is started: which surroundings it bears, and what it refuses.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::Command;

use plimsoll_node::config::EXAMPLE;

/// Exit code, standard output and standard error.
type Outcome = (Option<i32>, String, String);

fn run(arguments: &[&str], variables: &[(&str, OsString)]) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll-node"));
    let variables = variables.iter().map(|(name, value)| (name, value));
    let output = command.args(arguments).envs(variables).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn check(variables: &[(&str, OsString)]) -> Outcome {
    run(&["--check-config"], variables)
}

#[test]
fn a_variable_that_is_not_text_is_refused_only_if_it_is_ours() {
    let strange = || OsString::from_vec(b"\xff".to_vec());
    let (code, _, stderr) = check(&[("OTHER_PROGRAMS", strange())]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let (code, _, stderr) = check(&[("PLIMSOLL_NODE_NAME", strange())]);
    let expected = "plimsoll-node: environment: PLIMSOLL_NODE_NAME: is not UTF-8\n";
    assert_eq!((code, stderr.as_str()), (Some(3), expected));
}

#[test]
fn links_to_a_service_of_the_same_name_are_passed_over() {
    let address = "tcp://10.0.0.7:8125";
    let (code, stdout, stderr) = check(&[
        ("PLIMSOLL_NODE_SERVICE_HOST", "10.0.0.7".into()),
        ("PLIMSOLL_NODE_SERVICE_PORT_STATSD", "8125".into()),
        ("PLIMSOLL_NODE_PORT", address.into()),
        ("PLIMSOLL_NODE_PORT_8125_UDP_ADDR", "10.0.0.7".into()),
    ]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(!stdout.contains("set by environment"), "{stdout}");
}

#[test]
fn labels_come_from_flags_then_variables_then_the_file_and_are_checked() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[identity]\nlabels = ['rack=r7']").unwrap();
    let path = file.path().to_str().unwrap();
    let variable =
        |text: &str| [("PLIMSOLL_NODE_IDENTITY__LABELS", OsString::from(text.to_owned()))];
    let checked = ["--config", path, "--check-config"];
    let flags = ["--label", "rack=r9", "--label", "version=2026.11 \"rc\""];
    for (arguments, variables, expected) in [
        (checked.to_vec(), Vec::new(), format!("set by file {path}")),
        (checked.to_vec(), variable("['role=a']").to_vec(), "set by environment".to_owned()),
        ([&checked[..], &flags].concat(), variable("['role']").to_vec(), "set by flags".to_owned()),
    ] {
        let (code, stdout, stderr) = run(&arguments, &variables);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{arguments:?}");
        assert!(stdout.contains(&format!("identity.labels: {expected}")), "{stdout}");
    }
    let (code, _, stderr) = check(&variable("['role']"));
    let expected = "plimsoll-node: identity.labels: \"role\" must be key=value, such as \
                    \"rack=r7\"; environment sets identity.labels\n";
    assert_eq!((code, stderr.as_str()), (Some(3), expected));
}

#[test]
fn one_flag_opens_both_ports_for_otlp_and_a_key_moves_one_of_them() {
    let (code, stdout, stderr) =
        run(&["--otlp", "--set", "otlp.grpc=127.0.0.1:5317", "--check-config"], &[]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    for expected in ["otlp.http: set by flags", "otlp.grpc: set by --set"] {
        assert!(stdout.contains(expected), "{expected} is not in {stdout}");
    }
    let (_, stdout, _) = check(&[]);
    assert!(!stdout.contains("otlp"), "{stdout}");
}

#[test]
fn numeric_text_is_a_name_and_a_password() {
    let (code, stdout, stderr) = check(&[
        ("PLIMSOLL_NODE_NAME", "7".into()),
        ("PLIMSOLL_NODE_BUS__USER", "true".into()),
        ("PLIMSOLL_NODE_BUS__PASSWORD", "12345".into()),
        ("PLIMSOLL_NODE_INTERVAL__LENGTH_MS", "500".into()),
    ]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(stdout.contains("bus.password: set by environment"), "{stdout}");
    assert!(!stdout.contains("12345"), "{stdout}");
}

#[test]
fn what_a_start_refuses_a_check_refuses_in_the_same_words() {
    for (set, key) in [
        ("bus.url=http://h", "bus.url"),
        ("bus.url=", "bus.url"),
        ("bus.credentials_file=absent.creds", "bus.credentials_file"),
        ("bus.nkey_seed_file=absent.nk", "bus.nkey_seed_file"),
        ("bus.user=u", "bus.password"),
        ("log.filter=x=loud", "log.filter"),
        ("outbox.bytes_max=1", "--set sets outbox.bytes_max"),
        ("outbox.messages_max=0", "--set sets outbox.messages_max"),
        ("emergency.per_minute=0", "--set sets emergency.per_minute"),
        ("spool.path=/dev/null", "/dev/null is not a directory"),
        ("spool.path=/dev/null/spool", "/dev/null is not a directory"),
        ("hardware.watch=[{ name = 'a' }]", "--set: hardware.watch[0]: needs one of pid, process"),
    ] {
        let checked = run(&["--set", set, "--check-config"], &[]);
        assert_eq!(checked.0, Some(3), "{set}: {checked:?}");
        assert!(checked.2.contains(key), "{key} is not in {}", checked.2);
        assert_eq!(run(&["--set", set], &[]), checked);
    }
}

#[test]
fn a_check_as_another_user_finds_the_secret_that_user_may_not_read() {
    // Made for its owner alone.
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "a token").unwrap();
    let set = format!("bus.token_file={}", secret.path().display());
    let check = |user: &[&str]| run(&[&["--check-config", "--set", &set], user].concat(), &[]);
    let is_root = nix::unistd::geteuid().is_root();

    let (code, stdout, stderr) = check(&[]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(stdout.contains("--as-user USER[:GROUP] checks as that user"), is_root, "{stdout}");
    let (code, _, stderr) = check(&["--as-user", "nobody"]);
    let expected = if is_root { "Permission denied" } else { "only root may check as another" };
    assert_eq!(code, Some(3));
    assert!(stderr.contains(expected), "{stderr}");
    assert_eq!(stderr.contains("bus.token_file"), is_root, "{stderr}");

    let (code, _, stderr) = check(&["--as-user", "nobody:absent-group"]);
    let expected = "--as-user nobody:absent-group: no group is called \"absent-group\"\n";
    assert_eq!((code, stderr), (Some(3), format!("plimsoll-node: {expected}")));
    let (code, _, _) = run(&["--as-user", "nobody"], &[]);
    assert_eq!(code, Some(2), "a process that runs does not change its user");
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
