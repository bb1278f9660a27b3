//! What a file of code states that unwinding and naming need: tables of frames, functions, and
//! where its debug file is.

use std::cell::Cell;
use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read, Seek};

use framehop::ExplicitModuleSectionInfo;
use object::elf::{FileHeader64, PF_X, STT_FUNC, STT_GNU_IFUNC};
use object::read::elf::{ElfFile, Sym, SymbolTable};
use object::{
    LittleEndian, Object, ObjectSection, ObjectSegment, ReadCache, ReadRef, SegmentFlags,
};

use super::symbols::{Function, Symbols};
use crate::limits::PROGRAM_READ_BYTES_MAX;
use crate::memory::half;
use crate::order::ProcessId;
use crate::target::elf::Bounded;
use crate::target::file::opened_beside;

type Header = FileHeader64<LittleEndian>;
type Elf<'a, R> = ElfFile<'a, Header, R>;

/// Addresses as the file states them.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Of the byte at the offset that was asked for.
    pub(super) address: u64,
    pub(super) unwind: ExplicitModuleSectionInfo<Vec<u8>>,
    pub(super) symbols: Symbols,
    /// Whether `symbols` are all: otherwise those that other files may use.
    is_whole: bool,
    debug: DebugFile,
}

/// Which file has the symbols that were taken out of this one.
#[derive(Debug, Default, PartialEq, Eq)]
struct DebugFile {
    build_id: Option<Vec<u8>>,
    /// Its name and its checksum.
    link: Option<(String, u32)>,
}

/// Of an opened file, with the symbols of its debug file if it has not all of them itself.
///
/// # Errors
/// When the file is no 64-bit program of this byte order, or its tables are too large.
pub(super) fn of_file(
    pid: ProcessId,
    path: &str,
    file: File,
    offset: u64,
) -> Result<Tables, object::Error> {
    let mut tables = bounded(file, |data| Tables::read(data, offset))?;
    if !tables.is_whole
        && let Some(symbols) = tables.debug.symbols(pid, path)
    {
        tables.symbols = symbols;
    }
    Ok(tables)
}

