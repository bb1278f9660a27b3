//! Every bound in the mesh, in one place: nothing grows past a number written here.
//!
//! A bound that a user may lower or raise is a default here and a key in a config file; the
//! hard bounds of the wire are fixed for the life of a schema version.

pub mod alerts;
pub mod client;
pub mod fleet;
pub mod http;
pub mod node;
pub mod notices;
pub mod rules;
pub mod scrape;

/// What one message may hold. Readers check these before they allocate.
pub mod wire {
    /// Bytes of one message. The broker's own default limit is 1 MiB; half of it leaves room
    /// for headers and for brokers that were set lower.
    pub const MESSAGE_BYTES_MAX: usize = 512 * 1024;
    /// A message is closed and the next begun once its series take this many bytes, so that a
    /// last large histogram still fits under [`MESSAGE_BYTES_MAX`].
    pub const MESSAGE_BYTES_SPLIT: usize = 256 * 1024;
    /// Levels of maps and lists within each other; a message of ours has six.
    pub const DEPTH_MAX: usize = 32;
    /// Series of one kind (histograms, counters, gauges, readings) in one message.
    pub const SERIES_MAX: usize = 4_096;
    /// Labels of one series.
    pub const LABELS_MAX: usize = 16;
    /// Bytes of a label's key.
    pub const LABEL_KEY_BYTES_MAX: usize = 64;
    /// Bytes of a label's value.
    pub const LABEL_VALUE_BYTES_MAX: usize = 128;
    /// Bytes of an operation's name.
    pub const OPERATION_BYTES_MAX: usize = 128;
    /// Bytes of a mesh, node or rule name. A subject of five of them stays far below the
    /// broker's 4 KiB control line.
    pub const TOKEN_BYTES_MAX: usize = 64;
    /// Limits of one series over which a node counts samples exactly, and of one operation that
    /// it is told.
    pub const LIMITS_MAX: usize = 4;
    /// Reasons in one message's account of lost samples, and of refused lines.
    pub const LOSS_REASONS_MAX: usize = 32;
    /// Incarnations in one confirmation: as many as an aggregator remembers of a node, so that a
    /// node which crashed again and again still hears of all that it has adopted.
    pub const CONFIRMED_RUNS_MAX: usize = 16;
    /// Unbroken runs of numbers told of one incarnation in one confirmation.
    pub const CONFIRMED_SPANS_MAX: usize = 64;
    /// Limits told in one confirmation: one for each budget that there may be.
    pub const CONFIRMED_LIMITS_MAX: usize = 256;
    /// Bytes of one confirmation; the fullest takes less than 20 KiB and 36 KiB of limits.
    pub const CONFIRMATION_BYTES_MAX: usize = 64 * 1024;
    /// Events in one message.
    pub const EVENTS_MAX: usize = 256;
    /// Bytes of an event's title, and of a service check's name.
    pub const EVENT_TITLE_BYTES_MAX: usize = 256;
    /// Bytes of an event's text.
    pub const EVENT_TEXT_BYTES_MAX: usize = 1_024;
    /// Bytes of one frame from a client beside a node; as large as a message, so that what a
    /// client merged while the node was away is cut as a snapshot would be.
    pub const FRAME_BYTES_MAX: usize = MESSAGE_BYTES_MAX;
    /// Samples in one histogram of one message; 2^40 cannot overflow any total.
    pub const SAMPLES_MAX: u64 = 1 << 40;
    /// Highest seq and highest running total; an incarnation that counted a million a second
    /// would need 285 years for it, and sums of thousands of them cannot overflow.
    pub const COUNT_MAX: u64 = 1 << 53;
    /// Length of one interval that a reader accepts, in nanoseconds (one day).
    pub const INTERVAL_NS_MAX: u64 = 86_400_000_000_000;
}

/// What the connection to the broker may hold.
pub mod bus {
    use std::time::Duration;

