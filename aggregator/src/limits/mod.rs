//! What an aggregator may hold.

pub mod alerts;
pub mod exposition;
pub mod notices;

use std::time::Duration;

/// Roll-ups in one configuration.
pub const ROLLUPS_MAX: usize = 16;
/// Labels of one roll-up.
pub const ROLLUP_LABELS_MAX: usize = 4;
/// Groups of one roll-up; there may be as many again, one for each operation, of what finds
/// no room.
pub const ROLLUP_GROUPS_MAX: usize = 256;
/// Heap bytes of all roll-ups' samples, as looked at once a second, from which on windows
/// take no more; the exact figures go on. Without it, groups in which every bucket is in
/// use could take 67 GiB; of three operations of ten thousand honest nodes all groups of
/// one roll-up take 0.4 GiB at the most.
pub const ROLLUPS_BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;
/// Nodes known at one time.
pub const NODES_MAX: usize = 16_384;
/// Heap bytes of one node's windows and totals above which they take no more, until time has
/// emptied some; the exact figures go on. All nodes together stay below 64 GiB, and at most
/// twice that while what is there settles.
///
/// What an honest node takes: a sample in a bucket of its own takes 2 to 3 bytes, and the
/// more there are in a slot, the more share their buckets. With 100 samples a second of one
/// operation that are spread log-normally (sigma 0.4), a slot of 1 s takes 0.25 KiB, one of
/// 5 s 0.9, one of 30 s 2.5, and all that has settled 4; each has 112 bytes beside them. Up
/// to 5m that is 15 + 17 + 11 slots, or about 40 KiB an operation (117 KiB for three of sigma
/// 0.2, 0.5 and 0.6 after ten minutes, by `aggregator/examples/core_cost.rs`).
///
/// The fleet keeps ten windows, 140 slots an operation. A slot in which every one of the
/// 22 000 buckets of the layout is in use takes 60 KiB, so that [`OPERATIONS_MAX`] of the
/// widest take 2 GiB; three of ten thousand honest nodes take 2 MiB. A group of a roll-up is
/// as the fleet's operation.
pub const NODE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Snapshots merged into packed samples before these are opened into a row of counts.
pub const PACKED_MERGES_MAX: u8 = 8;
/// The newest slots of one window's length that may be open; older ones are packed again.
pub const SLOTS_OPEN_MAX: usize = 3;
/// Slots of one window's length: while the past is caught up with, one lane may be ahead of
/// the other by as much as is judged in one step.
pub const SLOTS_MAX: usize = CATCH_UP_STEPS_MAX as usize + 32;
/// The newest events of the fleet that are kept to be shown.
pub const EVENTS_KEPT_MAX: usize = 256;
/// Service checks of which one node's latest status is known.
pub const SERVICE_CHECKS_MAX: usize = 64;
/// Operations known for one node, and for the fleet.
pub const OPERATIONS_MAX: usize = 256;
/// Counter and gauge series known for one node.
pub const NODE_SERIES_MAX: usize = 2_048;
/// Incarnations remembered for one node; older ones are merged no more.
pub const INCARNATIONS_MAX: usize = 16;
/// Incarnations remembered only as such, so that none is merged a second time.
pub const INCARNATIONS_PAST_MAX: usize = 256;
/// Holes remembered in one incarnation's run of sequence numbers.
pub const SEQ_HOLES_MAX: usize = 1_024;
/// Bytes of one notice as JSON; one that is larger goes without its context. The longest names
/// and labels make 30 KiB; the rest is for what rules say to people.
pub const NOTICE_BYTES_MAX: usize = 64 * 1024;
/// Nodes that a notice names as the worst.
pub const WORST_NODES_MAX: usize = 5;
/// Bars of a histogram in a notice.
pub const BARS_MAX: usize = 12;
/// Bytes of a link in a notice, with the longest names in it.
pub const LINK_BYTES_MAX: usize = 4 * 1024;
/// Alert changes kept for the summary.
pub const ALERT_HISTORY_MAX: usize = 256;
/// Alert changes that wait for the bus.
pub const NOTICES_MAX: usize = 1_024;
/// Messages of the emergency lane in a row before one of the normal lane has its turn.
pub const EMERGENCY_IN_A_ROW_MAX: u32 = 16;
/// Messages that are taken in before questions, signals and the clock have their turn again.
pub const MESSAGES_A_TURN_MAX: usize = 64;
/// Time after which they have it, however few messages that was.
pub const TURN_MAX: Duration = Duration::from_millis(5);
/// Confirmations said at once; below [`plimsoll_bus::limits::SUBSCRIPTION_MESSAGES_MAX`], which is what
/// a connection that listens for many nodes can buffer.
pub const CONFIRMATIONS_AT_ONCE_MAX: usize = 256;
/// Pause before the next of them: a fleet of 10 000 hears of a checkpoint within 0.4 s.
pub const CONFIRM_PAUSE: Duration = Duration::from_millis(10);
/// Time between two evaluations of all budgets.
pub const EVALUATE_EVERY: Duration = Duration::from_secs(1);
/// Silence after which a node counts as silent.
pub const NODE_SILENT_AFTER: Duration = Duration::from_secs(10);
/// Time that nodes have to come back once the broker is heard again: as long as one waits at
/// most before it tries again, and some more.
pub const NODE_RETURN_WITHIN: Duration = Duration::from_secs(30);
/// Growth of a counter of losses is trouble for so long, as the rules for Prometheus look back.
pub const TROUBLE_LASTS: Duration = Duration::from_secs(300);
/// What rules take as lately, of what happens again at once where it goes on;
pub const COUNTED_WITHIN: Duration = Duration::from_secs(60);
/// and of samples that are lost, which nobody brings back.
pub const LOSSES_WITHIN: Duration = Duration::from_secs(300);
/// Counters of one kind of event that a machine's devices have, such as errors of each GPU.
pub const TICKING_MAX: usize = 256;
/// Age of a node's latest readings from which on they say nothing of the present. Those of
/// nodes that share a slow machine may come a few intervals late.
pub const READINGS_STALE_AFTER: Duration = Duration::from_secs(60);
/// Age of a gauge from which on it says nothing of the present: some say theirs once a minute.
pub const GAUGES_STALE_AFTER: Duration = Duration::from_secs(75);
/// An operation's samples are absent after so long at least, and
pub const ABSENT_AFTER: Duration = Duration::from_secs(300);
/// after so many times the longest pause between two of them within the last hour; after half
/// of that hour where no pause is known.
pub const ABSENT_AFTER_PAUSES: u32 = 3;
/// What came before that has ended, and is not absent.
pub const ABSENT_WITHIN: Duration = Duration::from_secs(3_600);
/// Silence after which a node that said farewell is hidden.
pub const NODE_HIDE_AFTER: Duration = Duration::from_secs(3_600);
/// Silence after which any node is hidden: the streams no longer hold a message of it.
pub const NODE_HIDE_SILENT_AFTER: Duration = Duration::from_secs(24 * 3_600);
/// Silence after which a hidden node's account is forgotten. Many times the age at which
/// streams, spools and copies let go of a message, since what comes after it counts twice.
pub const ACCOUNT_FORGET_AFTER: Duration = Duration::from_secs(7 * 24 * 3_600);
/// What the wall clock gains on the monotonic one between two evaluations above which it
/// has leapt, so that nobody has been silent meanwhile.
pub const CLOCK_LEAP_MIN: Duration = Duration::from_secs(60);
/// Shortest time between two checkpoints.
pub const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);
/// A checkpoint is begun no sooner than so many times the last one's duration after it began.
pub const CHECKPOINT_REST_FACTOR: u32 = 4;
/// A checkpoint is begun no sooner than its size allows at so many bytes a second, so that a
/// large fleet does not keep a disk busy: ten thousand nodes are a gigabyte.
pub const CHECKPOINT_BYTES_PER_SECOND_MAX: u64 = 32 * 1024 * 1024;
/// But no later than so long after the last one began. A node that hears nothing for 60 s
/// sends again, and keeps copies for no more than 1 024 messages; a write may take as
/// long again.
pub const CHECKPOINT_WITHIN: Duration = Duration::from_secs(30);
/// Where memory is all there is: nodes that are told what it holds in one turn of the
/// driver, about a millisecond.
pub const CONFIRMED_A_TURN_MAX: usize = 256;
/// Pause after a checkpoint could not be written.
pub const CHECKPOINT_RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Bytes of the store that may be cached in memory.
pub const STORE_CACHE_BYTES: usize = 8 * 1024 * 1024;
/// Evaluations of one span that is caught up with after a restart; a longer span is judged
/// in longer steps.
pub const CATCH_UP_STEPS_MAX: u32 = 600;
/// Messages pending in a lane at which a backlog begins; it ends when none is. Several times
/// what a fleet of 10 000 sends within [`plimsoll_bus::limits::PULL_REST`].
pub const BACKLOG_MESSAGES: u64 = 1_000;
/// How far reading may be behind before nodes are no longer asked to send again what is
/// missing: then the way is full, and what is missing may be waiting there.
pub const READ_LATE_MAX: Duration = Duration::from_secs(30);
/// How long samples may be missing below a node's newest message, as far as the streams have
/// been read, before that is an alert: longer than it takes a node to send again what was
/// lost. At least so long,
pub const GAP_PATIENCE: Duration = Duration::from_secs(30);
/// and at least so many times what lies between two checkpoints: a node hears only with one
/// what is missing, that one takes a while to write, and the node may not hear it. With ten
/// thousand nodes that is a minute and a half.
pub const GAP_PATIENCE_CHECKPOINTS: u32 = 3;
/// Time between two warnings that two nodes have one name.
pub const NAME_CONFLICT_TOLD_EVERY: Duration = Duration::from_secs(60);
/// Holes of one incarnation that the ledger's page lists.
pub const LEDGER_HOLES_MAX: usize = 64;
/// Age of a message beyond which no node keeps one and no stream does: a spool's age, the
/// stream's, and an interval of as much.
pub const MESSAGE_AGE_MAX: Duration = Duration::from_secs(3 * 24 * 3_600);
/// How long a message may be between its node's hand and the broker's store, as one is that
/// waits in a socket while the broker stands still. A clock that is set back by less than that
/// is taken for such a delay for as long.
pub const ON_ITS_WAY_MAX: Duration = Duration::from_secs(120);
/// How far ahead of the aggregator's clock a snapshot that does not say when it was sent may
/// begin.
pub const CLOCK_AHEAD_MAX: Duration = Duration::from_secs(5);
