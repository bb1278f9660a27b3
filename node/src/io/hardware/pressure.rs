//! Pressure stall information: for how long tasks waited for CPU, memory or disks.

use plimsoll_schemas::hardware::{
    MissingReading, PRESSURE_FULL_RATIO, PRESSURE_FULL_SECONDS_TOTAL, PRESSURE_SOME_RATIO,
    PRESSURE_SOME_SECONDS_TOTAL,
};

use super::gather::Gather;
use super::root::{Kept, Root};
use super::scale::{self, Raw};
use super::table;

const RESOURCES: [&str; 3] = ["cpu", "memory", "io"];

pub(super) struct Pressure([Kept; RESOURCES.len()]);

impl Pressure {
    pub(super) fn new(root: &Root) -> Self {
        Self(RESOURCES.map(|resource| root.kept(&format!("proc/pressure/{resource}"))))
    }

    pub(super) fn gather(&mut self, space: &mut Vec<u8>, gather: &mut Gather) {
        for (resource, file) in RESOURCES.iter().zip(&mut self.0) {
            let Some(labels) = gather.labels(&[("resource", resource)]) else { continue };
            let table = file.read(space);
            let share = |who| table.and_then(|table| share(table, who));
            let waited = |who| table.and_then(|table| waited(table, who));
            gather.put_of(&PRESSURE_SOME_RATIO, &labels, share("some"));
            gather.put_of(&PRESSURE_FULL_RATIO, &labels, share("full"));
            gather.put_of(&PRESSURE_SOME_SECONDS_TOTAL, &labels, waited("some"));
            gather.put_of(&PRESSURE_FULL_SECONDS_TOTAL, &labels, waited("full"));
        }
    }
}

/// Of the last ten seconds, as the kernel averages them.
fn share(table: &str, who: &str) -> Raw {
    field(table, who, "avg10=").and_then(table::number).and_then(scale::ratio_from_percent)
}

fn waited(table: &str, who: &str) -> Raw {
    field(table, who, "total=").and_then(table::count).map(|micros| micros as f64 / 1e6)
}

fn field<'t>(table: &'t str, who: &str, key: &str) -> Result<&'t str, MissingReading> {
    let line = table.lines().find(|line| line.split(' ').next() == Some(who));
    let line = line.ok_or(MissingReading::unsupported("not_found"))?;
    let value = line.split(' ').find_map(|word| word.strip_prefix(key));
    value.ok_or(MissingReading::failed("not_a_number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_times_of_both_kinds_are_found() {
        let table = "some avg10=1.50 avg60=0.33 avg300=0.90 total=12947457494\n\
                     full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!([share(table, "some"), share(table, "full")], [Ok(0.015), Ok(0.0)]);
        assert_eq!([waited(table, "some"), waited(table, "full")], [Ok(12_947.457494), Ok(7e-6)]);
    }

    #[test]
    fn a_kind_missing_in_a_kernel_is_unsupported_and_text_is_failed() {
        let none = Err(MissingReading::unsupported("not_found"));
        assert_eq!(share("some avg10=0.00 total=0\n", "full"), none);
        for odd in ["some", "some avg10=", "some avg10=x total=-1"] {
            assert_eq!(share(odd, "some"), Err(MissingReading::failed("not_a_number")), "{odd}");
            assert_eq!(waited(odd, "some"), Err(MissingReading::failed("not_a_number")), "{odd}");
        }
        assert_eq!(share("some avg10=250", "some"), Err(MissingReading::failed("out_of_range")));
    }
}
