//! The steps of a plan: load, and faults with their random parameters.

use std::fmt;

use plimsoll_schemas::subject::Lane;

use super::schedule::{MILLISECOND, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The node with this number.
    Node(usize),
    /// The aggregator with this number.
    Aggregator(usize),
}

/// How a forged confirmation is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// It names a number that was never sent.
    Unsent,
    /// It is about another node.
    Stranger,
    /// It is no confirmation at all, or half of one.
    Garbage,
}

/// How the broker ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// kill -9: the files on the disk remain.
    Kill,
    /// What was not synced may be gone, from the newest backwards.
    PowerCut,
    /// Any messages may be lost, and the broker may still treat them as duplicates.
    Holes,
    /// The store was wiped while it was down.
    Wiped,
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// SIGTERM: it drains within its time limit and sends its final message.
    Terminated,
    /// kill -9: what it wrote survives, synced or not.
    Killed,
    /// The machine lost its power: what it had not synced may be gone.
    PowerCut,
}

/// One step of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Jobs report this many samples to a node, this many in one datagram.
    Load {
        node: usize,
        samples: u64,
        /// How many in one datagram.
        packed: u64,
    },
    /// A connection breaks; its process detects it after a while.
    Break {
        who: Who,
        /// When its process detects it.
        noticed_after: Time,
    },
    /// No packet arrives in one or both directions for a while.
    Partition {
        who: Who,
        /// Whether requests are held up.
        requests: bool,
        /// Whether responses are held up.
        answers: bool,
        span: Time,
    },
    /// Everything takes longer for a while.
    Slow { who: Who, delay: Time, span: Time },
    /// The broker's process is stopped for a while.
    Stall { span: Time },
    /// The broker's process ends and comes back.
    Restart {
        how: Crash,
        /// How long it is away.
        down: Time,
    },
    /// The broker's disk is full for a while.
    Full { span: Time },
    /// Acknowledgements are lost for a while.
    LoseAcks {
        /// How many of a thousand.
        permille: u64,
        span: Time,
    },
    /// A stream is deleted and made again.
    Remake { lane: Lane },
    /// A process ends and comes back.
    EndProcess {
        who: Who,
        end: End,
        /// How long it is away.
        down: Time,
    },
    /// A machine's wall clock is set.
    Jump {
        who: Who,
        /// By how many milliseconds.
        by_ms: i64,
    },
    /// A machine's disk is full for a while.
    DiskFull { who: Who, span: Time },
    /// A node's messages cannot be handed over for a while.
    Jam { node: usize, span: Time },
    /// A node receives a forged confirmation.
    Forge {
        node: usize,
        /// How it is wrong.
        lie: Lie,
    },
    /// Confirmations come late, and one past another, for a while.
    Delay {
        /// By how much at most.
        by: Time,
        span: Time,
    },
    /// An aggregator's store is copied somewhere.
    BackUp { which: usize },
    /// An aggregator's process ends and comes back with that copy, or with no store at all when
    /// there is none.
    RollBack {
        which: usize,
        /// How long it is away.
        down: Time,
    },
    /// An aggregator's process ends, and restarts when its clock shows a later day.
    Away {
        which: usize,
        /// How long it is down, on the clocks of all other machines.
        down: Time,
    },
    /// A process is stopped for a while.
    Pause { who: Who, span: Time },
}