fn bounded<T>(
    file: File,
    read: impl FnOnce(Bounded<'_>) -> Result<T, object::Error>,
) -> Result<T, object::Error> {
    let (cache, left) = (ReadCache::new(file), Cell::new(PROGRAM_READ_BYTES_MAX));
    read(Bounded { cache: &cache, left: &left })
}

impl Tables {
    /// # Errors
    /// As [`of_file`].
    pub(super) fn read<'a, R: ReadRef<'a>>(data: R, offset: u64) -> Result<Self, object::Error> {
        let elf: Elf<'_, R> = ElfFile::parse(data)?;
        let whole = symbols(&elf, elf.elf_symbol_table())?;
        let is_whole = !whole.is_empty();
        let dynamic = || symbols(&elf, elf.elf_dynamic_symbol_table());
        let link = elf.gnu_debuglink().ok().flatten();
        let link = link.and_then(|(name, sum)| Some((str::from_utf8(name).ok()?.to_owned(), sum)));
        let build_id = elf.build_id().ok().flatten().map(<[u8]>::to_vec);

        let symbols = if is_whole { whole } else { dynamic()? };
        let unwind = unwind(&elf)?;
        let is_covered = 2 * described(&unwind) >= symbols.len();
        Ok(Self {
            address: address_of(&elf, offset),
            unwind: if is_covered { unwind } else { ExplicitModuleSectionInfo::default() },
            symbols,
            is_whole,
            debug: DebugFile { build_id, link },
        })
    }

    /// What it takes of memory.
    pub(super) fn bytes(&self) -> usize {
        let part = |part: &Option<Vec<u8>>| part.as_ref().map_or(0, Vec::len);
        self.symbols.bytes() + part(&self.unwind.eh_frame) + part(&self.unwind.eh_frame_hdr)
    }
}

/// The address of what lies at an offset. A mapping starts with the page of its segment, so the
/// offset may lie a little before the segment.
fn address_of<'a, R: ReadRef<'a>>(elf: &Elf<'a, R>, offset: u64) -> u64 {
    let mut code = elf.segments().filter(|segment| match segment.flags() {
        SegmentFlags::Elf { p_flags, .. } => p_flags.contains(PF_X),
        _ => false,
    });
    let segment = code.find(|segment| {
        let (at, bytes) = segment.file_range();
        offset < at.saturating_add(bytes)
    });
    segment.map_or(offset, |segment| {
        offset.wrapping_sub(segment.file_range().0).wrapping_add(segment.address())
    })
}

fn unwind<'a, R: ReadRef<'a>>(
    elf: &Elf<'a, R>,
) -> Result<ExplicitModuleSectionInfo<Vec<u8>>, object::Error> {
    let range = |name: &str| {
        let section = elf.section_by_name(name)?;
        Some(section.address()..section.address().saturating_add(section.size()))
    };
    let data = |name: &str| {
        let section = elf.section_by_name(name);
        section.map(|section| section.data().map(<[u8]>::to_vec)).transpose()
    };
    Ok(ExplicitModuleSectionInfo {
        text_svma: range(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame")?,
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr")?,
        ..Default::default()
    })
}

/// Functions that the index of the tables has. Where most are absent, because they were compiled
/// without, the index leads to the wrong ones: then frame pointers are better.
fn described(unwind: &ExplicitModuleSectionInfo<Vec<u8>>) -> usize {
    /// Version, then how the address of the table and the count are written: both in 4 bytes.
    const USUAL: [u8; 3] = [1, 0x1b, 3];
    match unwind.eh_frame_hdr.as_deref() {
        Some(index) if index.starts_with(&USUAL) => half(index, 8) as usize,
        _ => usize::MAX / 2,
    }
}

fn symbols<'a, R: ReadRef<'a>>(
    elf: &Elf<'a, R>,
    table: &SymbolTable<'a, Header, R>,
) -> Result<Symbols, object::Error> {
    let is_function = |symbol: &&<Header as object::read::elf::FileHeader>::Sym| {
        [STT_FUNC, STT_GNU_IFUNC].contains(&symbol.st_type()) && !symbol.is_undefined(LittleEndian)
    };
    let function = |symbol: &<Header as object::read::elf::FileHeader>::Sym| Function {
        start: symbol.st_value(LittleEndian),
        bytes: symbol.st_size(LittleEndian),
        name_at: symbol.st_name(LittleEndian),
    };
    let functions: Vec<Function> = table.iter().filter(is_function).map(function).collect();
    if functions.is_empty() {
        return Ok(Symbols::default());
    }
    let names = elf.section_by_index(table.string_section())?.data()?.to_vec();
    Ok(Symbols::new(functions, names))
}

impl DebugFile {
    /// The symbols of the first debug file that belongs to the program.
    fn symbols(&self, pid: ProcessId, path: &str) -> Option<Symbols> {
        let files = self.paths(path).into_iter().filter_map(|path| opened_beside(pid, &path).ok());
        files.into_iter().find_map(|file| {
            let sum = file.try_clone().ok()?;
            let found = bounded(file, |data| Tables::read(data, 0)).ok()?;
            let is_it = match (&self.build_id, &self.link) {
                (Some(_), _) => found.debug.build_id == self.build_id,
                (None, Some((_, expected))) => checksum(sum).ok() == Some(*expected),
                (None, None) => false,
            };
            (is_it && found.is_whole).then_some(found.symbols)
        })
    }

    /// Where distributions and `objcopy` put it, in the process's own root.
    fn paths(&self, program: &str) -> Vec<String> {
        const FOLDER: &str = "/usr/lib/debug";
        let mut paths = Vec::new();
        if let Some([first, rest @ ..]) = self.build_id.as_deref() {
            let mut name = format!("{FOLDER}/.build-id/{first:02x}/");
            rest.iter().for_each(|byte| {
                let _always = write!(name, "{byte:02x}");
            });
            paths.push(name + ".debug");
        }
        // A link is the name of a file: one with a folder in it would lead anywhere.
        let link = self.link.as_ref().filter(|(name, _)| !name.contains('/') && name != "..");
        if let (Some((name, _)), Some((folder, _))) = (link, program.rsplit_once('/')) {
            paths.extend([
                format!("{folder}/{name}"),
                format!("{folder}/.debug/{name}"),
                format!("{FOLDER}{folder}/{name}"),
            ]);
        }
        paths
    }
}

/// Of the whole file, as a debug link has it.
fn checksum(mut file: File) -> io::Result<u32> {
    let mut hasher = crc32fast::Hasher::new();
    let mut part = vec![0; 64 << 10];
    file.rewind()?;
    loop {
        match file.read(&mut part)? {
            0 => return Ok(hasher.finalize()),
            bytes => hasher.update(&part[..bytes]),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_debug_file_is_sought_by_build_and_by_name() {
        let link = |name: &str| Some((name.to_owned(), 7));
        let both = DebugFile { build_id: Some(vec![0xab, 0x01, 0xff]), link: link("p.debug") };
        let expected = [
            "/usr/lib/debug/.build-id/ab/01ff.debug",
            "/opt/a/p.debug",
            "/opt/a/.debug/p.debug",
            "/usr/lib/debug/opt/a/p.debug",
        ];
        assert_eq!(both.paths("/opt/a/p"), expected);
        for name in ["../p", "/etc/passwd", ".."] {
            let outside = DebugFile { build_id: None, link: link(name) };
            assert!(outside.paths("/opt/a/p").is_empty(), "{name}");
        }
    }

    #[test]
    fn this_program_has_tables_and_its_own_functions() {
        let file = File::open("/proc/self/exe").unwrap();
        let tables = bounded(file, |data| Tables::read(data, 0)).unwrap();
        assert!(tables.unwind.eh_frame.is_some() && tables.is_whole && tables.bytes() > 1_000);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let header = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0".to_vec();
            let _read = Tables::read(&[header, bytes].concat()[..], 0);
        }
    }
}
