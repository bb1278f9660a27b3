//! CPU time, memory and file handles of this process, under the names that every client library
//! uses. The `prometheus` crate reads them, but for the CPU time: it reports whole seconds, which
//! hide what an agent costs between two scrapes. And the name of the host that it runs on.

use std::time::Duration;

use nix::sys::utsname::uname;
use nix::time::{ClockId, clock_gettime};
use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;
use prometheus::proto::MetricFamily;

const CPU_SECONDS: &str = "process_cpu_seconds_total";

/// The name of this host, if it has one.
pub fn host_name() -> Option<String> {
    uname().ok()?.nodename().to_str().map(str::to_owned)
}

/// The metrics of this process as they are now.
pub fn families() -> Vec<MetricFamily> {
    let mut families = ProcessCollector::for_self().collect();
    if let Ok(spent) = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID) {
        let spent = Duration::from(spent).as_secs_f64();
        let cpu = families.iter_mut().filter(|family| family.name() == CPU_SECONDS);
        for metric in cpu.flat_map(MetricFamily::mut_metric) {
            let mut counter = metric.get_counter().clone();
            counter.set_value(spent);
            metric.set_counter(counter);
        }
    }
    families
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu_seconds() -> f64 {
        let families = families();
        let cpu = families.iter().find(|family| family.name() == CPU_SECONDS);
        cpu.expect("the family is there").get_metric()[0].get_counter().get_value()
    }

    #[test]
    fn cpu_time_has_fractions_of_a_second() {
        let before = cpu_seconds();
        let mut after = before;
        // Work of far less than a second shows.
        while after <= before {
            std::hint::black_box((0..99_999_u64).sum::<u64>());
            after = cpu_seconds();
        }
        assert!(after - before < 1.0, "{before} s, then {after} s");
    }
}
