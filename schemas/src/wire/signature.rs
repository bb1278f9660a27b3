//! The signature of what aggregators send: HMAC-SHA256 with a key that nodes and aggregators share.
//!
//! It is the last field of the map, so that it covers the very bytes before it, whatever fields a
//! later version puts there; a version without signatures skips it. It also covers the mesh and the
//! purpose. A forged confirmation would make a node give up the only copy of a message, a forged
//! silence hide an alert, and a forged order read the memory of a process.
//!
//! DESIGN S60.

use std::fmt;

use ring::hmac::{HMAC_SHA256, Key, sign, verify};
use thiserror::Error;

use crate::ids::MeshName;
use crate::limits::wire::{CONFIRM_KEY_BYTES, SIGNATURE_BYTES};

/// What stands before it: the field's name, and the length of what follows.
const MARK: &[u8] = b"\xa9signature\xc4\x20";
/// What is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A confirmation to a node.
    Confirmation,
    /// The silences of one aggregator.
    Silences,
    /// A request of a capture to a node.
    Capture,
}

impl Purpose {
    /// The begin of the text; no two are alike.
    const fn begin(self) -> &'static [u8] {
        match self {
            Self::Confirmation => b"plimsoll confirmation 1\0",
            Self::Silences => b"plimsoll silences 1\0",
            Self::Capture => b"plimsoll capture 1\0",
        }
    }
}

/// The key of confirmations. No log and no error contains it.
#[derive(Clone)]
pub struct ConfirmKey(Key);

/// Why a text is no key.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum KeyError {
    /// It has another character than a hexadecimal digit, or an odd number of digits.
    #[error("it is not an even number of hexadecimal digits, as `openssl rand -hex 32` prints")]
    Digits,
    /// Its length is out of bounds.
    #[error(
        "a key has {least} to {most} bytes, two digits each, as `openssl rand -hex 32` prints; it \
         has {0}",
        least = CONFIRM_KEY_BYTES.start(),
        most = CONFIRM_KEY_BYTES.end()
    )]
    Length(usize),
}

/// Why a confirmation is not that of an aggregator with the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureError {
    /// It has no signature.
    Unsigned,
    /// Its signature is that of another key, mesh or text.
    Wrong,
}

impl SignatureError {
    /// The reason as a label.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Unsigned => "unsigned",
            Self::Wrong => "signature",
        }
    }
}

impl ConfirmKey {
    /// The key that a text of hexadecimal digits states.
    ///
    /// # Errors
    /// When it is no key; the text of the error does not have it.
    pub fn from_hex(text: &str) -> Result<Self, KeyError> {
        let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
        let digits = digits.filter(|digits| digits.len() % 2 == 0).ok_or(KeyError::Digits)?;
        let byte = |pair: &[u32]| u8::try_from(pair[0] << 4 | pair[1]).ok();
        let bytes: Option<Vec<u8>> = digits.chunks_exact(2).map(byte).collect();
        let bytes = bytes.ok_or(KeyError::Digits)?;
        if !CONFIRM_KEY_BYTES.contains(&bytes.len()) {
            return Err(KeyError::Length(bytes.len()));
        }
        Ok(Self(Key::new(HMAC_SHA256, &bytes)))
    }

    /// Puts the signature into bytes that end with an empty one.
    pub(super) fn sign(&self, purpose: Purpose, mesh: &MeshName, bytes: &mut [u8]) {
        let (signed, place) = bytes.split_at_mut(bytes.len() - SIGNATURE_BYTES);
        place.copy_from_slice(sign(&self.0, &text(purpose, mesh, signed)).as_ref());
    }

    /// Checks, in constant time, that bytes were signed with this key for this purpose.
    ///
    /// # Errors
    /// When none has.
    pub fn verify(
        &self,
        purpose: Purpose,
        mesh: &MeshName,
        bytes: &[u8],
    ) -> Result<(), SignatureError> {
        let (signed, signature) =
            bytes.split_last_chunk::<SIGNATURE_BYTES>().ok_or(SignatureError::Unsigned)?;
        // What ends with other bytes is a confirmation of a version without signatures, or of none.
        if !signed.ends_with(MARK) {
            return Err(SignatureError::Unsigned);
        }
        verify(&self.0, &text(purpose, mesh, signed), signature).map_err(|_| SignatureError::Wrong)
    }
}

/// What is signed. A mesh's name has no byte of 0.
fn text(purpose: Purpose, mesh: &MeshName, signed: &[u8]) -> Vec<u8> {
    [purpose.begin(), mesh.as_str().as_bytes(), b"\0", signed].concat()
}

impl fmt::Debug for ConfirmKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";

    const OF: Purpose = Purpose::Confirmation;

    fn key() -> ConfirmKey {
        ConfirmKey::from_hex(HEX).unwrap()
    }

    fn mesh(name: &str) -> MeshName {
        MeshName::new(name).unwrap()
    }

    fn signed() -> Vec<u8> {
        let mut bytes = [b"anything", MARK, &[0; SIGNATURE_BYTES]].concat();
        key().sign(OF, &mesh("m"), &mut bytes);
        bytes
    }

    #[test]
    fn a_signature_is_of_one_key_one_mesh_and_each_byte() {
        assert_eq!(key().verify(OF, &mesh("m"), &signed()), Ok(()));
        assert_eq!(key().verify(OF, &mesh("n"), &signed()), Err(SignatureError::Wrong));
        for other in [Purpose::Silences, Purpose::Capture] {
            assert_eq!(key().verify(other, &mesh("m"), &signed()), Err(SignatureError::Wrong));
        }
        let other = ConfirmKey::from_hex(&HEX.replace("00", "ff")).unwrap();
        assert_eq!(other.verify(OF, &mesh("m"), &signed()), Err(SignatureError::Wrong));
        for at in 0..signed().len() {
            let mut changed = signed();
            changed[at] ^= 1;
            assert!(key().verify(OF, &mesh("m"), &changed).is_err(), "byte {at}");
        }
    }

    #[test]
    fn what_does_not_end_with_a_signature_is_unsigned() {
        let long = [&signed()[..], b"x"].concat();
        for bytes in [&b""[..], MARK, &[7; 64], &signed()[1..9], &long] {
            assert_eq!(key().verify(OF, &mesh("m"), bytes), Err(SignatureError::Unsigned));
        }
    }

    #[test]
    fn a_key_is_long_hexadecimal_and_never_printed() {
        let error = |text: &str| ConfirmKey::from_hex(text).unwrap_err();
        assert_eq!(error(&HEX[2..]), KeyError::Length(31));
        assert_eq!(error(&HEX[1..]), KeyError::Digits);
        assert_eq!(
            error("no key, but as long as one, with some blanks between its words.."),
            KeyError::Digits
        );
        assert_eq!(error(&"ab".repeat(129)), KeyError::Length(129));
        assert_eq!(error(""), KeyError::Length(0));
        assert_eq!(format!("{:?}", key()), "***");
    }
}
