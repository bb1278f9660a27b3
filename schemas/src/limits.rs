//! Every bound in the mesh, in one place: nothing grows past a number written here.
//!
//! A bound that a user may lower or raise is a default here and a key in a config file; the
//! hard bounds of the wire are fixed for the life of a schema version.

pub mod client;

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
    /// Reasons in one message's account of lost samples, and of refused lines.
    pub const LOSS_REASONS_MAX: usize = 32;
    /// Incarnations in one confirmation: as many as an aggregator remembers of a node, so that a
    /// node which crashed again and again still hears of all that it has adopted.
    pub const CONFIRMED_RUNS_MAX: usize = 16;
    /// Unbroken runs of numbers told of one incarnation in one confirmation.
    pub const CONFIRMED_SPANS_MAX: usize = 64;
    /// Bytes of one confirmation; the fullest takes less than 20 KiB.
    pub const CONFIRMATION_BYTES_MAX: usize = 32 * 1024;
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

/// What a node may hold.
pub mod node {
    use std::time::Duration;

    /// Length of an interval.
    pub const INTERVAL: Duration = Duration::from_secs(1);
    /// Bytes of one datagram that are read; the largest UDP payload.
    pub const DATAGRAM_BYTES_MAX: usize = 65_535;
    /// Bytes of one line in a datagram.
    pub const LINE_BYTES_MAX: usize = 8_192;
    /// Datagrams read with one call; more save little, and each has 64 KiB to itself, of which
    /// only what was once written is resident.
    pub const DATAGRAMS_PER_CALL: usize = 16;
    /// Datagrams read from one socket before the driver looks at anything else, nearly.
    pub const DATAGRAMS_PER_WAKE: usize = 256;
    /// Bytes read from one socket before the driver looks at anything else; the last datagram
    /// may go beyond. A packed datagram holds thousands of values.
    pub const BYTES_PER_WAKE: usize = 128 * 1024;
    /// Receive buffer asked of the kernel for each socket, in bytes.
    pub const SOCKET_RECEIVE_BYTES: usize = 4 * 1024 * 1024;
    /// Datagrams that should fit into a Unix datagram socket's queue; the system's default of 10
    /// makes a job wait that sends a few at once.
    pub const UNIX_QUEUE_DATAGRAMS: u32 = 512;
    /// Longest rest between two reads of a socket that datagrams keep coming to; what is sent
    /// meanwhile waits in its receive buffer.
    pub const REST_MAX: Duration = Duration::from_millis(5);
    /// Datagrams a second that may begin to come during a rest, and still find room.
    pub const REST_DATAGRAMS_PER_SECOND: u64 = 400_000;
    /// Clients connected to the stream socket at one time; one more is turned away, counted.
    pub const CLIENT_CONNECTIONS_MAX: usize = 256;
    /// Frames taken from all clients before the driver looks at anything else.
    pub const FRAMES_PER_WAKE: usize = 64;
    /// Looks for clients that have something to say, or wish to connect, before the driver looks
    /// at anything else.
    pub const LOOKS_PER_WAKE: usize = 64;
    /// Bytes read from one client at a time; its buffer grows by no more than that ahead of
    /// what has arrived.
    pub const FRAME_READ_BYTES: usize = 16 * 1024;
    /// Bytes that all clients' unfinished frames may take together; the client whose bytes go
    /// beyond is closed, and sends its frame again.
    pub const FRAME_BUFFERS_BYTES_MAX: usize = 16 * 1024 * 1024;
    /// Series (histograms, counters and gauges together) in one interval.
    pub const SERIES_MAX: usize = 2_000;
    /// Ways to write one series (orders of its tags) that are remembered, on average.
    pub const SPELLINGS_PER_SERIES_MAX: usize = 4;
    /// Bytes of name and tags above which a way is not remembered, only read anew each time.
    pub const SPELLING_BYTES_MAX: usize = 512;
    /// Clients known that number what they send; for one more the longest silent is forgotten.
    pub const CLIENTS_MAX: usize = 1_024;
    /// Samples that a client's numbers may say were lost at once. What one datagram of values
    /// with the lowest rate stands for, so that a forged number can do no more than a line can.
    pub const LOST_SAMPLES_MAX: u64 = 1 << 35;
    /// Keys in each of a node's lists of labels.
    pub const LABEL_RULES_MAX: usize = 256;
    /// Suffixes of names that say a unit.
    pub const UNIT_SUFFIXES_MAX: usize = 64;
    /// Samples that one value may stand for (sample rate 1e-6).
    pub const WEIGHT_MAX: f64 = 1e6;
    /// Messages held until the broker has acknowledged them; one more is dropped and counted.
    pub const OUTBOX_MESSAGES_MAX: usize = 8_000;
    /// Bytes held until the broker has acknowledged them.
    pub const OUTBOX_BYTES_MAX: usize = 64 * 1024 * 1024;
    /// Messages held from which on new ones go by the emergency lane.
    pub const REROUTE_MESSAGES: usize = 4_000;
    /// Messages held at which dropping, rerouting and conservative mode end.
    pub const LEAVE_MESSAGES: usize = 1_000;
    /// Longest time in which only the emergency lane is sent.
    pub const CONSERVATIVE_MAX: Duration = Duration::from_secs(60);
    /// Messages held above which neighbours that were never sent are merged. Below
    /// [`LEAVE_MESSAGES`], so that an outage alone never leads to rerouting.
    pub const COALESCE_MESSAGES: usize = 512;
    /// Bytes held above which neighbours that were never sent are merged.
    pub const COALESCE_BYTES: usize = 16 * 1024 * 1024;
    /// Bytes of a merged message, at most and without its header; leaves room below
    /// [`super::wire::MESSAGE_BYTES_MAX`].
    pub const COALESCED_BYTES_MAX: usize = 480 * 1024;
    /// Messages a minute in the emergency lane.
    pub const EMERGENCY_PER_MINUTE: u32 = 120;
    /// Messages that the emergency lane takes at once after a rest.
    pub const EMERGENCY_BURST: u32 = 20;
    /// Of those, messages that only critical ones may be.
    pub const EMERGENCY_RESERVED: u32 = 5;
    /// Failures in a row after which the breaker opens.
    pub const BREAKER_FAILURES: u32 = 3;
    /// Time for which an open breaker lets nothing pass; also the rest of a message that was
    /// tried [`ATTEMPTS_IN_A_ROW_MAX`] times.
    pub const BREAKER_OPEN: Duration = Duration::from_secs(30);
    /// Attempts in a row for one message before it rests and lets others pass.
    pub const ATTEMPTS_IN_A_ROW_MAX: u32 = 5;
    /// Messages sent and not yet acknowledged.
    pub const IN_FLIGHT_MAX: usize = 64;
    /// Messages acknowledged by the broker and not yet confirmed by an aggregator that a node
    /// keeps. At two messages a second, over eight minutes without an aggregator.
    pub const ENTRUSTED_MESSAGES_MAX: usize = 1_024;
    /// Their bytes.
    pub const ENTRUSTED_BYTES_MAX: usize = 8 * 1024 * 1024;
    /// Time for which nothing new is sealed once there are so many; then the oldest are let go.
    pub const ENTRUSTED_PATIENCE: Duration = Duration::from_secs(10);
    /// Time after an acknowledgement from which on an aggregator that does not have the message
    /// is sent it again; it doubles with every repetition.
    pub const RESEND_AFTER: Duration = Duration::from_secs(5);
    /// Longest such time.
    pub const RESEND_AFTER_MAX: Duration = Duration::from_secs(300);
    /// Silence of all aggregators after which the newest message is sent again; it doubles.
    pub const CONFIRMATION_PROBE_AFTER: Duration = Duration::from_secs(60);
    /// Longest such silence.
    pub const CONFIRMATION_PROBE_MAX: Duration = Duration::from_secs(960);
    /// Wait of a leaving node for confirmations, once everything is acknowledged.
    pub const LEAVE_CONFIRM_WAIT: Duration = Duration::from_secs(3);
    /// Time between two notes of how much the open interval has counted.
    pub const RUNNING_NOTED_EVERY: Duration = Duration::from_millis(100);
    /// Time after which a write into the spool that is not done is told of.
    pub const SPOOL_STUCK_AFTER: Duration = Duration::from_secs(10);
    /// Wait on the way out for what is written into the spool last.
    pub const SPOOL_END_WAIT: Duration = Duration::from_secs(2);
    /// Dead letters that wait to be sent.
    pub const DEAD_LETTERS_MAX: usize = 16;
    /// Wait for one acknowledgement before the same bytes are sent again.
    pub const ACK_WAIT: Duration = Duration::from_secs(5);
    /// Pause before a message that the broker did not take is sent again.
    pub const RETRY_PAUSE: Duration = Duration::from_secs(1);
    /// Time after SIGTERM for reading what the jobs had sent before.
    pub const EMPTY_WAIT: Duration = Duration::from_millis(500);
    /// Bytes read in that time; what both sockets can hold, so that a sender who goes on and on
    /// is not waited for.
    pub const EMPTY_BYTES_MAX: usize = 2 * SOCKET_RECEIVE_BYTES;
    /// Wait for the outbox to empty after SIGTERM.
    pub const DRAIN_WAIT: Duration = Duration::from_secs(10);
    /// Wait for the connection to close after that.
    pub const CLOSE_WAIT: Duration = Duration::from_secs(2);
    /// Readings in one hardware sample.
    pub const READINGS_MAX: usize = 1_024;
    /// Age at which a hardware sample no longer counts as current.
    pub const SENSOR_STALE_AFTER: Duration = Duration::from_secs(5);
    /// Time between two hardware samples.
    pub const SENSOR_EVERY: Duration = Duration::from_secs(1);
    /// Time between two looks for hardware that comes and goes: an NVML driver, hwmon chips.
    pub const SENSOR_RELIST_EVERY: Duration = Duration::from_secs(60);
    /// Wait for the sampler's threads to end; one that hangs in a driver is left behind.
    pub const SENSOR_STOP_WAIT: Duration = Duration::from_secs(1);
    /// CPU cores that are read one by one.
    pub const CORES_MAX: usize = 512;
    /// GPUs that are read.
    pub const GPUS_MAX: usize = 16;
    /// Mounted file systems that are read.
    pub const DISKS_MAX: usize = 32;
    /// Network interfaces that are read.
    pub const INTERFACES_MAX: usize = 64;
    /// Components whose temperature is read.
    pub const COMPONENTS_MAX: usize = 64;
    /// Bytes of a spool's file. What an outbox holds fits in twice over: the file is written
    /// anew once more of it is outdated than not.
    pub const SPOOL_BYTES_MAX: usize = 128 * 1024 * 1024;
    /// Drafts in a spool, and sealed messages; twice what an outbox holds by default.
    pub const SPOOL_ENTRIES_MAX: usize = 2 * OUTBOX_MESSAGES_MAX;
    /// Incarnations in a spool of which something is still held; older ones are forgotten.
    pub const SPOOL_RUNS_MAX: usize = 64;
    /// Outdated bytes in a spool's file that are not worth writing it anew.
    pub const SPOOL_GARBAGE_BYTES: usize = 1024 * 1024;
    /// Age of what a starting node finds in its spool above which it is given up, counted: the
    /// streams forget at the same age.
    pub const SPOOL_AGE_MAX: Duration = Duration::from_secs(24 * 3_600);
    /// Pause after a write to the spool failed, before all of it is written anew.
    pub const SPOOL_RETRY_PAUSE: Duration = Duration::from_secs(5);
}

