//! Every shipped rule about a machine, from its files and driver to the alert. The node's real
//! sampler reads a recorded tree of /proc and /sys and a stub of NVML. The aggregator's real core
//! evaluates the readings in simulated time. Each fault fires its rule, and each repair resolves
//! it.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop at the first surprise")]

mod faults;
mod fleet;
#[path = "../../nvml_stub/library.rs"]
mod library;
mod machine;
#[path = "../../../node/tests/trees/unpack.rs"]
mod unpack;

use std::collections::BTreeSet;
use std::time::Duration;

use plimsoll_schemas::alert::AlertState::{Firing, Inactive, Pending, Resolved};
use plimsoll_schemas::hardware::{GPU_ECC_ERRORS_TOTAL, Reading};
use plimsoll_schemas::rule::file::shipped;

use faults::{FILE_SYSTEM, FILES, Fault, GPU};
use fleet::Fleet;
use machine::Machine;
use plimsoll_tests::capability::{mount_refusal, skip};

/// Simulated seconds within which any rule fires or resolves.
const RULE_SECONDS_MAX: u32 = 700;
/// The interval of a node. A rule that fires for what the last minute held requires it.
const INTERVAL: Duration = Duration::from_secs(1);
/// A longer interval, for time in which alerts only have to end.
const LONG_INTERVAL: Duration = Duration::from_secs(10);
/// Samples until a change of the machine is visible: some sensors are read every ten seconds, and a
/// sample comes every 50 ms at most.
const SAMPLES_MAX: u32 = 1_200;

/// Tried elsewhere. The clock comes from a system call, which neither a file nor the stub replaces,
/// and a leak is one after an hour: tests of the aggregator and of `watched` cover them.
const TRIED_ELSEWHERE: [&str; 2] = ["clock_unsynchronized", "memory_leak"];

#[test]
fn every_rule_about_a_machine_is_tried_here() {
    let thresholds = shipped().thresholds;
    let of_machines = thresholds.iter().filter(|rule| rule.metric.is_of_machine());
    let wanted: BTreeSet<&str> = of_machines.map(|rule| rule.name.as_str()).collect();
    let tried = [FILES, GPU, FILE_SYSTEM].concat();
    let mut tried: BTreeSet<&str> = tried.iter().map(|fault| fault.rule).collect();
    assert!(TRIED_ELSEWHERE.into_iter().all(|rule| tried.insert(rule)));
    assert_eq!(tried, wanted);
}

#[test]
fn faults_in_files_fire_and_resolve() {
    try_all(FILES);
}

#[test]
fn faults_of_a_gpu_fire_and_resolve() {
    try_all(GPU);
}

#[test]
fn faults_of_a_file_system_fire_and_resolve() {
    match mount_refusal() {
        None => try_all(FILE_SYSTEM),
        Some(refusal) => skip(&refusal),
    }
}

#[test]
fn errors_that_a_gpu_corrects_are_no_fault() {
    let (mut machine, mut fleet) = (Machine::new(), Fleet::new());
    fleet.receive(INTERVAL, &machine.next_sample());
    machine.gpu("ecc_corrected=7\n");
    let has_errors = |sample: &[Reading]| {
        let is_ecc = |reading: &&Reading| reading.sensor == GPU_ECC_ERRORS_TOTAL.name;
        sample.iter().filter(is_ecc).any(|reading| reading.value == Some(7.0))
    };
    let is_sampled = (0..SAMPLES_MAX).any(|_| {
        let sample = machine.next_sample();
        fleet.receive(INTERVAL, &sample);
        has_errors(&sample)
    });
    assert!(is_sampled);
    assert_eq!(fleet.state("gpu_memory_errors"), Inactive);
}

fn try_all(faults: &[Fault]) {
    let (mut machine, mut fleet) = (Machine::new(), Fleet::new());
    for _ in 0..3 {
        fleet.receive(INTERVAL, &machine.next_sample());
    }
    for fault in faults {
        let rule = fault.rule;
        assert_eq!(fleet.state(rule), Inactive, "{rule} before the fault");
        (fault.cause)(&mut machine);
        let is_seen = |fleet: &Fleet| matches!(fleet.state(rule), Pending | Firing);
        let sample = comes_to(&mut machine, &mut fleet, rule, is_seen);
        let fires = |fleet: &Fleet| fleet.state(rule) == Firing;
        let is_fired = (0..RULE_SECONDS_MAX).any(|_| {
            fleet.receive(INTERVAL, &sample);
            fires(&fleet)
        });
        assert!(is_fired, "{rule}: {:?}", fault.about(&sample));
        (fault.repair)(&mut machine);
        let is_over = |fleet: &Fleet| fleet.state(rule) == Resolved;
        let sample = comes_to(&mut machine, &mut fleet, rule, is_over);
        // Other alerts that the fault has fired end too, and resolved ones are no longer shown. A
        // rule that fires again within ten minutes would take longer to resolve.
        (0..RULE_SECONDS_MAX / 10).for_each(|_| fleet.receive(LONG_INTERVAL, &sample));
    }
}

/// Samples until the alert is as it should be, and returns the sample that caused it.
fn comes_to(
    machine: &mut Machine,
    fleet: &mut Fleet,
    rule: &str,
    is_right: impl Fn(&Fleet) -> bool,
) -> Vec<Reading> {
    let (mut previous, mut minutes) = (Vec::new(), 0);
    for _ in 0..SAMPLES_MAX {
        let sample = machine.next_sample();
        minutes = if sample == previous { minutes + 1 } else { 0 };
        previous.clone_from(&sample);
        // Half an hour of the same readings moves every rule that they can move.
        if minutes > 30 {
            continue;
        }

        // Each sample holds for a minute.
        for _ in 0..60 {
            fleet.receive(INTERVAL, &sample);
            if is_right(fleet) {
                return sample;
            }
        }
    }
    panic!("{rule} stays {:?}", fleet.state(rule));
}
