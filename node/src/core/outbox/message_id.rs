//! Ids by which a stream recognises a message that it has already.
//!
//! A stream answers a publish with an id that it has as a duplicate, no matter which client used it
//! first, and stores nothing. So an id has a part that no one else can compute.
//!
//! DESIGN N80.

use std::fmt;

use plimsoll_schemas::ids::{Incarnation, Seq};
use ring::digest::{SHA256, digest};

/// Bytes of a nonce, and of the part of an id that follows from it.
const NONCE_BYTES: usize = 16;

/// What makes the ids of an incarnation's messages unpredictable; it never leaves the machine. Zero
/// for messages of versions without one, whose ids have no such part.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageNonce(pub [u8; NONCE_BYTES]);

impl MessageNonce {
    /// Whether it is that of messages without one.
    pub(crate) fn is_none(self) -> bool {
        self == Self::default()
    }
}

impl fmt::Debug for MessageNonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// What is sent under an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdOf {
    /// The message, whose first this many ids were found to be taken.
    Message(u32),
    /// Its copy, sent again this many times after the broker had acknowledged it: a broker that
    /// lost a message may still have its id.
    Copy(u32),
    Letter,
}

/// The id of what is sent of a message of `node`.
pub fn message_id(
    node: &str,
    incarnation: Incarnation,
    seq: Seq,
    of: IdOf,
    nonce: MessageNonce,
) -> String {
    let name = format!("{node}-{incarnation}-{seq}");
    let name = match of {
        IdOf::Message(0) => name,
        IdOf::Message(taken) => format!("{name}-t{taken}"),
        IdOf::Copy(resends) => format!("{name}-r{resends}"),
        IdOf::Letter => format!("{name}-dead"),
    };
    // Of a version without a nonce: under another id a stream that has it would store it twice.
    if nonce.is_none() {
        return name;
    }
    // Of each id another, so that no id reveals the next one.
    let secret = digest(&SHA256, &[&nonce.0, name.as_bytes()].concat());
    secret.as_ref()[..NONCE_BYTES].iter().fold(name + "-", |id, byte| format!("{id}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(of: IdOf, nonce: u8) -> String {
        message_id("n", Incarnation(7), Seq(3), of, MessageNonce([nonce; NONCE_BYTES]))
    }

    #[test]
    fn without_a_nonce_ids_are_those_of_earlier_versions() {
        let of = [IdOf::Message(0), IdOf::Copy(2), IdOf::Letter, IdOf::Message(1)];
        let ids = of.map(|of| id(of, 0));
        assert_eq!(ids, ["n-7-3", "n-7-3-r2", "n-7-3-dead", "n-7-3-t1"]);
    }

    #[test]
    fn no_id_tells_another_one() {
        let of = [IdOf::Message(0), IdOf::Message(1), IdOf::Copy(1), IdOf::Letter];
        let ids = of.map(|of| id(of, 1));
        // printf 'n-7-3' after sixteen bytes of 1 | sha256sum
        assert_eq!(ids[0], "n-7-3-e2c6aacf35c0f06ba002d527bcc73e5c");
        let secrets = ids.map(|id| id.rsplit('-').next().unwrap().to_owned());
        let all: std::collections::BTreeSet<_> = secrets.iter().collect();
        assert_eq!((all.len(), secrets[0].len()), (4, 2 * NONCE_BYTES));
        assert_ne!(id(IdOf::Message(0), 2), id(IdOf::Message(0), 1));
        assert_eq!(format!("{:?}", MessageNonce([1; NONCE_BYTES])), "***");
    }
}
