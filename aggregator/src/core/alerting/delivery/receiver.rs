//! Receivers of notifications: how each is notified, what is posted, and what it answers.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_schemas::alert::Notification;
use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::time::Wall;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// Its name; no two have the same. Rules name receivers in their routes.
    pub name: Arc<str>,
    /// How it is notified.
    pub kind: ReceiverKind,
    /// It is not notified of alerts of lower severity.
    pub severity_min: Severity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverKind {
    /// Of all active alerts, again and again.
    Alertmanager {
        /// Time from the begin of one round to the next.
        resend_every: Duration,
    },
    /// Of each change once.
    Webhook {
        /// Whether it is sent the ends of alerts: `resolved` of its section.
        resolved: bool,
        /// Whether it is sent acknowledgements; of the shipped templates only `pagerduty` is.
        acknowledged: bool,
    },
}

/// Something to be posted now.
#[derive(Clone, Debug)]
pub struct Post {
    pub receiver: Arc<str>,
    pub body: Body,
}

#[derive(Clone, Debug)]
pub enum Body {
    /// The JSON of `/api/v2/alerts`.
    Alerts(Vec<u8>),
    /// A notification, which the receiver's template makes a body of.
    Notification(Box<Notification>),
}

/// How a post ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Taken,
    Refused(&'static str),
    /// It failed: the reason, and how long the receiver requires to wait before the next try.
    Failed(&'static str, Option<Duration>),
}

impl Answer {
    /// What a status of HTTP means. Redirects are not followed: the target was never configured.
    pub fn of_status(status: u16, retry_after: Option<Duration>) -> Self {
        match status {
            200..=299 => Self::Taken,
            408 | 425 | 429 => Self::Failed("status_4xx", retry_after),
            300..=399 => Self::Refused("status_3xx"),
            400..=499 => Self::Refused("status_4xx"),
            _ => Self::Failed("status_5xx", retry_after),
        }
    }

    /// Why a post was not taken, and after the last `; ` what ends it. `cause` is what the receiver
    /// or the system answered.
    pub fn explained(self, cause: &str) -> String {
        let fix = match self.as_str() {
            "status_3xx" => "set the receiver's url to the new address",
            "status_4xx" => "correct the receiver's url, its token or headers, or its template",
            "connect" => "start the receiver, or correct its url",
            "tls" => "give the receiver's authority with ca_file, or correct its url",
            "garbage" => {
                "set the receiver's url to a port that serves http or https, as the url has it"
            }
            "panic" | "task" => "see the log of the aggregator",
            _ => "see the log of the receiver",
        };

        let what = match (self, cause) {
            (Self::Failed("timeout", _), "") => "no response in time",
            (_, "") => self.as_str(),
            (_, cause) => cause,
        };

        format!("{what}; {fix}")
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Refused(why) | Self::Failed(why, _) => why,
        }
    }
}

/// How many notifications wait, and since when the oldest is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    pub notifications: u64,
    /// `None` when none does.
    pub oldest: Option<Wall>,
}

impl Waits {
    pub(super) fn and(self, known_at: Wall) -> Self {
        let oldest = self.oldest.map_or(known_at, |oldest| oldest.min(known_at));
        Self { notifications: self.notifications + 1, oldest: Some(oldest) }
    }
}

impl Receiver {
    pub(super) fn is_meant(&self, severity: Severity, routes: &[String]) -> bool {
        severity >= self.severity_min
            && (routes.is_empty() || routes.iter().any(|route| **route == *self.name))
    }
}
