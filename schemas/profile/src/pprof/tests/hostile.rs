//! Bytes that are no profile, and profiles that mean harm.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use prost::Message;

use super::foreign::file;
use super::{SMALL, SMALL_GZIP};
use crate::limits::{
    DECODED_BYTES_MAX, ENCODED_BYTES_MAX, FRAMES_MAX, LINES_MAX, MESSAGE_BYTES_MAX, NAME_BYTES_MAX,
    SAMPLES_MAX, STRINGS_MAX,
};
use crate::pprof::messages::{
    Function, Label, Line, Location, ProfileMessage, SampleMessage, ValueTypeMessage,
};
use crate::pprof::{PprofError, decode, encode};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// The foreign file with a change.
fn changed(change: impl Fn(&mut ProfileMessage)) -> Result<(), PprofError> {
    let mut file = file();
    change(&mut file);
    decode(&file.encode_to_vec()).map(|_| ())
}

#[test]
fn references_to_nothing_are_refused() {
    type Change = fn(&mut ProfileMessage);
    let table: [(Change, &str); 18] = [
        (|f| f.sample_type.clear(), "no sample type"),
        (|f| f.string_table.clear(), "the string table does not start with an empty text"),
        (
            |f| f.string_table[0] = b"x".to_vec(),
            "the string table does not start with an empty text",
        ),
        (|f| f.sample_type[1].unit = 14, "text 14 is not in the string table of 14"),
        (|f| f.sample_type[1].kind = -1, "text -1 is not in the string table of 14"),
        (
            |f| f.default_sample_type = 1 << 40,
            "text 1099511627776 is not in the string table of 14",
        ),
        (|f| f.comment = vec![1, -9], "text -9 is not in the string table of 14"),
        (|f| f.function[0].filename = 99, "text 99 is not in the string table of 14"),
        (|f| f.sample[0].label[0].key = 99, "text 99 is not in the string table of 14"),
        (|f| f.sample[0].label[1].str = 99, "text 99 is not in the string table of 14"),
        (|f| f.function[0].id = 0, "a function has the id 0"),
        (|f| f.function[0].id = 500, "two functions have the id 500"),
        (|f| f.location[0].line[0].function_id = 3, "no function has the id 3"),
        (|f| f.location[0].id = 0, "a location has the id 0"),
        (|f| f.location[0].id = 12, "two locations have the id 12"),
        (|f| f.sample[1].location_id[1] = 5, "no location has the id 5"),
        (|f| f.sample[1].value.truncate(1), "a sample has 1 values of 2 sample types"),
        (
            |f| (0..2).for_each(|at| f.sample[at].value[1] = i64::MAX),
            "the sum of all values exceeds 2^63",
        ),
    ];
    for (change, text) in table {
        assert_eq!(changed(change), Err(PprofError::Malformed(text.to_owned())));
    }
    assert_eq!(changed(|f| f.sample[1].value[1] = -4), Err(PprofError::Negative(-4)));
}

#[test]
fn tables_without_an_end_are_refused() {
    let too_many = |what, max| PprofError::TooLarge { what, max };
    let field = |key: u8, times: usize| [key, 0].repeat(times);
    let table = [
        (field(0x32, STRINGS_MAX + 1), too_many("strings", STRINGS_MAX)),
        (field(0x12, SAMPLES_MAX + 1), too_many("samples", SAMPLES_MAX)),
        (field(0x0a, 17), too_many("sample types", 16)),
        (field(0x22, 65_537), too_many("locations", 65_536)),
    ];
    for (bytes, error) in table {
        assert_eq!(decode(&bytes), Err(error.clone()));
        assert_eq!(decode(&gzip(&bytes)), Err(error));
    }

    let function = |id| Function { id, ..Function::default() };
    let functions = ProfileMessage { function: (1..=65_537).map(function).collect(), ..file() };
    assert_eq!(decode(&functions.encode_to_vec()), Err(too_many("functions", 65_536)));
    let lines = |lines: usize| Location {
        line: vec![Line { function_id: 1, line: 0 }; lines],
        ..Default::default()
    };
    let inlined = ProfileMessage { location: vec![lines(20_000); 7], ..Default::default() };
    assert_eq!(decode(&inlined.encode_to_vec()), Err(too_many("lines", LINES_MAX)));

    let deep = SampleMessage { location_id: vec![12; 70_000], ..SampleMessage::default() };
    let error = too_many("bytes of one sample", MESSAGE_BYTES_MAX);
    assert_eq!(changed(|f| f.sample[0] = deep.clone()), Err(error));
}

