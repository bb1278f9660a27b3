//! What is read through a device's driver and may therefore be slow or hang: file systems,
//! temperatures and core clocks.
//!
//! Network file systems and mounts that need a daemon (FUSE) are no disks of this machine and
//! are left out; sysinfo asks a FUSE mount for its size all the same, so a hung one makes these
//! readings stale, and only these.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sys::statvfs::statvfs;
use plimsoll_schemas::hardware::{
    CPU_FREQUENCY_HERTZ, DISK_AVAILABLE_BYTES, DISK_TOTAL_BYTES, DISK_USED_BYTES, Missing, Reading,
    TEMPERATURE_CELSIUS,
};
use plimsoll_schemas::limits::node::{COMPONENTS_MAX, DISKS_MAX, SENSOR_RELIST_EVERY};
use plimsoll_schemas::time::Mono;
use sysinfo::{Component, Components, DiskRefreshKind, Disks};

use super::Tally;
use super::gather::Gather;
use super::procfs;
use super::scale::{self, Raw};

/// Readers of devices, with the list of components as of the last look.
pub(super) struct Devices {
    root: PathBuf,
    components: Option<Components>,
    relist: Mono,
    tally: Arc<Tally>,
}

impl Devices {
    pub(super) fn new(tally: Arc<Tally>) -> Self {
        Self { root: "/".into(), components: None, relist: Mono(0), tally }
    }

    pub(super) fn sample(&mut self, now: Mono) -> Vec<Reading> {
        let mut gather = Gather::default();
        self.gather_temperatures(now, &mut gather);
        gather_disks(&mut gather);
        self.gather_clocks(&mut gather);
        gather.finish(&self.tally)
    }

    fn gather_temperatures(&mut self, now: Mono, gather: &mut Gather) {
        if now >= self.relist {
            self.components = Components::new_with_refreshed_list().ok();
            self.relist = now.plus(SENSOR_RELIST_EVERY);
        } else {
            self.components.iter_mut().flatten().for_each(Component::refresh);
        }
        let list = self.components.iter().flatten();
        let temperatures = list.map(|one| (one.label().to_owned(), one.temperature()));
        let temperatures = gather.named(temperatures, COMPONENTS_MAX);
        if temperatures.is_empty() {
            return gather.put(&TEMPERATURE_CELSIUS, Err(Missing::unsupported("no_sensor")));
        }
        for (component, degrees) in temperatures {
            let raw =
                degrees.map(f64::from).ok_or(Missing::failed("unread")).and_then(scale::celsius);
            if let Some(labels) = gather.labels(&[("component", &component)]) {
                gather.put_of(&TEMPERATURE_CELSIUS, &labels, raw);
            }
        }
    }

    fn gather_clocks(&self, gather: &mut Gather) {
        let (cores, over) = procfs::core_list(&self.read("sys/devices/system/cpu/online"));
        gather.skip(over);
        let governed: Vec<Option<f64>> =
            cores.iter().map(|core| self.governed_mhz(*core)).collect();
        // The table costs the kernel a look at every core: only where a core has no governor.
        let table =
            if governed.contains(&None) { self.read("proc/cpuinfo") } else { String::new() };
        let measured = procfs::core_mhz(&table);
        let known = |(core, mhz): (&usize, Option<f64>)| mhz.or(measured.get(core).copied());
        let clocks: Vec<Option<f64>> = cores.iter().zip(governed).map(known).collect();
        if clocks.iter().all(Option::is_none) {
            return gather.put(&CPU_FREQUENCY_HERTZ, Err(Missing::unsupported("no_clock")));
        }
        for (core, mhz) in cores.iter().zip(clocks) {
            if let Some(labels) = gather.labels(&[("core", &core.to_string())]) {
                gather.put_of(&CPU_FREQUENCY_HERTZ, &labels, clock(mhz));
            }
        }
    }

    fn governed_mhz(&self, core: usize) -> Option<f64> {
        let path = format!("sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq");
        self.read(&path).trim().parse::<f64>().ok().map(|khz| khz / 1e3)
    }

    /// A small file of the kernel's; empty where there is none.
    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap_or_default()
    }
}

/// A core that runs has a clock; 0 is how kernels say that they do not know it.
fn clock(mhz: Option<f64>) -> Raw {
    mhz.filter(|mhz| *mhz > 0.0)
        .ok_or(Missing::unsupported("no_clock"))
        .and_then(scale::hertz_from_mhz)
}

