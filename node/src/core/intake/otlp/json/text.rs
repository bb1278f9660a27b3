//! What OTLP's JSON writes as text or as a number of another kind: ids, bytes, whole numbers.

/// Hexadecimal text as bytes.
pub(super) fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|n| u8::try_from(n).ok());
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes().chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// Base64 of either alphabet as bytes, padded or not.
pub(super) fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let (mut held, mut bits, mut bytes) = (0_u32, 0, Vec::with_capacity(digits.len() / 4 * 3 + 2));
    for digit in digits {
        held = held << 6 | u32::from(six_bits(*digit)?);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xff).ok()?);
        }
    }
    // One digit alone holds no byte.
    (digits.len() % 4 != 1).then_some(bytes)
}

fn six_bits(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

/// A float that is a whole number, as `5.0` and `1e9` are.
#[expect(clippy::cast_possible_truncation, reason = "whole and below 2^64")]
pub(super) fn integral(value: f64) -> Option<i128> {
    (value.fract() == 0.0 && value.abs() < 18_446_744_073_709_551_616.0).then_some(value as i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_hexadecimal_of_either_case() {
        assert_eq!(hexadecimal("00Ff7a"), Some(vec![0, 255, 122]));
        assert_eq!(hexadecimal(""), Some(vec![]));
        for wrong in ["0", "0g", "é", "+1"] {
            assert_eq!(hexadecimal(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn base64_is_read_in_either_alphabet_with_and_without_padding() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zm8=", b"fo"),
            ("Zm8", b"fo"),
            ("Zm9vYmFy", b"foobar"),
            ("+/-_", b"\xfb\xff\xbf"),
        ] {
            assert_eq!(base64(text).as_deref(), Some(bytes), "{text}");
        }
        for wrong in ["Z", "Zm9vY", "Z*==", "Zm 8"] {
            assert_eq!(base64(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_float_is_a_whole_number_where_it_is_one() {
        assert_eq!((integral(5.0), integral(-1e9)), (Some(5), Some(-1_000_000_000)));
        assert_eq!((integral(0.5), integral(1e30), integral(f64::NAN)), (None, None, None));
    }
}
