//! Threads that give way to others.
//!
//! DESIGN A65.

use rustix::process::{getpriority_process, setpriority_process};

/// Lowers the priority of this thread for the rest of its life, by this many steps of niceness.
/// Linux has a priority for each thread; where it cannot be lowered, the thread merely takes longer
/// than it should from others.
pub fn give_way(niceness: i32) {
    if let Ok(own) = getpriority_process(None) {
        let _lowered = setpriority_process(None, own.saturating_add(niceness));
    }
}
