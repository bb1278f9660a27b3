//! Captured profiles: files in a folder beside the state file, which HTTP reads and the driver's
//! tasks write.
//!
//! Owns the folder and the list of what is in it. The number of profiles, their age and their
//! bytes are bounded; the oldest without a name make room. A file that cannot be used is
//! quarantined under another name and counted. Methods that read or write files wait for the disk,
//! so the driver itself calls none of them; no lock is held meanwhile, so those about the list
//! never wait for it.
//!
//! DESIGN A184.

mod evidence;
mod file;
mod shares;
mod store;
mod sums;
#[cfg(test)]
pub(crate) mod tests;
mod trace;

pub use evidence::evidence;
pub use shares::shares;
pub use store::{ProfileError, ProfileRef, ProfileStore};
pub use sums::Sums;
