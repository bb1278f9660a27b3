//! Reads a request body: each part is inflated and counted on arrival, so that nothing beyond the
//! limit is ever kept, and a compression bomb is stopped at the limit.

use std::io::{self, Write};

use crate::limits::{OTLP_BODY_BYTES_MAX, OTLP_BODY_TIMEOUT, OTLP_INFLATE_BYTES};
use axum::body::Body;
use flate2::write::GzDecoder;
use http_body_util::BodyExt;
use tokio::time::timeout;

use super::budget::BodyReservation;
use super::refusal::Refusal;

/// Bytes that a body begins with.
const FIRST_BYTES: usize = 4 * 1024;

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Identity,
    /// One member of gzip.
    Gzip,
}

impl Compression {
    /// As `content-encoding` and `grpc-encoding` name it.
    pub(super) fn named(name: &[u8]) -> Result<Self, Refusal> {
        match name.trim_ascii() {
            b"" => Ok(Self::Identity),
            name if name.eq_ignore_ascii_case(b"identity") => Ok(Self::Identity),
            name if name.eq_ignore_ascii_case(b"gzip") => Ok(Self::Gzip),
            _ => Err(Refusal::ContentEncoding),
        }
    }
}

/// A body that has come to its end, and the budget that it takes.
pub(super) struct CompleteBody {
    pub(super) bytes: Vec<u8>,
    _hold: BodyReservation,
}

/// Reads `body` to its end and hands over its parts, within the time for one.
pub(super) async fn read(
    mut body: Body,
    mut on_part: impl FnMut(&[u8]) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let parts = async {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Refusal::HungUp)?;
            if let Some(part) = frame.data_ref() {
                on_part(part)?;
            }
        }
        Ok(())
    };
    timeout(OTLP_BODY_TIMEOUT, parts).await.unwrap_or(Err(Refusal::TimedOut))
}

/// The part of a body that has come.
pub(super) struct PartialBody {
    sent: usize,
    kept: Sink,
}

enum Sink {
    Plain(Kept),
    Gzip(Box<GzDecoder<Kept>>),
}

/// What is kept of it, inflated.
struct Kept {
    bytes: Vec<u8>,
    reserve: BodyReservation,
    /// Why it took no more.
    refusal: Option<Refusal>,
}

impl PartialBody {
    pub(super) fn new(
        mut reserve: BodyReservation,
        compression: Compression,
    ) -> Result<Self, Refusal> {
        if compression == Compression::Gzip {
            // Its tables take memory before the first byte is inflated, and many requests may come
            // at once.
            reserve.grow(OTLP_INFLATE_BYTES)?;
        }
        let kept = Kept { bytes: Vec::new(), reserve, refusal: None };
        let kept = match compression {
            Compression::Identity => Sink::Plain(kept),
            Compression::Gzip => Sink::Gzip(Box::new(GzDecoder::new(kept))),
        };
        Ok(Self { sent: 0, kept })
    }

    pub(super) fn on_part(&mut self, part: &[u8]) -> Result<(), Refusal> {
        self.sent += part.len();
        // Also as it was sent: what inflates to nothing must end as well.
        if self.sent > OTLP_BODY_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        match &mut self.kept {
            Sink::Plain(kept) => kept.keep(part),
            Sink::Gzip(inflater) => {
                let written = inflater.write_all(part);
                written.map_err(|error| refused(inflater.get_mut(), &error))
            }
        }
    }

    pub(super) fn on_end(self) -> Result<CompleteBody, Refusal> {
        let kept = match self.kept {
            Sink::Plain(kept) => kept,
            Sink::Gzip(mut inflater) => {
                let finished = inflater.try_finish();
                finished.map_err(|error| refused(inflater.get_mut(), &error))?;
                inflater.finish().map_err(|error| Refusal::Malformed(format!("gzip: {error}")))?
            }
        };
        kept.reserve.on_whole(self.sent, kept.bytes.len());
        Ok(CompleteBody { bytes: kept.bytes, _hold: kept.reserve })
    }
}

fn refused(kept: &mut Kept, error: &io::Error) -> Refusal {
    let broken = || Refusal::Malformed(format!("gzip: {error}"));
    kept.refusal.take().unwrap_or_else(broken)
}

impl Kept {
    /// Takes budget before memory; lengths that a client states are not trusted.
    fn keep(&mut self, part: &[u8]) -> Result<(), Refusal> {
        let (needed, capacity) = (self.bytes.len() + part.len(), self.bytes.capacity());
        if needed > OTLP_BODY_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        if needed > capacity {
            let wanted = needed.max(2 * capacity).clamp(FIRST_BYTES, OTLP_BODY_BYTES_MAX);
            self.reserve.grow(wanted - capacity)?;
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
        self.bytes.extend_from_slice(part);
        Ok(())
    }
}

impl Write for Kept {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        match self.keep(part) {
            Ok(()) => Ok(part.len()),
            Err(refusal) => {
                self.refusal = Some(refusal);
                Err(io::ErrorKind::QuotaExceeded.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use axum::body::{Bytes, HttpBody};
    use hyper::body::Frame;

    use super::*;

    /// A body of which nothing comes.
    struct Silent;

    impl HttpBody for Silent {
        type Data = Bytes;
        type Error = axum::Error;

        fn poll_frame(
            self: Pin<&mut Self>,
            _context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_not_waited_for_for_ever() {
        // The paused clock advances only to the time that every task waits for.
        assert_eq!(read(Body::new(Silent), |_| Ok(())).await, Err(Refusal::TimedOut));
    }
}
