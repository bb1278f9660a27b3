//! Whether something keeps the kernel's clock on time, and how far off it may be.
//!
//! DESIGN N38.

use plimsoll_schemas::hardware::{
    CLOCK_ERROR_SECONDS, CLOCK_OFFSET_SECONDS, CLOCK_SYNCHRONIZED, MissingReading,
};

use super::gather::Gather;
use super::root::{self, Root};

pub(super) fn gather(root: &Root, gather: &mut Gather) {
    let read =
        if root.has_own_kernel() { query() } else { Err(MissingReading::unsupported("recorded")) };
    // Without anything that keeps the clock, the kernel makes up how far it may be off.
    let kept = read.and_then(|clock| {
        if clock.is_kept { Ok(clock) } else { Err(MissingReading::unsupported("not_synchronized")) }
    });
    gather.put(&CLOCK_SYNCHRONIZED, read.map(|clock| f64::from(u8::from(clock.is_kept))));
    gather.put(&CLOCK_OFFSET_SECONDS, kept.map(|clock| clock.offset_seconds));
    gather.put(&CLOCK_ERROR_SECONDS, kept.map(|clock| clock.error_seconds));
}

/// The kernel's clock, as what keeps it on time left it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Timekeeping {
    is_kept: bool,
    offset_seconds: f64,
    error_seconds: f64,
}

/// No crate in use wraps the one call that returns this, and no file holds it.
#[expect(unsafe_code, reason = "adjtimex exists only in C")]
fn query() -> Result<Timekeeping, MissingReading> {
    let mut timex = empty();
    // SAFETY: no mode is set, so nothing is changed; the call writes into what it is given and
    // keeps no pointer to it.
    let state = unsafe { libc::adjtimex(&raw mut timex) };
    if state < 0 {
        return Err(root::missing(&std::io::Error::last_os_error()));
    }
    Ok(understood(state, &timex))
}

#[expect(unsafe_code, reason = "its padding has no other way to be made")]
fn empty() -> libc::timex {
    // SAFETY: a `timex` is integers only, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

fn understood(state: i32, timex: &libc::timex) -> Timekeeping {
    let has_nanos = timex.status & libc::STA_NANO != 0;
    Timekeeping {
        is_kept: state != libc::TIME_ERROR && timex.status & libc::STA_UNSYNC == 0,
        offset_seconds: timex.offset as f64 * if has_nanos { 1e-9 } else { 1e-6 },
        error_seconds: timex.maxerror as f64 * 1e-6,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Write, stderr};
    use std::path::Path;

    use super::*;

    #[test]
    fn micro_and_nanoseconds_become_seconds() {
        let timex = libc::timex { offset: -1_500, maxerror: 250_000, ..empty() };
        let micros = understood(libc::TIME_OK, &timex);
        assert_eq!((micros.offset_seconds, micros.error_seconds), (-1.5e-3, 0.25));
        let nanos = understood(libc::TIME_OK, &libc::timex { status: libc::STA_NANO, ..timex });
        assert_eq!((nanos.offset_seconds, nanos.error_seconds), (-1.5e-6, 0.25));
        assert!(micros.is_kept && nanos.is_kept);
        assert!(!understood(libc::TIME_ERROR, &timex).is_kept);
        let unsynchronized = libc::timex { status: libc::STA_UNSYNC, ..timex };
        assert!(!understood(libc::TIME_OK, &unsynchronized).is_kept);
    }

    #[test]
    fn kernel_times_are_read_in_seconds() {
        let read = match query() {
            Ok(read) => read,
            // Some containers do not permit the call. Written around the capture of the harness.
            Err(missing) if missing == MissingReading::failed("no_permission") => {
                let skipped = writeln!(stderr(), "SKIPPED: adjtimex is not permitted");
                return skipped.expect("standard error is open");
            }
            Err(missing) => panic!("{missing:?}"),
        };
        assert!((0.0..1e3).contains(&read.error_seconds), "{read:?}");
        assert!((-1.0..=1.0).contains(&read.offset_seconds), "{read:?}");
    }

    #[test]
    fn a_host_seen_from_a_container_has_its_kernels_clock() {
        let host = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/proc", host.path().join("proc")).unwrap();
        let reasons = |root: &Path| {
            let mut readings = Gather::default();
            gather(&Root::new(root), &mut readings);
            let readings = readings.finish();
            readings.into_iter().map(|reading| reading.reason).collect::<Vec<_>>()
        };
        assert_eq!(reasons(host.path()), reasons(Path::new("/")));
        assert!(!reasons(host.path()).contains(&Some("recorded".into())));
    }

    #[test]
    fn a_recorded_machine_has_no_clock() {
        let mut readings = Gather::default();
        gather(&Root::new(Path::new("/recorded")), &mut readings);
        let readings = readings.finish();
        assert!(readings.iter().all(|r| r.reason.as_deref() == Some("recorded")));
        assert_eq!(readings.len(), 3);
    }
}
