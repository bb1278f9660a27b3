//! Temperatures of every hwmon component, otherwise of thermal zones, and the temperature of the
//! processors among them.

use std::path::PathBuf;

use crate::limits::COMPONENTS_MAX;
use plimsoll_schemas::hardware::{CPU_TEMPERATURE_CELSIUS, MissingReading, TEMPERATURE_CELSIUS};
use plimsoll_schemas::time::Mono;

use super::asker::{Asker, HANGS};
use super::gather::{Gather, List};
use super::lifeline::Relist;
use super::root::{self, Root};
use super::scale::{self, Raw};
use super::table;

/// Drivers that measure processors; the first that a machine has is used.
const DRIVERS: [&str; 4] = ["coretemp", "cpu_thermal", "k10temp", "zenpower"];
/// What the types of thermal zones of processors contain; the first that a machine has likewise.
const ZONES: [&str; 3] = ["x86_pkg_temp", "cpu", "soc"];

#[derive(Clone, Debug, PartialEq, Eq)]
struct Thermometer {
    /// The driver's name or the zone's type.
    source: String,
    is_zone: bool,
    /// What it is shown under.
    component: String,
    input: String,
}

/// All of a machine's, as of the last search for them.
pub(super) struct Thermometers {
    root: Root,
    listed: Vec<Thermometer>,
    /// How many more there are.
    unlisted: usize,
    relist: Relist,
    pub(super) asker: Asker<Result<String, MissingReading>>,
}

impl Thermometers {
    pub(super) fn new(root: &Root) -> Self {
        Self {
            root: root.clone(),
            listed: Vec::new(),
            unlisted: 0,
            relist: Relist::default(),
            asker: Asker::new("thermometer", |path| root::line(path)),
        }
    }

    /// Readings of all; returns the temperature of the processors.
    pub(super) fn gather(&mut self, now: Mono, gather: &mut Gather) -> Raw {
        if self.relist.is_due(now) {
            self.listed = distinct(list(&self.root));
            self.unlisted = self.listed.len().saturating_sub(COMPONENTS_MAX);
            self.listed.truncate(COMPONENTS_MAX);
        }

        let inputs: Vec<PathBuf> = self.listed.iter().map(|one| self.root.at(&one.input)).collect();
        let lines = self.asker.ask(now, &inputs);
        gather.leave_out(List::Thermometers, self.unlisted + self.asker.hanging());

        let read = |input| match lines.get(input) {
            Some(line) => line.as_ref().map_err(|why| *why).and_then(|line| degrees(line)),
            None => Err(HANGS),
        };

        let celsius: Vec<Raw> = inputs.iter().map(read).collect();
        // A device has gone, or its driver was loaded anew under another number.
        if celsius.contains(&Err(MissingReading::unsupported("not_found"))) {
            self.relist.hurry();
        }

        for (one, celsius) in self.listed.iter().zip(&celsius) {
            gather.put_with(&TEMPERATURE_CELSIUS, &[("component", &one.component)], *celsius);
        }
        if self.listed.is_empty() {
            gather.put(&TEMPERATURE_CELSIUS, Err(MissingReading::unsupported("no_sensor")));
        }

        let (source, hottest) = processors(&self.listed, &celsius);
        let source: Vec<_> = source.iter().map(|source| ("source", source.as_str())).collect();
        gather.put_with(&CPU_TEMPERATURE_CELSIUS, &source, hottest);
        hottest
    }
}

fn degrees(line: &str) -> Raw {
    table::number(line).and_then(|millidegrees| scale::celsius(millidegrees / 1e3))
}