/// One line of the mount table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    device: String,
    kind: String,
    path: String,
    total: u64,
    available: u64,
    /// `None` where nobody can tell.
    used: Option<u64>,
}

impl Mount {
    fn is_disk(&self) -> bool {
        // Made full and never written to again.
        const IMAGES: [&str; 6] = ["erofs", "squashfs", "iso9660", "udf", "cramfs", "romfs"];
        const WITHOUT_DEVICE: [&str; 6] = ["zfs", "lustre", "gpfs", "ceph", "beegfs", "virtiofs"];
        let is_disk = self.device.starts_with("/dev/")
            || WITHOUT_DEVICE.contains(&self.kind.as_str())
            || self.path == "/";
        is_disk && !IMAGES.contains(&self.kind.as_str())
    }
}

/// Bytes in use, as df counts them: what is kept for the administrator is neither used nor
/// available.
fn used(path: &Path) -> Option<u64> {
    let all = statvfs(path).ok()?;
    let blocks = all.blocks().checked_sub(all.blocks_free())?;
    blocks.checked_mul(all.fragment_size())
}

fn gather_disks(gather: &mut Gather) {
    // A new list each time: a kept one would go on showing the figures from before an error.
    let refreshes = DiskRefreshKind::nothing().with_storage();
    let Ok(disks) = Disks::new_with_refreshed_list_specifics(refreshes) else {
        return gather.put(&DISK_TOTAL_BYTES, Err(Missing::failed("unlisted")));
    };
    let mounts = disks.iter().map(|disk| Mount {
        device: disk.name().to_string_lossy().into_owned(),
        kind: disk.file_system().to_string_lossy().into_owned(),
        path: disk.mount_point().to_string_lossy().into_owned(),
        total: disk.total_space(),
        available: disk.available_space(),
        used: used(disk.mount_point()),
    });
    fold_disks(mounts.collect(), gather);
}

