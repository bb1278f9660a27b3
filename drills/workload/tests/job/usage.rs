//! The command line as a stranger meets it.

use crate::running::program;

fn output(flags: &[&str]) -> (Option<i32>, String, String) {
    let output = program().args(flags).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn wrong_usage_exits_with_2_and_names_the_flag_and_the_fix() {
    let (code, stdout, stderr) = output(&["--epochs-per-second", "fast"]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    let fix = "invalid value 'fast' for '--epochs-per-second <RATE>': must be a number of at \
               least 0, such as 20";
    assert!(stderr.contains(fix), "{stderr}");
}

#[test]
fn a_directory_that_cannot_be_made_exits_with_1_and_names_the_flag() {
    let (code, stdout, stderr) = output(&["--dir", "/dev/null/x", "--epochs", "1"]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("--dir \"/dev/null/x\" must be a directory"), "{stderr}");
}

#[test]
fn a_raw_file_that_fills_up_ends_the_job_rather_than_leave_a_false_account() {
    let node = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = format!("udp://{}", node.local_addr().unwrap());
    let flags = ["--raw", "/dev/full", "--epochs", "1", "--statsd", &url];
    let (code, stdout, stderr) = output(&flags);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("--raw \"/dev/full\" must be a file"), "{stderr}");
}

#[test]
fn help_shows_examples_and_version_the_version() {
    let (code, stdout, _) = output(&["--help"]);
    assert_eq!(code, Some(0));
    for word in ["Examples:", "extra-work-ms 25", "Exit codes:", "PLIMSOLL_STATSD"] {
        assert!(stdout.contains(word), "{word}: {stdout}");
    }
    let (code, stdout, _) = output(&["--version"]);
    let version = concat!("plimsoll-workload ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!((code, stdout.as_str()), (Some(0), version));
}