impl Act {
    /// The word under which it is counted as reached.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load { .. } => "load",
            Self::Break { .. } => "connection broken",
            Self::Partition { requests: true, answers: true, .. } => "partition",
            Self::Partition { requests: true, .. } => "partition, only answers pass",
            Self::Partition { .. } => "partition, only requests pass",
            Self::Slow { .. } => "network slow",
            Self::Stall { .. } => "broker stopped",
            Self::Restart { how: Crash::Kill, .. } => "broker killed",
            Self::Restart { how: Crash::PowerCut, .. } => "broker without power",
            Self::Restart { how: Crash::Holes, .. } => "broker loses acknowledged messages",
            Self::Restart { how: Crash::Wiped, .. } => "broker's store wiped",
            Self::Full { .. } => "broker full",
            Self::LoseAcks { .. } => "acknowledgements lost",
            Self::Remake { .. } => "stream deleted",
            Self::EndProcess { who: Who::Node(_), end, .. } => match end {
                End::Terminated => "node terminated",
                End::Killed => "node killed",
                End::PowerCut => "node without power",
            },
            Self::EndProcess { who: Who::Aggregator(_), end, .. } => match end {
                End::Terminated => "aggregator terminated",
                End::Killed => "aggregator killed",
                End::PowerCut => "aggregator without power",
            },
            Self::Jump { .. } => "clock set",
            Self::DiskFull { .. } => "disk full",
            Self::Jam { .. } => "hand-over jammed",
            Self::Forge { lie: Lie::Unsent, .. } => "confirmation forged",
            Self::Forge { lie: Lie::Stranger, .. } => "confirmation for another node",
            Self::Forge { lie: Lie::Garbage, .. } => "confirmation garbled",
            Self::Delay { .. } => "confirmations slow",
            Self::BackUp { .. } => "aggregator's store backed up",
            Self::RollBack { .. } => "aggregator's store rolled back",
            Self::Away { .. } => "aggregator away for a day",
            Self::Pause { .. } => "process stopped",
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(number) => write!(f, "n{number}"),
            Self::Aggregator(0) => f.write_str("aggregator"),
            Self::Aggregator(number) => write!(f, "aggregator {number}"),
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            Self::Load { node, samples, packed } => {
                write!(f, "{samples} samples for n{node}, {packed} a datagram")
            }
            Self::Break { who, noticed_after } => {
                write!(f, "{who}: {name}, noticed after {}", Shown(*noticed_after))
            }
            Self::Partition { who, span, .. } | Self::Pause { who, span } => {
                write!(f, "{who}: {name} for {}", Shown(*span))
            }
            Self::Slow { who, delay, span } => {
                write!(f, "{who}: {name} by {} for {}", Shown(*delay), Shown(*span))
            }
            Self::Stall { span } | Self::Full { span } => write!(f, "{name} for {}", Shown(*span)),
            Self::Restart { down, .. } => write!(f, "{name}, back after {}", Shown(*down)),
            Self::LoseAcks { permille, span } => {
                write!(f, "{name}: {permille} in 1000 for {}", Shown(*span))
            }
            Self::Remake { lane } => write!(f, "{name}: {}", lane.as_str()),
            Self::EndProcess { who, down, .. } => {
                write!(f, "{who}: {name}, back after {}", Shown(*down))
            }
            Self::Jump { who, by_ms } => write!(f, "{who}: {name} by {by_ms} ms"),
            Self::DiskFull { who, span } => write!(f, "{who}: {name} for {}", Shown(*span)),
            Self::Forge { node, .. } => write!(f, "n{node}: {name}"),
            Self::Delay { by, span } => {
                write!(f, "{name} by up to {} for {}", Shown(*by), Shown(*span))
            }
            Self::Away { which, down } => {
                let who = Who::Aggregator(*which);
                write!(f, "{who}: {name}, back after {}", Shown(*down))
            }
            Self::BackUp { which } => write!(f, "{}: {name}", Who::Aggregator(*which)),
            Self::RollBack { which, down } => {
                let who = Who::Aggregator(*which);
                write!(f, "{who}: {name}, back after {}", Shown(*down))
            }
            Self::Jam { node, span } => write!(f, "n{node}: {name} for {}", Shown(*span)),
        }
    }
}

/// A time in seconds with milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Shown(pub Time);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.0 / MILLISECOND;
        write!(f, "{}.{:03} s", milliseconds / 1_000, milliseconds % 1_000)
    }
}
