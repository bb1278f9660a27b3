//! Alerts.

pub mod alert;
pub mod alerts_page;
pub mod announce;
pub mod dashboard;
pub mod delivery;
pub mod evidence;
pub mod latency_high;
pub mod notifications;
pub mod silences;
pub mod telling;