/// What the connection to the broker may hold.
pub mod bus {
    use std::time::Duration;

    /// Commands inside the NATS client; small, because what waits there cannot be counted.
    pub const CLIENT_COMMANDS_MAX: usize = 256;
    /// Messages buffered for one subscription. Counted in messages, not bytes, by the client.
    pub const SUBSCRIPTION_MESSAGES_MAX: usize = 256;
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
    /// Messages asked of the broker at one time; below [`SUBSCRIPTION_MESSAGES_MAX`], so that
    /// the client never drops one.
    pub const PULL_MESSAGES_MAX: usize = 128;
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

    /// Nodes known at one time.
    pub const NODES_MAX: usize = 10_000;
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
    /// Alert changes kept for the summary.
    pub const ALERT_HISTORY_MAX: usize = 256;
    /// Alert changes that wait for the bus.
    pub const NOTICES_MAX: usize = 1_024;
    /// Budgets in one configuration.
    pub const BUDGETS_MAX: usize = 256;
    /// Messages of the emergency lane in a row before one of the normal lane has its turn.
    pub const EMERGENCY_IN_A_ROW_MAX: u32 = 16;
    /// Time between two evaluations of all budgets.
    pub const EVALUATE_EVERY: Duration = Duration::from_secs(1);
    /// Silence after which a node counts as silent.
    pub const NODE_SILENT_AFTER: Duration = Duration::from_secs(10);
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
    /// Pause after a checkpoint could not be written.
    pub const CHECKPOINT_RETRY_PAUSE: Duration = Duration::from_secs(5);
    /// Bytes of the store that may be cached in memory.
    pub const STORE_CACHE_BYTES: usize = 8 * 1024 * 1024;
    /// Evaluations of one span that is caught up with after a restart; a longer span is judged
    /// in longer steps.
    pub const CATCH_UP_STEPS_MAX: u32 = 600;
    /// Messages pending in a lane at which a backlog begins; it ends when none is.
    pub const BACKLOG_MESSAGES: u64 = 100;
    /// How long samples may be missing below a node's newest message, while nothing waits to be
    /// read, before that is an alert: longer than it takes a node to send again what was lost.
    pub const GAP_PATIENCE: Duration = Duration::from_secs(30);
    /// Time between two warnings that two nodes have one name.
    pub const NAME_CONFLICT_TOLD_EVERY: Duration = Duration::from_secs(60);
    /// Holes of one incarnation that the ledger's page lists.
    pub const LEDGER_HOLES_MAX: usize = 64;
    /// How far ahead of the aggregator's clock a snapshot may begin.
    pub const CLOCK_AHEAD_MAX: Duration = Duration::from_secs(5);
}

/// What every HTTP server of the mesh may take on.
pub mod http {
    use std::time::Duration;

    /// Bytes of one request's body.
    pub const BODY_BYTES_MAX: usize = 64 * 1024;
    /// Time one request may take.
    pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
    /// Questions that wait for the driver.
    pub const QUERIES_MAX: usize = 64;
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
