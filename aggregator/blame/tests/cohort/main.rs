//! A cohort as its caller sees it: rules on plain numbers, properties, and a simulation that is
//! quick enough for every run.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times and counts of a simulation are positive and small"
)]

#[path = "../../examples/stragglers/fleet.rs"]
mod fleet;
mod job;
mod properties;
mod rules;
mod simulation;
