//! What a running job makes of its commands file, and of damage done to its kernels.

use std::fs;

use crate::running::Running;

const MILLI: u64 = 1_000_000;

fn median(mut latencies: Vec<u64>) -> u64 {
    latencies.sort_unstable();
    latencies[latencies.len() / 2]
}

#[test]
fn extra_work_lengthens_every_later_hook_until_it_is_switched_off() {
    let mut running = Running::start(&[]);
    let before: Vec<u64> = (0..20).map(|_| running.next_hook()).collect();
    assert!(median(before.clone()) < 18 * MILLI, "{before:?}");

    running.command("extra-work-ms 25");
    while running.next_hook() < 25 * MILLI {}
    let slow: Vec<u64> = (0..10).map(|_| running.next_hook()).collect();
    assert!(slow.iter().all(|took| *took > 25 * MILLI), "{slow:?}");

    running.command("extra-work-ms 0");
    while running.next_hook() > 18 * MILLI {}
    let after: Vec<u64> = (0..10).map(|_| running.next_hook()).collect();
    assert!(median(after.clone()) < 18 * MILLI, "{after:?}");

    running.command("stop");
    running.rest();
    let ended = running.ended();
    assert_eq!((ended.status.code(), &ended.summary["ended_by"]), (Some(0), &"command".into()));
}

#[test]
fn commands_that_stood_there_before_the_start_count_and_unknown_ones_end_nothing() {
    let mut running = Running::start_prepared(&[], |dir| {
        let lines = "frobnicate\nfrobnicate\nextra-work-ms x\nstop\n";
        fs::write(dir.join("commands"), lines).unwrap();
        None
    });
    let ended = running.ended();
    assert_eq!((ended.status.code(), &ended.summary["epochs"]), (Some(0), &1.into()));
    assert_eq!(ended.summary["unknown_commands"], 3);
    assert_eq!(ended.stderr.matches("\"frobnicate\"").count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("extra-work-ms \"x\" must be"), "{}", ended.stderr);
}

#[test]
fn half_a_command_waits_for_its_end() {
    let mut running = Running::start_prepared(&["--epochs", "3"], |dir| {
        fs::write(dir.join("commands"), "stop").unwrap();
        None
    });
    let ended = running.ended();
    assert_eq!(
        (&ended.summary["epochs"], &ended.summary["ended_by"]),
        (&3.into(), &"epochs".into())
    );
    assert_eq!(ended.summary["unknown_commands"], 0);
}

#[test]
fn a_damaged_kernel_is_reported_repaired_and_never_fatal() {
    let mut running = Running::start(&[]);
    running.next();
    let kernel = |number| running.path(&format!("kernels/kernel-{number}.bin"));
    let intact: Vec<Vec<u8>> = (0..8).map(|number| fs::read(kernel(number)).unwrap()).collect();
    for (number, bytes) in intact.iter().enumerate() {
        let mut damaged = bytes.clone();
        damaged[77] ^= 1;
        fs::write(kernel(number), damaged).unwrap();
    }
    while !running.next().unwrap().ends_with("|ms|#outcome:error") {}
    running.command("stop");
    running.rest();
    let ended = running.ended();
    assert_eq!(ended.status.code(), Some(0));
    let repaired = ended.stderr.split("kernel-").nth(1).unwrap();
    let number: usize = repaired.split('.').next().unwrap().parse().unwrap();
    let now = fs::read(running.path(&format!("kernels/kernel-{number}.bin"))).unwrap();
    assert_eq!(now, intact[number]);
}
