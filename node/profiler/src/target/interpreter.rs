//! Finds CPython in a process: the file that has it, where it lies in memory, its version and
//! layout.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use super::activity::own_number;
use super::elf::{Symbols, symbols};
use super::file::opened;
use super::maps::{MappedFile, mapped_files};
use crate::layout::{Layout, ThreadNumber, Version, published, table};
use crate::memory::{Address, Memory, Span, address, half, word};
use crate::order::ProcessId;
use crate::refusal::Refusal;

#[derive(Debug)]
pub struct Interpreter {
    /// Where it keeps its state.
    pub runtime: Address,
    pub version: Version,
    pub layout: Layout,
}

impl Interpreter {
    /// Looks into the program and into each libpython that it has loaded.
    ///
    /// # Errors
    /// When there is none, or none that is supported.
    pub fn find(pid: ProcessId, memory: &impl Memory) -> Result<Self, Refusal> {
        let maps = File::open(format!("/proc/{pid}/maps"));
        let files = mapped_files(maps.map_err(|_| Refusal::NoProcess(pid))?);
        let program = fs::read_link(format!("/proc/{pid}/exe"));
        let program = program.map_err(|_| Refusal::NoProcess(pid))?.to_string_lossy().into_owned();

        let is_program = |file: &&MappedFile| file.path == program;
        let is_library = |file: &&MappedFile| file.name().starts_with("libpython");
        let candidates = files.iter().find(is_program).into_iter();
        let candidates: Vec<_> = candidates.chain(files.iter().filter(is_library)).collect();
        for mapped in &candidates {
            let file = opened(pid, mapped, mapped.path == program)?;
            if !is_what_runs(&file, mapped, memory) {
                return Err(Refusal::FileReplaced { pid, path: mapped.path.clone() });
            }
            // A file that is no program of 64 bits has no interpreter that is supported.
            let symbols = symbols(file).unwrap_or_default();
            if let Some(runtime) = symbols.runtime {
                return Self::at(
                    pid,
                    memory,
                    mapped,
                    &Symbols { runtime: Some(runtime), ..symbols },
                );
            }
        }

        // Versions before 3.7 have no runtime state.
        match candidates.iter().find_map(|mapped| Version::of_file(mapped.name())) {
            Some(version) => Err(Refusal::Version { pid, version }),
            None => Err(Refusal::NotPython { pid, program }),
        }
    }

    fn at(
        pid: ProcessId,
        memory: &impl Memory,
        mapped: &MappedFile,
        symbols: &Symbols,
    ) -> Result<Self, Refusal> {
        let in_memory =
            |at: u64| Address(mapped.start.0.wrapping_add(at.wrapping_sub(symbols.start)));
        let read = |what: &str, start: Address, bytes: usize| {
            let read = memory.read_span(Span { start, bytes });
            read.map_err(|error| Refusal::unreadable(pid, what, error))
        };

        let runtime = in_memory(symbols.runtime.unwrap_or_default());
        let record = read("the state of its runtime", runtime, published::RECORD_BYTES)?;
        let (version, layout) = match published::head(&record) {
            Some(head) if head.is_free_threaded => {
                return Err(Refusal::FreeThreaded { pid, version: head.version });
            }
            Some(head) => (head.version, published::layout(&record, head.version)),
            None => {
                let stated = match symbols.version {
                    Some(at) => Version::from_hex(word(&read("its version", in_memory(at), 8)?, 0)),
                    None => Version::of_file(mapped.name())
                        .ok_or_else(|| Refusal::NotPython { pid, program: mapped.path.clone() })?,
                };
                (stated, table::of(stated))
            }
        };

        let mut layout = layout.ok_or(Refusal::Version { pid, version })?;
        let head = read("its interpreters", runtime.plus(layout.interpreters_head), 8)?;
        if word(&head, 0) == 0 {
            return Err(Refusal::NotRunning(pid));
        }
        if let ThreadNumber::ByHandle { main, number, .. } = &mut layout.thread_number {
            let handle = address(&read("its main thread", runtime.plus(*main), 8)?, 0);
            let record = read("the record of its main thread", handle, HANDLE_BYTES)?;
            let own = own_number(pid).ok_or(Refusal::NoProcess(pid))?;
            let mut words = (0..HANDLE_BYTES).step_by(4);
            let found = words.find(|at| u64::from(half(&record, *at)) == own);
            *number = found.ok_or(Refusal::ThreadNumbers(pid))?;
        }
        Ok(Self { runtime, version, layout })
    }
}

/// What is read of a thread's record of the C library: glibc has the number at 720 on x86-64.
const HANDLE_BYTES: usize = 768;

/// Whether the start of the mapping is what the file has there; of a file it has the identity of
/// its build.
pub(crate) fn is_what_runs(file: &File, mapped: &MappedFile, memory: &impl Memory) -> bool {
    let mapped_bytes = mapped.end.since(mapped.start).unwrap_or(0);
    let span = Span { start: mapped.start, bytes: mapped_bytes.min(4_096) };
    let mut start = vec![0; span.bytes];
    file.read_exact_at(&mut start, mapped.offset).is_ok() && memory.read_span(span) == Ok(start)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::maps::FileIdentity;
    use super::*;
    use crate::memory::ReadError;

    /// Memory that holds one byte everywhere, up to an address.
    struct Filled(u8);

    impl Memory for Filled {
        fn read(&self, spans: &[Span], into: &mut [u8]) -> Result<(), ReadError> {
            into.fill(self.0);
            let is_mapped = spans.iter().all(|span| span.start.0 + span.bytes as u64 <= 9_000);
            if is_mapped { Ok(()) } else { Err(ReadError::Unmapped) }
        }
    }

    #[test]
    fn a_file_is_what_runs_if_it_starts_as_memory_does() {
        let mapped = |start: u64| MappedFile {
            start: Address(start),
            end: Address(start + 8_192),
            offset: 0,
            identity: FileIdentity { major: 0, minor: 0, inode: 0 },
            path: String::new(),
        };
        let file = |bytes: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(bytes).unwrap();
            file
        };
        let table = [
            (file(&[7; 8_192]), 0, true),
            (file(&[7; 4_096]), 0, true),
            (file(&[7; 4_095]), 0, false),
            (file(&[8; 8_192]), 0, false),
            (file(&[7; 8_192]), 9_000, false),
        ];
        for (file, start, expected) in table {
            assert_eq!(is_what_runs(&file, &mapped(start), &Filled(7)), expected, "{start}");
        }
    }
}
