//! The result of one scrape: a page, or the reason why there is none.

use std::time::Duration;

/// One scrape of a target.
#[derive(Debug)]
pub struct Scrape {
    /// The index of the target in the configuration.
    pub target: usize,
    /// Its duration from the connection to the last byte.
    pub took: Duration,
    /// Its result.
    pub page: Result<Page, Failure>,
}

/// A page of text.
#[derive(Debug)]
pub struct Page {
    /// Its format.
    pub format: Format,
    /// The body as far as it was received.
    pub body: Vec<u8>,
    /// Whether the body is known to be complete: its length was declared before or at its end.
    pub is_whole: bool,
}

/// The formats of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// 0.0.4 of Prometheus.
    Text,
    /// `OpenMetrics` 1.0, which marks the end of a page.
    OpenMetrics,
}

/// Why there is no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// No connection.
    Connect,
    /// No connection in time.
    ConnectTimeout,
    /// No response in time.
    AnswerTimeout,
    /// A response that did not end in time.
    BodyTimeout,
    /// A connection that ended before its response.
    Reset,
    /// A response that is not HTTP.
    Garbage,
    /// A status other than 200; redirects are not followed.
    Status,
    /// A body in an encoding that was not requested.
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
    /// The reason as a label.
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
    /// The complete lines, and the rest: a number that was cut off would be read as a smaller one,
    /// and that as a restart. The last line of a page that is known to be whole needs no line feed.
    ///
    /// # Errors
    /// When the end of the page is missing.
    pub(super) fn lines(&self) -> Result<(&[u8], &[u8]), Failure> {
        const EOF: &[u8] = b"# EOF";
        let text = self.body.trim_ascii_end();
        let is_ended = text.ends_with(EOF);
        if self.format == Format::OpenMetrics && !is_ended {
            return Err(Failure::Cut);
        }
        if is_ended || self.is_whole {
            return Ok((text, &[]));
        }
        let end = self.body.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        Ok(self.body.split_at(end))
    }
}