    /// Commands inside the NATS client; small, because what waits there cannot be counted.
    pub const CLIENT_COMMANDS_MAX: usize = 256;
    /// Messages buffered for one subscription. Counted in messages, not bytes, by the client:
    /// without streams, where nobody asks for so many bytes and no more, 320 of 512 KiB make
    /// 160 MiB.
    pub const SUBSCRIPTION_MESSAGES_MAX: usize = 320;
    /// Messages handed over and not yet written.
    pub const PUBLISH_QUEUE_MAX: usize = 128;
    /// Events that wait for the driver.
    pub const EVENTS_MAX: usize = 512;
    /// Wait for the NATS client to take one message.
    pub const HAND_OVER_WAIT: Duration = Duration::from_secs(1);
    /// Messages handed over and not yet answered. Below [`SUBSCRIPTION_MESSAGES_MAX`]: the client
    /// drops an answer that finds its subscription full.
    pub const UNANSWERED_MAX: usize = 192;
    /// Time between two probes of the broker.
    pub const PROBE_EVERY: Duration = Duration::from_secs(1);
    /// Silence after which a connected broker counts as stalled.
    pub const STALL_AFTER: Duration = Duration::from_secs(3);
    /// Longest pause between two attempts to connect.
    pub const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(2);
    /// Wait for a connection or for an answer of the JetStream API.
    pub const REQUEST_WAIT: Duration = Duration::from_secs(5);
    /// Age at which a stream forgets a message.
    pub const STREAM_AGE_MAX: Duration = Duration::from_secs(24 * 3_600);
    /// Bytes at which a stream forgets its oldest messages.
    pub const STREAM_BYTES_MAX: i64 = 1024 * 1024 * 1024;
    /// Span within which the broker recognises a message sent twice.
    pub const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);
    /// Time between two pings of the NATS client itself; three unanswered ones end a connection.
    pub const PING_EVERY: Duration = Duration::from_secs(2);
    /// First pause before something is tried again; it doubles up to [`RECONNECT_DELAY_MAX`].
    pub const RETRY_DELAY_MIN: Duration = Duration::from_millis(25);
    /// Bytes below which a stream is not worth creating on a broker with little disk.
    pub const STREAM_BYTES_MIN: i64 = 16 * 1024 * 1024;
    /// Bytes at which the stream of notices forgets its oldest.
    pub const ALERT_STREAM_BYTES_MAX: i64 = 64 * 1024 * 1024;
    /// Bytes at which the stream of dead letters forgets its oldest.
    pub const DEAD_STREAM_BYTES_MAX: i64 = 64 * 1024 * 1024;
    /// Things to be said once, without an acknowledgement, that wait.
    pub const ASIDES_MAX: usize = 1_024;
    /// Age at which such a thing is stale and not said any more.
    pub const ASIDE_AGE_MAX: Duration = Duration::from_secs(1);
    /// Shortest time between two looks at whether the streams still exist.
    pub const STREAM_CHECK_EVERY: Duration = Duration::from_secs(1);
    /// Pause after everything was read, so that what comes in meanwhile costs the broker and the
    /// reader one turn together; the longest that it delays a message.
    pub const PULL_REST: Duration = Duration::from_millis(20);
    /// Messages asked of the broker at one time; below [`SUBSCRIPTION_MESSAGES_MAX`], so that
    /// the client never drops one. Four times as many were measured to be read no faster.
    pub const PULL_MESSAGES_MAX: usize = 256;
    /// Bytes asked of the broker at one time.
    pub const PULL_BYTES_MAX: usize = 8 * 1024 * 1024;
    /// Time after which the broker ends a request that it could not fill.
    pub const PULL_EXPIRES: Duration = Duration::from_secs(5);
    /// Time between two signs of life of the broker while it has nothing to deliver.
    pub const PULL_HEARTBEAT: Duration = Duration::from_secs(1);
    /// Messages read from a stream or a subject that wait for the driver.
    pub const CURSOR_EVENTS_MAX: usize = 64;
    /// Time after which the broker forgets a cursor that no longer asks.
    pub const CONSUMER_IDLE_MAX: Duration = Duration::from_secs(30);
    /// Time in which a connection must be closed.
    pub const CLOSE_WAIT: Duration = Duration::from_secs(5);
    /// Time without a connection after which a process says so.
    pub const ABSENCE_TOLD_AFTER: Duration = Duration::from_secs(2);
    /// Time after which it says so again.
    pub const ABSENCE_TOLD_EVERY: Duration = Duration::from_secs(60);
}

