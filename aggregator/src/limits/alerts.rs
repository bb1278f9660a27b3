//! Limits of alerts, silences and acknowledgements.

use std::time::Duration;

/// An alert flaps when it fires again within this time after it resolved.
pub const FLAP_WITHIN: Duration = Duration::from_secs(600);
/// Each flap doubles the clear evaluations that resolving takes, at most this often: 64 times.
pub const FLAP_DOUBLINGS_MAX: u32 = 6;
/// Time without firing after which earlier flaps no longer count.
pub const FLAPS_RESET_AFTER: Duration = Duration::from_secs(3_600);
/// Ends of older stretches that are looked at to see whether a breach has ended: the newest slots
/// with samples over the limit. Later ones are stray samples, since a breach is shown by itself.
pub const STRETCH_ENDS_MAX: usize = 16;
/// Nodes that the alert about all silent nodes names, as far as a label's value has room for them.
pub const SILENT_NODES_NAMED_MAX: usize = 10;
/// Receivers are notified again of how many nodes are silent if that has changed by at least this
/// part, at most so often,
pub const GROUP_CHANGE_PART: f64 = 0.25;
/// see [`GROUP_CHANGE_PART`]
pub const GROUP_CHANGED_EVERY: Duration = Duration::from_secs(60);
/// and of any change at most so often.
pub const GROUP_REPEATED_EVERY: Duration = Duration::from_secs(600);
/// Silences that are active or begin later.
pub const SILENCES_MAX: usize = 256;
pub const ACKNOWLEDGEMENTS_MAX: usize = 1_024;
/// Longest silence or acknowledgement; bounded, so that one that is never removed ends.
pub const SILENCE_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);
/// Bytes of the name of the operator in a silence or acknowledgement.
pub const BY_BYTES_MAX: usize = 64;
/// Bytes of its comment.
pub const COMMENT_BYTES_MAX: usize = 512;
/// Difference of the clocks of two aggregators up to which a shared silence has the same times at
/// both: a report is under way for less.
pub const SILENCE_CLOCKS_AGREE_WITHIN: Duration = Duration::from_secs(5);
/// Difference up to which its times are moved by it. So a report that an attacker sends again makes
/// a silence longer by this time at most.
pub const SILENCE_CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(3_600);
