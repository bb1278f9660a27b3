//! Finds a byte in short text and compares short texts, eight bytes at a time.
//!
//! Functions for long text are slower here: `memchr` took a quarter of a line's instructions, and
//! the C library's `memcmp` of two empty slices up to 70 ns, because it loads from their dangling
//! pointers and the processor has to suppress the fault.

const LOW: u64 = u64::from_le_bytes([0x01; 8]);
const HIGH: u64 = u64::from_le_bytes([0x80; 8]);

#[inline]
pub(crate) fn find(byte: u8, text: &[u8]) -> Option<usize> {
    let pattern = u64::from_le_bytes([byte; 8]);
    let (words, rest) = text.as_chunks::<8>();
    for (n, word) in words.iter().enumerate() {
        // An equal byte becomes zero; the position of the lowest zero byte is exact.
        let equal = u64::from_le_bytes(*word) ^ pattern;
        let zeros = equal.wrapping_sub(LOW) & !equal & HIGH;
        if zeros != 0 {
            return Some(n * 8 + zeros.trailing_zeros() as usize / 8);
        }
    }
    let at = rest.iter().position(|other| *other == byte)?;
    Some(text.len() - rest.len() + at)
}

/// Takes what stands before the next `byte` off the front of `rest`, and the byte with it.
#[inline]
pub(crate) fn take_until<'a>(byte: u8, rest: &mut &'a [u8]) -> &'a [u8] {
    let (text, after) = match find(byte, rest) {
        Some(end) => (&rest[..end], &rest[end + 1..]),
        None => (*rest, &[][..]),
    };
    *rest = after;
    text
}

#[inline]
pub(crate) fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let ((one, one_rest), (other, other_rest)) = (one.as_chunks::<8>(), other.as_chunks::<8>());
    let words = one.iter().zip(other);
    let rests = one_rest.iter().zip(other_rest);
    words.fold(true, |same, (a, b)| same & (u64::from_le_bytes(*a) == u64::from_le_bytes(*b)))
        && rests.fold(true, |same, (a, b)| same & (a == b))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn texts_are_the_same_when_all_their_bytes_are(
            text in prop::collection::vec(any::<u8>(), 0..40),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut other = text.clone();
            prop_assert!(is_same(&text, &other));
            if let Some(changed) = (!text.is_empty()).then(|| &mut other[at.index(text.len())]) {
                *changed = byte;
            }
            prop_assert_eq!(is_same(&text, &other), text == other);
            other.push(byte);
            prop_assert!(!is_same(&text, &other) || text == other);
        }

        #[test]
        fn a_byte_is_found_where_a_plain_search_finds_it(
            text in prop::collection::vec(
                prop_oneof![Just(b'|'), Just(b'}'), Just(0xfc), any::<u8>()], 0..40,
            ),
            byte in prop_oneof![Just(b'|'), any::<u8>()],
        ) {
            prop_assert_eq!(find(byte, &text), text.iter().position(|other| *other == byte));
        }
    }
}
