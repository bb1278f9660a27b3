//! The result of one scrape: a page, or the reason why there is none.

use std::fmt;
use std::time::Duration;

use plimsoll_schemas::labelled;

#[derive(Debug)]
pub struct Scrape {
    /// The index of the target in the configuration.
    pub target: usize,
    /// Its duration from the connection to the last byte.
    pub took: Duration,
    pub page: Result<Page, ScrapeFailure>,
}

/// Why a scrape brought no page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrapeFailure {
    /// The kind of failure, by which it is counted.
    pub kind: Failure,
    /// What the target or the system answered, in one line; empty if nothing.
    pub cause: String,
}

impl From<Failure> for ScrapeFailure {
    fn from(kind: Failure) -> Self {
        Self { kind, cause: String::new() }
    }
}

/// What went wrong, and after the last `; ` what ends it.
impl fmt::Display for ScrapeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, cause } = self;
        let (what, fix) = kind.in_words();
        match cause.as_str() {
            "" => write!(f, "{what}; {fix}"),
            cause => write!(f, "{what}: {cause}; {fix}"),
        }
    }
}

#[derive(Debug)]
pub struct Page {
    pub format: Format,
    /// The body as far as it was received.
    pub body: Vec<u8>,
    /// Whether the body is known to be complete: its length was declared before or at its end.
    pub is_whole: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// 0.0.4 of Prometheus.
    Text,
    /// `OpenMetrics` 1.0, which marks the end of a page.
    OpenMetrics,
}

labelled! {
    /// Why there is no page.
    pub enum Failure {
        Connect = "connect",
        /// No connection in time.
        ConnectTimeout = "connect_timeout",
        /// No response in time.
        AnswerTimeout = "answer_timeout",
        /// A response that did not end in time.
        BodyTimeout = "body_timeout",
        /// A connection that ended before its response.
        Reset = "reset",
        /// A response that is not HTTP.
        Garbage = "garbage",
        /// A status below 400 other than 200; redirects are not followed.
        Redirect = "status_3xx",
        /// A status of 400 to 499.
        Refused = "status_4xx",
        /// A status of 500 and more.
        ServerError = "status_5xx",
        /// A body in an encoding that was not requested.
        Encoding = "encoding",
        /// A body of another type than Prometheus text.
        Type = "type",
        /// More bytes than a page may have.
        TooLong = "too_long",
        /// No room beside the pages of other targets.
        Crowded = "crowded",
        /// A page without the end that its format demands.
        Cut = "cut",
    }
}

impl Failure {
    /// The kind of failure that a status other than 200 is.
    pub const fn of_status(status: u16) -> Self {
        match status {
            0..400 => Self::Redirect,
            400..500 => Self::Refused,
            _ => Self::ServerError,
        }
    }

    /// What went wrong, and the setting or the step that ends it.
    const fn in_words(self) -> (&'static str, &'static str) {
        const SLOW: &str = "raise scrape.timeout_seconds, or make the target answer sooner";
        match self {
            Self::Connect => ("no connection", "start the target, or correct scrape.url"),
            Self::ConnectTimeout => ("no connection in time", SLOW),
            Self::AnswerTimeout => ("no response in time", SLOW),
            Self::BodyTimeout => ("the page did not end in time", SLOW),
            Self::Reset => (
                "the connection ended before the page did",
                "see the log of the target, which closed the connection",
            ),
            Self::Garbage => {
                ("the response is not HTTP", "set scrape.url to a port that serves plain http")
            }
            Self::Redirect => {
                ("the target has no page there", "set scrape.url to the address of the page")
            }
            Self::Refused => (
                "the target refuses the page",
                "correct the path of scrape.url, or let the target answer without credentials, \
                 which a scrape cannot send",
            ),
            Self::ServerError => ("the target failed", "see the log of the target"),
            Self::Encoding => (
                "the page is compressed, which was not requested",
                "let the target send it uncompressed",
            ),
            Self::Type => (
                "the page is not Prometheus text",
                "set scrape.url to a page of text/plain or application/openmetrics-text, since no \
                 setting takes another type",
            ),
            Self::TooLong => (
                "the page is longer than 4 MiB",
                "let the target export less (scrape.allow applies after the page was read)",
            ),
            Self::Crowded => (
                "the pages of all targets together are too long",
                "scrape large pages less often with scrape.every_seconds",
            ),
            Self::Cut => (
                "the page does not end with # EOF, as OpenMetrics requires",
                "see the log of the target",
            ),
        }
    }
}

impl Page {
    /// The complete lines, and the rest: a number that was cut off would be read as a smaller one,
    /// and that as a restart. The last line of a page that is known to be whole needs no line feed.
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
