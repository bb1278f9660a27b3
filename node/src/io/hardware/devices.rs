//! What is read through a device's driver and may therefore be slow or hang: file systems,
//! temperatures and core clocks.

use std::time::Duration;

use plimsoll_schemas::hardware::Reading;
use plimsoll_schemas::time::Mono;

use super::disks::Disks;
use super::frequency::Frequencies;
use super::gather::Gather;
use super::hwmon::Thermometers;
use super::root::Root;
use super::throttle;

pub(super) struct Devices {
    thermometers: Thermometers,
    frequencies: Frequencies,
    rule: throttle::Rule,
    throttles: throttle::Counters,
    disks: Disks,
}

impl Devices {
    /// Waits for each answer as long as a busy machine takes.
    #[cfg(test)]
    pub(super) fn wait_patiently(&mut self) {
        self.thermometers.asker.wait_patiently();
        self.disks.asker.wait_patiently();
    }

    /// Readers of devices that are sampled so often.
    pub(super) fn new(root: &Root, every: Duration) -> Self {
        Self {
            thermometers: Thermometers::new(root),
            frequencies: Frequencies::new(root),
            rule: throttle::Rule::new(every),
            throttles: throttle::Counters::new(root),
            disks: Disks::new(root),
        }
    }

    pub(super) fn sample(&mut self, now: Mono) -> Vec<Reading> {
        let mut gather = Gather::default();
        let celsius = self.thermometers.gather(now, &mut gather);
        self.disks.gather(now, &mut gather);
        let pace = self.frequencies.gather(now, &mut gather);
        self.rule.gather(now, pace, celsius, &mut gather);
        self.throttles.gather(now, &mut gather);
        gather.finish()
    }
}
