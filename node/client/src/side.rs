//! Which half of each recorder writers use now, and whether this process records at all.

use std::sync::atomic::AtomicUsize;

/// The half that writers use: 0, 1, or neither while it is [`COLD`] or [`OFF`].
pub(crate) static SIDE: AtomicUsize = AtomicUsize::new(COLD);
/// Nothing was recorded in this process yet. A forked child starts so.
pub(crate) const COLD: usize = 2;
/// The master switch is off.
pub(crate) const OFF: usize = 3;
