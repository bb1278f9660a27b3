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
    pub messages_max: usize,
    pub bytes_max: usize,
    pub coalesce_bytes: usize,
    pub unconfirmed_messages: usize,
    pub unconfirmed_bytes: usize,
    pub ttl_seconds: u64,
}

/// The `[emergency]` section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EmergencySettings {
    pub per_minute: u32,
}

/// The `[breaker]` section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct BreakerSettings {
    pub open_seconds: u64,
}

/// The `[dead_letter]` section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DeadLetterSettings {
    pub every_seconds: u64,
}

/// The `[spool]` section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SpoolSettings {
    pub path: Option<PathBuf>,
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
            coalesce_bytes: limits::COALESCE_BYTES,
            unconfirmed_messages: limits::UNCONFIRMED_MESSAGES_MAX,
            unconfirmed_bytes: limits::UNCONFIRMED_BYTES_MAX,
            ttl_seconds: 0,
        }
    }
}

impl Default for EmergencySettings {
    fn default() -> Self {
        Self { per_minute: limits::EMERGENCY_PER_MINUTE }
    }
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { open_seconds: limits::BREAKER_OPEN.as_secs() }
    }
}

impl Default for DeadLetterSettings {
    fn default() -> Self {
        Self { every_seconds: limits::REFUSAL_EVERY.as_secs() }
    }
}

/// Each rule about these sections, and whether it holds.
pub(super) fn checks(
    outbox: &OutboxSettings,
    emergency: &EmergencySettings,
    breaker: &BreakerSettings,
    dead_letter: &DeadLetterSettings,
) -> [(&'static str, bool); 6] {
    let seconds = 1..=3_600;
    [
        ("outbox.messages_max must be at least 1", outbox.messages_max >= 1),
        (
            "outbox.bytes_max must be at least 1048576, so that any message fits",
            outbox.bytes_max >= 1_048_576,
        ),
        (
            "outbox.unconfirmed_messages and outbox.unconfirmed_bytes must be at least 1",
            outbox.unconfirmed_messages >= 1 && outbox.unconfirmed_bytes >= 1,
        ),
        ("emergency.per_minute must be at least 1", emergency.per_minute >= 1),
        (
            "breaker.open_seconds must lie between 1 and 3600",
            seconds.contains(&breaker.open_seconds),
        ),
        (
            "dead_letter.every_seconds must lie between 1 and 3600",
            seconds.contains(&dead_letter.every_seconds),
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
        thresholds: Thresholds::of(outbox.messages_max as u64, outbox.bytes_max),
        coalesce_bytes: outbox.coalesce_bytes,
        emergency_per_minute: emergency.per_minute,
        breaker_open: Duration::from_secs(breaker.open_seconds),
        refusal_every: Duration::from_secs(dead_letter.every_seconds),
        unconfirmed: UnconfirmedBounds {
            messages: outbox.unconfirmed_messages,
            bytes: outbox.unconfirmed_bytes,
            required: confirm.required,
        },
        ttl: (outbox.ttl_seconds > 0).then(|| Duration::from_secs(outbox.ttl_seconds)),
        ..OutboxBounds::default()
    }
}
