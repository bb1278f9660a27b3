//! The message of a unary gRPC call: five bytes hold its compression flag and its length, then the
//! message follows. A request holds one message, and nothing after it.

use crate::limits::OTLP_BODY_BYTES_MAX;

use super::body::{CompleteBody, Compression, PartialBody};
use super::budget::BodyReservation;
use super::refusal::Refusal;

/// Bytes before a message.
const HEAD_BYTES: usize = 5;

/// The part of a request that has come.
pub(super) enum Framed {
    Head { reserve: BodyReservation, compression: Compression, head: [u8; HEAD_BYTES], has: usize },
    Message { left: usize, coming: PartialBody },
    Nothing,
}

impl Framed {
    /// Nothing yet of a request whose messages may be compressed so.
    pub(super) fn new(reserve: BodyReservation, compression: Compression) -> Self {
        Self::Head { reserve, compression, head: [0; HEAD_BYTES], has: 0 }
    }

    pub(super) fn on_part(&mut self, mut part: &[u8]) -> Result<(), Refusal> {
        if let Self::Head { head, has, .. } = self {
            let taken = part.len().min(HEAD_BYTES - *has);
            head[*has..*has + taken].copy_from_slice(&part[..taken]);
            (*has, part) = (*has + taken, &part[taken..]);
            if *has < HEAD_BYTES {
                return Ok(());
            }
            *self = std::mem::replace(self, Self::Nothing).begun()?;
        }

        let Self::Message { left, coming } = self else { return Ok(()) };
        if part.len() > *left {
            return Err(Refusal::Framing("a unary call has one message; this has more"));
        }
        *left -= part.len();
        coming.on_part(part)
    }

    /// Once the head is whole.
    fn begun(self) -> Result<Self, Refusal> {
        let Self::Head { reserve, compression, head: [flag, a, b, c, d], .. } = self else {
            return Ok(self);
        };

        let compression = match (flag, compression) {
            (0, _) => Compression::Identity,
            (1, Compression::Gzip) => Compression::Gzip,
            (1, Compression::Identity) => {
                return Err(Refusal::Framing(
                    "the message is compressed; grpc-encoding is not set",
                ));
            }
            _ => return Err(Refusal::Framing("a message starts with 0 or 1")),
        };

        // Believed only to refuse: memory is taken as bytes come.
        let left = u32::from_be_bytes([a, b, c, d]) as usize;
        if left > OTLP_BODY_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        Ok(Self::Message { left, coming: PartialBody::new(reserve, compression)? })
    }

    pub(super) fn on_end(self) -> Result<CompleteBody, Refusal> {
        match self {
            Self::Message { left: 0, coming } => coming.on_end(),
            _ => Err(Refusal::Framing("the message ends before its length")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::super::budget::BodyBudget;
    use super::super::stats::RequestSource;
    use super::*;

    fn taken<'a>(
        compression: Compression,
        mut parts: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Vec<u8>, Refusal> {
        let budget = Arc::new(BodyBudget::default());
        let record = budget.begin(RequestSource { protocol: "grpc", signal: "none" });
        let mut framed = Framed::new(record.reserve()?, compression);
        let came = parts.try_for_each(|part| framed.on_part(part));
        let whole = came.and_then(|()| framed.on_end());
        let bytes = whole.map(|whole| whole.bytes.clone());
        assert!(!budget.is_occupied(), "what is over leaves nothing behind");
        assert_eq!(budget.requests().buffered_bytes, 0);
        bytes
    }

    proptest! {
        #[test]
        fn however_a_message_is_cut_the_same_is_taken(
            message in prop::collection::vec(any::<u8>(), 0..300),
            flag in 0..2_u8,
            extra in prop::collection::vec(any::<u8>(), 0..2),
            size in 1..20_usize,
        ) {
            let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(&message).unwrap();
            let packed = if flag == 1 { gzip.finish().unwrap() } else { message.clone() };
            let length = u32::try_from(packed.len()).unwrap().to_be_bytes();
            let request = [&[flag], &length[..], &packed, &extra].concat();
            let cut = taken(Compression::Gzip, request.chunks(size));
            prop_assert_eq!(&cut, &taken(Compression::Gzip, std::iter::once(&request[..])));
            prop_assert_eq!(cut.is_ok(), extra.is_empty());
            prop_assert!(cut.is_err() || cut == Ok(message));
        }

        #[test]
        fn no_bytes_panic_or_leave_anything_behind(
            request in prop::collection::vec(any::<u8>(), 0..200),
            size in 1..20_usize,
        ) {
            for compression in [Compression::Identity, Compression::Gzip] {
                let cut = taken(compression, request.chunks(size));
                let whole = taken(compression, std::iter::once(&request[..]));
                prop_assert_eq!(cut.is_ok(), whole.is_ok());
            }
        }
    }
}
