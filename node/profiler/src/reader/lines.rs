//! Lines of a code object, by its table: each version of CPython from 3.9 to 3.11 has its own form.

use crate::layout::LineTable;

/// Forms of an entry, in bits 3 to 6 of its first byte.
const ONE_LINE_FIRST: u8 = 10;
const ONE_LINE_LAST: u8 = 12;
const NO_COLUMNS: u8 = 13;
const LONG: u8 = 14;
const NO_LINE: u8 = 15;
const CODE_UNIT_BYTES: i64 = 2;

/// The line of the instruction at byte `offset`; the first line for a frame that has not started;
/// `None` when the instruction has no line, or the table does not reach it.
pub(super) fn line_at(form: LineTable, table: &[u8], first_line: u32, offset: i64) -> Option<u32> {
    if offset < 0 {
        return Some(first_line);
    }
    match form {
        LineTable::Steps => in_steps(table, first_line, offset),
        LineTable::Ranges => in_ranges(table, first_line, offset),
        LineTable::Locations => in_locations(table, first_line, offset),
    }
}

/// Of 3.9: pairs of how far the address and then the line go on.
fn in_steps(table: &[u8], first_line: u32, offset: i64) -> Option<u32> {
    let (mut address, mut line) = (0, i64::from(first_line));
    for pair in table.chunks_exact(2) {
        address += i64::from(pair[0]);
        if address > offset {
            break;
        }
        line += i64::from(pair[1].cast_signed());
    }
    u32::try_from(line).ok()
}

/// Of 3.10: pairs of a range's length and of the step to its line.
fn in_ranges(table: &[u8], first_line: u32, offset: i64) -> Option<u32> {
    const NO_LINE: i8 = -128;
    let (mut end, mut line) = (0, i64::from(first_line));
    for pair in table.chunks_exact(2) {
        end += i64::from(pair[0]);
        let step = pair[1].cast_signed();
        line += if step == NO_LINE { 0 } else { i64::from(step) };
        if offset < end {
            return (step != NO_LINE).then(|| u32::try_from(line).ok()).flatten();
        }
    }
    None
}

/// Of 3.11 and later. An entry is a byte with the highest bit set, which has its form and how many
/// code units it covers, and bytes without that bit. Only the difference to the line before is
/// needed; columns are skipped.
fn in_locations(table: &[u8], first_line: u32, offset: i64) -> Option<u32> {
    let mut line = i64::from(first_line);
    let mut end = 0;
    let mut at = 0;

    while let Some(&head) = table.get(at) {
        let body_bytes = table[at + 1..].iter().take_while(|byte| **byte < 0x80).count();
        let body = &table[at + 1..at + 1 + body_bytes];
        at += 1 + body_bytes;
        // Damage: what follows a head of an entry is skipped up to the next one.
        if head < 0x80 {
            continue;
        }

        let form = (head >> 3) & 15;
        line += match form {
            ONE_LINE_FIRST..=ONE_LINE_LAST => i64::from(form - ONE_LINE_FIRST),
            NO_COLUMNS | LONG => signed(body),
            _ => 0,
        };
        end += (i64::from(head & 7) + 1) * CODE_UNIT_BYTES;
        if offset < end {
            return (form != NO_LINE).then(|| u32::try_from(line).ok()).flatten();
        }
    }
    None
}

/// A number in groups of 6 bits, lowest first, whose lowest bit is its sign.
fn signed(body: &[u8]) -> i64 {
    // 5 groups hold 30 bits: the difference of two lines, which are 32-bit.
    const GROUPS_MAX: usize = 6;
    let mut value = 0_i64;
    for (group, byte) in body.iter().take(GROUPS_MAX).enumerate() {
        value |= i64::from(byte & 63) << (6 * group);
        if byte & 64 == 0 {
            break;
        }
    }
    if value & 1 == 0 { value >> 1 } else { -(value >> 1) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn head(form: u8, units: u8) -> u8 {
        0x80 | (form << 3) | (units - 1)
    }

    #[test]
    fn each_form_moves_the_line_as_it_states() {
        let table = [
            head(15, 1), // no line
            head(13, 2),
            4, // +2
            head(0, 1),
            0x11, // the same line
            head(11, 1),
            3,
            4, // +1
            head(14, 1),
            5,
            0,
            1,
            1, // -2
            head(13, 8),
            0x42,
            1, // +33
        ];
        let expected = [
            (-2, Some(10)),
            (0, None),
            (2, Some(12)),
            (5, Some(12)),
            (6, Some(12)),
            (8, Some(13)),
            (10, Some(11)),
            (12, Some(44)),
            (27, Some(44)),
            (28, None),
        ];
        for (offset, line) in expected {
            assert_eq!(line_at(LineTable::Locations, &table, 10, offset), line, "{offset}");
        }
    }

    /// What `code.co_lnotab` of 3.9 and `code.co_linetable` of 3.10 have for functions with a loop.
    #[test]
    fn tables_of_3_9_and_3_10_have_each_line() {
        let steps = [0, 1, 8, 3, 4, 0xfe, 6, 2];
        for (offset, line) in [(-1, 10), (0, 11), (7, 11), (8, 14), (12, 12), (18, 14), (900, 14)] {
            assert_eq!(line_at(LineTable::Steps, &steps, 10, offset), Some(line), "{offset}");
        }
        let ranges = [8, 1, 4, 3, 2, 0x80, 6, 0xfe];
        for (offset, line) in
            [(-2, Some(10)), (7, Some(11)), (8, Some(14)), (12, None), (14, Some(12)), (20, None)]
        {
            assert_eq!(line_at(LineTable::Ranges, &ranges, 10, offset), line, "{offset}");
        }
    }

    #[test]
    fn a_line_below_zero_is_none() {
        assert_eq!(line_at(LineTable::Locations, &[head(13, 1), 0x63, 1], 10, 0), None);
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_line_or_none(
            table in prop::collection::vec(any::<u8>(), 0..200), first: u32, offset: i64,
        ) {
            for form in [LineTable::Steps, LineTable::Ranges, LineTable::Locations] {
                let found = line_at(form, &table, first, offset);
                prop_assert!(offset >= 0 || found == Some(first));
            }
        }
    }
}
