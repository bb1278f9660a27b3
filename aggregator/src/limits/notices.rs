//! What it takes to tell people, and when to give up on it.

use std::time::Duration;

/// Receivers in one configuration.
pub const RECEIVERS_MAX: usize = 32;
/// Alerts whose standing is kept for Alertmanagers: each takes about 1 KiB of memory and of every
/// checkpoint. One more is not told to them, and counted.
pub const ALERTS_TOLD_MAX: usize = 16_384;
/// Alerts in one post to an Alertmanager: about 128 KiB.
pub const ALERTS_A_POST_MAX: usize = 128;
/// Notices that wait for one webhook, but for ends, of which there are no more than
/// [`ALERTS_TOLD_MAX`]; one more pushes out the oldest of a node, or of the fleet if all are.
pub const NOTICES_WAITING_MAX: usize = 1_024;
/// Attempts at one notice.
pub const ATTEMPTS_MAX: u32 = 10;
/// Age at which a notice is given up that a webhook has not taken.
pub const NOTICE_AGE_MAX: Duration = Duration::from_secs(3_600);
/// Time between two attempts at an end that was given up, though its receiver was told of the
/// begin, which would stay open there.
pub const OWED_RETRY_EVERY: Duration = Duration::from_secs(300);
/// Age at which such an end is given up for good.
pub const OWED_AGE_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Age at which the end of an alert is given up that an Alertmanager has not taken. It has long
/// taken the alert for ended itself by then.
pub const RESOLVED_AGE_MAX: Duration = Duration::from_secs(900);
/// Pause after the first failure; it doubles with each further one.
pub const RETRY_PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest pause.
pub const RETRY_PAUSE_MAX: Duration = Duration::from_secs(60);
/// The longest pause that a receiver may ask for.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// Shortest and longest time between two posts of all alerts to an Alertmanager.
pub const RESEND_EVERY_MIN: Duration = Duration::from_secs(1);
/// See [`RESEND_EVERY_MIN`].
pub const RESEND_EVERY_MAX: Duration = Duration::from_secs(600);
/// An Alertmanager takes an alert for ended that it has not heard of for so many such times,
pub const RESENDS_MISSED_MAX: u32 = 3;
/// or for so long, if that is longer.
pub const ENDS_AFTER_MIN: Duration = Duration::from_secs(15);
/// Notices given up that are kept to be shown.
pub const UNDELIVERED_KEPT_MAX: usize = 256;
/// Time that one post may take, from the look-up of the name to the status of the answer.
pub const POST_WAIT: Duration = Duration::from_secs(10);
/// Bytes of an answer's head.
pub const ANSWER_HEAD_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a file with a secret, or of a template.
pub const SECRET_BYTES_MAX: u64 = 16 * 1024;
/// See [`SECRET_BYTES_MAX`].
pub const TEMPLATE_BYTES_MAX: u64 = 64 * 1024;
/// Bytes of an identifier of an alert; PagerDuty takes 255.
pub const ALERT_ID_BYTES_MAX: usize = 200;
/// Worst nodes that an annotation names.
pub const WORST_NAMED_MAX: usize = 3;
