//! A numbered frame from a client library to its node over a stream socket: what the client has
//! merged since its last frame.
//!
//! Four bytes of length (big-endian), then one MessagePack map. The node answers with eight
//! bytes (big-endian): the seq up to which it has recorded this client's frames. A frame without
//! an answer is in no sealed snapshot, so it may be sent again under its seq; the node records each
//! seq of a client at most once. Reading trusts no stated length.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::error::WireError;
use super::latency::LatencyBody;
use super::messagepack;
use super::snapshot::Latency;
use crate::ids::{IdError, Seq, check_token};
use crate::limits::wire::{COUNT_MAX, FRAME_BYTES_MAX};

/// The frame version that this library writes and reads.
pub const VERSION: u16 = 1;
/// Bytes before each frame that hold its length.
pub const PREFIX_BYTES: usize = 4;
/// Bytes of each answer.
pub const ANSWER_BYTES: usize = 8;

/// One frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The client's name, random for each process: letters, digits, `_` and `-`.
    pub client: String,
    /// The frame's number, from 1.
    pub seq: Seq,
    /// Samples above one hour, which `latency` counts as one hour.
    pub clamped: u64,
    /// What it brings.
    pub latency: Latency,
    /// True when the client ends normally: no frame without this follows.
    pub last: bool,
}