/// Readings of every real file system, once: a device mounted at several places (bind mounts
/// of a container, subvolumes) is shown under its shortest path.
fn fold_disks(mut mounts: Vec<Mount>, gather: &mut Gather) {
    mounts.retain(Mount::is_disk);
    mounts.sort_by(|a, b| {
        (&a.device, a.path.len(), &a.path).cmp(&(&b.device, b.path.len(), &b.path))
    });
    mounts.dedup_by(|b, a| a.device == b.device);
    let disks = mounts.into_iter().map(|mount| (mount.path.clone(), mount));
    for (path, disk) in gather.named(disks, DISKS_MAX) {
        let Some(labels) = gather.labels(&[("mount", &path)]) else { continue };
        let known = if disk.total == 0 { Err(Missing::failed("unread")) } else { Ok(()) };
        let total = known.and_then(|()| scale::bytes(disk.total));
        gather.put_of(&DISK_TOTAL_BYTES, &labels, total);
        let available = known.and_then(|()| scale::bytes(disk.available));
        gather.put_of(&DISK_AVAILABLE_BYTES, &labels, available);
        let used = known.and_then(|()| disk.used.ok_or(Missing::failed("unread")));
        gather.put_of(&DISK_USED_BYTES, &labels, used.and_then(scale::bytes));
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::hardware::SensorState;

    use super::*;

    fn devices(files: &[(&str, &str)]) -> (tempfile::TempDir, Devices) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut devices = Devices::new(Arc::default());
        devices.root = root.path().into();
        (root, devices)
    }

    /// Label value under `key`, and value or state, of each reading.
    fn figures(gather: Gather, key: &str) -> Vec<(String, Result<f64, SensorState>)> {
        let readings = gather.finish(&Tally::default());
        let figure = |reading: &Reading| {
            let label = reading.labels.get(key).unwrap_or_default().to_owned();
            (label, reading.value.ok_or(reading.state))
        };
        readings.iter().map(figure).collect()
    }

    fn clocks(files: &[(&str, &str)]) -> Vec<(String, Result<f64, SensorState>)> {
        let (_root, devices) = devices(files);
        let mut gather = Gather::default();
        devices.gather_clocks(&mut gather);
        figures(gather, "core")
    }

    const ONLINE: (&str, &str) = ("sys/devices/system/cpu/online", "0,2\n");
    const GOVERNED: (&str, &str) =
        ("sys/devices/system/cpu/cpu2/cpufreq/scaling_cur_freq", "3100500\n");

    #[test]
    fn core_clocks_come_from_the_governor_and_else_from_the_table() {
        let table = ("proc/cpuinfo", "processor : 0\ncpu MHz : 2600\nprocessor : 2\ncpu MHz : 1\n");
        let unsupported = Err(SensorState::Unsupported);
        for (files, want) in [
            (vec![ONLINE, GOVERNED, table], vec![("0", Ok(2.6e9)), ("2", Ok(3_100_500_000.0))]),
            (vec![ONLINE, GOVERNED], vec![("0", unsupported), ("2", Ok(3_100_500_000.0))]),
            (vec![ONLINE, ("proc/cpuinfo", "BogoMIPS : 243")], vec![("", unsupported)]),
            (vec![], vec![("", unsupported)]),
        ] {
            let want: Vec<_> = want.into_iter().map(|(core, hz)| (core.to_owned(), hz)).collect();
            assert_eq!(clocks(&files), want, "{files:?}");
        }
    }

    #[test]
    fn a_clock_of_zero_is_unsupported_and_an_absurd_one_failed() {
        assert_eq!(clock(Some(0.0)), Err(Missing::unsupported("no_clock")));
        assert_eq!(clock(Some(f64::from(u32::MAX))), Err(Missing::failed("out_of_range")));
    }

    #[test]
    fn each_real_file_system_is_shown_once_under_its_shortest_path() {
        let mount = |device: &str, kind: &str, path: &str, total| Mount {
            device: device.into(),
            kind: kind.into(),
            path: path.into(),
            total,
            available: total / 4,
            used: (kind != "zfs").then_some(total / 2),
        };
        let mut gather = Gather::default();
        let mounts = vec![
            mount("/dev/vda", "ext4", "/etc/hosts", 400),
            mount("overlay", "overlay", "/", 800),
            mount("/dev/vda", "ext4", "/data", 400),
            mount("/dev/vdb", "xfs", "/broken", 0),
            mount("host:/x", "fuse.sshfs", "/x", 9),
            mount("none", "tracefs", "/trace", 9),
            mount("/dev/loop0", "squashfs", "/snap", 9),
            mount("pool/a", "zfs", "/pool", 40),
        ];
        fold_disks(mounts, &mut gather);
        let failed = Err(SensorState::Failed);
        let want = [
            ("/", Ok(800.0)),
            ("/", Ok(200.0)),
            ("/", Ok(400.0)),
            ("/broken", failed),
            ("/broken", failed),
            ("/broken", failed),
            ("/data", Ok(400.0)),
            ("/data", Ok(100.0)),
            ("/data", Ok(200.0)),
            ("/pool", Ok(40.0)),
            ("/pool", Ok(10.0)),
            ("/pool", failed),
        ];
        assert_eq!(figures(gather, "mount"), want.map(|(path, size)| (path.to_owned(), size)));
    }

    #[test]
    fn what_is_used_is_what_df_calls_used() {
        let folder = tempfile::tempdir().unwrap();
        let df = || {
            let mut df = std::process::Command::new("df");
            df.args(["-B1", "--output=used"]).arg(folder.path());
            let out = df.output().unwrap().stdout;
            String::from_utf8(out).unwrap().lines().nth(1).unwrap().trim().parse::<u64>().unwrap()
        };
        // Others write meanwhile: between two answers of df, as soon as these agree.
        let agreed = (0..1_000).find_map(|_| {
            let (before, found, after) = (df(), used(folder.path()), df());
            (before == after).then_some((found, before))
        });
        let (found, df) = agreed.unwrap();
        assert_eq!(found, Some(df));
        assert_eq!(used(&folder.path().join("nothing")), None);
    }

    #[test]
    fn a_machine_without_thermometers_says_so() {
        let (_root, mut devices) = devices(&[]);
        devices.components = Some(Components::new().unwrap());
        devices.relist = Mono(u64::MAX);
        let mut gather = Gather::default();
        devices.gather_temperatures(Mono(0), &mut gather);
        assert_eq!(figures(gather, "component"), [(String::new(), Err(SensorState::Unsupported))]);
    }
}
