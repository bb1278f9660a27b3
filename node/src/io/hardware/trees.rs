//! Every reading of recorded machines, against what a person says it should be; and what becomes
//! of readings when files of such a machine go wrong.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use plimsoll_schemas::hardware::{Reading, SensorState, sensor};
use plimsoll_schemas::time::Mono;
use tempfile::TempDir;

use super::Tally;
use super::devices::Devices;
use super::gather::Gather;
use super::host::Host;
use super::root::Root;

#[path = "../../../tests/trees/unpack.rs"]
mod unpack;

const TREES: [&str; 5] = ["server", "laptop", "jetson", "container", "container-v1"];

/// A machine that is looked at twice, a second apart.
struct Recorded {
    text: String,
    folder: TempDir,
    host: Host,
    devices: Devices,
    tally: Arc<Tally>,
}

fn text_of(tree: &str, file: &str) -> String {
    let path = [env!("CARGO_MANIFEST_DIR"), "tests/trees", tree, file].iter().collect::<PathBuf>();
    fs::read_to_string(path).unwrap()
}

impl Recorded {
    fn new(tree: &str) -> Self {
        let (text, folder) = (text_of(tree, "files.txt"), tempfile::tempdir().unwrap());
        unpack::unpack(&text, folder.path(), false);
        let (root, tally) = (Root::new(folder.path()), Arc::new(Tally::default()));
        let devices = Devices::new(&root, Arc::clone(&tally));
        let mut recorded = Self { text, folder, host: Host::new(&root), devices, tally };
        recorded.look(1);
        recorded
    }

    fn look(&mut self, second: u64) -> Vec<Reading> {
        let (now, mut gather) = (Mono(second * 1_000_000_000), Gather::default());
        self.host.gather_scalars(now, &mut gather);
        gather.append(self.devices.sample(now));
        self.host.gather_lists(now, &mut gather);
        gather.finish(&self.tally)
    }

    fn later(&mut self) -> Vec<Reading> {
        unpack::unpack(&self.text, self.folder.path(), true);
        self.look(2)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }
}

/// As a line of the expected readings; what this process costs is no recorded machine's.
fn told(readings: &[Reading]) -> BTreeMap<String, String> {
    let recorded = readings.iter().filter(|reading| !reading.sensor.starts_with("process_"));
    let told = recorded.map(|reading| {
        let labels = reading.labels.iter().map(|(key, value)| format!(" {key}={value}"));
        let figure = match (reading.value, reading.reason.as_deref()) {
            (Some(value), None) => value.to_string(),
            (None, reason) => format!("{} {}", reading.state.as_str(), reason.unwrap()),
            (Some(_), Some(_)) => panic!("{reading:?} has a value and a reason"),
        };
        (format!("{}{}", reading.sensor, labels.collect::<String>()), figure)
    });
    let told: BTreeMap<_, _> = told.collect();
    assert_eq!(told.len(), readings.len() - 2, "each sensor comes once");
    told
}

/// Lines such as `cpu_core_usage_ratio core=1 | 0.5`; `any` stands for whatever value there is.
fn expected(tree: &str) -> BTreeMap<String, String> {
    let text = text_of(tree, "expected.txt");
    let lines = text.lines().filter_map(|line| line.split_once(" | "));
    lines.map(|(sensor, figure)| (sensor.to_owned(), figure.to_owned())).collect()
}

#[test]
fn every_recorded_machine_is_read_as_a_person_reads_it() {
    for tree in TREES {
        let told = told(&Recorded::new(tree).later());
        if let Ok(folder) = std::env::var("PLIMSOLL_SHOW_TREES") {
            let lines: String = told.iter().map(|(s, f)| format!("{s} | {f}\n")).collect();
            fs::write(PathBuf::from(folder).join(tree), lines).unwrap();
        }
        let expected = expected(tree);
        for (sensor, wanted) in &expected {
            let found = told.get(sensor).map_or("nothing", String::as_str);
            let fits = wanted == found || (wanted == "any" && found.parse::<f64>().is_ok());
            assert!(fits, "{tree}: {sensor} is {found}, expected {wanted}");
        }
        let surplus: Vec<_> =
            told.keys().filter(|sensor| !expected.contains_key(*sensor)).collect();
        assert_eq!(surplus, Vec::<&String>::new(), "{tree}: not expected");
    }
}
