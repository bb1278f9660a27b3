//! Settings of delivery: outbox, emergency lane, circuit breaker, dead letters, spool.

use std::path::PathBuf;
use std::time::Duration;

use crate::limits;
use plimsoll_runtime::directory;
use serde::Deserialize;

use super::confirm::ConfirmSettings;
use crate::core::outbox::OutboxBounds;
use crate::core::outbox::Thresholds;
use crate::core::outbox::UnconfirmedBounds;

/// The `[outbox]` section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct OutboxSettings {
    /// Messages produced and not yet acknowledged by the broker; merged ones count for all that
    /// they stand for. From here on hardware readings and bus reports are dropped and counted,
    /// until `leave_messages` are left.
    pub messages_max: usize,
    /// Bytes of these messages, at least 1 MiB. Samples that do not fit are dropped and counted.
    pub bytes_max: usize,
    /// High watermark: from here on the newest messages take the emergency lane. So they do from
    /// half of `bytes_max`.
    pub reroute_messages: usize,
    /// Low watermark: here dropping and rerouting end, with at most an eighth of `bytes_max`.
    pub leave_messages: usize,
    /// Maximum duration of conservative mode, in which only the emergency lane is sent, 1 to 3600
    /// seconds.
    pub conservative_seconds: u64,
    /// Messages in the outbox above which adjacent ones are merged: the time of their samples
    /// becomes less precise.
    pub coalesce_messages: usize,
    /// Bytes in the outbox above which adjacent messages are merged.
    pub coalesce_bytes: usize,
    /// Unconfirmed messages: copies of acknowledged messages, kept until an aggregator confirms
    /// them.
    pub unconfirmed_messages: usize,
    /// Bytes of these copies.
    pub unconfirmed_bytes: usize,
    /// Age in seconds at which a message that was never sent is dropped and counted as `expired`; 0
    /// means never.
    pub ttl_seconds: u64,
}

/// The `[emergency]` section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EmergencySettings {
    /// Messages per minute. Further messages wait and are counted.
    pub per_minute: u32,
    /// Messages in one burst; more than `reserved`.
    pub burst: u32,
    /// Part of the burst that is reserved for critical messages, such as the final message.
    pub reserved: u32,
}

/// The `[breaker]` section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct BreakerSettings {
    /// Consecutive messages that the broker rejects or does not acknowledge in time, after which
    /// sending stops.
    pub failures: u32,
    /// Seconds until one message is sent as a probe, 1 to 3600.
    pub open_seconds: u64,
}

/// The `[dead_letter]` section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DeadLetterSettings {
    /// Refusals by the broker after which a message becomes a dead letter, if it may be accepted
    /// later: its stream is full or missing, or a permission is. At least 1.
    pub refusals: u32,
    /// Shortest time in seconds between two refusals of a message that count, 1 to 3600.
    pub every_seconds: u64,
}

/// The `[spool]` section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SpoolSettings {
    /// Directory of the spool, created if missing. Default none: messages are in memory only. With
    /// it, OTLP and frames are answered once what they brought is noted there.
    pub path: Option<PathBuf>,
    /// Whether each write is synced to the disk. Synced writes survive a power failure, others only
    /// a crash of the process. Costs one sync per interval on a separate thread; messages wait for
    /// it.
    pub sync: bool,
}

impl SpoolSettings {
    /// Checks that the directory is there or can be created, as far as its path shows it.
    pub(super) fn check(&self) -> Result<(), String> {
        self.path.as_deref().map_or(Ok(()), |path| directory::check("spool.path", path))
    }
}

impl Default for SpoolSettings {
    fn default() -> Self {
        Self { path: None, sync: true }
    }
}

impl Default for OutboxSettings {
    fn default() -> Self {
        Self {
            messages_max: limits::OUTBOX_MESSAGES_MAX,
            bytes_max: limits::OUTBOX_BYTES_MAX,
            reroute_messages: plimsoll_schemas::limits::delivery::REROUTE_MESSAGES,
            leave_messages: limits::RECOVER_MESSAGES,
            conservative_seconds: limits::CONSERVATIVE_MAX.as_secs(),
            coalesce_messages: limits::COALESCE_MESSAGES,
            coalesce_bytes: limits::COALESCE_BYTES,
            unconfirmed_messages: limits::UNCONFIRMED_MESSAGES_MAX,
            unconfirmed_bytes: limits::UNCONFIRMED_BYTES_MAX,
            ttl_seconds: 0,
        }
    }
}

