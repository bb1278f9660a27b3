//! Where rules come from: the settings and the rule files.
//!
//! [`Sources`] reads and checks them as one; [`Watch`] reports changes on a thread of its
//! own. What becomes of new rules is the driver's decision.
//!
//! DESIGN A34.

mod sources;
mod watch;

pub use sources::{Loaded, Sources, Stamps};
pub use watch::{Found, Watch};

#[cfg(test)]
mod tests;
