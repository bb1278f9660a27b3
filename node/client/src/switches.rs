//! Which profilers record, and what the operator is warned of once.
//!
//! The master switch is [`SIDE`](crate::side::SIDE); a profiler needs its own switch too. A warning
//! is one line on standard error, once per cause and process image: the crate has no logger of the
//! job's, and a job whose values go nowhere has no other sign of it.
//!
//! DESIGN N54.

use std::io::Write;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// Bits of the profilers that record.
static ON: AtomicU32 = AtomicU32::new(0);
/// Bits of the profilers that the program or the environment switched off on purpose.
static OFF_ON_PURPOSE: AtomicU32 = AtomicU32::new(0);
/// Bits of the causes that were warned of.
static WARNED: AtomicU32 = AtomicU32::new(0);

/// A profiler with a switch of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profiler {
    /// Scopes, closures and futures.
    Timers,
    /// Shard reads.
    Shards,
}

impl Profiler {
    pub(crate) const ALL: [Self; 2] = [Self::Timers, Self::Shards];

    const fn bit(self) -> u32 {
        1 << self as u32
    }

    /// Its environment variable.
    pub(crate) const fn variable(self) -> &'static str {
        match self {
            Self::Timers => "PLIMSOLL_ENABLE_TIMERS",
            Self::Shards => "PLIMSOLL_ENABLE_SHARDS",
        }
    }

    const fn setter(self) -> &'static str {
        match self {
            Self::Timers => "timers(true)",
            Self::Shards => "shards(true)",
        }
    }

    const fn noun(self) -> &'static str {
        match self {
            Self::Timers => "timers",
            Self::Shards => "shard reads",
        }
    }

    /// Whether its switch is on, while the master switch is; a first use that is not is warned of.
    #[inline]
    pub(crate) fn is_on(self) -> bool {
        ON.load(Relaxed) & self.bit() != 0 || self.warn_off()
    }

    #[cold]
    fn warn_off(self) -> bool {
        let is_quiet = OFF_ON_PURPOSE.load(Relaxed) & self.bit() != 0;
        if !is_quiet {
            warn_once(self.bit(), || {
                format!(
                    "{} are used and record nothing: set {}=1, or call \
                     plimsoll_client::configure(Config::new().enable(true).{})",
                    self.noun(),
                    self.variable(),
                    self.setter()
                )
            });
        }
        false
    }
}

/// A profiler and what was set for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProfilerSwitch {
    pub(crate) profiler: Profiler,
    /// `None` when nothing sets it, which is off.
    pub(crate) wanted: Option<bool>,
}

/// Bit of the warning about settings without effect.
const SETTINGS: u32 = 1 << 8;
/// Bit of the warning that no switch is set.
const NO_SWITCH: u32 = 1 << 9;

/// Sets which profilers record, and which were switched off on purpose.
pub(crate) fn set(switches: [ProfilerSwitch; 2]) {
    let bits = |wanted: bool| {
        let of = switches.iter().filter(|switch| switch.wanted == Some(wanted));
        of.fold(0, |bits, switch| bits | switch.profiler.bit())
    };
    ON.store(bits(true), Relaxed);
    OFF_ON_PURPOSE.store(bits(false), Relaxed);
}

/// Warns of settings that have no effect, all in one line.
pub(crate) fn warn_of_settings(problems: &[String]) {
    if !problems.is_empty() {
        warn_once(SETTINGS, || problems.join("; "));
    }
}

/// Warns that a value is not recorded since no switch is set, be it to off.
pub(crate) fn warn_of_no_switch() {
    warn_once(NO_SWITCH, || {
        "no switch is set, so nothing is recorded: set PLIMSOLL_ENABLE=1 and \
         PLIMSOLL_ENABLE_TIMERS=1, or call \
         plimsoll_client::configure(Config::new().enable(true)); PLIMSOLL_ENABLE=0 keeps it off \
         without this line"
            .to_owned()
    });
}

fn warn_once(cause: u32, text: impl FnOnce() -> String) {
    if WARNED.fetch_or(cause, Relaxed) & cause == 0 {
        // A job may have closed it; a macro would panic then.
        let _written = writeln!(std::io::stderr(), "plimsoll: {}", text());
    }
}
