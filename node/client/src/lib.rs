//! Times a job's operations in its own process and hands them to the Plimsoll node beside it.
//!
//! A handle is made once and used from any thread; recording takes no lock, allocates nothing
//! once warm and makes no system call. A background thread merges the samples of all threads and
//! sends them over the node's Unix stream socket; while the node is unreachable it keeps merging.
//! Everything is off until it is switched on. The library never panics on the input of a job,
//! counts every lost sample (see [`stats`]), and prints at most one line per cause: of values that
//! go nowhere because of a setting, or because no switch is set.
//!
//! ```
//! use std::sync::LazyLock;
//! use plimsoll_client::{Config, Operation, configure};
//!
//! static EPOCH_HOOK: LazyLock<Operation> = LazyLock::new(|| Operation::new("epoch_hook"));
//!
//! fn main() {
//!     // Or PLIMSOLL_ENABLE=1 and PLIMSOLL_ENABLE_TIMERS=1 in the environment.
//!     configure(Config::new().enable(true)).expect("nothing was recorded yet");
//!     end_of_epoch();
//! }
//!
//! fn end_of_epoch() {
//!     let _timer = EPOCH_HOOK.start();
//!     // validate, infer, handle commands
//! }
//! ```
//!
//! On request a scope also records the part of its time in which its thread did not work, as the
//! operation `<operation>.idle`: `Operation::new("epoch_hook").with_idle()`; see
//! [`Operation::with_idle`].
//!
//! The end of a name states what its values are. [`Distribution`] records sizes
//! (`shard_size:bytes`) and numbers (`batch:count`). Quantiles of other operations are within 0.1
//! %, and below 1 ms within 512 ns: of latencies below 512 ns all that a quantile shows is that
//! they are. Name an operation that takes less than a microsecond `<name>:ps`; then quantiles are
//! within half a nanosecond, and the highest latency is 3.6 s. Counts, means, minima and maxima are
//! exact.
//!
//! [`Steps`] divide the turns of a loop into phases that add up to them.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `PLIMSOLL_ENABLE` | the master switch: `1` | off |
//! | `PLIMSOLL_ENABLE_TIMERS` | scopes, closures and futures of an [`Operation`]: `1` | off |
//! | `PLIMSOLL_ENABLE_SHARDS` | [`start_read`]: `1` | off |
//! | `PLIMSOLL_LABELS` | labels of every series, such as `run=r7,rank=3` | none |
//! | `PLIMSOLL_RANKS` | `off`: no labels of the job's launcher | `on` |
//! | `PLIMSOLL_STREAM` | the node's stream socket | `/run/plimsoll/node.stream` |
//! | `PLIMSOLL_FLUSH_MS` | milliseconds between two flushes, 10 to 60 000 | `40` |
//!
//! They are read once, with the first value; [`configure`] overrides them. `record`, counters and
//! gauges need the master switch alone.
//!
//! Do not call the library from a signal handler or a global allocator: either may interrupt a
//! record of its own thread and wait for a lock that the thread itself holds.

#![warn(missing_docs)]

mod config;
mod connection;
mod default_labels;
mod delivery;
mod directory;
mod distribution;
mod exclusive;
mod flusher;
mod half;
mod hooks;
mod idle;
mod incidents;
mod limits;
mod number;
mod operation;
mod process;
mod ranks;
mod recording;
mod registry;
mod sender;
mod settings;
mod shard_log;
mod shards;
mod side;
mod stats;
mod steps;
mod switches;
mod thread;
mod unsent;

pub use config::{Config, ConfigError};
pub use distribution::Distribution;
pub use idle::{IdleTimer, WithIdle};
pub use number::{Counter, Gauge, HitCounter};
pub use operation::{Operation, Timer};
pub use plimsoll_schemas::ids::IdError;
pub use process::{FlushOutcome, configure, flush};
pub use shard_log::ShardSummary;
pub use shards::{ShardRead, shard_summary, start_read};
pub use stats::{Stats, stats};
pub use steps::{Class, Phase, PhaseTimer, Step, Steps};
