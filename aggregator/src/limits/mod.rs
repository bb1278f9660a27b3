//! Limits of the aggregator, each with its arithmetic.

pub mod alerts;
pub mod blame;
pub mod captures;
pub mod exposition;
pub mod notifications;
pub mod runs;

use std::time::Duration;

/// Bytes of the alerts record beside the state file: 16 384 alerts that fire, with their last
/// notification of 1 KiB and one that waits for each of two receivers.
pub const ALERTS_RECORD_BYTES_MAX: u64 = 64 << 20;
/// Slots of one error budget in its record: as many as all windows have, and what was carried over.
pub const SPENT_SLOTS_MAX: usize = 2_048;
/// Bytes of the record of error budgets beside the state file: 256 of them with all slots, of at
/// most 60 bytes each.
pub const BUDGETS_RECORD_BYTES_MAX: u64 = 32 << 20;
/// Shortest time from one record of error budgets to the next: one takes some 200 bytes for each
/// hour of a budget, and all are written each time.
pub const BUDGETS_RECORD_EVERY: Duration = Duration::from_secs(60);
/// Roll-ups in one configuration: the three of `rollup_labels` by default and sixteen of a site's
/// own.
pub const ROLLUPS_MAX: usize = 19;
/// Labels of one roll-up.
pub const ROLLUP_LABELS_MAX: usize = 4;
/// Groups of one roll-up. Samples beyond go to a group `other` of their operation, at most as many
/// again and one for all further operations. On `/metrics` a group has 53 series, and one more for
/// each limit of its operation's budgets: at most 41 000 for three roll-ups, and 53 for each group
/// `other`, of which there is one for each operation.
///
/// While there is room a node may have all groups. Once they are all in use, the node that alone
/// brings most of them gives one up for each new one of a node with at least two fewer, so `n`
/// nodes that bring groups without end come to `256 / n` each.
pub const ROLLUP_GROUPS_MAX: usize = plimsoll_schemas::limits::api::ROLLUP_GROUPS_MAX;
/// Heap bytes of all roll-ups' samples, checked once a second, above which their windows accept no
/// samples; exact counts continue. Without this limit, groups in which every bucket is in use could
/// take 80 GiB. With ten thousand honest nodes of three operations, all groups of one roll-up take
/// at most 0.4 GiB.
pub const ROLLUPS_BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;
/// Time between two looks for a partition without an owner: one request for each partition.
pub const LEASE_POLL: Duration = Duration::from_secs(2);
/// Renewals of a lease within its ttl: one may have no answer, and two others follow.
pub const LEASE_RENEWALS: u32 = 4;
/// Ttl of a lease, unless the configuration sets another: how long a partition of a process that
/// died has no aggregator. Elections of a cluster take ten seconds and more; a look for a free
/// partition and the reading of its streams fit into half a minute with it.
pub const LEASE_TTL: Duration = Duration::from_secs(20);
/// Wait for a lease to be released before the process ends all the same.
pub const LEASE_RELEASE_WAIT: Duration = Duration::from_secs(6);
/// Nodes known at one time.
pub const NODES_MAX: usize = 16_384;
/// Heap bytes of one node's windows and totals above which they accept no samples until slots
/// expire; exact counts continue. All nodes together stay below 64 GiB, and below twice that while
/// open slots are packed.
///
/// What an honest node takes: a sample in a bucket of its own takes 2 to 3 bytes, and the more
/// samples a slot has, the more share a bucket. With 100 samples a second of one operation that are
/// spread log-normally (sigma 0.4), a slot of 1 s takes 0.25 KiB, one of 5 s 0.9, one of 30 s 2.5,
/// and the totals 4; each slot has 112 bytes of overhead. Up to 5m that is 15 + 17 + 11 slots, or
/// about 40 KiB an operation (117 KiB for three of sigma 0.2, 0.5 and 0.6 after ten minutes, by
/// `aggregator/benches/core_cost.rs`).
///
/// The fleet keeps ten windows, 140 slots an operation. A slot in which each of the 22 000 buckets
/// of the layout is in use takes 60 KiB, so [`OPERATIONS_MAX`] such operations take 2 GiB; three of
/// ten thousand honest nodes take 2 MiB. A group of a roll-up takes as much as an operation of the
/// fleet.
pub const NODE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Snapshots merged into packed samples before these are unpacked into a row of counts.
pub const PACKED_MERGES_MAX: u8 = 8;
/// The newest slots of one slot length that may be unpacked; older ones are packed again.
pub const SLOTS_OPEN_MAX: usize = 3;
/// Slots of one slot length: during catch-up one lane may be ahead of the other by as much as one
/// step judges.
pub const SLOTS_MAX: usize = CATCH_UP_STEPS_MAX as usize + 32;
/// The newest events of the fleet that the API lists. When there are more, the node with most of
/// them gives up its oldest: each of `n` nodes that send without end keeps `256 / n`.
pub const EVENTS_KEPT_MAX: usize = 256;
/// Service checks per node whose latest status is kept.
pub const SERVICE_CHECKS_MAX: usize = 64;
/// Operations of one node, and of the fleet. Nodes share the fleet's as they share the groups of a
/// roll-up, see [`ROLLUP_GROUPS_MAX`].
pub const OPERATIONS_MAX: usize = 256;
/// Percent of a table's entries above which idle ones are evicted, and an alert fires.
pub const TABLE_CROWDED_PERCENT: usize = 80;
/// An operation or a group of a roll-up is idle once it got no samples for as long as it had got
/// samples before: names of a burst after five minutes. One that pauses for a meal, a restart or a
/// repair is kept
pub const IDLE_AFTER_MIN: Duration = Duration::from_secs(300);
/// for so long: runs come and go.
pub const IDLE_AFTER_MAX: Duration = Duration::from_secs(6 * 3_600);
/// Counter and gauge series of one node.
pub const NODE_SERIES_MAX: usize = 2_048;
/// How far ahead of the broker's time an incarnation may have begun, by its node's clock.
pub const INCARNATION_AHEAD_MAX: Duration = Duration::from_secs(24 * 3_600);
/// By how much a sequence number may be greater than the newest of its incarnation: an hour of
/// messages of one lane that overtakes the other,
pub const SEQ_AHEAD_MAX: u64 = 4_096;
/// and this many for each second since the end of the incarnation's newest interval. A node that
/// splits each interval of a second into messages of 480 KiB sends fewer.
pub const SEQS_PER_SECOND_MAX: u64 = 64;
/// Messages of an incarnation from which on it keeps its ledger while others come, if it is the one
/// with most messages
pub const STEADY_MESSAGES_MIN: u64 = 64;
/// and has sent within this time before the latest arrival.
pub const STEADY_WITHIN: Duration = Duration::from_secs(600);
/// Incarnations with a ledger per node; older ones are no longer merged.
pub const INCARNATIONS_MAX: usize = 16;
/// Incarnations per node of which only the identity is kept, so that none is merged twice.
pub const INCARNATIONS_PAST_MAX: usize = 256;
/// Sequence gaps that are kept per incarnation.
pub const SEQ_HOLES_MAX: usize = 1_024;
/// Spans of one incarnation above which the normal lane is read first: what the emergency lane is
/// ahead leaves a gap for each of its messages.
pub const SEQ_SPANS_MANY: usize = SEQ_HOLES_MAX / 2;
/// Bytes of one notification as JSON; a larger one is sent without its context. The longest names
/// and labels take 30 KiB; the rest is for the texts of rules.
pub const NOTIFICATION_BYTES_MAX: usize = 64 * 1024;
/// Worst nodes in a notification.
pub const WORST_NODES_MAX: usize = 5;
/// Bars of the histogram in a notification.
pub const BARS_MAX: usize = 12;
/// Bytes of a link in a notification, with the longest names in it.
pub const LINK_BYTES_MAX: usize = 4 * 1024;
/// Alert changes in the summary. When there are more, the node with most of them, or the fleet,
/// gives up its oldest.
pub const ALERT_HISTORY_MAX: usize = 256;
/// Alert changes queued for the bus.
pub const NOTIFICATIONS_MAX: usize = 1_024;
/// Messages of the emergency lane in a row before one of the normal lane is read.
pub const LANE_IN_A_ROW_MAX: u32 = 16;
/// How long a lane without messages keeps back the other one, which would leave gaps.
pub const LANE_AWAITED: Duration = Duration::from_secs(10);
/// Messages that one turn of the driver reads before it handles queries, signals and deadlines.
pub const MESSAGES_A_TURN_MAX: usize = 64;
/// Time after which a turn ends, however few messages it has read.
pub const TURN_MAX: Duration = Duration::from_millis(5);
/// Threads that decode messages.
pub const DECODE_THREADS_MAX: usize = 64;
/// Messages of one batch that a thread decodes: what the driver takes in one turn.
pub const DECODED_BATCH_MESSAGES_MAX: usize = MESSAGES_A_TURN_MAX;
/// Payload bytes of a batch, from which on it takes no further message. For each thread one batch
/// waits, and one more: with 512 KiB of the last message at most 1.5 MiB each.
pub const DECODED_BATCH_BYTES_MAX: usize = 1024 * 1024;
/// Messages from which on a batch is handed to another thread. Decoding one takes some
/// microseconds, as handing over does.
pub const DECODED_APART_MIN: usize = 8;
/// Bytes from which on a batch is, however few its messages: decoding them takes a tenth of a
/// millisecond, for which all sockets would wait.
pub const DECODED_APART_BYTES_MIN: usize = 64 * 1024;
/// Time between two reports of silences to other aggregators without a change.
pub const SILENCES_REPORTED_EVERY: Duration = Duration::from_secs(10);
/// Confirmations sent at once; below [`plimsoll_bus::limits::SUBSCRIPTION_MESSAGES_MAX`], which a
/// connection that subscribes for many nodes can buffer.
pub const CONFIRMATIONS_AT_ONCE_MAX: usize = 256;
/// Pause before the next batch: a fleet of 10 000 gets its confirmations within 0.4 s.
pub const CONFIRM_PAUSE: Duration = Duration::from_millis(10);
/// Samples in the short window below which a burn rate is not judged: of a hundred, the share over
/// the limit is known to within 3 %.
pub const BURN_SAMPLES_MIN: u64 = 100;
/// Time after which a budget is reported that has too few samples to judge, some over its limit.
pub const INSUFFICIENT_AFTER: Duration = Duration::from_secs(900);
/// Time between two evaluations of all budgets.
pub const EVALUATE_EVERY: Duration = Duration::from_secs(1);
/// Silence after which a node counts as silent.
pub const NODE_SILENT_AFTER: Duration = Duration::from_secs(10);
/// Time that nodes of a small mesh have to return once the broker is reachable again.
pub const NODE_RETURN_WITHIN: Duration = Duration::from_secs(30);
/// Silence, counted back from the newest message of any node, after which a node does not count
/// among those that reconnect: several times the longest pause between two attempts.
pub const NODE_RETURNS_NO_MORE: Duration = Duration::from_secs(600);
/// Time in which nodes of a small mesh reconnect, which rules about silence allow for already.
pub const NODE_RECONNECTS_SOON: Duration = Duration::from_secs(2);
/// Time that nodes have beyond the span over which a large mesh reconnects: a connect, a message.
pub const NODE_RETURN_MARGIN: Duration = Duration::from_secs(10);
/// Time for which the growth of a loss counter counts as trouble; the Prometheus rules use the
/// same.
pub const TROUBLE_LASTS: Duration = Duration::from_secs(300);
/// Window in which rules count events that repeat at once while their cause persists.
pub const COUNTED_WITHIN: Duration = Duration::from_secs(60);
/// Window in which rules count restarts of tasks: with pauses of up to 30 s, a task that fails at
/// once is restarted twenty times in it.
pub const RESTARTS_WITHIN: Duration = Duration::from_secs(600);
/// Window in which rules count lost samples, which do not come back.
pub const LOSSES_WITHIN: Duration = Duration::from_secs(300);
/// Counters of one kind per machine, such as errors of each GPU.
pub const TICKING_MAX: usize = 256;
/// Age from which a node's sensor readings are stale: two intervals of the slowest sampling, and
/// some more, since nodes that share a slow machine may send theirs late.
pub const READINGS_STALE_AFTER: Duration = Duration::from_secs(135);
/// Age from which a gauge is stale; some clients send theirs once a minute.
pub const GAUGES_STALE_AFTER: Duration = Duration::from_secs(75);
/// Minimum time without samples after which an operation is absent;
pub const ABSENT_AFTER: Duration = Duration::from_secs(60);
/// it is also this many times the longest pause between two samples,
pub const ABSENT_AFTER_PAUSES: u32 = 3;
/// of which one is known for so long, and at most for twice as long.
pub const PAUSES_KEPT: Duration = Duration::from_secs(86_400);
/// Operations with a budget or phases of which a node's jobs have ended; one more drops the oldest.
pub const ENDED_MAX: usize = 256;
/// Longer pauses are checked slot by slot: many intervals may have been read at once.
pub const PAUSE_CHECKED: Duration = Duration::from_secs(10);
/// An operation that has been absent for so long is given up. A node brought the fleet's newest
/// samples if its own are at most so much older.
pub const ABSENT_WITHIN: Duration = Duration::from_secs(3_600);
/// Time after which a node that sent its final message expires.
pub const NODE_HIDE_AFTER: Duration = Duration::from_secs(3_600);
/// Time after which a silent node expires: the streams no longer contain a message of it.
pub const NODE_HIDE_SILENT_AFTER: Duration = Duration::from_secs(24 * 3_600);
/// Shortest silence after which a node expires where the table of nodes is crowded: there it is as
/// long as the node was known before, so that names of a burst go first.
pub const NODE_HIDE_CROWDED_AFTER: Duration = Duration::from_secs(600);
/// Time after which an expired node's ledger entry is evicted. Many times the age at which streams,
/// spools and copies drop a message, since a message that arrives later is counted twice.
pub const LEDGER_EVICT_AFTER: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Gain of the wall clock on the monotonic one between two evaluations above which it has jumped,
/// so that no node counts as silent for that time.
pub const CLOCK_LEAP_MIN: Duration = Duration::from_secs(60);
/// Gain of the wall clock on the monotonic one since the last evaluation from which on it was
/// set, so that known offsets of nodes' clocks hold no longer. Slews gain less.
pub const CLOCK_STEP_MIN: Duration = Duration::from_millis(500);
/// Time after a connection to the broker was made in which message delivery is not measured: nodes
/// send then what has waited, and lanes begin to be read.
pub const CONNECTION_SETTLES: Duration = Duration::from_secs(5);
/// Shortest time between two checkpoints.
pub const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);
/// Time between the beginnings of two checkpoints, as a multiple of the last one's duration: an
/// eighth of a core for ten thousand nodes.
pub const CHECKPOINT_REST_FACTOR: u32 = 8;
/// By how much threads that write checkpoints or the page of all nodes lower their priority: where
/// two threads want one core, they get a thirtieth of it.
pub const NICENESS: i32 = 15;
/// Average write rate of checkpoints, so that a large fleet does not keep a disk busy: ten thousand
/// nodes are a gigabyte.
pub const CHECKPOINT_BYTES_PER_SECOND_MAX: u64 = 32 * 1024 * 1024;
/// Longest time between the beginnings of two checkpoints. A node without a confirmation for 60 s
/// resends, and keeps copies of at most 1 024 messages; a write may take as long again.
pub const CHECKPOINT_WITHIN: Duration = Duration::from_secs(30);
/// Without a state file: nodes whose state in memory one turn of the driver confirms, in about a
/// millisecond.
pub const CONFIRMED_A_TURN_MAX: usize = 256;
/// Pause after a failed checkpoint.
pub const CHECKPOINT_RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Bytes of the state file that are cached in memory.
pub const STORE_CACHE_BYTES: usize = 8 * 1024 * 1024;
/// Slots of 10 s, over all series, that wait for the next checkpoint: a few hundred series with a
/// slot or two each, and hours that nodes send again after an outage. At some 20 KiB each 160 MiB.
pub const HISTORY_PENDING_SLOTS_MAX: usize = 8_192;
/// A node may begin a slot while it has begun fewer than this many times those that are free. So
/// one node fills four fifths of them at most, three as greedy ones twelve thirteenths, and others
/// keep room until the next checkpoint, which does not wait for its time from half of them on.
pub const HISTORY_PENDING_SHARE: usize = 4;
/// Series in one history file: the fleet's operations and groups of roll-ups, also those of the
/// past. Further ones are not kept.
pub const HISTORY_SERIES_MAX: usize = 65_536;
/// Of these, metrics of jobs.
pub const HISTORY_METRIC_SERIES_MAX: usize = 32_768;
/// Slots of 10 s, over all metrics, that wait for the next checkpoint, at some 200 bytes each.
pub const HISTORY_PENDING_VALUES_MAX: usize = 65_536;
/// Metrics, each in the fleet and in each of its groups, that are kept at one time, and
pub const HISTORY_METRICS_MAX: usize = 16_384;
/// those of them that one node may be the first to bring.
pub const HISTORY_METRICS_OF_NODE_MAX: usize = 1_024;
/// Slots of 10 s without a value after which a metric gives its place to another one: an hour.
pub const HISTORY_METRICS_IDLE_SLOTS: u64 = 360;
/// Points in the answer to one query: an hour of seconds.
pub const HISTORY_POINTS_MAX: u64 = 3_600;
/// Nodes that one query asks for their own histories.
pub const HISTORY_NODES_MAX: usize = 256;
/// Of these, nodes asked at the same time.
pub const ASK_NODES_AT_ONCE: usize = 16;
/// Time in which a node answers a request.
pub const ASK_WAIT: Duration = Duration::from_secs(2);
/// Times that a request is sent.
pub const ASK_ATTEMPTS: usize = 2;
/// Time for all requests of one query; nodes that have not answered by then are missing.
pub const ASK_ALL_WAIT: Duration = Duration::from_secs(20);
/// Points of readings in one answer, in equal shares for the nodes that are asked: 256 nodes may
/// each answer with as many readings as a message holds, in one point. Some 64 bytes each.
pub const READING_POINTS_MAX: usize = 1 << 20;
/// Requests to nodes under way, of all queries.
pub const ASK_PENDING_MAX: usize = 64;
/// Bytes of `http.url`, with which links in notifications begin: they have room for the longest
/// names beside it.
pub const PAGE_URL_BYTES_MAX: usize = 128;
/// Nodes on one page of `/api/v1/nodes`: less than 1 KiB each with the labels that nodes have.
pub const NODES_PAGE_MAX: usize = 1_000;
/// Nodes on one page of `/api/v1/hardware`. 200 readings take 25 KiB; as many as a message can hold
/// take 1 MiB.
pub const HARDWARE_PAGE_MAX: usize = 64;
/// Bands of latencies in a heatmap.
pub const HEATMAP_BANDS_MAX: usize = 256;
/// Operations of which one page has the shares: several steps with 32 phases each. At 20 KiB for
/// each of two slots that wait for a checkpoint, 5 MiB are copied.
pub const BOTTLENECK_OPERATIONS_MAX: usize = 128;
/// Counters that its rules read: those of tokens, hits and misses.
pub const BOTTLENECK_COUNTERS_MAX: usize = 64;
/// Time in which nodes answer with the readings that rules of bottlenecks need: one that keeps a
/// history takes milliseconds, and commands give up after 5 s.
pub const BOTTLENECK_ASK_WAIT: Duration = Duration::from_secs(3);
/// Cycles and nodes that one rule of bottlenecks names: more are no list to work through.
pub const BOTTLENECKS_OF_RULE_MAX: usize = 16;
/// Quantiles in one query.
pub const HISTORY_QUANTILES_MAX: usize = 32;
/// Limits in one query.
pub const HISTORY_LIMITS_MAX: usize = 32;
/// Counters by whose sum one query divides another one.
pub const METRIC_DIVISORS_MAX: usize =
    plimsoll_schemas::limits::wire::HISTORY_METRICS_ASKED_MAX - 1;
