//! The text of a pull request and of its replies. Pure, total on any text.
//!
//! DESIGN S23.

use crate::limits::{PULL_BYTES_MAX, PULL_EXPIRES, PULL_HEARTBEAT, PULL_MESSAGES_MAX};
use plimsoll_schemas::time::{Wall, nanos};
use serde_json::{Value, json};

/// The position of a message, from its reply subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamPosition {
    /// Its number in the stream.
    pub(crate) stream_seq: u64,
    /// Its number among the messages of this consumer; counts from 1 without a gap.
    pub(crate) consumer_seq: u64,
    /// When the broker stored it; `None` for a malformed time, for which no message is dropped.
    pub(crate) stored: Option<Wall>,
    pub(crate) pending: u64,
}

impl StreamPosition {
    /// Reads `$JS.ACK.<stream>.<consumer>.<tries>.<seq>.<consumer seq>.<time>.<pending>`, or
    /// the longer form, which has a domain and an account before the stream and may have
    /// anything behind.
    pub(crate) fn parse(reply: &str) -> Option<Self> {
        let reply = reply.strip_prefix("$JS.ACK.")?;
        let before = match reply.bytes().filter(|byte| *byte == b'.').count() {
            6 => 3,
            8.. => 5,
            _ => return None,
        };

        let mut numbers = reply.split('.').skip(before).map(|token| token.parse::<u64>().ok());
        let mut number = || numbers.next().flatten();

        Some(Self {
            stream_seq: number()?,
            consumer_seq: number()?,
            stored: number().filter(|nanos| *nanos > 0).map(Wall),
            pending: number()?,
        })
    }
}

/// The status of a message without content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PullStatus {
    /// The broker is alive and has nothing.
    Alive,
    /// The request has ended; send another.
    Finished,
    /// The next message is larger than the requested bytes; request it alone.
    TooLarge,
    /// The consumer is gone or about to be.
    Gone,
}

impl PullStatus {
    /// Reads a status line.
    pub(crate) fn parse(status: u16, description: &str) -> Self {
        match status {
            100 => Self::Alive,
            404 | 408 => Self::Finished,
            409 if description.eq_ignore_ascii_case("Message Size Exceeds MaxBytes") => {
                Self::TooLarge
            }
            409 if description.eq_ignore_ascii_case("Batch Completed") => Self::Finished,
            _ => Self::Gone,
        }
    }
}

/// Size of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PullSize {
    /// As much as may be under way.
    Many,
    /// One message of any size.
    One,
}

impl PullSize {
    /// Messages after which the request is used up.
    pub(crate) const fn messages(self) -> usize {
        match self {
            Self::Many => PULL_MESSAGES_MAX,
            Self::One => 1,
        }
    }
}

/// A request: the broker waits until it has messages, sends all that it has by then, and reports
/// the end. So it does not forward each message as it arrives, which costs both sides extra work
/// per message.
pub(crate) fn request(size: PullSize) -> Value {
    let mut request = json!({
        "batch": size.messages(),
        "no_wait": true,
        "expires": nanos(PULL_EXPIRES),
        "idle_heartbeat": nanos(PULL_HEARTBEAT),
    });
    if size == PullSize::Many {
        request["max_bytes"] = PULL_BYTES_MAX.into();
    }
    request
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_forms_of_a_reply_subject_are_read() {
        let stored = Some(Wall(1_700_000_000));
        let position = Some(StreamPosition { stream_seq: 42, consumer_seq: 7, stored, pending: 3 });
        assert_eq!(StreamPosition::parse("$JS.ACK.S.c.1.42.7.1700000000.3"), position);
        assert_eq!(StreamPosition::parse("$JS.ACK.hub.acc.S.c.1.42.7.1700000000.3"), position);
        assert_eq!(StreamPosition::parse("$JS.ACK._.acc.S.c.1.42.7.1700000000.3.random"), position);
        let timeless =
            Some(StreamPosition { stream_seq: 42, consumer_seq: 7, stored: None, pending: 3 });
        assert_eq!(StreamPosition::parse("$JS.ACK.S.c.1.42.7.-5.3"), timeless);
        assert_eq!(StreamPosition::parse("$JS.ACK.S.c.1.42.7.1700000000"), None);
        assert_eq!(StreamPosition::parse("$JS.ACK.S.c.1.42.x.1700000000.3"), None);
        assert_eq!(StreamPosition::parse("_INBOX.x"), None);
    }

    #[test]
    fn an_ended_request_differs_from_an_ended_consumer() {
        for (status, description, expected) in [
            (100, "Idle Heartbeat", PullStatus::Alive),
            (404, "No Messages", PullStatus::Finished),
            (408, "Request Timeout", PullStatus::Finished),
            (409, "Batch Completed", PullStatus::Finished),
            (409, "Message Size Exceeds MaxBytes", PullStatus::TooLarge),
            (409, "Consumer Deleted", PullStatus::Gone),
            (409, "Server Shutdown", PullStatus::Gone),
            (503, "", PullStatus::Gone),
        ] {
            assert_eq!(PullStatus::parse(status, description), expected, "{status} {description}");
        }
    }

    proptest! {
        #[test]
        fn any_reply_subject_is_survived(reply in "(\\$JS\\.ACK\\.)?[0-9a-z.]{0,40}") {
            let _ = StreamPosition::parse(&reply);
        }

        #[test]
        fn numbers_come_out_as_they_went_in(seq: u64, consumer: u64, at: u64, pending: u64) {
            let reply = format!("$JS.ACK.S.c.1.{seq}.{consumer}.{at}.{pending}");
            let stored = (at > 0).then_some(Wall(at));
            let (stream_seq, consumer_seq) = (seq, consumer);
            let position = StreamPosition { stream_seq, consumer_seq, stored, pending };
            prop_assert_eq!(StreamPosition::parse(&reply), Some(position));
        }
    }
}
