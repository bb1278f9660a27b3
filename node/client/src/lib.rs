//! Times a job's operations in its own process and hands them to the Plimsoll node beside it.
//!
//! A handle is made once and used from any thread; recording takes no lock, allocates nothing
//! once warm and makes no system call. One thread in the background merges what all threads
//! recorded and sends it over the node's Unix stream socket; while the node is away it keeps
//! merging. The library prints nothing, never panics on what a job gives it, and refuses to
//! lose a sample without counting it: see [`stats`].
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
//! A scope that asks also records what of its time its thread did not work, as the operation
//! `<operation>.idle`: `Operation::new("epoch_hook").with_idle()`; see [`Operation::with_idle`].
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `PLIMSOLL_ENABLE` | anything but `1` makes all calls do nothing | `1` |
//! | `PLIMSOLL_STREAM` | the node's stream socket | `/run/plimsoll/node.stream` |
//! | `PLIMSOLL_FLUSH_MS` | milliseconds between two flushes, 10 to 60 000 | `200` |
//!
//! They are read once, when the first sample is recorded.
//!
//! Nothing here may be called from a signal handler, nor from a global allocator: either may
//! interrupt a record of its own thread, and find a lock that the thread itself holds.

mod directory;
mod flusher;
mod gate;
mod half;
mod held;
mod hooks;
mod idle;
mod limits;
mod line;
mod local;
mod number;
mod operation;
mod sender;
mod settings;
mod stats;

pub use idle::{IdleTimer, WithIdle};
pub use number::{Counter, Gauge, HitCounter};
pub use operation::{Operation, Timer};
pub use plimsoll_schemas::ids::IdError;
pub use stats::{Stats, flush, stats};
