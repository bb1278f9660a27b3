//! Known functions at known shares, whatever unwinding rests on and wherever the symbols are.

use std::time::Duration;

use plimsoll_profile::Sample;

use crate::program::{Built, native, running, share};

/// `major` takes three times as long as `minor`, in rounds far shorter than a period.
/// What follows each call keeps it one.
pub(crate) const C: &str = r#"
#include <stdio.h>
volatile unsigned long x;
__attribute__((noinline)) void spin(long n) { for (long i = 0; i < n; i++) x += i; }
__attribute__((noinline)) void major(void) { spin(3000); x++; }
__attribute__((noinline)) void minor(void) { spin(1000); x++; }
int main(void) { puts("ready"); fflush(stdout); for (;;) { major(); minor(); } }
"#;

const RUST: &str = r#"
use std::hint::black_box;
#[inline(never)]
fn spin(n: u64) -> u64 { (0..n).fold(0, |x, i| black_box(x ^ i)) }
mod shares {
    #[inline(never)]
    pub fn major() -> u64 { super::spin(3_000) + 1 }
    #[inline(never)]
    pub fn minor() -> u64 { super::spin(1_000) + 1 }
}
fn main() {
    println!("ready");
    loop { black_box(shares::major() + shares::minor()); }
}
"#;

/// Each stack is `main`, then one of both, then the loop; at most some are of a call's first
/// instructions.
pub(crate) fn assert_shares(samples: &[Sample<'_>], names: [&str; 3], what: &str) {
    let [main, major, minor] = names;
    let within = |function: &'static str| {
        move |frames: &[(&str, &str)]| frames.iter().any(|(name, _)| name == &function)
    };
    let of = |name: &str| {
        share(samples, |frames| {
            let at = |name: &str| frames.iter().position(|(function, _)| *function == name);
            at(main).is_some_and(|main| at(name).is_some_and(|at| at == main + 1))
        })
    };
    let (major, minor) = (of(major), of(minor));
    assert!((major - 0.75).abs() < 0.05 && (minor - 0.25).abs() < 0.05, "{what}: {major} {minor}");
    assert_eq!(share(samples, within("[unknown]")), 0.0, "{what}");
}

const OF_C: [&str; 3] = ["main", "major", "minor"];
/// Of the loop's own function.
fn is_spin(frames: &[(&str, &str)]) -> bool {
    frames.last().is_some_and(|(function, _)| function.ends_with("spin"))
}

#[test]
fn c_has_its_shares_with_and_without_frame_pointers() {
    let pointers = "-fno-omit-frame-pointer";
    // Optimised, the leaf would have no frame: then nothing leads to its caller.
    let alone = [pointers, "-O0", "-fno-asynchronous-unwind-tables"];
    for flags in [&["-fomit-frame-pointer"][..], &[pointers], &alone] {
        let program = Built::c(C, flags).start();
        let capture = program.capture();
        let samples = running(&capture);
        assert_shares(&samples, OF_C, &format!("{flags:?}"));
        assert!(share(&samples, is_spin) > 0.9);
        assert_eq!(capture.python, None);
        let is_named = |frames: &[(&str, &str)]| frames.last().unwrap().1 == "program";
        assert!(share(&samples, is_named) > 0.9);
    }
}

#[test]
fn rust_has_its_shares_with_and_without_frame_pointers() {
    let names = ["program::main", "program::shares::major", "program::shares::minor"];
    let v0 = ["-Cforce-frame-pointers=yes", "-Csymbol-mangling-version=v0"];
    for flags in [&["-Cforce-frame-pointers=no"][..], &v0] {
        let program = Built::rust(RUST, flags).start();
        let capture = program.capture();
        assert_shares(&running(&capture), names, &format!("{flags:?}"));
    }
}

#[test]
fn a_stripped_program_has_its_names_from_its_debug_file() {
    // With a build id, and with a checksum alone.
    for flags in [&["-fomit-frame-pointer"][..], &["-Wl,--build-id=none"]] {
        let built = Built::c(C, flags);
        built.tool(&["--only-keep-debug", "program", "program.debug"]);
        built.tool(&["--strip-all", "--add-gnu-debuglink=program.debug", "program"]);
        let program = built.start();
        let capture = program.capture();
        assert_shares(&running(&capture), OF_C, &format!("{flags:?}"));
    }
}

#[test]
fn a_debug_file_of_another_program_names_nothing() {
    for flags in [&[][..], &["-Wl,--build-id=none"]] {
        let built = Built::c(C, flags);
        let other = Built::c(&C.replace("minor", "other").replace("3000", "3001"), flags);
        other.tool(&["--only-keep-debug", "program", "program.debug"]);
        built.tool(&["--only-keep-debug", "program", "program.debug"]);
        built.tool(&["--strip-all", "--add-gnu-debuglink=program.debug", "program"]);
        let debug = other.path.with_extension("debug");
        std::fs::copy(debug, built.path.with_extension("debug")).unwrap();
        let program = built.start();
        let capture = program.capture();
        let is_file = |frames: &[(&str, &str)]| frames.last().unwrap().0 == "[program]";
        assert!(share(&running(&capture), is_file) > 0.9, "{flags:?}");
    }
}

const THREADS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
volatile unsigned long x;
__attribute__((noinline)) void clocks(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); x++; }
__attribute__((noinline)) void reads(int zero) { static char b[65536]; read(zero, b, sizeof b); x++; }
void *late(void *_) { FILE *f = fopen("/dev/zero", "r"); for (;;) { for (int i = 0; i < 100; i++) clocks(); reads(fileno(f)); } }
int main(void) {
  puts("ready"); fflush(stdout); usleep(700000);
  pthread_t t; pthread_create(&t, 0, late, 0); pthread_join(t, 0);
}
"#;

#[test]
fn a_thread_that_starts_later_is_sampled_in_the_vdso_and_in_the_kernel() {
    let program = Built::c(THREADS, &["-fomit-frame-pointer"]).start();
    let capture = native(&program.child, 1_000, Duration::from_secs(2));
    let samples = running(&capture);
    let holds = |name: &'static str, file: &'static str| {
        let is_it = move |frame: &(&str, &str)| frame.0 == name || frame.1 == file;
        share(&samples, |frames| frames.iter().any(is_it))
    };
    assert!(holds("late", "") > 0.9, "{}", holds("late", ""));
    assert!(holds("", "[vdso]") + holds("", "[kernel]") > 0.1);
    assert!(holds("[unknown]", "") < 0.05, "{}", holds("[unknown]", ""));
    if capture.native.unwrap().has_kernel {
        assert!(share(&samples, |frames| frames.last().unwrap().1 == "[kernel]") > 0.01);
    }
    let main = capture.profile.samples().find(|s| s.labels.state != samples[0].labels.state);
    assert_eq!(main.unwrap().stack.frames()[0].function.as_str(), "[off CPU]");
}
