//! The sampler as a whole: switched off, and on recorded machines.

mod trees;

use super::*;
use plimsoll_clock::Deadline;
use plimsoll_runtime::supervision::Supervisor;
use plimsoll_schemas::hardware::CPU_USAGE_RATIO;

#[test]
fn switched_off_sampling_has_no_thread_and_an_open_silent_channel() {
    let config = HardwareSettings { enabled: false, ..HardwareSettings::default() };
    let (sampler, mut receiver) = Sampler::start(&config, &Supervisor::default());
    assert_eq!(sampler.lifeline.threads(), 0);
    assert_eq!(receiver.try_recv(), Err(mpsc::error::TryRecvError::Empty));
    sampler.stop();
    assert_eq!(receiver.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
}

#[test]
fn at_a_tenth_of_a_second_samples_come_as_often_and_cpu_shares_are_of_that_time() {
    let config = HardwareSettings { gpu: false, interval_ms: 100, ..HardwareSettings::default() };
    let (sampler, mut receiver) = Sampler::start(&config, &Supervisor::default());
    let (clock, deadline) = (Clock::start(), Deadline::within(Duration::from_secs(60)));
    let (began, mut samples) = (clock.now().mono, Vec::new());
    while samples.len() < 10 {
        assert!(deadline.pause(Duration::from_millis(5)), "{} samples", samples.len());
        samples.extend(receiver.try_recv());
    }
    let took = clock.now().mono.since(began);
    assert!(took >= Duration::from_millis(900), "ten samples within {took:?}");
    let share = |sample: &Vec<Reading>| {
        let of = sample.iter().find(|reading| reading.sensor == CPU_USAGE_RATIO.name);
        of.unwrap().value
    };
    let shares: Vec<f64> = samples.iter().skip(1).filter_map(share).collect();
    assert_eq!(shares.len(), 9, "each but the first has a difference");
    assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
    sampler.stop();
}

#[test]
fn at_a_minute_no_sample_comes_at_once_and_a_stop_does_not_wait_for_it() {
    let config =
        HardwareSettings { gpu: false, interval_ms: 60_000, ..HardwareSettings::default() };
    let (sampler, mut receiver) = Sampler::start(&config, &Supervisor::default());
    let lifeline = Arc::clone(&sampler.lifeline);
    assert_eq!(lifeline.threads(), 2);
    sampler.stop();
    assert_eq!(lifeline.threads(), 0);
    assert_eq!(receiver.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
}
