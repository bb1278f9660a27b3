//! A small machine made of files, with two GPUs if their stub can be built. The expected readings
//! of its node are constants here.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::stub;

/// Contents of its files when healthy: memory used by 40 %, the control group's by 50 %.
const WELL: &[(&str, &str)] = &[
    ("proc/meminfo", "MemTotal: 1000000 kB\nMemFree: 200000 kB\nMemAvailable: 600000 kB\n"),
    ("proc/self/cgroup", "0::/jobs\n"),
    ("proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
    ("proc/stat", "cpu  1000 0 1000 8000 0 0 0 0 0 0\ncpu0 1000 0 1000 8000 0 0 0 0 0 0\n"),
    ("sys/fs/cgroup/jobs/memory.current", "500000\n"),
    ("sys/fs/cgroup/jobs/memory.max", "1000000\n"),
    ("sys/fs/cgroup/jobs/memory.stat", "inactive_file 0\n"),
];
/// Contents of some files when faulty: 96 % and 97 %.
const ILL: &[(&str, &str)] = &[
    ("proc/meminfo", "MemTotal: 1000000 kB\nMemFree: 10000 kB\nMemAvailable: 40000 kB\n"),
    ("sys/fs/cgroup/jobs/memory.current", "970000\n"),
];
/// Sensors, and all readings of each when the machine is healthy.
const WELL_READ: &[(&str, f64)] = &[
    ("memory_total_bytes", 1_024_000_000.0),
    ("memory_available_bytes", 614_400_000.0),
    ("cgroup_memory_used_bytes", 500_000.0),
];

const COOL: &str = "gpus=2\ntemperature=45\nutilization=60\n";
/// The first GPU is busy, hot and slowed down for it; the second one has fallen off the bus.
const HOT: &str = "gpus=2\ntemperature=45\n0.temperature=80\n0.utilization=98\n\
                   0.clock_sm=900\n0.throttle=0x40\n1.lost=1\n";
const COOL_READ: &[(&str, f64)] =
    &[("gpus_listed", 2.0), ("gpus_lost", 0.0), ("gpu_temperature_celsius", 45.0)];

/// Whether machines have GPUs, and why not.
pub(super) type Gpus = Result<()>;

pub(super) struct Machine(PathBuf);

impl Machine {
    /// Makes a healthy machine below `dir`.
    ///
    /// # Errors
    /// When a file cannot be written. Missing GPUs are no error.
    pub(super) fn make(dir: PathBuf) -> Result<(Self, Gpus)> {
        let gpus = stub::build(&dir).map(drop);
        let machine = Self(dir);
        machine.repair()?;
        Ok((machine, gpus))
    }

    /// The settings of nodes that sample the machines below `dir`, each under the node's name.
    pub(super) fn settings(dir: &Path, gpus: &Gpus) -> String {
        let own = dir.join("{node}");
        format!(
            "[hardware]\nroot = {:?}\ngpu = {}\nnvml_library = {:?}\n",
            own.join("root"),
            gpus.is_ok(),
            own.join("libnvidia-ml.so.1"),
        )
    }

    /// Heats it, and fills its memory.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(super) fn harm(&self) -> Result<()> {
        self.lay(ILL, HOT)
    }

    /// Restores the healthy contents.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(super) fn repair(&self) -> Result<()> {
        self.lay(WELL, COOL)
    }

    fn lay(&self, files: &[(&str, &str)], control: &str) -> Result<()> {
        let root = self.0.join("root");
        files.iter().try_for_each(|(path, text)| replace(&root.join(path), text))?;
        replace(&self.0.join("control"), control)
    }
}

/// Replaces the file in one step, so that no reader sees a partial file.
fn replace(path: &Path, text: &str) -> Result<()> {
    let next = path.with_extension("next");
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(&next, text)?;
    Ok(fs::rename(next, path)?)
}

/// The sensors on a metrics page that differ from those of a healthy machine.
pub(super) fn unwell(page: &str, node: &str, gpus: &Gpus) -> Vec<String> {
    let of_gpus = if gpus.is_ok() { COOL_READ } else { &[] };
    let wrong = |(sensor, wanted): &(&str, f64)| {
        let read = readings(page, sensor, node);
        let fine = !read.is_empty() && read.iter().all(|value| value == wanted);
        (!fine).then(|| format!("{sensor} of {node} is {read:?}"))
    };
    WELL_READ.iter().chain(of_gpus).filter_map(wrong).collect()
}

/// All readings of one sensor of one node.
fn readings(page: &str, sensor: &str, node: &str) -> Vec<f64> {
    let begin = format!("plimsoll_node_{sensor}{{");
    let of = format!("node=\"{node}\"");
    let lines = page.lines().filter(|line| line.starts_with(&begin) && line.contains(&of));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_machine_is_well_only_when_every_reading_is_there_and_right() {
        let page = "plimsoll_node_memory_total_bytes{node=\"a\"} 1024000000\n\
                    plimsoll_node_memory_available_bytes{node=\"a\"} 614400000\n\
                    plimsoll_node_cgroup_memory_used_bytes{node=\"a\"} 500000\n\
                    plimsoll_node_gpus_listed{node=\"a\"} 2\nplimsoll_node_gpus_lost{node=\"a\"} 0\n\
                    plimsoll_node_gpu_temperature_celsius{node=\"a\",gpu=\"0\"} 45\n\
                    plimsoll_node_gpu_temperature_celsius{node=\"a\",gpu=\"1\"} 46\n";
        let hot = "gpu_temperature_celsius of a is [45.0, 46.0]";
        assert_eq!(unwell(page, "a", &Ok(())), [hot]);
        assert_eq!(unwell(page, "a", &Err(anyhow!("no rustc"))), [""; 0]);
        assert_eq!(unwell(page, "b", &Err(anyhow!("no rustc"))).len(), 3);
    }
}