/// Readings for one query: one is made anew if a checkpoint was written meanwhile.
pub const HISTORY_READINGS_MAX: usize = 8;
/// Threads that read the slots of one query: on a disk that takes 0.15 ms for a read, four of them
/// read as fast as one core can add.
pub const HISTORY_AHEAD_THREADS: usize = 4;
/// Slots that one of them reads at once, and
pub const HISTORY_AHEAD_SLOTS: u64 = 16;
/// how many times as many it may have read ahead: at some 20 KiB a slot, all have 4 MiB.
pub const HISTORY_AHEAD_PARTS: usize = 2;
/// Bytes of the history file that are cached in memory.
pub const HISTORY_CACHE_BYTES: usize = 8 * 1024 * 1024;
/// Time between two searches for slots that are to be dropped.
pub const HISTORY_EXPIRY_EVERY: Duration = Duration::from_secs(60);
/// Time between two searches for series that have no slot any more.
pub const HISTORY_SERIES_EXPIRY_EVERY: Duration = Duration::from_secs(3_600);
/// Time between two batches that makes a leap of the clock likely: one that is ahead must not drop
/// the past.
pub const HISTORY_CLOCK_LEAP_MIN: Duration = Duration::from_secs(6 * 3_600);
/// Time for which nothing is dropped after such a leap.
pub const HISTORY_CLOCK_LEAP_LASTS: Duration = Duration::from_secs(600);
/// Time between two attempts to write a history that fails.
pub const HISTORY_RETRY_PAUSE: Duration = Duration::from_secs(30);
/// Steps in which one search drops slots of a tier that has too many bytes.
pub const HISTORY_EXPIRY_STEPS_MAX: usize = 64;
/// Time between two comparisons of operations with their baselines, all rules together.
pub const REGRESSION_EVERY: Duration = Duration::from_secs(60);
/// Age from which the result of such a comparison is unknown: several may have failed.
pub const REGRESSION_STALE_AFTER: Duration = Duration::from_secs(300);
/// Bytes of a baseline: some kilobytes for each of the slots of a day.
pub const BASELINE_BYTES_MAX: u64 = 1 << 26;
/// Longest time between two evaluations for which nodes count as expected: a process that was
/// stopped for longer received nothing.
pub const TICK_LONGEST: Duration = Duration::from_secs(10);
/// Evaluations of the time between two runs; a longer time is judged in longer steps.
pub const CATCH_UP_STEPS_MAX: u32 = 600;
/// Pending messages of a lane at which a backlog begins; it ends at none. Several times what a
/// fleet of 10 000 sends within [`plimsoll_bus::limits::PULL_REST`].
pub const BACKLOG_MESSAGES: u64 = 1_000;
/// Delay of reading above which nodes are no longer requested to resend missing messages: these are
/// probably in the backlog.
pub const READ_BEHIND_MAX: Duration = Duration::from_secs(30);
/// Minimum time for which samples are missing below a node's newest message, as far as the streams
/// have been read, before that is an alert: longer than a resend takes.
pub const GAP_PATIENCE: Duration = Duration::from_secs(30);
/// The same as a multiple of the time between two checkpoints: a confirmation reports to a node
/// what is missing, a checkpoint takes time, and a confirmation can get lost. With ten thousand
/// nodes that is a minute and a half.
pub const GAP_PATIENCE_CHECKPOINTS: u32 = 3;
/// Time after a later incarnation of a node was first seen, as far as the streams have been read,
/// at which its former incarnation without a final message is closed. A crash report is among the
/// first messages of a successor, and lanes overtake each other by less when all has been read.
pub const CRASH_CLOSED_AFTER: Duration = Duration::from_secs(10);
/// Time between two warnings that two nodes have one name.
pub const NAME_CONFLICT_LOG_EVERY: Duration = Duration::from_secs(60);
/// Sequence gaps of one incarnation that the ledger page lists.
pub const LEDGER_HOLES_MAX: usize = 64;
/// Age beyond which neither a node nor a stream keeps a message: that of a spool, that of a stream,
/// and an interval of the same length.
pub const MESSAGE_AGE_MAX: Duration = Duration::from_secs(3 * 24 * 3_600);
/// Longest time between sending and storing of a message, such as one in a socket while the broker
/// is stopped. A clock set back by less is taken for such a delay for as long.
pub const ON_ITS_WAY_MAX: Duration = Duration::from_secs(120);
/// Time whose fastest message shows the offset of a node's clock; half of it at least. For a link
/// that is slow for longer, its round trip is the only sign that the clock is not behind.
pub const CLOCK_OFFSET_WITHIN: Duration = Duration::from_secs(300);
/// Age from which a round trip of the aggregator's own is stale; one is measured each second.
pub const ROUND_TRIP_STALE_AFTER: Duration = Duration::from_secs(10);
/// How far ahead of the aggregator's clock a snapshot without a send time may begin.
pub const CLOCK_AHEAD_MAX: Duration = Duration::from_secs(5);
/// Time between two reports of a shard.
pub const SHARD_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes at which a shard's report is closed: with one more message of the largest size it is still
/// below `plimsoll_schemas::limits::wire::SHARD_BYTES_MAX`.
pub const SHARD_REPORT_BYTES: usize = 384 * 1024;
/// Reports of a shard that the aggregator above has not confirmed: ten minutes at one a second.
/// Beyond them the shard reads no more messages, which stay in their streams.
pub const SHARD_UNCONFIRMED_MAX: usize = 600;
/// Bytes of those.
pub const SHARD_UNCONFIRMED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Pause after the broker has refused a shard's report, or did not answer.
pub const SHARD_RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Shortest and longest lease of a partition: a shorter one ends while a broker restarts, with a
/// longer one a partition has no aggregator for too long.
pub const LEASE_MIN: Duration = Duration::from_secs(3);
/// See [`LEASE_MIN`].
pub const LEASE_MAX: Duration = Duration::from_secs(60);
/// Difference between the clocks of broker and aggregator, and way of a message, within which the
/// two clocks agree: a quarter of the shortest slot of a window.
pub const BROKER_CLOCK_AGREES_WITHIN: Duration = Duration::from_millis(250);
/// For how long that is known after it was seen; twice that at most.
pub const BROKER_CLOCK_KNOWN_FOR: Duration = Duration::from_secs(60);
/// Events of a shard's connections that wait for the driver.
pub const SHARD_EVENTS_MAX: usize = 64;
/// Time between the log line that names rules which fire and are gone from the files, and their
/// end.
pub const REMOVAL_ANNOUNCED: Duration = Duration::from_secs(10);
