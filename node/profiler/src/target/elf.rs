//! What a program's file states about where CPython keeps its state.

use std::cell::Cell;
use std::fs::File;
use std::ops::Range;

use object::elf::FileHeader64;
use object::read::elf::ElfFile;
use object::{
    LittleEndian, Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache, ReadRef,
};

use crate::limits::PROGRAM_READ_BYTES_MAX;

/// Addresses as the file states them; the program may lie elsewhere in memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    /// Of the file's first byte.
    pub start: u64,
    /// Of the runtime's state.
    pub runtime: Option<u64>,
    /// Of the number of the version.
    pub version: Option<u64>,
}

const RUNTIME_SECTION: &str = ".PyRuntime";
const RUNTIME_SYMBOL: &str = "_PyRuntime";
/// Exported since 3.11.
const VERSION_SYMBOL: &str = "Py_Version";

/// A file of which no more than some bytes are read: what is read stays in memory, and a file may
/// name the same bytes many times.
#[derive(Clone, Copy)]
pub(crate) struct Bounded<'a> {
    pub(crate) cache: &'a ReadCache<File>,
    pub(crate) left: &'a Cell<u64>,
}

impl Bounded<'_> {
    fn take(self, bytes: u64) -> Result<(), ()> {
        self.left.set(self.left.get().checked_sub(bytes).ok_or(())?);
        Ok(())
    }
}

impl<'a> ReadRef<'a> for Bounded<'a> {
    fn len(self) -> Result<u64, ()> {
        self.cache.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.take(size)?;
        self.cache.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        // The least that it takes of memory; a name is read in parts, up to 4 096 bytes of it.
        self.take(64)?;
        let bytes = self.cache.read_bytes_at_until(range, delimiter)?;
        self.take(bytes.len() as u64)?;
        Ok(bytes)
    }
}

/// # Errors
/// When the file is no 64-bit program of this byte order, or has too many symbols.
pub fn symbols(file: File) -> Result<Symbols, object::Error> {
    let cache = ReadCache::new(file);
    let left = Cell::new(PROGRAM_READ_BYTES_MAX);
    let bounded = Bounded { cache: &cache, left: &left };
    let elf: ElfFile<'_, FileHeader64<LittleEndian>, _> = ElfFile::parse(bounded)?;
    let mut found = Symbols::default();

    let segments = elf.segments().filter(|segment| segment.file_range().0 == 0);
    found.start = segments.map(|segment| segment.address()).min().unwrap_or(0);
    found.runtime = elf.section_by_name(RUNTIME_SECTION).map(|section| section.address());

    // The dynamic symbols outlive `strip`; the others name what is not exported.
    for symbol in elf.dynamic_symbols().chain(elf.symbols()) {
        match symbol.name() {
            Ok(RUNTIME_SYMBOL) => found.runtime = found.runtime.or(Some(symbol.address())),
            Ok(VERSION_SYMBOL) => found.version = Some(symbol.address()),
            _ => {}
        }
        if found.runtime.is_some() && found.version.is_some() {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A file with one table of symbols that takes this many bytes, all zero.
    fn with_symbols(bytes: u64) -> File {
        let word = |value: u32| value.to_le_bytes().to_vec();
        let long = |value: u64| value.to_le_bytes().to_vec();
        let half = |value: u16| value.to_le_bytes().to_vec();
        let section = |kind: u32, link: u32, offset: u64, size: u64, entry: u64| {
            [word(0), word(kind), long(0), long(0), long(offset), long(size), word(link)]
                .concat()
                .into_iter()
                .chain([word(0), long(1), long(entry)].concat())
                .collect::<Vec<u8>>()
        };

        let header = [
            b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec(),
            [half(3), half(62), word(1), long(0), long(0), long(64), word(0)].concat(),
            [half(64), half(56), half(0), half(64), half(3), half(2)].concat(),
        ];

        let start = 4_096;
        let sections =
            [section(0, 0, 0, 0, 0), section(2, 2, start, bytes, 24), section(3, 0, start, 1, 0)];
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[header.concat(), sections.concat()].concat()).unwrap();
        file.set_len(start + bytes).unwrap();
        file
    }

    #[test]
    fn a_file_with_too_many_symbols_is_refused_before_it_is_read() {
        let few = 24 * 1_000;
        assert_eq!(symbols(with_symbols(few)).unwrap(), Symbols::default());
        let many = (PROGRAM_READ_BYTES_MAX / 24 + 1) * 24;
        assert!(symbols(with_symbols(many)).is_err());
    }
}
