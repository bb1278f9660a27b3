//! Reads what the kernel reports about one process in `/proc/<pid>/stat`.
//!
//! One file holds all that is summed; `statm` would repeat the resident pages from the same
//! counter. The choice of processes is made elsewhere.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::limits::PROCESS_FILE_BYTES_MAX;
use nix::errno::Errno;
use plimsoll_schemas::hardware::MissingReading;

use super::super::root::{Root, missing};

/// One process at one point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    /// Clock ticks between the start of the machine and that of the process: with its number
    /// the process's name for as long as the machine runs.
    pub(super) started: u64,
    /// True when it has ended and its parent has not yet waited for it.
    pub(super) has_ended: bool,
    pub(super) used: Used,
    pub(super) resident_pages: u64,
    pub(super) threads: u64,
}

/// What only grows, with all threads that the process ever had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    /// In user and kernel mode, in clock ticks.
    pub(super) cpu_ticks: u64,
    pub(super) faults_minor: u64,
    pub(super) faults_major: u64,
}

/// The `/proc` of one root.
#[derive(Debug)]
pub(super) struct Processes {
    pub(super) folder: PathBuf,
}

impl Processes {
    pub(super) fn below(root: &Root) -> Self {
        Self { folder: root.at("proc") }
    }

    /// The process of this number, `None` when there is none.
    pub(super) fn process(&self, pid: u32) -> Result<Option<Process>, MissingReading> {
        let Some(text) = self.file(pid, "stat")? else { return Ok(None) };
        parse(&text).map(Some).ok_or(MissingReading::failed("malformed"))
    }

    /// When this very process started, if that can be read.
    pub(super) fn own_start(&self) -> Option<u64> {
        let text = read(&self.folder.join("self/stat")).ok()?;
        parse(&text).map(|process| process.started)
    }

    /// A file about a process, `None` when the process is gone.
    pub(super) fn file(&self, pid: u32, name: &str) -> Result<Option<Vec<u8>>, MissingReading> {
        match read(&self.folder.join(format!("{pid}/{name}"))) {
            Ok(text) => Ok(Some(text)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(missing(&error)),
        }
    }
}

/// One call: the kernel writes such a file at once, and there may be ten thousand of them.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = [0; PROCESS_FILE_BYTES_MAX];
    let len = File::open(path)?.read(&mut text)?;
    Ok(text[..len].to_vec())
}

/// A process that ends while its file is open answers `ESRCH`.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ESRCH as i32)
}

/// The name between the brackets may hold any bytes, brackets and blanks too; none come after.
fn parse(text: &[u8]) -> Option<Process> {
    let end_of_name = text.iter().rposition(|byte| *byte == b')')?;
    let fields = str::from_utf8(text.get(end_of_name + 1..)?).ok()?;
    // proc(5) counts from 1, and the state, which comes first here, is the third.
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied();
    let figure = |number| field(number)?.parse::<u64>().ok();

    Some(Process {
        started: figure(22)?,
        has_ended: matches!(field(3)?, "Z" | "X" | "x"),
        used: Used {
            cpu_ticks: figure(14)?.checked_add(figure(15)?)?,
            faults_minor: figure(10)?,
            faults_major: figure(12)?,
        },
        resident_pages: figure(24)?,
        threads: figure(20)?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As a kernel wrote it, with another name.
    fn line(name: &[u8]) -> Vec<u8> {
        let after = ") S 1 4242 4242 0 -1 4194560 181 9 12 3 150 25 7 8 20 0 5 0 987654 23117824 \
                     1234 18446744073709551615 1 1 0 0 0 0 671173123 4096 1260 0 0 0 17 1 0 0 0 0 \
                     0 0 0 0 0 0 0 0 0\n";
        [b"4242 (", name, after.as_bytes()].concat()
    }

    #[test]
    fn figures_are_found_behind_any_name() {
        let expected = Process {
            started: 987_654,
            has_ended: false,
            used: Used { cpu_ticks: 175, faults_minor: 181, faults_major: 12 },
            resident_pages: 1_234,
            threads: 5,
        };
        for name in [&b"sleep"[..], b"tmux: server", b"a) Z (b)", b"(sd-pam)", b"\n\xff 1 2", b""] {
            assert_eq!(parse(&line(name)), Some(expected), "{name:?}");
        }
    }

    #[test]
    fn a_zombie_process_has_ended() {
        let text = String::from_utf8(line(b"x")).unwrap().replace(") S ", ") Z ");
        assert!(parse(text.as_bytes()).unwrap().has_ended);
    }

    #[test]
    fn what_is_not_there_is_no_figure() {
        for text in ["", "4242", "4242 (x", "4242 (x) S 1 2", "4242 (x) "] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        let text = String::from_utf8(line(b"x")).unwrap();
        for (figure, other) in [(" 150 ", " -1 "), (" 150 ", " x "), (" 25 ", " 1e3 ")] {
            assert_eq!(parse(text.replace(figure, other).as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_process_that_is_not_there_is_none_and_a_folder_is_a_failure() {
        let root = tempfile::tempdir().unwrap();
        let processes = Processes::below(&Root::new(root.path()));
        assert_eq!(processes.process(7), Ok(None));
        std::fs::create_dir_all(root.path().join("proc/7/stat")).unwrap();
        assert_eq!(processes.process(7), Err(MissingReading::failed("io_error")));
        std::fs::create_dir_all(root.path().join("proc/8")).unwrap();
        std::fs::write(root.path().join("proc/8/stat"), "no figures").unwrap();
        assert_eq!(processes.process(8), Err(MissingReading::failed("malformed")));
    }

    #[test]
    fn a_process_that_ends_while_it_is_read_is_gone() {
        for (errno, expected) in
            [(Errno::ESRCH, true), (Errno::ENOENT, true), (Errno::EPERM, false)]
        {
            assert_eq!(is_gone(&errno.into()), expected, "{errno}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _any = parse(&text);
            let _any = parse(&[&b"1 (x) S "[..], &text].concat());
        }

        #[test]
        fn any_figures_are_read_or_refused(
            figures in proptest::collection::vec(any::<u64>(), 0..60),
        ) {
            let figures: Vec<String> = figures.iter().map(u64::to_string).collect();
            let process = parse(format!("1 (x) S {}", figures.join(" ")).as_bytes());
            if let Some(process) = process {
                prop_assert_eq!(process.started.to_string(), figures[18].as_str());
            }
        }
    }
}
