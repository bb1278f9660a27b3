//! A machine of files, with two GPUs that a control file steers, and the node's real sampler
//! looking at it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use plimsoll_clock::Deadline;
use plimsoll_node::config::HardwareSettings;
use plimsoll_node::io::hardware::Sampler;
use plimsoll_schemas::hardware::Reading;
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

/// Whether a small file system can be mounted here.
pub(crate) fn may_mount() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let mounted = mount(&dir.path().to_string_lossy());
    if mounted {
        unmount(&dir.path().to_string_lossy());
    }
    mounted
}

fn mount(at: &str) -> bool {
    let options = "size=1000k,nr_inodes=1000";
    let ran = Command::new("mount").args(["-t", "tmpfs", "-o", options, "plimsoll", at]).output();
    ran.is_ok_and(|ran| ran.status.success())
}

fn unmount(at: &str) {
    // Nothing is left to be done where it fails.
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
        // Without the right to mount there is a folder, which no test fills.
        mount(&root.join("data").to_string_lossy());
        let config = HardwareSettings { nvml_library, root, ..HardwareSettings::default() };
        let (sampler, samples) = Sampler::start(&config);
        Self { dir, samples, _sampler: sampler }
    }

    /// What the sampler says next; one that was made before is passed over.
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

    /// A file holds this from now on.
    pub(crate) fn file(&mut self, path: &str, text: &str) {
        write(&self.root().join(path), text);
    }

    /// A part of a file's text as it was recorded is another.
    pub(crate) fn part(&mut self, path: &str, before: &str, after: &str) {
        let path = self.root().join(path);
        let text = fs::read_to_string(&path).unwrap();
        let changed = match text.contains(before) {
            true => text.replace(before, after),
            false => panic!("{before:?} is not in {}", path.display()),
        };
        write(&path, &changed);
    }

    /// All files are as they were.
    pub(crate) fn restore(&mut self, tree: &str) {
        unpack(tree, &self.root(), false);
    }

    /// What its GPUs say from now on.
    pub(crate) fn gpu(&mut self, control: &str) {
        library::steer(self.dir.path(), &format!("gpus=2\n{control}"));
    }

    /// The file system at `/data` is used by so many percent.
    pub(crate) fn fill(&mut self, percent: usize) {
        let file = self.root().join("data/filler");
        fs::write(file, vec![1; percent * 10 * 1_024]).unwrap();
    }

    /// It has so many percent of the files that it may have.
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
