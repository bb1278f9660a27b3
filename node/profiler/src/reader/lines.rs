//! Lines of a code object: its location table, as CPython 3.11 and later write it.
//!
//! An entry is a byte with the highest bit set, which has its form and how many code units it
//! covers, and bytes without that bit. Only the difference to the line before is needed; columns
//! are skipped.

/// Forms of an entry, in bits 3 to 6 of its first byte.
const ONE_LINE_FIRST: u8 = 10;
const ONE_LINE_LAST: u8 = 12;
const NO_COLUMNS: u8 = 13;
const LONG: u8 = 14;
const NO_LINE: u8 = 15;
const CODE_UNIT_BYTES: i64 = 2;

/// The line of the instruction at byte `offset`; the first line for a frame that has not started;
/// `None` when the instruction has no line, or the table does not reach it.
pub(super) fn line_at(table: &[u8], first_line: u32, offset: i64) -> Option<u32> {
    if offset < 0 {
        return Some(first_line);
    }
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
            assert_eq!(line_at(&table, 10, offset), line, "{offset}");
        }
    }

    #[test]
    fn a_line_below_zero_is_none() {
        assert_eq!(line_at(&[head(13, 1), 0x63, 1], 10, 0), None);
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_line_or_none(
            table in prop::collection::vec(any::<u8>(), 0..200), first: u32, offset: i64,
        ) {
            let found = line_at(&table, first, offset);
            prop_assert!(offset >= 0 || found == Some(first));
        }
    }
}
