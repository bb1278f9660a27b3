//! The only file in the workspace that reads a clock (`clippy.toml` bans it elsewhere).
//!
//! Cores take [`Now`] as an argument; drivers own one [`Clock`]. Everything that waits in a
//! shell polls against a [`Deadline`], so no test sleeps a fixed time.
//!
//! DESIGN S16.

#![expect(clippy::disallowed_methods, reason = "this is the file the ban points at")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};
use plimsoll_schemas::time::{BootMillis, Mono, Now, Wall, nanos};

/// A process's pair of clocks.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
    ahead_ns: i64,
}

impl Clock {
    /// Starts the monotonic clock at zero.
    pub fn start() -> Self {
        Self::skewed(0)
    }

    /// The same with a wall clock that is ahead of the system's by this many nanoseconds, for
    /// simulated machines with a wrong clock.
    pub fn skewed(ahead_ns: i64) -> Self {
        Self { origin: Instant::now(), ahead_ns }
    }

    /// Reads both clocks. A system clock before 1970 reads as 1970.
    pub fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = Wall(nanos(wall).saturating_add_signed(self.ahead_ns));
        Now { mono: Mono(nanos(self.origin.elapsed())), wall }
    }
}

/// Time since the machine started. Zero where the kernel does not state it, which Linux does.
pub fn since_boot() -> BootMillis {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default();
    BootMillis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Measures one span of work.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start; may be read many times.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// Time since the start, and starts again: spans of work that follow each other.
    pub fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now.saturating_duration_since(std::mem::replace(&mut self.0, now))
    }
}

/// The end of a bounded wait.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// A deadline `span` from now.
    pub fn within(span: Duration) -> Self {
        Self(Instant::now() + span)
    }

    /// Time left; zero once passed.
    pub fn remaining(&self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// True once no time is left.
    pub fn has_passed(&self) -> bool {
        self.remaining().is_zero()
    }

    /// Blocks this thread for `step` or until the deadline, whichever is sooner. Returns
    /// whether time is left to poll again. For threads, never for async tasks.
    pub fn pause(&self, step: Duration) -> bool {
        std::thread::sleep(step.min(self.remaining()));
        !self.has_passed()
    }
}
