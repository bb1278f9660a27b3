//! Whether a process is still the one that a capture started with.
//!
//! An open file of `/proc/PID` stays that of its process: once the number belongs to another one,
//! it cannot be read. The addresses of the program's start and of its stack change when it executes
//! another program. So a look *after* a sample shows that all of it was of this process and
//! program.

use std::fs::File;
use std::os::unix::fs::FileExt;

use plimsoll_schemas::time::BootMillis;

use crate::order::ProcessId;
use crate::refusal::Refusal;

/// Length of a unit of the start time: the same on every 64-bit Linux.
const TICK_MILLIS: u64 = 10;

/// A process and the program that it executes.
#[derive(Debug)]
pub struct Pin {
    stat: File,
    image: Image,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Same,
    Exited,
    /// It executes another program.
    Replaced,
}

/// What distinguishes a program's execution: fields 22, 26 and 28 of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Image {
    start_time: u64,
    start_code: u64,
    start_stack: u64,
}

impl Pin {
    /// # Errors
    /// When there is no such process, or it has ended.
    pub fn new(pid: ProcessId) -> Result<Self, Refusal> {
        let pinned = || {
            let stat = File::open(format!("/proc/{pid}/stat")).ok()?;
            let image = image(&read(&stat)?)?;
            Some(Self { stat, image })
        };
        pinned().ok_or(Refusal::NoProcess(pid))
    }

    pub fn presence(&self) -> Presence {
        match read(&self.stat).as_deref().and_then(image) {
            None => Presence::Exited,
            Some(now) if now == self.image => Presence::Same,
            Some(_) => Presence::Replaced,
        }
    }

    /// An instant by which the process had started: the kernel states its tick alone.
    pub fn started_by(&self) -> BootMillis {
        BootMillis(self.image.start_time.saturating_add(1).saturating_mul(TICK_MILLIS))
    }
}

fn read(stat: &File) -> Option<String> {
    // 52 numbers and a name of 64 bytes.
    let mut bytes = [0; 2_048];
    let length = stat.read_at(&mut bytes, 0).ok()?;
    Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

/// `None` of a process that has ended, with or without its parent's notice.
fn image(stat: &str) -> Option<Image> {
    // The name may contain spaces and brackets; it ends at the last one.
    let (_, after) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse().ok();
    let memory_bytes = field(23)?;
    let image = Image { start_time: field(22)?, start_code: field(26)?, start_stack: field(28)? };
    let is_ended = matches!(*fields.first()?, "Z" | "X") || memory_bytes == 0;
    (!is_ended).then_some(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &str, state: &str, memory_bytes: u64) -> String {
        let before: Vec<String> = (4..23).map(|n| n.to_string()).collect();
        format!("7 ({name}) {state} {} {memory_bytes} 24 25 26 27 28 29\n", before.join(" "))
    }

    #[test]
    fn the_image_is_read_behind_any_name() {
        let expected = Image { start_time: 22, start_code: 26, start_stack: 28 };
        for name in ["python3", "a b", ") Z 0 0 (", ""] {
            assert_eq!(image(&stat(name, "S", 23)), Some(expected), "{name}");
        }
    }

    #[test]
    fn a_process_without_memory_has_no_image() {
        for (state, memory_bytes) in [("Z", 23), ("X", 23), ("R", 0)] {
            assert_eq!(image(&stat("python3", state, memory_bytes)), None, "{state}");
        }
        assert_eq!(image("7 (python3) S 1 2"), None);
        assert_eq!(image(""), None);
    }

    #[test]
    fn this_process_is_present_and_an_impossible_one_is_none() {
        let own = ProcessId(i32::try_from(std::process::id()).unwrap());
        assert_eq!(Pin::new(own).unwrap().presence(), Presence::Same);
        assert!(Pin::new(ProcessId(i32::MAX)).is_err());
        let started = |pid| Pin::new(ProcessId(pid)).unwrap().started_by();
        assert!(started(1) <= started(own.0));
        let image = Image { start_time: 7, start_code: 0, start_stack: 0 };
        let pin = Pin { stat: File::open("/dev/null").unwrap(), image };
        assert_eq!(pin.started_by(), BootMillis(80));
    }
}
