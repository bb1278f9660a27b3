//! What is remembered of alerts, and of what people say about them.

use std::time::Duration;

/// An alert that fires again so soon after it resolved flaps.
pub const FLAP_WITHIN: Duration = Duration::from_secs(600);
/// Each flap doubles how many clear evaluations it takes to resolve, so often: 64 times as many.
pub const FLAP_DOUBLINGS_MAX: u32 = 6;
/// Calm after which former flaps count no more.
pub const FLAPS_FORGOTTEN_AFTER: Duration = Duration::from_secs(3_600);
/// Silences that hold or are yet to begin.
pub const SILENCES_MAX: usize = 256;
/// Alerts that someone looks after.
pub const ACKNOWLEDGEMENTS_MAX: usize = 1_024;
/// How long somebody may be silent about something: what is forgotten must come back.
pub const SILENCE_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);
/// Bytes of the name of whoever asked for silence.
pub const BY_BYTES_MAX: usize = 64;
/// Bytes of the reason.
pub const COMMENT_BYTES_MAX: usize = 512;
/// Bytes of the token that whoever changes state must show, at least: 16 random letters are
/// beyond guessing.
pub const TOKEN_BYTES_MIN: usize = 16;
