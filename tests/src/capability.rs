//! What this machine allows a test. Each probe tries one thing by itself, before the test that
//! needs it. The test's own attempt is no probe: if it fails, the test fails. `plimsoll-node`
//! includes this file with `#[path]`.

use std::fs::File;
use std::io::{Write, stderr};
use std::path::Path;
use std::process::Command;

/// Prints why a test is skipped, around the capture of the test harness.
///
/// # Panics
/// When standard error is closed.
pub fn skip(reason: &str) {
    writeln!(stderr(), "SKIPPED: {reason}").expect("standard error is open");
}

/// Why a file system cannot be mounted, `None` if it can: mounts a tmpfs and unmounts it.
///
/// # Panics
/// When there is no folder for temporary files, or the tmpfs stays mounted.
pub fn mount_refusal() -> Option<String> {
    let dir = tempfile::tempdir().expect("there is a folder for temporary files");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(dir.path()).output();
    let refusal = match mounted {
        Ok(mounted) if mounted.status.success() => {
            let unmounted = Command::new("umount").arg(dir.path()).status();
            assert!(unmounted.is_ok_and(|status| status.success()), "a tmpfs stays mounted");
            return None;
        }
        Ok(mounted) => String::from_utf8_lossy(&mounted.stderr).into_owned(),
        Err(error) => error.to_string(),
    };

    // The same words for each test: without the folder, and without advice on further lines.
    let refusal = refusal.replace(&*dir.path().to_string_lossy(), "tmpfs");
    Some(format!("no file system can be mounted: {}", refusal.lines().next().unwrap_or_default()))
}

/// Why tmux has no terminal, `None` if it has one: starts it for its version, and opens a pseudo
/// terminal.
pub fn terminal_refusal() -> Option<String> {
    if let Err(error) = Command::new("tmux").arg("-V").output() {
        return Some(format!("tmux cannot be run: {error}"));
    }
    let opened = File::options().read(true).write(true).open("/dev/ptmx");
    opened.err().map(|error| format!("no pseudo terminal can be opened: {error}"))
}

/// Why processes cannot share semaphores, as a pool of Python's multiprocessing does, `None` if
/// they can: makes a file where the C library keeps them.
pub fn semaphore_refusal() -> Option<String> {
    let error = tempfile::tempfile_in("/dev/shm").err()?;
    Some(format!("processes cannot share semaphores in /dev/shm: {}", error.kind()))
}

/// Why processes get no network of their own, `None` if they do: makes one with its loopback.
pub fn network_refusal() -> Option<String> {
    let mut made = Command::new("unshare");
    made.args(["--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child"]);
    let refusal = match made.args(["ip", "link", "set", "lo", "up"]).output() {
        Ok(made) if made.status.success() => return None,
        Ok(made) => String::from_utf8_lossy(&made.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    Some(format!("no network of its own: {}", refusal.lines().next().unwrap_or_default()))
}

/// Whether sysfs is mounted at `/sys`: looks for its folder of network interfaces.
pub fn has_sysfs() -> bool {
    Path::new("/sys/class/net").is_dir()
}
