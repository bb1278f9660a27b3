//! Settings of delivery: outbox, emergency lane, circuit breaker, dead letters, spool.

use std::path::PathBuf;

use crate::limits;
use plimsoll_runtime::directory;

use super::section::section;

section! {
    pub struct OutboxSettings {
        pub messages_max: usize = limits::OUTBOX_MESSAGES_MAX,
        pub bytes_max: usize = limits::OUTBOX_BYTES_MAX,
        pub coalesce_bytes: usize = limits::COALESCE_BYTES,
        pub unconfirmed_messages: usize = limits::UNCONFIRMED_MESSAGES_MAX,
        pub unconfirmed_bytes: usize = limits::UNCONFIRMED_BYTES_MAX,
        pub ttl_seconds: u64 = 0,
    }
}

section! {
    pub struct EmergencySettings {
        pub per_minute: u32 = limits::EMERGENCY_PER_MINUTE,
    }
}

section! {
    pub struct BreakerSettings {
        pub open_seconds: u64 = limits::BREAKER_OPEN.as_secs(),
    }
}

section! {
    pub struct DeadLetterSettings {
        pub every_seconds: u64 = limits::REFUSAL_EVERY.as_secs(),
    }
}

section! {
    pub struct SpoolSettings {
        pub path: Option<PathBuf> = None,
        pub sync: bool = true,
    }
}

impl SpoolSettings {
    /// Checks that the directory is there or can be created, as far as its path shows it.
    pub(super) fn check(&self) -> Result<(), String> {
        self.path.as_deref().map_or(Ok(()), |path| directory::check("spool.path", path))
    }
}
