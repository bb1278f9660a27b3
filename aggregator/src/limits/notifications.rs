//! Limits of notifications: queues, retries and posts.

use std::time::Duration;

/// Receivers in one configuration.
pub const RECEIVERS_MAX: usize = 32;
/// Alerts whose state is kept for Alertmanagers: each takes about 1 KiB of memory and of every
/// checkpoint. Further ones are not sent to Alertmanagers, and are counted.
pub const ALERTS_REPORTED_MAX: usize = 16_384;
/// Alerts in one post to an Alertmanager: about 128 KiB.
pub const ALERTS_A_POST_MAX: usize = 128;
/// Notifications queued for one webhook, without ends, of which there are at most
/// [`ALERTS_REPORTED_MAX`]. A further one replaces the oldest of a node, or else of the fleet.
pub const NOTIFICATIONS_WAITING_MAX: usize = 1_024;
/// Changes of alerts of nodes in the log, in one second.
pub const CHANGES_LOGGED_MAX: u32 = 64;
/// Attempts to deliver one notification.
pub const ATTEMPTS_MAX: u32 = 10;
/// Age at which a notification that a webhook has not accepted becomes undeliverable.
pub const NOTIFICATION_AGE_MAX: Duration = Duration::from_secs(3_600);
/// Time between two attempts to deliver an undeliverable end whose begin was delivered: without it
/// the incident stays open at the receiver.
pub const OWED_RETRY_EVERY: Duration = Duration::from_secs(300);
/// Age at which these attempts stop.
pub const OWED_AGE_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Age at which the end of an alert is no longer sent to an Alertmanager, which has resolved the
/// alert by itself by then.
pub const RESOLVED_AGE_MAX: Duration = Duration::from_secs(900);
/// Pause after the first failure; it doubles with each further one.
pub const RETRY_PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest pause.
pub const RETRY_PAUSE_MAX: Duration = Duration::from_secs(60);
/// The longest `Retry-After` that is honoured.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// Shortest and longest time between two posts of all alerts to an Alertmanager.
pub const RESEND_EVERY_MIN: Duration = Duration::from_secs(1);
/// See [`RESEND_EVERY_MIN`].
pub const RESEND_EVERY_MAX: Duration = Duration::from_secs(600);
/// An Alertmanager resolves an alert that it has not received for this many intervals,
pub const RESENDS_MISSED_MAX: u32 = 3;
/// or for this time if that is longer.
pub const ENDS_AFTER_MIN: Duration = Duration::from_secs(15);
/// Undeliverable notifications that the API lists. When there are more, the node with most of them,
/// or the fleet, gives up its oldest.
pub const UNDELIVERED_KEPT_MAX: usize = 256;
/// Time that one post may take, from the DNS lookup to the status of the response.
pub const POST_WAIT: Duration = Duration::from_secs(10);
/// Bytes of a response's head.
pub const ANSWER_HEAD_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a file with a secret, or of a template.
pub const SECRET_BYTES_MAX: u64 = 16 * 1024;
/// See [`SECRET_BYTES_MAX`].
pub const TEMPLATE_BYTES_MAX: u64 = 64 * 1024;
/// Bytes of an alert's identifier; PagerDuty accepts 255.
pub const ALERT_ID_BYTES_MAX: usize = 200;
/// Worst nodes that an annotation names.
pub const WORST_NAMED_MAX: usize = 3;
