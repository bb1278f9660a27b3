//! Times a job's operations in its own process and hands them to the Plimsoll node beside it.
//!
//! A handle is made once and used from any thread; recording takes no lock, allocates nothing
//! once warm and makes no system call. A background thread merges the samples of all threads and
//! sends them over the node's Unix stream socket; while the node is unreachable it keeps merging.
//! The library prints nothing, never panics on the input of a job, and counts every lost sample:
//! see [`stats`].
//!
//! ```
//! use std::sync::LazyLock;
//! use plimsoll_client::Operation;
//!
//! static EPOCH_HOOK: LazyLock<Operation> = LazyLock::new(|| Operation::new("epoch_hook"));
//!
//! fn end_of_epoch() {
//!     let _timer = EPOCH_HOOK.start();
//!     // validate, infer, handle commands
//! }
//! # end_of_epoch();
//! ```
//!
//! On request a scope also records the part of its time in which its thread did not work, as the
//! operation `<operation>.idle`: `Operation::new("epoch_hook").with_idle()`; see
//! [`Operation::with_idle`].
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `PLIMSOLL_ENABLE` | any value other than `1` disables all calls | `1` |
//! | `PLIMSOLL_STREAM` | the node's stream socket | `/run/plimsoll/node.stream` |
//! | `PLIMSOLL_FLUSH_MS` | milliseconds between two flushes, 10 to 60 000 | `40` |
//!
//! They are read once, when the first sample is recorded.
//!
//! Do not call the library from a signal handler or a global allocator: either may interrupt a
//! record of its own thread and wait for a lock that the thread itself holds.

mod connection;
mod delivery;
mod directory;
mod flusher;
mod half;
mod hooks;
mod idle;
mod incidents;
mod limits;
mod number;
mod operation;
mod process;
mod recording;
mod registry;
mod sender;
mod settings;
mod side;
mod stats;
mod unsent;

pub use idle::{IdleTimer, WithIdle};
pub use number::{Counter, Gauge, HitCounter};
pub use operation::{Operation, Timer};
pub use plimsoll_schemas::ids::IdError;
pub use process::flush;
pub use stats::{Stats, stats};