/// Zones only if no driver of [`DRIVERS`] is present: they would repeat its readings.
fn list(root: &Root) -> Vec<Thermometer> {
    let folders = |class: &str, prefix: &str| {
        let numbers = numbers(root, class, prefix, "").into_iter();
        numbers.map(|number| format!("{class}/{prefix}{number}")).collect::<Vec<_>>()
    };

    let chips = folders("sys/class/hwmon", "hwmon");
    let mut listed: Vec<_> = chips.iter().flat_map(|chip| chip_inputs(root, chip)).collect();

    if !listed.iter().any(|one| DRIVERS.contains(&one.source.as_str())) {
        let zones = folders("sys/class/thermal", "thermal_zone");
        listed.extend(zones.iter().filter_map(|zone| {
            let source = root.line(&format!("{zone}/type")).ok()?;
            let (component, input) = (source.clone(), format!("{zone}/temp"));
            Some(Thermometer { source, is_zone: true, component, input })
        }));
    }

    listed
}

fn chip_inputs(root: &Root, chip: &str) -> Vec<Thermometer> {
    let source = root.line(&format!("{chip}/name")).unwrap_or_default();
    let model = root.line(&format!("{chip}/device/model")).ok();

    let one = |number: u32| {
        let label = root.line(&format!("{chip}/temp{number}_label")).unwrap_or_default();
        let label = match (label.as_str(), &model) {
            ("", Some(_)) => String::new(),
            ("", None) => format!(" temp{number}"),
            (label, _) => format!(" {label}"),
        };

        let model = model.as_ref().map(|model| format!(" {model}")).unwrap_or_default();
        let component = format!("{source}{label}{model}");
        let input = format!("{chip}/temp{number}_input");
        Thermometer { source: source.clone(), is_zone: false, component, input }
    };

    numbers(root, chip, "temp", "_input").into_iter().map(one).collect()
}

/// The numbers in names of a folder, ascending.
fn numbers(root: &Root, folder: &str, before: &str, behind: &str) -> Vec<u32> {
    let number = |name: String| name.strip_prefix(before)?.strip_suffix(behind)?.parse().ok();
    let mut numbers: Vec<u32> =
        root.names(folder).unwrap_or_default().into_iter().filter_map(number).collect();
    // A folder has no order of its own, and the number of a name that is there twice follows this
    // one.
    numbers.sort_unstable();
    numbers
}

/// The second of a name gets a number: two sockets have a `Core 0` each.
fn distinct(mut listed: Vec<Thermometer>) -> Vec<Thermometer> {
    let mut seen = std::collections::BTreeMap::<String, usize>::new();
    for one in &mut listed {
        let count = seen.entry(one.component.clone()).or_default();
        *count += 1;
        if *count > 1 {
            one.component = format!("{} #{count}", one.component);
        }
    }
    listed
}

/// The hottest sensor of the best source, and the source's name.
fn processors(listed: &[Thermometer], celsius: &[Raw]) -> (Option<String>, Raw) {
    let of_driver =
        |wanted: &'static str| move |one: &Thermometer| !one.is_zone && one.source == wanted;
    let of_zone = |wanted: &'static str| {
        move |one: &Thermometer| one.is_zone && one.source.to_ascii_lowercase().contains(wanted)
    };
    let driver = DRIVERS.into_iter().find_map(|wanted| chosen(listed, of_driver(wanted)));
    let zone = || ZONES.into_iter().find_map(|wanted| chosen(listed, of_zone(wanted)));
    let Some(chosen) = driver.or_else(zone) else {
        return (None, Err(MissingReading::unsupported("no_sensor")));
    };
    let source = chosen.first().map(|index| listed[*index].source.clone());
    let read = chosen.iter().filter_map(|index| celsius[*index].ok());
    let failed = || celsius[chosen[0]];
    (source, read.max_by(f64::total_cmp).map_or_else(failed, Ok))
}