/// What an aggregator may hold.
pub mod aggregator {
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
    /// Distinct limits of one operation's budgets for which samples over them are summed as they
    /// come, as many as nodes count; for a further one they are counted from the buckets, once a
    /// second. Each takes 8 bytes of every slot.
    pub const LIMITS_SUMMED_MAX: usize = super::wire::LIMITS_MAX;
    /// Budgets of one operation above which an advice says what they cost.
    pub const BUDGETS_OF_ONE_ADVISED_MAX: usize = 32;
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
    /// Reasons of loss told apart for one node; further ones count as `other`.
    pub const LOSS_REASONS_MAX: usize = 64;
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
    /// Budgets in all files together.
    pub const BUDGETS_MAX: usize = 256;
    /// Thresholds in all files together.
    pub const RULES_MAX: usize = 256;
    /// Messages of the emergency lane in a row before one of the normal lane has its turn.
    pub const EMERGENCY_IN_A_ROW_MAX: u32 = 16;
    /// Messages that are taken in before questions, signals and the clock have their turn again.
    pub const MESSAGES_A_TURN_MAX: usize = 64;
    /// Time after which they have it, however few messages that was.
    pub const TURN_MAX: Duration = Duration::from_millis(5);
    /// Confirmations said at once; below [`super::bus::SUBSCRIPTION_MESSAGES_MAX`], which is what
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
    /// what a fleet of 10 000 sends within [`super::bus::PULL_REST`].
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
}

/// What an aggregator may show.
pub mod exposition {
    use std::time::Duration;

    /// Exponential buckets in use in one native histogram. Prometheus and its peers advise no more;
    /// in protobuf they take about 400 bytes.
    pub const NATIVE_BUCKETS_MAX: usize = 160;
    /// A look at the state younger than this answers the next question too, so that many who ask
    /// cost the driver as much as one.
    pub const VIEW_AGE_MAX: Duration = Duration::from_millis(25);
}

/// What the workload beside a node may hold.
pub mod workload {
    use std::time::Duration;

    /// Samples that wait while the node is away; one more is counted as unsent.
    pub const SAMPLES_MAX: usize = 65_536;
    /// Wait for a full socket to take one datagram before training goes on.
    pub const SEND_WAIT: Duration = Duration::from_millis(100);
    /// Pause after a datagram was not taken, before the next attempt.
    pub const RETRY_EVERY: Duration = Duration::from_millis(50);
    /// Wait at exit for the node to take what is queued.
    pub const EXIT_WAIT: Duration = Duration::from_secs(2);
    /// Time between two flushes of the raw file.
    pub const RAW_FLUSH_EVERY: Duration = Duration::from_secs(1);
    /// Kernels on disk.
    pub const KERNELS: usize = 8;
    /// Bytes of one kernel.
    pub const KERNEL_BYTES: usize = 256 * 1024;
    /// Kernels in memory; half of all, so that hits and misses both occur.
    pub const KERNELS_CACHED_MAX: usize = 4;
    /// Bytes of the commands file that one hook reads; a longer line is no command.
    pub const COMMANDS_BYTES_MAX: usize = 64 * 1024;
    /// Milliseconds of extra work that a command may ask of each hook.
    pub const EXTRA_WORK_MS_MAX: u64 = 10_000;
    /// Different complaints that are written to standard error.
    pub const COMPLAINTS_MAX: usize = 64;
    /// Bytes of one complaint.
    pub const COMPLAINT_BYTES_MAX: usize = 256;
    /// Bytes of a Unix socket's path on Linux, without its closing zero.
    pub const SOCKET_PATH_BYTES_MAX: usize = 107;
}
