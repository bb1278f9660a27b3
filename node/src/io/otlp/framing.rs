//! The message of a unary gRPC call: five bytes that say whether it is compressed and how long it
//! is, then the message. One in a request, and nothing after it.

use plimsoll_schemas::limits::node::OTLP_BODY_BYTES_MAX;

use super::body::{Coming, Compression, Whole};
use super::refusal::Refusal;
use super::room::Hold;

/// Bytes before a message.
const HEAD_BYTES: usize = 5;

/// The part of a request that has come.
pub(super) enum Framed {
    Head { hold: Hold, compression: Compression, head: [u8; HEAD_BYTES], has: usize },
    Message { left: usize, coming: Coming },
    Nothing,
}

impl Framed {
    /// Nothing yet of a request whose messages may be compressed so.
    pub(super) fn new(hold: Hold, compression: Compression) -> Self {
        Self::Head { hold, compression, head: [0; HEAD_BYTES], has: 0 }
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
        let Self::Head { hold, compression, head: [flag, a, b, c, d], .. } = self else {
            return Ok(self);
        };
        let compression = match (flag, compression) {
            (0, _) => Compression::Identity,
            (1, Compression::Gzip) => Compression::Gzip,
            (1, Compression::Identity) => {
                return Err(Refusal::Framing("the message is compressed; grpc-encoding says not"));
            }
            _ => return Err(Refusal::Framing("a message begins with 0 or 1")),
        };
        let left = u32::from_be_bytes([a, b, c, d]) as usize;
        if left > OTLP_BODY_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        Ok(Self::Message { left, coming: Coming::new(hold, compression)? })
    }

    pub(super) fn on_end(self) -> Result<Whole, Refusal> {
        match self {
            Self::Message { left: 0, coming } => coming.on_end(),
            _ => Err(Refusal::Framing("the message ends before its length")),
        }
    }
}
