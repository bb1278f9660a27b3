//! Captured profiles: files in a folder beside the state file, which HTTP reads and the driver's
//! tasks write.
//!
//! Owns the folder and the list of what is in it. The number of profiles, their age and their bytes
//! are bounded; the oldest make room. A file that cannot be used is quarantined under another name
//! and counted. All methods wait for the disk, so none is called by the driver itself.
//!
//! DESIGN A184.

mod evidence;
mod file;
mod store;
#[cfg(test)]
pub(crate) mod tests;

pub use evidence::evidence;
pub use store::{ProfileBounds, ProfileError, ProfileStore};
