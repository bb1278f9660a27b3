//! Ingest.

pub mod broker_health;
pub mod catch_up;
pub mod event_time;
pub mod progress;