/// Why bytes were no frame; the connection they came on cannot be read any further.
#[derive(Debug, Error, PartialEq)]
pub enum FrameError {
    /// A length that no frame has.
    #[error("a frame of {bytes} bytes, more than {FRAME_BYTES_MAX}")]
    TooLarge {
        /// The length of the frame.
        bytes: usize,
    },
    /// Not MessagePack of the expected shape.
    #[error("not a frame: {0}")]
    Shape(String),
    /// A version that this node does not support.
    #[error("frame version {0} is not {VERSION}; client and node must match")]
    Version(u16),
    /// An invalid client name.
    #[error(transparent)]
    Client(#[from] IdError),
    /// A number out of its bounds.
    #[error("{field} is out of bounds")]
    Bounds {
        /// The field at fault.
        field: &'static str,
    },
    /// An invalid distribution or number.
    #[error(transparent)]
    Latency(#[from] WireError),
}

#[derive(Serialize, Deserialize)]
struct FrameBody<'a> {
    version: u16,
    client: String,
    seq: u64,
    #[serde(default)]
    clamped: u64,
    #[serde(borrow)]
    latency: LatencyBody<'a>,
    /// Nodes that do not know it ignore it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    last: bool,
}

/// Just enough to distinguish a later version from garbage.
#[derive(Deserialize)]
struct Version {
    version: u16,
}

/// A frame with its length before it, ready to be written.
///
/// # Errors
/// When it takes more than `FRAME_BYTES_MAX`: then it must be cut.
pub fn encode(frame: &Frame) -> Result<Vec<u8>, FrameError> {
    let body = FrameBody {
        version: VERSION,
        client: frame.client.clone(),
        seq: frame.seq.0,
        clamped: frame.clamped,
        latency: LatencyBody::of(&frame.latency),
        last: frame.last,
    };

    let mut bytes = vec![0; PREFIX_BYTES];
    rmp_serde::encode::write_named(&mut bytes, &body)
        .map_err(|error| FrameError::Shape(error.to_string()))?;
    // Known only once it is written: its place was left free before it.
    let length = bytes.len() - PREFIX_BYTES;
    let fits = u32::try_from(length).ok().filter(|_| length <= FRAME_BYTES_MAX);
    let prefix = fits.ok_or(FrameError::TooLarge { bytes: length })?;
    bytes[..PREFIX_BYTES].copy_from_slice(&prefix.to_be_bytes());
    Ok(bytes)
}

/// The length of the frame that follows `prefix`.
///
/// # Errors
/// When no frame is so long.
pub fn length(prefix: [u8; PREFIX_BYTES]) -> Result<usize, FrameError> {
    let bytes = usize::try_from(u32::from_be_bytes(prefix)).unwrap_or(usize::MAX);
    if bytes > FRAME_BYTES_MAX {
        return Err(FrameError::TooLarge { bytes });
    }
    Ok(bytes)
}

/// Reads one frame, without its length.
///
/// # Errors
/// On anything that is not exactly one well-formed frame.
pub fn decode(bytes: &[u8]) -> Result<Frame, FrameError> {
    let mut rest = bytes;
    let body: FrameBody<'_> =
        messagepack::read(&mut rest).map_err(|error| explain(bytes, &error))?;
    if body.version != VERSION {
        return Err(FrameError::Version(body.version));
    }
    check_token("client", &body.client)?;

    let bounds = [
        ("seq", (1..=COUNT_MAX).contains(&body.seq)),
        ("clamped", body.clamped <= COUNT_MAX),
        ("length", rest.is_empty()),
    ];

    if let Some((field, _)) = bounds.into_iter().find(|(_, right)| !right) {
        return Err(FrameError::Bounds { field });
    }
    let latency = body.latency.check()?;
    let FrameBody { client, seq, clamped, last, .. } = body;
    Ok(Frame { client, seq: Seq(seq), clamped, latency, last })
}

fn explain(bytes: &[u8], error: &rmp_serde::decode::Error) -> FrameError {
    match messagepack::read(&mut &*bytes) {
        Ok(Version { version }) if version != VERSION => FrameError::Version(version),
        _ => FrameError::Shape(error.to_string()),
    }
}

impl FrameError {
    /// A bounded label for counters.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "too_large",
            Self::Shape(_) => "shape",
            Self::Version(_) => "version",
            Self::Client(_) => "client",
            Self::Bounds { .. } => "bounds",
            Self::Latency(error) => error.reason(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::histogram::Histogram;
    use crate::ids::{Operation, Series};

    fn frame() -> Frame {
        let series = |name| Series::plain(Operation::new(name).unwrap());
        let mut histogram = Histogram::default();
        (1..400_u64).for_each(|ms| histogram.record(ms * 100_000));
        let latency = Latency {
            histograms: vec![(series("epoch_hook"), histogram)],
            counters: vec![(series("tokens"), 12.0)],
            gauges: vec![(series("loss"), 0.25)],
        };
        Frame { client: "job-1".to_owned(), seq: Seq(7), clamped: 1, latency, last: false }
    }

    fn body(frame: &Frame) -> Vec<u8> {
        encode(frame).unwrap()[PREFIX_BYTES..].to_vec()
    }

    #[test]
    fn what_was_written_comes_back() {
        let bytes = encode(&frame()).unwrap();
        let (prefix, body) = bytes.split_first_chunk().unwrap();
        assert_eq!(length(*prefix), Ok(body.len()));
        assert_eq!(decode(body), Ok(frame()));
        let last = Frame { last: true, ..frame() };
        assert_eq!(decode(&self::body(&last)), Ok(last));
    }

    #[test]
    fn every_wrong_frame_has_its_reason() {
        for (wrong, reason) in [
            (Frame { client: String::new(), ..frame() }, "client"),
            (Frame { client: "a b".to_owned(), ..frame() }, "client"),
            (Frame { seq: Seq(0), ..frame() }, "bounds"),
            (Frame { seq: Seq(u64::MAX), ..frame() }, "bounds"),
            (Frame { clamped: u64::MAX, ..frame() }, "bounds"),
        ] {
            assert_eq!(decode(&body(&wrong)).unwrap_err().reason(), reason);
        }
        let mut twice = frame();
        twice.latency.gauges.push(twice.latency.gauges[0].clone());
        assert_eq!(decode(&body(&twice)).unwrap_err().reason(), "duplicate_series");
        assert_eq!(decode(b"\x81\xa7version\x02"), Err(FrameError::Version(2)));
        assert_eq!(decode(b"").unwrap_err().reason(), "shape");
        assert_eq!(length([0xff; 4]), Err(FrameError::TooLarge { bytes: 0xffff_ffff }));
        let trailing = [body(&frame()), vec![0]].concat();
        assert_eq!(decode(&trailing), Err(FrameError::Bounds { field: "length" }));
    }

    proptest! {
        #[test]
        fn one_flipped_bit_never_panics(bit in 0..body(&frame()).len() * 8) {
            let mut bytes = body(&frame());
            bytes[bit / 8] ^= 1 << (bit % 8);
            let _: Result<_, FrameError> = decode(&bytes);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _: Result<_, FrameError> = decode(&bytes);
        }
    }
}
