//! What machine a node runs on, from the labels and values of its newest readings.

use plimsoll_schemas::hardware::{
    GPU_MEMORY_TOTAL_BYTES, GPUS_DRIVER_INFO, MACHINE_INFO, MEMORY_TOTAL_BYTES,
};
use plimsoll_schemas::summary::MachineDescription;

use crate::core::fleet::ReadingTable;

/// `None` of a node that states none of it.
pub(super) fn machine(readings: &ReadingTable) -> Option<MachineDescription> {
    let mut found = MachineDescription::default();

    for reading in readings.iter() {
        let label = |key: &str| reading.labels.get(key).map(str::to_owned);
        let sensor = reading.sensor();
        if *sensor == MACHINE_INFO {
            (found.cpu, found.kernel, found.os) = (label("cpu"), label("kernel"), label("os"));
            found.cores = label("cores").and_then(|cores| cores.parse().ok());
        } else if *sensor == MEMORY_TOTAL_BYTES {
            found.memory_bytes = reading.value;
        } else if *sensor == GPUS_DRIVER_INFO {
            found.gpu_driver = label("version");
        } else if *sensor == GPU_MEMORY_TOTAL_BYTES {
            // One reading of each GPU, also of one that cannot be queried now.
            label("name").into_iter().for_each(|model| *found.gpus.entry(model).or_default() += 1);
        }
    }

    (found != MachineDescription::default()).then_some(found)
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::hardware::{MissingReading, Reading, Sensor};
    use plimsoll_schemas::ids::Labels;

    use super::*;

    fn reading(of: &Sensor, labels: &[(&str, &str)], value: f64) -> Reading {
        Reading::ok(of, Labels::new(labels.iter().copied()).unwrap(), value)
    }

    #[test]
    fn a_machine_is_described_from_its_readings_as_far_as_they_go() {
        let gpu = |n| [("gpu", n), ("name", "NVIDIA H200")];
        let info = [("cores", "many"), ("cpu", "EPYC"), ("kernel", "6.1"), ("os", "Debian")];
        let lost = Labels::new(gpu("1")).unwrap();
        let readings = vec![
            reading(&MACHINE_INFO, &info, 1.0),
            reading(&MEMORY_TOTAL_BYTES, &[], 4096.0),
            reading(&GPUS_DRIVER_INFO, &[("version", "550")], 1.0),
            reading(&GPU_MEMORY_TOTAL_BYTES, &gpu("0"), 1.0),
            Reading::absent(&GPU_MEMORY_TOTAL_BYTES, lost, MissingReading::failed("lost")),
        ];
        let text = |text: &str| Some(text.to_owned());
        let wanted = MachineDescription {
            cpu: text("EPYC"),
            cores: None,
            memory_bytes: Some(4096.0),
            gpus: [("NVIDIA H200".to_owned(), 2)].into(),
            gpu_driver: text("550"),
            kernel: text("6.1"),
            os: text("Debian"),
        };
        assert_eq!(machine(&ReadingTable::from(readings)), Some(wanted));
        assert_eq!(machine(&ReadingTable::default()), None);
    }
}
