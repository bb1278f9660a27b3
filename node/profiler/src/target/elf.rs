//! What a program's file states about where CPython keeps its state.

use std::fs::File;

use object::elf::FileHeader64;
use object::read::elf::ElfFile;
use object::{LittleEndian, Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache};

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

/// # Errors
/// When the file is no 64-bit program of this byte order.
pub fn symbols(file: File) -> Result<Symbols, object::Error> {
    let cache = ReadCache::new(file);
    let elf: ElfFile<'_, FileHeader64<LittleEndian>, _> = ElfFile::parse(&cache)?;
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