impl Default for EmergencySettings {
    fn default() -> Self {
        Self {
            per_minute: limits::EMERGENCY_PER_MINUTE,
            burst: limits::EMERGENCY_BURST,
            reserved: limits::EMERGENCY_RESERVED,
        }
    }
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures: limits::BREAKER_FAILURES, open_seconds: limits::BREAKER_OPEN.as_secs() }
    }
}

impl Default for DeadLetterSettings {
    fn default() -> Self {
        Self { refusals: limits::REFUSALS_MAX, every_seconds: limits::REFUSAL_EVERY.as_secs() }
    }
}

/// Each rule about dead letters, and whether it holds.
pub(super) fn dead_letter_checks(dead_letter: &DeadLetterSettings) -> [(&'static str, bool); 2] {
    [
        ("dead_letter.refusals must be at least 1", dead_letter.refusals >= 1),
        (
            "dead_letter.every_seconds must lie between 1 and 3600",
            (1..=3_600).contains(&dead_letter.every_seconds),
        ),
    ]
}

/// Each rule about these sections, and whether it holds.
pub(super) fn checks(
    outbox: &OutboxSettings,
    emergency: &EmergencySettings,
    breaker: &BreakerSettings,
) -> [(&'static str, bool); 9] {
    let seconds = 1..=3_600;
    [
        (
            "outbox.bytes_max must be at least 1048576, so that any message fits",
            outbox.bytes_max >= 1_048_576,
        ),
        (
            "outbox.reroute_messages must not be above outbox.messages_max",
            outbox.reroute_messages <= outbox.messages_max,
        ),
        (
            "outbox.leave_messages must be below outbox.reroute_messages",
            outbox.leave_messages < outbox.reroute_messages,
        ),
        (
            "outbox.conservative_seconds must lie between 1 and 3600",
            seconds.contains(&outbox.conservative_seconds),
        ),
        ("outbox.coalesce_messages must be at least 1", outbox.coalesce_messages >= 1),
        (
            "outbox.unconfirmed_messages and outbox.unconfirmed_bytes must be at least 1",
            outbox.unconfirmed_messages >= 1 && outbox.unconfirmed_bytes >= 1,
        ),
        (
            "emergency.per_minute must be at least 1, and emergency.burst above emergency.reserved",
            emergency.per_minute >= 1 && emergency.burst > emergency.reserved,
        ),
        ("breaker.failures must be at least 1", breaker.failures >= 1),
        (
            "breaker.open_seconds must lie between 1 and 3600",
            seconds.contains(&breaker.open_seconds),
        ),
    ]
}

/// What a spool must be able to hold, where there is one.
pub(super) fn spool_checks(
    outbox: &OutboxSettings,
    spool: &SpoolSettings,
) -> [(&'static str, bool); 2] {
    let messages = outbox.messages_max.saturating_add(outbox.unconfirmed_messages);
    let bytes = outbox.bytes_max.saturating_add(outbox.unconfirmed_bytes);
    [
        (
            "outbox.messages_max and outbox.unconfirmed_messages must add up to at most 16000, \
             which is what spool.path can hold",
            spool.path.is_none() || messages <= limits::SPOOL_ENTRIES_MAX,
        ),
        (
            "outbox.bytes_max and outbox.unconfirmed_bytes must add up to at most 128 MiB, which \
             is what spool.path can hold",
            spool.path.is_none() || bytes <= limits::SPOOL_BYTES_MAX,
        ),
    ]
}

pub(super) fn bounds(
    outbox: &OutboxSettings,
    confirm: &ConfirmSettings,
    emergency: &EmergencySettings,
    breaker: &BreakerSettings,
    dead_letter: &DeadLetterSettings,
) -> OutboxBounds {
    OutboxBounds {
        thresholds: Thresholds {
            drop: outbox.messages_max as u64,
            reroute: outbox.reroute_messages as u64,
            recover: outbox.leave_messages as u64,
            bytes_max: outbox.bytes_max,
            conservative_max: Duration::from_secs(outbox.conservative_seconds),
        },
        coalesce_messages: outbox.coalesce_messages,
        coalesce_bytes: outbox.coalesce_bytes,
        emergency_per_minute: emergency.per_minute,
        emergency_burst: emergency.burst,
        emergency_reserved: emergency.reserved,
        breaker_failures: breaker.failures,
        breaker_open: Duration::from_secs(breaker.open_seconds),
        refusals_max: dead_letter.refusals,
        refusal_every: Duration::from_secs(dead_letter.every_seconds),
        unconfirmed: UnconfirmedBounds {
            messages: outbox.unconfirmed_messages,
            bytes: outbox.unconfirmed_bytes,
            required: confirm.required,
        },
        ttl: (outbox.ttl_seconds > 0).then(|| Duration::from_secs(outbox.ttl_seconds)),
    }
}
