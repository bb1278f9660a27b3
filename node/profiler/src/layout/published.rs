//! The offsets that CPython 3.13 and later publish about themselves at the head of the runtime.
//!
//! They come from the target's memory, so each is checked before it is used.

use super::{
    CODE_PLACES, CurrentFrame, EntryMark, Frames, GilPlace, Instructions, Layout, ThreadNumber,
    Version,
};
use crate::limits::{FIELD_OFFSET_MAX, RUNTIME_OFFSET_MAX};
use crate::memory::word;

/// What the record starts with.
const COOKIE: [u8; 8] = *b"xdebugpy";
/// Bytes that hold all offsets of interest.
pub const RECORD_BYTES: usize = 86 * 8;
/// Behind the fields of an ASCII string, others have the length of their UTF-8 form and its
/// address.
const UTF8_FIELDS_BYTES: usize = 16;

/// The header of the record.
#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    pub version: Version,
    pub is_free_threaded: bool,
}

/// `None` when there is no such record.
pub fn head(record: &[u8]) -> Option<Head> {
    record.starts_with(&COOKIE).then(|| Head {
        version: Version::from_hex(word(record, 8)),
        is_free_threaded: word(record, 16) != 0,
    })
}

/// The layout of a version with a record; `None` when an offset is no offset, or the version is
/// new.
pub fn layout(record: &[u8], version: Version) -> Option<Layout> {
    // 3.14 has more fields in between; the last ones are of the collector.
    let (interpreter, thread, frame, code, text, collector) = match (version.major, version.minor) {
        (3, 13) => (6, 19, 28, 34, 70, 72),
        (3, 14) => (6, 22, 31, 39, 80, 82),
        _ => return None,
    };
    let more = usize::from(version.minor >= 14);
    // By the number of the word in the record.
    let offset = |at: usize, max: usize| {
        usize::try_from(word(record, at * 8)).ok().filter(|offset| *offset <= max)
    };
    let of_runtime = |at| offset(at, RUNTIME_OFFSET_MAX);
    let of_field = |at| offset(at, FIELD_OFFSET_MAX);

    let (chunk, owner) = (of_field(thread + 7)?, of_field(frame + 5)?);
    let frames = match more {
        0 => Frames::ByDepth { chunk, entry: EntryMark::Owner(owner) },
        _ => Frames::ByPointer { chunk, owner, generator: of_field(85)? },
    };
    let ascii_text = of_field(text)?;
    Some(Layout {
        interpreters_head: of_runtime(5)?,
        gil: GilPlace::ByInterpreter(of_runtime(interpreter + 8 + more)?),
        interpreter_next: of_runtime(interpreter + 2)?,
        threads_head: of_runtime(interpreter + 3)?,
        collecting: of_runtime(interpreter + 4 + more)? + of_field(collector)?,
        current_frame: CurrentFrame::InThread(of_field(thread + 4)?),
        thread_number: ThreadNumber::InThread(of_field(thread + 6)?),
        frame_code: of_field(frame + 2)?,
        frame_previous: of_field(frame + 1)?,
        frames,
        code: CODE_PLACES,
        first_line: of_field(code + 5)?,
        instructions: Instructions::Inside(of_field(code + 9)?),
        ascii_text,
        other_text: ascii_text + UTF8_FIELDS_BYTES,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record whose every word is its own number, but for the head.
    fn record(version: u64) -> Vec<u8> {
        let mut words: Vec<u64> = (0..100).collect();
        words[0] = u64::from_ne_bytes(COOKIE);
        words[1] = version;
        words[2] = 0;
        words.into_iter().flat_map(u64::to_ne_bytes).collect()
    }

    #[test]
    fn the_head_has_cookie_version_and_build() {
        let head = head(&record(0x030d_00f0)).expect("the cookie is there");
        assert_eq!((head.version.to_string().as_str(), head.is_free_threaded), ("3.13.0", false));
        assert_eq!(super::head(&[0; 16]), None);
    }

    #[test]
    fn an_offset_that_is_none_is_refused() {
        let version = Version { major: 3, minor: 13, micro: Some(0) };
        assert!(layout(&record(0), version).is_some());
        let large = FIELD_OFFSET_MAX as u64 + 1;
        for (place, damaged) in [(23, large), (23, u64::MAX), (5, 1 << 40)] {
            let mut record = record(0);
            record[place * 8..][..8].copy_from_slice(&damaged.to_ne_bytes());
            assert_eq!(layout(&record, version), None);
        }
        assert_eq!(layout(&record(0), Version { minor: 15, ..version }), None);
    }

    #[test]
    fn each_field_comes_from_its_place_in_the_record() {
        let of = |minor| layout(&record(0), Version { major: 3, minor, micro: None });
        let found = of(13).expect("all are small");
        assert_eq!((found.interpreters_head, found.gil), (5, GilPlace::ByInterpreter(14)));
        assert_eq!(found.current_frame, CurrentFrame::InThread(23));
        assert_eq!(found.thread_number, ThreadNumber::InThread(25));
        assert_eq!((found.frame_code, found.first_line, found.collecting), (30, 39, 10 + 72));
        assert_eq!((found.ascii_text, found.other_text), (70, 86));

        let found = of(14).expect("all are small");
        assert_eq!((found.threads_head, found.gil), (9, GilPlace::ByInterpreter(15)));
        assert_eq!((found.current_frame, found.collecting), (CurrentFrame::InThread(26), 11 + 82));
        assert_eq!(found.frames, Frames::ByPointer { chunk: 29, owner: 36, generator: 85 });
        assert_eq!(found.instructions, Instructions::Inside(48));
    }
}