#[test]
fn bombs_and_lengths_that_lie_are_refused() {
    let bomb = gzip(&vec![0x32; DECODED_BYTES_MAX + 1]);
    assert!(bomb.len() < 100_000);
    let text = |bytes: &[u8]| decode(bytes).unwrap_err().to_string();
    assert_eq!(text(&bomb), "more than 33554432 bytes once inflated");
    assert_eq!(text(&vec![0x1f; ENCODED_BYTES_MAX + 1]), "more than 8388608 bytes");

    let malformed = [
        &b"\x32\x80\x94\xeb\xdc\x03text"[..], // A text of 1,000,000,000 bytes.
        b"\x32\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x32\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x33",
        b"\x31abc",
        b"\x08",
    ];
    for bytes in malformed {
        assert_eq!(text(bytes), "the file is malformed", "{bytes:?}");
    }
    for bytes in [b"\x6a\x01\x80", b"\x22\x01\x08"] {
        assert_eq!(text(bytes), "an entry of the file is malformed");
    }
    assert!(matches!(decode(&SMALL_GZIP[..99]), Err(PprofError::Gzip(_))));
}

#[test]
fn what_is_too_long_to_keep_is_cut() {
    let mut long = file();
    long.string_table[8] = "é".repeat(1_000_000).into();
    long.string_table[10] = "x".repeat(NAME_BYTES_MAX + 1).into();
    long.location[0].line = vec![Line { function_id: 2, line: i64::MAX }; 1_000];
    // Without the other location it is as deep.
    long.sample[1].location_id = vec![77];
    let profile = decode(&long.encode_to_vec()).unwrap();
    let deepest = profile.samples().last().unwrap().stack;
    assert!(deepest.is_truncated());
    assert_eq!(deepest.frames().len(), FRAMES_MAX);
    let leaf = &deepest.frames()[127];
    assert_eq!((leaf.file.as_str().len(), leaf.line), (255, u32::MAX));
    assert_eq!(decode(&encode(&profile).unwrap()), Ok(profile));
}

#[test]
fn text_that_is_not_unicode_is_replaced() {
    let mut bytes = file().encode_to_vec();
    let at = bytes.windows(4).position(|part| part == b"work").unwrap();
    bytes[at + 1] = 0xff;
    let profile = decode(&bytes).unwrap();
    let work = &profile.samples().last().unwrap().stack.frames()[1];
    assert_eq!(work.function.as_str(), "w\u{fffd}rk");
}

/// What is read comes back as it was written.
fn check(bytes: &[u8]) {
    if let Ok(profile) = decode(bytes) {
        assert_eq!(decode(&encode(&profile).unwrap()), Ok(profile));
    }
}

/// A field of any kind with small numbers in it.
fn messages() -> impl Strategy<Value = ProfileMessage> {
    let index = || -1..9_i64;
    let id = || 0..4_u64;
    let types = (index(), index()).prop_map(|(kind, unit)| ValueTypeMessage { kind, unit });
    let label = (index(), index()).prop_map(|(key, str)| Label { key, str });
    let sample = (
        prop::collection::vec(id(), 0..4),
        prop::collection::vec(-1..50_i64, 2),
        prop::collection::vec(label, 0..2),
    );
    let sample =
        sample.prop_map(|(location_id, value, label)| SampleMessage { location_id, value, label });
    let line = (id(), -1..9_i64).prop_map(|(function_id, line)| Line { function_id, line });
    let location = (id(), prop::collection::vec(line, 0..3));
    let location =
        location.prop_map(|(id, line)| Location { id, mapping_id: 0, address: id, line });
    let function = (id(), index(), index(), index())
        .prop_map(|(id, name, system_name, filename)| Function { id, name, system_name, filename });
    let words = prop::sample::select(vec![
        "",
        "wall",
        "samples",
        "count",
        "thread",
        "state",
        "gil",
        "f",
        "plimsoll.samples_lost=4",
    ]);
    let tables = (
        prop::collection::vec(types, 2),
        prop::collection::vec(sample, 0..4),
        prop::collection::vec(location, 1..4),
        prop::collection::vec(function, 1..4),
        prop::collection::vec(words, 9),
    );
    (tables, any::<[i64; 2]>(), -1..12_i64, prop::collection::vec(index(), 0..4), index()).prop_map(
        |((sample_type, sample, location, function, words), times, period, comment, preferred)| {
            let mut string_table: Vec<Vec<u8>> = words.into_iter().map(Vec::from).collect();
            string_table[0].clear();
            ProfileMessage {
                sample_type,
                sample,
                location,
                function,
                string_table,
                time_nanos: times[0],
                duration_nanos: times[1],
                period,
                comment,
                default_sample_type: preferred,
                ..ProfileMessage::default()
            }
        },
    )
}

proptest! {
    #[test]
    fn damaged_files_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(),
    ) {
        for whole in [SMALL, SMALL_GZIP, &file().encode_to_vec()] {
            let mut bytes = whole.to_vec();
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            check(&bytes);
            check(&bytes[..end.index(bytes.len())]);
        }
    }

    #[test]
    fn tables_of_any_shape_are_read_or_refused(message in messages()) {
        check(&message.encode_to_vec());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&bytes);
        check(&gzip(&bytes));
    }
}
