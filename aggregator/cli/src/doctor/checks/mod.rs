//! The checks: pure functions from facts to findings.

pub(super) mod broker;
pub(super) mod listeners;
pub(super) mod machine;
pub(super) mod mesh;
