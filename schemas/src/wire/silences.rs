//! The silences of one aggregator, for the others of its mesh: those that it has, whoever began
//! them, and those that have ended before their time.
//!
//! DESIGN A170.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteArray;

use super::error::{SCHEMA, WireError};
use super::messagepack;
use super::signature::{ConfirmKey, Purpose};
use crate::alert::{Silence, SilenceOrigin};
use crate::ids::MeshName;
use crate::limits::wire::{
    SHARED_SILENCES_BYTES_MAX, SHARED_SILENCES_ENDED_MAX, SHARED_SILENCES_MAX, SIGNATURE_BYTES,
};
use crate::time::Wall;

/// What one aggregator knows of silences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedSilences {
    /// When this was reported, by the clock that all its times are of; 0 in a report of an earlier
    /// version.
    pub at: Wall,
    /// Those that hold or are yet to begin.
    pub silences: Vec<(SilenceOrigin, Silence)>,
    /// Those that an operator has ended, and until when they would have held.
    pub ended: Vec<(SilenceOrigin, Wall)>,
}

#[derive(Serialize, Deserialize)]
struct Envelope {
    schema: u16,
    silences: Vec<(SilenceOrigin, Silence)>,
    ended: Vec<(SilenceOrigin, Wall)>,
    #[serde(rename = "at_ns", default)]
    at: Wall,
    /// The last field, see [`super::signature`]; the bytes that stand here are put in afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none", skip_deserializing)]
    signature: Option<ByteArray<SIGNATURE_BYTES>>,
}

/// The bytes of a report, signed if there is a key.
///
/// # Panics
/// Never: names, numbers and texts can always be written.
#[must_use]
pub fn encode(shared: &SharedSilences, mesh: &MeshName, key: Option<&ConfirmKey>) -> Vec<u8> {
    let SharedSilences { at, silences, ended } = shared.clone();
    let signature = key.map(|_| ByteArray::new([0; SIGNATURE_BYTES]));
    let envelope = Envelope { schema: SCHEMA, silences, ended, at, signature };
    // Cannot fail: MessagePack expresses maps, numbers and text.
    let mut bytes = rmp_serde::to_vec_named(&envelope).expect("a report can always be written");
    if let Some(key) = key {
        key.sign(Purpose::Silences, mesh, &mut bytes);
    }
    bytes
}

/// Reads a report; its signature is checked by [`ConfirmKey::verify`].
///
/// # Errors
/// On anything that is not exactly one report within its bounds.
pub fn decode(bytes: &[u8]) -> Result<SharedSilences, WireError> {
    if bytes.len() > SHARED_SILENCES_BYTES_MAX {
        return Err(WireError::TooLarge { bytes: bytes.len(), max: SHARED_SILENCES_BYTES_MAX });
    }
    let mut rest = bytes;
    let Envelope { schema, silences, ended, at, .. } =
        messagepack::read(&mut rest).map_err(|error| WireError::Shape(error.to_string()))?;
    if schema != SCHEMA {
        return Err(WireError::Schema(schema));
    }
    if !rest.is_empty() {
        return Err(WireError::Trailing(rest.len()));
    }
    if silences.len() > SHARED_SILENCES_MAX {
        return Err(WireError::Bounds { field: "silences" });
    }
    if ended.len() > SHARED_SILENCES_ENDED_MAX {
        return Err(WireError::Bounds { field: "ended" });
    }
    Ok(SharedSilences { at, silences, ended })
}

#[cfg(test)]
mod tests {
    use super::super::signature::SignatureError;
    use super::*;
    use crate::alert::{NamePattern, SilenceMatch};
    use crate::ids::AggregatorName;

    fn origin(id: u64) -> SilenceOrigin {
        let aggregator = AggregatorName::new("a").unwrap();
        SilenceOrigin { aggregator, id, created: Wall(7) }
    }

    fn silence() -> Silence {
        let rule = Some(NamePattern::new("epoch_*").unwrap());
        Silence {
            matches: SilenceMatch { rule, ..SilenceMatch::default() },
            by: "ann".to_owned(),
            comment: "a drill".to_owned(),
            from: Wall(1_000_000_000),
            until: Wall(2_500_000_000),
        }
    }

    #[test]
    fn a_report_is_read_as_it_was_written_and_no_part_of_it_can_change() {
        let shared = SharedSilences {
            at: Wall(3),
            silences: vec![(origin(1), silence())],
            ended: vec![(origin(2), Wall(9))],
        };
        let mesh = MeshName::new("m").unwrap();
        let key = ConfirmKey::from_hex(&"5a".repeat(32)).unwrap();
        assert_eq!(decode(&encode(&shared, &mesh, None)), Ok(shared.clone()));
        let signed = encode(&shared, &mesh, Some(&key));
        assert_eq!(decode(&signed), Ok(shared));
        assert_eq!(key.verify(Purpose::Silences, &mesh, &signed), Ok(()));
        let confirmation = key.verify(Purpose::Confirmation, &mesh, &signed);
        assert_eq!(confirmation, Err(SignatureError::Wrong));
        for at in 0..signed.len() {
            let mut changed = signed.clone();
            changed[at] ^= 1;
            assert!(key.verify(Purpose::Silences, &mesh, &changed).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_report_of_an_earlier_version_has_no_time_of_its_own() {
        #[derive(Serialize)]
        struct Before {
            schema: u16,
            silences: Vec<(SilenceOrigin, Silence)>,
            ended: Vec<(SilenceOrigin, Wall)>,
        }
        let silences = vec![(origin(1), silence())];
        let before = Before { schema: SCHEMA, silences: silences.clone(), ended: Vec::new() };
        let read = decode(&rmp_serde::to_vec_named(&before).unwrap());
        assert_eq!(read, Ok(SharedSilences { silences, ..SharedSilences::default() }));
    }

    #[test]
    fn what_is_no_report_is_refused() {
        let mesh = MeshName::new("m").unwrap();
        let many = SharedSilences {
            silences: vec![(origin(1), silence()); SHARED_SILENCES_MAX + 1],
            ..SharedSilences::default()
        };
        let refused = decode(&encode(&many, &mesh, None));
        assert_eq!(refused, Err(WireError::Bounds { field: "silences" }));
        let mut long = encode(&SharedSilences::default(), &mesh, None);
        long.push(0);
        assert_eq!(decode(&long), Err(WireError::Trailing(1)));
        for bytes in [&b""[..], b"x", b"\x80", &[0xff; 64]] {
            assert!(decode(bytes).is_err(), "{bytes:?}");
        }
    }
}
