//! What a look at a target brought: a page, or nothing for a reason.

use std::time::Duration;

/// One look at a target.
#[derive(Debug)]
pub struct Scrape {
    /// Which, in the order of the configuration.
    pub target: usize,
    /// How long it took, from the connection to the last byte.
    pub took: Duration,
    /// What it brought.
    pub page: Result<Page, Failure>,
}

/// A page of text.
#[derive(Debug)]
pub struct Page {
    /// Which text.
    pub format: Format,
    /// All that came of it.
    pub body: Vec<u8>,
    /// Whether it is known that nothing is missing: its length was told before or at its end.
    pub is_whole: bool,
}

/// The formats of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// 0.0.4 of Prometheus.
    Text,
    /// `OpenMetrics` 1.0, which says where a page ends.
    OpenMetrics,
}

/// Why there is no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// No connection.
    Connect,
    /// No connection in time.
    ConnectTimeout,
    /// No answer in time.
    AnswerTimeout,
    /// An answer that did not end in time.
    BodyTimeout,
    /// A connection that ended before its answer did.
    Reset,
    /// An answer that is not HTTP.
    Garbage,
    /// A status other than 200; redirects are not followed.
    Status,
    /// A body in an encoding that nobody asked for.
    Encoding,
    /// A body of another type than Prometheus text.
    Type,
    /// More bytes than a page may have.
    TooLong,
    /// No room beside the pages of other targets.
    Crowded,
    /// A page without the end that its format demands.
    Cut,
}

impl Failure {
    /// The reason's value as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::ConnectTimeout => "connect_timeout",
            Self::AnswerTimeout => "answer_timeout",
            Self::BodyTimeout => "body_timeout",
            Self::Reset => "reset",
            Self::Garbage => "garbage",
            Self::Status => "status",
            Self::Encoding => "encoding",
            Self::Type => "type",
            Self::TooLong => "too_long",
            Self::Crowded => "crowded",
            Self::Cut => "cut",
        }
    }
}

impl Page {
    /// The lines that have an end, and what stands behind them: a number that was cut reads as a
    /// smaller one, and a smaller one as a restart.
    ///
    /// # Errors
    /// When the page has no end.
    pub(super) fn lines(&self) -> Result<(&[u8], &[u8]), Failure> {
        const EOF: &[u8] = b"# EOF";
        let text = self.body.trim_ascii_end();
        let is_ended = text.ends_with(EOF);
        if self.format == Format::OpenMetrics && !is_ended {
            return Err(Failure::Cut);
        }
        if is_ended {
            return Ok((text, &[]));
        }
        let end = self.body.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        Ok(self.body.split_at(end))
    }
}
