//! A real driver and its GPUs, if this machine has them: the sampler's figures beside those
//! of `nvidia-smi`. Elsewhere the test prints that nothing was compared.

use std::io::{Write, stderr};
use std::process::Command;
use std::time::Duration;

use plimsoll_clock::Deadline;
use plimsoll_schemas::hardware::Reading;

use super::bench::{Bench, look_up};

/// The field of `nvidia-smi`, our figure that matches it, ours in one of its units, and how far
/// both may be apart: they were not read at the same time.
const COMPARED: [(&str, &str, f64, f64); 8] = [
    ("memory.total", "gpu_memory_total_bytes mig=", 1_048_576.0, 1.0),
    ("memory.used", "gpu_memory_used_bytes mig=", 1_048_576.0, 512.0),
    ("temperature.gpu", "gpu_temperature_celsius", 1.0, 10.0),
    ("power.draw", "gpu_power_watts", 1.0, 150.0),
    ("enforced.power.limit", "gpu_power_limit_watts", 1.0, 1.0),
    ("clocks.max.gr", "gpu_clock_limit_hertz domain=graphics", 1e6, 1.0),
    ("pcie.link.width.current", "gpu_pcie_link_width", 1.0, 0.0),
    ("ecc.errors.uncorrected.volatile.total", "gpu_ecc_errors_total kind=uncorrected", 1.0, 0.0),
];

#[test]
fn on_a_real_gpu_the_figures_are_those_of_nvidia_smi() {
    // Whether there is a GPU is asked of another program: a sampler that finds none must fail here.
    let listed = Command::new("nvidia-smi").arg("-L").output();
    if !listed.is_ok_and(|listed| listed.stdout.starts_with(b"GPU ")) {
        return print_line("SKIPPED: nvidia-smi lists no GPU here, nothing was compared");
    }

    let sample = real_sample();
    let fields: Vec<_> = COMPARED.iter().map(|(field, ..)| *field).collect();
    let smi = Command::new("nvidia-smi")
        .arg(format!("--query-gpu=index,{}", fields.join(",")))
        .arg("--format=csv,noheader,nounits")
        .output()
        .unwrap();
    let table = String::from_utf8(smi.stdout).unwrap();
    assert!(!table.trim().is_empty(), "{}", String::from_utf8_lossy(&smi.stderr));

    for line in table.lines() {
        let mut cells = line.split(", ");
        let gpu = cells.next().unwrap();
        for ((field, figure, unit, apart), theirs) in COMPARED.iter().zip(cells) {
            let ours = look_up(&sample, &format!("{figure} gpu={gpu}")).unwrap();
            print_line(&format!("gpu {gpu} {field}: {theirs}, ours {ours:?} of {unit}"));
            // What nvidia-smi writes as [N/A] is nothing to compare with.
            if let (Ok(theirs), Ok(ours)) = (theirs.trim().parse::<f64>(), ours) {
                assert!((ours / unit - theirs).abs() <= *apart, "{field}: {ours} for {theirs}");
            }
        }
    }
}

/// A sample in which GPUs have their readings.
fn real_sample() -> Vec<Reading> {
    let mut bench = Bench::start(tempfile::tempdir().unwrap(), None);
    let deadline = Deadline::within(Duration::from_secs(60));
    loop {
        let sample = bench.next();
        let listed = look_up(&sample, "gpus_listed");
        if let Some(Ok(gpus)) = listed
            && gpus > 0.0
        {
            return sample;
        }
        assert!(!deadline.has_passed(), "the sampler lists no GPU: {listed:?}");
    }
}

/// On standard error itself: what `eprintln` writes, the test runner shows of failures only.
fn print_line(line: &str) {
    stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}
