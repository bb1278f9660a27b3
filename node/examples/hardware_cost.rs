//! What reading the sensors costs: CPU time and the longest look of each thread, after some
//! seconds (first argument, default 30) of a machine's root (second argument, default `/`).

use std::path::PathBuf;
use std::time::Duration;

use plimsoll_clock::Deadline;
use plimsoll_node::config::HardwareSettings;
use plimsoll_node::io::hardware::Sampler;
use plimsoll_schemas::hardware::{Reading, SAMPLING_CPU_SECONDS_TOTAL, SAMPLING_WORST_SECONDS};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(30);
    let root = arguments.next().map_or_else(|| PathBuf::from("/"), PathBuf::from);
    let config = HardwareSettings { root, gpu: false, ..HardwareSettings::default() };
    let (sampler, mut samples) = Sampler::start(&config);
    let deadline = Deadline::within(Duration::from_secs(seconds));
    let (mut count, mut first, mut last) = (0u32, Vec::new(), Vec::new());
    while deadline.pause(Duration::from_millis(20)) {
        let Ok(sample) = samples.try_recv() else { continue };
        if count == 0 {
            first = sample;
        } else {
            last = sample;
        }
        count += 1;
    }
    sampler.stop();
    println!("{} readings in each of {count} samples", last.len());
    for thread in ["host", "devices"] {
        let of = |sample: &[Reading], sensor: &str| {
            let fits = |reading: &&Reading| {
                reading.sensor == sensor && reading.labels.get("thread") == Some(thread)
            };
            sample.iter().find(fits).and_then(|reading| reading.value).unwrap_or(f64::NAN)
        };
        let cpu = of(&last, SAMPLING_CPU_SECONDS_TOTAL.name)
            - of(&first, SAMPLING_CPU_SECONDS_TOTAL.name);
        let worst = of(&last, SAMPLING_WORST_SECONDS.name);
        let each = cpu * 1e6 / f64::from(count.saturating_sub(1));
        println!("{thread}: {each:.0} us of CPU a sample, the last one took {:.0} us", worst * 1e6);
    }
}
