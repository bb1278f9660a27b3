//! Every shipped rule about a machine, from the files and the driver that tell of it to the alert:
//! the node's real sampler looks at a recorded tree of /proc and /sys and at a stand-in for NVML,
//! the aggregator's real core judges what it says, in simulated time. Each fault fires its rule,
//! and each mending resolves it.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop at the first surprise")]

#[path = "hardware_rules/faults.rs"]
mod faults;
#[path = "hardware_rules/fleet.rs"]
mod fleet;
#[path = "nvml_stub/library.rs"]
mod library;
#[path = "hardware_rules/machine.rs"]
mod machine;
#[path = "../node/tests/trees/unpack.rs"]
mod unpack;

use std::collections::BTreeSet;

use plimsoll_schemas::alert::AlertState::{Firing, Inactive, Pending, Resolved};
use plimsoll_schemas::hardware::{GPU_ECC_ERRORS_TOTAL, Reading};
use plimsoll_schemas::metric::{Figure, Metric};
use plimsoll_schemas::rule::file::shipped;

use faults::{FILE_SYSTEM, FILES, Fault, GPU};
use fleet::Fleet;
use machine::Machine;

/// Seconds of simulated time within which any rule fires or resolves.
const PATIENCE_S: u32 = 700;
/// Samples until what was done to a machine is seen: some sensors are looked at seldom.
const SAMPLES_MAX: u32 = 30;

/// No file tells it and no stand-in can: it is asked of this machine's kernel. The walk through
/// all rules in the aggregator has it.
const OF_THE_KERNEL_ALONE: &str = "clock_unsynchronized";

#[test]
fn every_rule_about_a_machine_is_tried_here() {
    let is_sensed = |figure: &Figure| *figure as usize >= Figure::MemoryUsedRatio as usize;
    let thresholds = shipped().thresholds;
    let of_machines = thresholds.iter().filter(|rule| match &rule.metric {
        Metric::Node(figure) => is_sensed(figure),
        Metric::Sensor(_) => true,
        _ => false,
    });
    let wanted: BTreeSet<&str> = of_machines.map(|rule| rule.name.as_str()).collect();
    let tried = [FILES, GPU, FILE_SYSTEM].concat();
    let mut tried: BTreeSet<&str> = tried.iter().map(|fault| fault.rule).collect();
    assert!(tried.insert(OF_THE_KERNEL_ALONE));
    assert_eq!(tried, wanted);
}

#[test]
fn what_files_tell_fires_and_resolves() {
    try_all(FILES);
}

#[test]
fn what_a_gpu_tells_fires_and_resolves() {
    try_all(GPU);
}

#[test]
fn what_a_file_system_tells_fires_and_resolves() {
    if !machine::may_mount() {
        eprintln!("SKIPPED: mounting a small file system needs root and CAP_SYS_ADMIN");
        return;
    }
    try_all(FILE_SYSTEM);
}

#[test]
fn errors_that_a_gpu_corrects_are_no_fault() {
    let (mut machine, mut fleet) = (Machine::new(), Fleet::new());
    fleet.hears(&machine.next_sample());
    machine.gpu("ecc_corrected=7\n");
    let says_so = |sample: &[Reading]| {
        let is_it = |reading: &&Reading| reading.sensor == GPU_ECC_ERRORS_TOTAL.name;
        sample.iter().filter(is_it).any(|reading| reading.value == Some(7.0))
    };
    let is_said = (0..SAMPLES_MAX).any(|_| {
        let sample = machine.next_sample();
        fleet.hears(&sample);
        says_so(&sample)
    });
    assert!(is_said);
    assert_eq!(fleet.state("gpu_memory_errors"), Inactive);
}

fn try_all(faults: &[Fault]) {
    let (mut machine, mut fleet) = (Machine::new(), Fleet::new());
    for _ in 0..3 {
        fleet.hears(&machine.next_sample());
    }
    for fault in faults {
        let rule = fault.rule;
        assert_eq!(fleet.state(rule), Inactive, "{rule} before anything is wrong");
        (fault.wrong)(&mut machine);
        let is_seen = |fleet: &Fleet| matches!(fleet.state(rule), Pending | Firing);
        let sample = comes_to(&mut machine, &mut fleet, rule, is_seen);
        let fires = |fleet: &Fleet| fleet.state(rule) == Firing;
        let is_fired = (0..PATIENCE_S).any(|_| {
            fleet.hears(&sample);
            fires(&fleet)
        });
        assert!(is_fired, "{rule}: {:?}", fault.about(&sample));
        (fault.mend)(&mut machine);
        let is_over = |fleet: &Fleet| fleet.state(rule) == Resolved;
        let sample = comes_to(&mut machine, &mut fleet, rule, is_over);
        // What one fault makes fire beside its rule ends too, and resolved alerts are shown for a
        // while.
        (0..PATIENCE_S).for_each(|_| fleet.hears(&sample));
    }
}

/// Samples anew until the alert is as it should be, and gives the sample that made it so; each
/// holds for a minute.
fn comes_to(
    machine: &mut Machine,
    fleet: &mut Fleet,
    rule: &str,
    is_right: impl Fn(&Fleet) -> bool,
) -> Vec<Reading> {
    for _ in 0..SAMPLES_MAX {
        let sample = machine.next_sample();
        for _ in 0..60 {
            fleet.hears(&sample);
            if is_right(fleet) {
                return sample;
            }
        }
    }
    panic!("{rule} stays {:?}", fleet.state(rule));
}
