//! What OTLP's JSON writes as text or as a number of another kind: ids, bytes, whole numbers.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::NO_PAD;

/// The last digit may have bits that belong to no byte: producers are not asked to clear them.
const UNPADDED: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, NO_PAD.with_decode_allow_trailing_bits(true));

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
    let digits = text.trim_end_matches('=').replace('-', "+").replace('_', "/");
    UNPADDED.decode(digits).ok()
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
            ("Zh", b"f"),
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
