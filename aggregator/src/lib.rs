//! scratch
pub mod core;
