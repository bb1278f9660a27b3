//! A machine made of files, with two GPUs that a control file steers, and the node's real sampler
//! on it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use plimsoll_clock::Deadline;
use plimsoll_node::config::HardwareSettings;
use plimsoll_node::io::hardware::Sampler;
use plimsoll_runtime::supervision::Supervisor;
use plimsoll_schemas::hardware::Reading;
use plimsoll_tests::capability::mount_refusal;
use tempfile::TempDir;
use tokio::sync::mpsc::Receiver;

use super::library;
use super::unpack::{unpack, write};

/// Two cores, a container's limits, nothing wrong.
pub(crate) const TREE: &str = include_str!("tree.txt");

pub(crate) struct Machine {
    dir: TempDir,
    samples: Receiver<Vec<Reading>>,
    _sampler: Sampler,
}

fn mount(at: &str) {
    let options = "size=1000k,nr_inodes=1000";
    let ran = Command::new("mount").args(["-t", "tmpfs", "-o", options, "plimsoll", at]).output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{ran:?}");
}

fn unmount(at: &str) {
    // It fails if nothing is mounted there.
    let _ended = Command::new("umount").arg(at).output();
}

impl Machine {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let nvml_library = Some(library::build(dir.path(), &[]));
        library::steer(dir.path(), "gpus=2\n");
        let root = dir.path().join("root");
        unpack(TREE, &root, false);
        fs::create_dir_all(root.join("data")).unwrap();
        // Where nothing can be mounted it stays a folder, which no test fills.
        if mount_refusal().is_none() {
            mount(&root.join("data").to_string_lossy());
        }
        // The fastest sensors come twenty times a second, so that a change is seen at once.
        let interval_ms = 50;
        let config =
            HardwareSettings { nvml_library, root, interval_ms, ..HardwareSettings::default() };
        let (sampler, samples) = Sampler::start(&config, &Supervisor::default());
        Self { dir, samples, _sampler: sampler }
    }

    /// The next sample. An older one that waits in the channel is dropped.
    pub(crate) fn next_sample(&mut self) -> Vec<Reading> {
        let deadline = Deadline::within(Duration::from_secs(60));
        for is_old in [true, false] {
            loop {
                if let Ok(sample) = self.samples.try_recv() {
                    if is_old {
                        break;
                    }
                    return sample;
                }
                assert!(deadline.pause(Duration::from_millis(5)), "no sample came");
            }
        }
        unreachable!("the second sample is returned")
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// Replaces the text of a file.
    pub(crate) fn file(&mut self, path: &str, text: &str) {
        write(&self.root().join(path), text);
    }

    /// Replaces a part of a file's recorded text.
    pub(crate) fn part(&mut self, path: &str, before: &str, after: &str) {
        let path = self.root().join(path);
        let text = fs::read_to_string(&path).unwrap();
        let changed = match text.contains(before) {
            true => text.replace(before, after),
            false => panic!("{before:?} is not in {}", path.display()),
        };
        write(&path, &changed);
    }

    pub(crate) fn restore(&mut self, tree: &str) {
        unpack(tree, &self.root(), false);
    }

    pub(crate) fn gpu(&mut self, control: &str) {
        library::steer(self.dir.path(), &format!("gpus=2\n{control}"));
    }

    /// Fills the file system at `/data` to this percentage.
    pub(crate) fn fill(&mut self, percent: usize) {
        let file = self.root().join("data/filler");
        fs::write(file, vec![1; percent * 10 * 1_024]).unwrap();
    }

    /// Creates this percentage of the files that it may hold.
    pub(crate) fn crowd(&mut self, percent: usize) {
        let folder = self.root().join("data/crowd");
        let _absent_at_first = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        (0..percent * 10 - 5.min(percent)).for_each(|n| {
            fs::write(folder.join(n.to_string()), "").unwrap();
        });
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        unmount(&self.root().join("data").to_string_lossy());
    }
}
