//! A sampler on a steered NVML, and its samples.

use std::path::PathBuf;
use std::time::Duration;

use plimsoll_clock::Deadline;
use plimsoll_node::config::HardwareSettings;
use plimsoll_node::io::hardware::Sampler;
use plimsoll_runtime::supervision::Supervisor;
use plimsoll_schemas::hardware::Reading;
use tempfile::TempDir;
use tokio::sync::mpsc::Receiver;

use super::library;

pub(crate) const TWO_GPUS: &str = "\
gpus=2
name=Stub H100
0.utilization=37
1.utilization=100
memory_total=85899345920
memory_used=10737418240
0.temperature=55
1.temperature=71
0.power_mw=312500
1.power_mw=700000
clock_graphics=1980
clock_sm=1965
clock_memory=2619
clock_video=1545
";

/// A value, or state and reason.
pub(crate) type Wanted<'a> = Result<f64, &'a str>;

pub(crate) const NOT_SUPPORTED: Wanted<'_> = Err("unsupported not_supported");
pub(crate) const OUT_OF_RANGE: Wanted<'_> = Err("failed out_of_range");
pub(crate) const LOST: Wanted<'_> = Err("failed lost");
pub(crate) const HANGS: Wanted<'_> = Err("stale hangs");

/// A sampler, what it samples, and the folder with the file that steers the stand-in.
pub(crate) struct Bench {
    pub(crate) dir: TempDir,
    pub(crate) sampler: Sampler,
    samples: Receiver<Vec<Reading>>,
}

impl Bench {
    pub(crate) fn with_stub(control: &str) -> Self {
        Self::with_flags(control, &[])
    }

    /// `flags` go to the compiler of the stand-in.
    pub(crate) fn with_flags(control: &str, flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let library = library::build(dir.path(), flags);
        library::steer(dir.path(), control);
        Self::start(dir, Some(library))
    }

    pub(crate) fn start(dir: TempDir, nvml_library: Option<PathBuf>) -> Self {
        let config = HardwareSettings { nvml_library, ..HardwareSettings::default() };
        let (sampler, samples) = Sampler::start(&config, &Supervisor::default());
        Self { dir, sampler, samples }
    }

    /// This machine without any GPU.
    pub(crate) fn without_gpu() -> Self {
        Self::start(tempfile::tempdir().unwrap(), Some("/nowhere".into()))
    }

    pub(crate) fn control(&self, control: &str) {
        library::steer(self.dir.path(), control);
    }

    /// The next sample; panics when it does not come.
    pub(crate) fn next(&mut self) -> Vec<Reading> {
        let deadline = Deadline::within(Duration::from_secs(20));
        while deadline.pause(Duration::from_millis(5)) {
            if let Ok(sample) = self.samples.try_recv() {
                return sample;
            }
        }
        panic!("no sample came");
    }

    /// The first sample in which all `figures` have the expected values.
    pub(crate) fn until(&mut self, figures: &[(&str, Wanted<'_>)]) -> Vec<Reading> {
        let deadline = Deadline::within(Duration::from_secs(60));
        loop {
            let sample = self.next();
            let Some((figure, wanted)) = figures.iter().find(|one| !agrees(&sample, one)) else {
                return sample;
            };
            let found = look_up(&sample, figure);
            assert!(!deadline.has_passed(), "{figure} is {found:?}, not {wanted:?}");
        }
    }
}

fn agrees(sample: &[Reading], (figure, wanted): &(&str, Wanted<'_>)) -> bool {
    look_up(sample, figure) == Some(wanted.map_err(str::to_owned))
}

/// Value, or state and reason, of the reading called `sensor key=value ...`, other labels being
/// free; `key=` is a reading without that label.
pub(crate) fn look_up(sample: &[Reading], figure: &str) -> Option<Result<f64, String>> {
    let mut words = figure.split(' ');
    let name = words.next().unwrap();
    let labels: Vec<_> = words.map(|word| word.split_once('=').unwrap()).collect();
    let mut fitting = sample.iter().filter(|reading| {
        let carries =
            |(key, value): &(&str, &str)| reading.labels.get(key).unwrap_or_default() == *value;
        reading.sensor == name && labels.iter().all(carries)
    });
    let found = fitting.next().map(|reading| {
        let why = reading.reason.as_deref().unwrap_or_default();
        reading.value.ok_or_else(|| format!("{} {why}", reading.state.as_str()))
    });
    assert_eq!(fitting.next(), None, "{figure} names more than one reading");
    found
}

pub(crate) fn assert_figures(sample: &[Reading], figures: &[(&str, Wanted<'_>)]) {
    for (figure, wanted) in figures {
        assert_eq!(look_up(sample, figure), Some(wanted.map_err(str::to_owned)), "{figure}");
    }
}

/// The readings of GPUs, or of one of them if `number` is set.
pub(crate) fn of_gpu<'a>(sample: &'a [Reading], number: Option<&str>) -> Vec<&'a Reading> {
    let is_gpu = |reading: &&Reading| {
        reading.sensor.starts_with("gpu_")
            && number.is_none_or(|number| reading.labels.get("gpu") == Some(number))
    };
    sample.iter().filter(is_gpu).collect()
}