/// Indices of the thermometers of one source. Some AMD parts report `Tctl` with an offset, for
/// fans; the ones that do report `Tdie` too.
fn chosen(listed: &[Thermometer], is_one: impl Fn(&Thermometer) -> bool) -> Option<Vec<usize>> {
    let named = |index: &usize, name: &str| listed[*index].component.contains(name);
    let mut found: Vec<usize> = (0..listed.len()).filter(|index| is_one(&listed[*index])).collect();
    if found.iter().any(|index| named(index, "Tdie")) {
        found.retain(|index| !named(index, "Tctl"));
    }
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(sensors: &[(&str, bool, &str)]) -> Vec<Thermometer> {
        let one = |(source, is_zone, component): &(&str, bool, &str)| Thermometer {
            source: (*source).to_owned(),
            is_zone: *is_zone,
            component: (*component).to_owned(),
            input: String::new(),
        };
        sensors.iter().map(one).collect()
    }

    fn source_of(sensors: &[(&str, bool, &str)], celsius: &[Raw]) -> (Option<String>, Raw) {
        processors(&listed(sensors), celsius)
    }

    const NVME: (&str, bool, &str) = ("nvme", false, "nvme Composite");
    const CORE: (&str, bool, &str) = ("coretemp", false, "coretemp Core 0");
    const ARM: (&str, bool, &str) = ("cpu_thermal", false, "cpu_thermal temp1");
    const TCTL: (&str, bool, &str) = ("k10temp", false, "k10temp Tctl");
    const TDIE: (&str, bool, &str) = ("k10temp", false, "k10temp Tdie");
    const ZEN: (&str, bool, &str) = ("zenpower", false, "zenpower Tctl");
    const CPU_ZONE: (&str, bool, &str) = ("CPU-therm", true, "CPU-therm");
    const GPU_ZONE: (&str, bool, &str) = ("GPU-therm", true, "GPU-therm");

    #[test]
    fn the_first_present_driver_reports_its_hottest_sensor() {
        let no_sensor = Err(MissingReading::unsupported("no_sensor"));
        let bad = Err(MissingReading::failed("io_error"));
        for (sensors, celsius, source, want) in [
            (vec![NVME, TCTL, CORE, CORE], [99.0, 80.0, 51.0, 53.0].map(Ok), "coretemp", Ok(53.0)),
            (vec![NVME, ZEN, TCTL, ARM], [99.0, 1.0, 2.0, 3.0].map(Ok), "cpu_thermal", Ok(3.0)),
            (vec![ZEN, TCTL, TDIE, NVME], [70.0, 90.0, 63.0, 99.0].map(Ok), "k10temp", Ok(63.0)),
            (vec![ZEN, NVME, GPU_ZONE, NVME], [61.0, 2.0, 3.0, 4.0].map(Ok), "zenpower", Ok(61.0)),
            (
                vec![GPU_ZONE, CPU_ZONE, CPU_ZONE, NVME],
                [99.0, 44.5, 46.0, 70.0].map(Ok),
                "CPU-therm",
                Ok(46.0),
            ),
            (vec![NVME, GPU_ZONE, NVME, NVME], [1.0; 4].map(Ok), "", no_sensor),
            (vec![CORE, CORE, TCTL, NVME], [bad, bad, Ok(50.0), Ok(1.0)], "coretemp", bad),
            (vec![CORE, CORE, TCTL, NVME], [bad, Ok(48.0), Ok(50.0), bad], "coretemp", Ok(48.0)),
        ] {
            let got = source_of(&sensors, &celsius);
            assert_eq!((got.0.unwrap_or_default().as_str(), got.1), (source, want), "{sensors:?}");
        }
    }

    #[test]
    fn a_second_sensor_of_one_name_gets_a_number() {
        let names: Vec<_> = distinct(listed(&[CORE, NVME, CORE, CORE]))
            .into_iter()
            .map(|one| one.component)
            .collect();
        assert_eq!(
            names,
            ["coretemp Core 0", "nvme Composite", "coretemp Core 0 #2", "coretemp Core 0 #3"]
        );
    }

    #[test]
    fn a_line_is_thousandths_of_a_degree() {
        assert_eq!(degrees("54250"), Ok(54.25));
        assert_eq!(degrees("-5000"), Ok(-5.0));
        assert_eq!(degrees("9223372036854775794"), Err(MissingReading::failed("out_of_range")));
        assert_eq!(degrees("hot"), Err(MissingReading::failed("not_a_number")));
    }
}
