//! What a node may hold.

pub mod scrape;

use std::ops::RangeInclusive;
use std::time::Duration;

/// Length of an interval.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of a rejected line that are logged.
pub const REJECTED_EXAMPLE_BYTES: usize = 120;
/// Bytes of one datagram that are read; the largest UDP payload.
pub const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Bytes of one line of a datagram or a page.
pub const LINE_BYTES_MAX: usize = 8_192;
/// Datagrams read with one call; more save little, and each has 64 KiB to itself, of which
/// only what was once written is resident.
pub const DATAGRAMS_PER_CALL: usize = 32;
/// Datagrams read from one socket before the driver handles other events, nearly.
pub const DATAGRAMS_PER_WAKE: usize = 256;
/// Bytes read from one socket before the driver handles other events; the last datagram, or
/// body of OTLP, may go beyond. A packed datagram holds thousands of values.
pub const BYTES_PER_WAKE: usize = 128 * 1024;
/// Receive buffer requested from the kernel for each socket, in bytes.
pub const SOCKET_RECEIVE_BYTES: usize = 4 * 1024 * 1024;
/// Datagrams that should fit into a Unix datagram socket's queue; the system's default of 10
/// makes a job wait that sends a few at once.
pub const UNIX_QUEUE_DATAGRAMS: u32 = 512;
/// Datagrams that a socket may collect in one rest. A wake-up costs as much as reading a hundred;
/// beyond this it is a hundredth of the cost.
pub const DATAGRAMS_PER_REST: usize = 1_024;
/// Longest rest between two reads of a socket that datagrams keep coming to; what is sent
/// meanwhile waits in its receive buffer.
pub const REST_MAX: Duration = Duration::from_millis(20);
/// Datagrams a second that may begin to come during a rest, and still find room.
pub const REST_DATAGRAMS_PER_SECOND: u64 = 400_000;
/// Clients connected to one stream socket at one time; one more is rejected, counted.
pub const CLIENT_CONNECTIONS_MAX: usize = 256;
/// Frames taken from all clients before the driver handles other events.
pub const FRAMES_PER_WAKE: usize = 64;
/// Polls for clients that have sent something, or wish to connect, before the driver handles
/// other events.
pub const POLLS_PER_WAKE: usize = 64;
/// Bytes read from one client at a time; its buffer grows by no more than that ahead of
/// what has arrived.
pub const FRAME_READ_BYTES: usize = 16 * 1024;
/// Bytes that all clients' unfinished frames may take together; the client whose bytes go
/// beyond is closed, and sends its frame again.
pub const FRAME_BUFFERS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of one body of OTLP, as it is sent and once more when it is inflated: what SDKs and
/// collectors take for the most that a receiver accepts.
pub const OTLP_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes that all bodies of OTLP may take together, from their heads until they are recorded: two
/// of the largest and many of the usual ones. A producer that finds no room sends again later.
pub const OTLP_BUFFERS_BYTES_MAX: usize = 9 * 1024 * 1024;
/// What one request takes of them before its body, and
pub const OTLP_REQUEST_BYTES: usize = 16 * 1024;
/// what inflating its body takes: the window of 32 KiB, the tables and a buffer.
pub const OTLP_INFLATE_BYTES: usize = 96 * 1024;
/// Time for one body of OTLP.
pub const OTLP_BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Bodies of OTLP that wait for the driver; more wait in their requests.
pub const OTLP_QUEUE_MAX: usize = 8;
/// Connections to each of the two ports for OTLP.
pub const OTLP_CONNECTIONS_MAX: usize = 64;
/// Seconds after which a client that found no room may try again.
pub const OTLP_RETRY_SECONDS: u64 = 1;
/// Series (histograms, counters and gauges together) in one interval.
pub const SERIES_MAX: usize = 2_000;
/// Ways to write one series (orders of its tags) that are remembered, on average.
pub const CACHED_FORMS_PER_SERIES_MAX: usize = 4;
/// Bytes of name and tags above which a way is not remembered, only read anew each time.
pub const CACHED_SERIES_BYTES_MAX: usize = 512;
/// Operations whose limits the node stores: twice what one aggregator sends, since those of a pair
/// may differ for a while.
pub const LIMITS_OPERATIONS_MAX: usize = 2 * plimsoll_schemas::limits::wire::CONFIRMED_LIMITS_MAX;
/// A limit that is not repeated for so long, while others are, is evicted.
pub const LIMIT_EVICTED_AFTER: Duration = Duration::from_secs(600);
/// Declared urgencies that the node stores: twice what one aggregator sends.
pub const DECLARED_MAX: usize = 2 * plimsoll_schemas::limits::wire::CONFIRMED_URGENT_MAX;
/// Messages a minute that one declared urgency may send at once: a quarter of the emergency lane's.
pub const SHARE_PER_MINUTE: u32 = 30;
/// The same at one time.
pub const SHARE_BURST: u32 = 5;
/// Numbered clients that the node tracks; one more evicts the longest silent.
pub const CLIENTS_MAX: usize = 1_024;
/// Operations of which the node knows who brings them; one beyond never counts as ended.
pub const JOB_OPERATIONS_MAX: usize = 256;
/// Sources of one operation; one more evicts the longest silent.
pub const JOB_SOURCES_MAX: usize = 128;
/// Sources of one series in one interval that are distinguished.
pub const SERIES_SOURCES_MAX: usize = 64;
/// A source of an operation is gone after this multiple of its longest pause, as for the
/// aggregator's rule `data_absent`.
pub const JOB_PAUSES_MAX: u32 = 3;
/// No source is gone earlier. Less than the minute after which samples are absent there, so that
/// one that sent once holds up no end for so long that its samples are reported as absent.
pub const JOB_SILENT_AFTER: Duration = Duration::from_secs(45);
/// Bus messages report for so long that an operation has ended: as long as an aggregator may be cut
/// off and still receive it.
pub const OPERATION_ENDED_SHOWN: Duration = Duration::from_secs(6 * 3_600);
/// Streams of points that the node tracks, each start of a process one of its own. One
/// more evicts the sixteenth of them that is longest silent. About 150 bytes each.
pub const STREAMS_MAX: usize = 8_192;
/// Bytes of their bucket counts, kept to subtract them from the next report.
pub const STREAMS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Starts of one stream: processes that call themselves the same.
pub const STREAM_STARTS_MAX: usize = 64;
/// Buckets of one point. OpenTelemetry's own make 160 by default, and 8 KiB of these are kept.
pub const POINT_BUCKETS_MAX: usize = 1_024;
/// Ranges of exponential buckets of which the edges are kept, each of one scale: as many as a job
/// and its libraries use. At most 16 KiB each.
pub const POWER_WINDOWS_MAX: usize = 8;
/// How far the time of a point may be ahead of the node's clock; one further ahead is of a clock
/// that has to be set back.
pub const POINT_AHEAD_MAX: Duration = Duration::from_secs(10);
/// Samples that a client's numbers may report as lost at once: as many as one datagram of values
/// with the lowest rate represents, so that a forged number can do no more than a line can.
pub const LOST_SAMPLES_MAX: u64 = 1 << 35;
/// Keys in each of a node's lists of labels.
pub const LABEL_RULES_MAX: usize = 256;
/// Bytes of the path of a Unix socket: what the kernel has room for.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Users whom a node lists for its Unix sockets.
pub const LISTEN_USERS_MAX: usize = 64;
/// Labels of a node itself, which are in each of its messages with samples: at most 1.6 KB.
pub const IDENTITY_LABELS_MAX: usize = 8;
/// Suffixes of names that state a unit.
pub const UNIT_SUFFIXES_MAX: usize = 64;
/// Patterns of names that state a unit; each is compared with a name once per series.
pub const UNIT_PATTERNS_MAX: usize = 64;
/// Values of an operation that the unit check reads before it decides.
pub const UNIT_CHECK_VALUES: u32 = 20;
/// Of these, values of 1 or more that still fit seconds: the first calls of a job may be slow.
pub const UNIT_CHECK_LARGE_VALUES_MAX: u32 = 2;
/// Of these, values that must be evidence of seconds. Of datagrams in seconds 80 % are.
pub const UNIT_CHECK_EVIDENCE_MIN: u32 = 10;
/// Operations that the unit check stores, about 100 bytes each; one more makes it begin anew.
pub const UNIT_CHECK_OPERATIONS_MAX: usize = 4_096;
/// Operations reported with a suspect unit, each with one log line; then the check ends.
pub const SUSPECT_UNITS_MAX: usize = 64;
/// Samples that one value may represent (sample rate 1e-6).
pub const WEIGHT_MAX: f64 = 1e6;
/// Metrics that a node may be configured to rename.
pub const OTLP_OPERATIONS_MAX: usize = 256;
/// Rules that select which spans are latencies; each is matched against each span's name.
pub const OTLP_SPAN_RULES_MAX: usize = 64;
/// Attributes that one such rule matches.
pub const OTLP_SPAN_ATTRIBUTES_MAX: usize = 16;
/// Levels of messages within each other in a body of OTLP, as other readers allow.
pub const OTLP_DEPTH_MAX: usize = 100;
/// Points or spans in one body. They keep the driver busy: explicit histograms for 0.2 s at most,
/// exponential ones of 160 buckets, of which fewer fit, as long.
pub const OTLP_POINTS_MAX: usize = 65_536;
/// Bytes of a metric's or span's name that are read at all.
pub const OTLP_NAME_BYTES_MAX: usize = 1_024;
/// Buckets of one point, and values of one summary.
pub const OTLP_BUCKETS_MAX: usize = 8_192;
/// Attributes of one point, span or producer that may become labels, as many as OpenTelemetry's own
/// keep; those beyond only distinguish streams.
pub const OTLP_ATTRIBUTES_MAX: usize = 128;
/// Quantiles of one point of a summary; those beyond are passed over.
pub const OTLP_QUANTILES_MAX: usize = 64;
/// Spans remembered by their ids to detect repetitions: eight seconds of 4 000 a second.
pub const OTLP_SPANS_REMEMBERED_MAX: usize = 32_768;
/// Bytes of the message about a refusal that a producer receives.
pub const OTLP_MESSAGE_BYTES_MAX: usize = 512;
/// Messages, as they were produced, that wait for the broker's acknowledgement; at this number,
/// readings are dropped and counted.
pub const OUTBOX_MESSAGES_MAX: usize = 8_000;
/// Messages that wait, each of which may stand for many; one more is dropped and counted.
pub const OUTBOX_ENTRIES_MAX: usize = 8_000;
/// Bytes held until the broker has acknowledged them.
pub const OUTBOX_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Age of the oldest message that weighs as much as [`OUTBOX_MESSAGES_MAX`] messages: a node that
/// produces two a second has as many after that time.
pub const OUTBOX_AGE_MAX: Duration = Duration::from_secs(4_000);
/// Messages, as they were produced, at which dropping, rerouting and conservative mode end: a
/// quarter of [`plimsoll_schemas::limits::delivery::REROUTE_MESSAGES`].
pub const RECOVER_MESSAGES: usize = 1_000;
/// How long a breach overtakes a backlog: the shortest windows of budgets are as long, and an older
/// breach must not delay one that begins now.
pub const BREACH_URGENT_FOR: Duration = Duration::from_secs(60);
/// How long an urgent message is new: it passes what is urgent and older.
pub const NEW_FOR: Duration = Duration::from_secs(2);
/// By how much the normal lane may be delayed before what is urgent goes by the emergency lane.
pub const BEHIND_AFTER: Duration = Duration::from_secs(10);
/// How long an aggregator that was behind counts as behind without another confirmation.
pub const BEHIND_KEPT: Duration = Duration::from_secs(60);
/// Longest time in which only the emergency lane is sent.
pub const CONSERVATIVE_MAX: Duration = Duration::from_secs(60);
/// Messages held above which neighbours that were never sent are merged: over four minutes of two a
/// second.
pub const COALESCE_MESSAGES: usize = 512;
/// Bytes held above which neighbours that were never sent are merged.
pub const COALESCE_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of a merged message, at most and without its header; leaves room below
/// [`plimsoll_schemas::limits::wire::MESSAGE_BYTES_MAX`].
pub const COALESCED_BYTES_MAX: usize = 480 * 1024;
/// Messages a minute in the emergency lane.
pub const EMERGENCY_PER_MINUTE: u32 = 120;
/// Messages that the emergency lane takes at once after a rest: ten seconds of its rate.
pub const EMERGENCY_BURST: u32 = 20;
/// Of those, messages that only critical ones may be.
pub const EMERGENCY_RESERVED: u32 = 5;
/// Failures in a row after which the breaker opens.
pub const BREAKER_FAILURES: u32 = 3;
/// Time for which an open breaker lets nothing pass; also the rest of a message that was refused,
/// or that had no answer [`ATTEMPTS_IN_A_ROW_MAX`] times.
pub const BREAKER_OPEN: Duration = Duration::from_secs(30);
/// Attempts in a row without an answer for one message before it rests and lets others pass.
pub const ATTEMPTS_IN_A_ROW_MAX: u32 = 5;
/// Refusals by an answering broker after which a message becomes a dead letter, if the reason may
/// pass; otherwise the first is enough.
pub const REFUSALS_MAX: u32 = 5;
/// Shortest time between two refusals of one message that count: five span four minutes at least,
/// so that a stream that was full for a minute costs no message.
pub const REFUSAL_EVERY: Duration = Duration::from_secs(60);
/// First rest of a message that no stream keeps: the connection creates a missing stream two
/// seconds after the first such answer. It doubles with each probe that finds none.
pub const NO_STREAM_REST: Duration = Duration::from_secs(3);
/// Messages sent and not yet acknowledged.
pub const IN_FLIGHT_MAX: usize = 64;
/// Of those, messages that only the emergency lane may be.
pub const IN_FLIGHT_RESERVED: usize = 8;
/// Longest wait for one acknowledgement: it doubles from `ACK_WAIT` on with each that is overdue.
pub const ACK_WAIT_MAX: Duration = Duration::from_secs(120);
/// Bytes of the normal lane that may be on their way at the start of a connection, as TCP begins.
pub const WINDOW_BYTES_START: usize = 16 * 1024;
/// The fewest: one interval of a few series.
pub const WINDOW_BYTES_MIN: usize = 2 * 1024;
/// The most: a full message for each that may be in flight.
pub const WINDOW_BYTES_MAX: usize = IN_FLIGHT_MAX * 512 * 1024;
/// Time for which the window holds bytes beyond the link's own delay: what is on its way delays
/// what is urgent by as much.
pub const LINK_QUEUE: Duration = Duration::from_millis(300);
/// An acknowledgement that took this time and twice the link's own delay shrinks the window.
pub const LINK_SLOW: Duration = Duration::from_secs(1);
/// Full rounds for which the highest delivery rate counts, and as many more.
pub const LINK_RATE_ROUNDS: u32 = 8;
/// Full rounds in a row without a higher rate after which the link counts as filled.
pub const LINK_FLAT_ROUNDS: u32 = 2;
/// Time between two measurements of the delay of a link that is never empty by itself. Each takes
/// two round trips and up to a second, so a link of 3 s rests for 7 s in 60.
pub const LINK_MEASURE_EVERY: Duration = Duration::from_secs(60);
/// Shortest such time, after an acknowledgement that was slow.
pub const LINK_MEASURE_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Longest rest of the normal lane for such a measurement.
pub const LINK_MEASURE_MAX: Duration = Duration::from_secs(10);
/// Messages acknowledged by the broker and not yet confirmed by an aggregator that a node
/// keeps. At one message a second, 17 minutes without a confirmation.
pub const UNCONFIRMED_MESSAGES_MAX: usize = 1_024;
/// Their bytes.
pub const UNCONFIRMED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Time for which nothing new is sealed once that number is reached; then the oldest are evicted.
pub const UNCONFIRMED_GRACE: Duration = Duration::from_secs(10);
/// Aggregators of which a node keeps when they last confirmed, and what; of more it drops the one
/// that has been silent for longest.
pub const CONFIRMERS_MAX: usize = 16;
/// Aggregators that the settings may require to confirm a message before its copy is removed.
pub const CONFIRMATIONS_REQUIRED: RangeInclusive<u32> = 1..=4;
/// Time after an aggregator's newest confirmation for which an earlier one is refused. Longer than
/// any pause between two, and short enough for an aggregator whose clock was set back.
pub const REPLAYS_REFUSED_FOR: Duration = Duration::from_secs(300);
/// Ids of one message, and of its resends, that may be found to be taken before a duplicate counts
/// as an acknowledgement: a broker that calls everything a duplicate must not cause a loop.
pub const TAKEN_IDS_MAX: u32 = 3;
/// Time after an acknowledgement from which on an aggregator that does not have the message
/// is sent it again; it doubles with every repetition.
pub const RESEND_AFTER: Duration = Duration::from_secs(5);
/// Longest such time.
pub const RESEND_AFTER_MAX: Duration = Duration::from_secs(300);
/// Longest such silence.
pub const CONFIRMATION_PROBE_MAX: Duration = Duration::from_secs(960);
/// Wait of a leaving node for the first confirmation, once everything is acknowledged, and from
/// each confirmation for the next.
pub const LEAVE_CONFIRM_WAIT: Duration = Duration::from_secs(3);
/// Silence of the aggregator after which a leaving node sends its newest message again: a broker
/// that lost the final message would get no confirmation of anything. Longer than a checkpoint
/// takes.
pub const LEAVE_PROBE_AFTER: Duration = Duration::from_secs(2);
/// Time between two notes of what is recorded, while no answer waits for one.
pub const NOTE_EVERY: Duration = Duration::from_millis(100);
/// Time for which an answer waits for its note before nothing more that is answered is recorded;
/// far below the 10 s after which SDKs give up and send again.
pub const ANSWER_WAIT_MAX: Duration = Duration::from_secs(1);
/// Answers to frames that wait for their note; with more, frames stay unread. Four for each client,
/// of which ours has one.
pub const FRAME_ANSWERS_MAX: usize = 4 * CLIENT_CONNECTIONS_MAX;
/// Answers to bodies of OTLP that wait for their note; with more, bodies wait in their requests.
/// One for each call of each connection to the two ports.
pub const OTLP_ANSWERS_MAX: usize = 2 * 4 * OTLP_CONNECTIONS_MAX;
/// Time after which a write into the spool that is not done is logged.
pub const SPOOL_STUCK_AFTER: Duration = Duration::from_secs(10);
/// Wait on the way out for what is written into the spool last.
pub const SPOOL_END_WAIT: Duration = Duration::from_secs(2);
/// Dead letters that are not stored yet. Their messages stay in the outbox meanwhile; further ones
/// are tried again instead, so that a dead-letter stream that stores nothing gives up nothing.
pub const DEAD_LETTERS_MAX: usize = 16;
/// Pause before a message that the broker did not take is sent again.
pub const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Time after SIGTERM for reading what the jobs had sent before.
pub const EMPTY_WAIT: Duration = Duration::from_millis(500);
/// Pause between two samples in that time, while all that is left to wait for is bodies on their
/// way.
pub const EMPTY_POLL_EVERY: Duration = Duration::from_millis(5);
/// Bytes read in that time; what both sockets can hold, so that the node does not wait for a
/// sender that never stops.
pub const EMPTY_BYTES_MAX: usize = 2 * SOCKET_RECEIVE_BYTES;
/// Wait for the outbox to empty after SIGTERM.
pub const DRAIN_WAIT: Duration = Duration::from_secs(10);
/// Wait for the connection to close after that.
pub const CLOSE_WAIT: Duration = Duration::from_secs(2);
/// Time between two messages with all readings; those between have changed values alone. Bounds how
/// long an aggregator that has missed one knows less.
pub const ALL_READINGS_EVERY: Duration = Duration::from_secs(60);
/// Readings in one hardware sample.
pub const READINGS_MAX: usize = 2_048;
/// Age beyond the time between two samples at which a reading no longer counts as current.
pub const SENSOR_STALE_SLACK: Duration = Duration::from_secs(4);
/// Time between two hardware samples, unless the settings give another.
pub const SENSOR_EVERY: Duration = Duration::from_secs(1);
/// Bounds of that time in milliseconds: as often as a GPU is polled, and half the age at which an
/// aggregator takes readings as stale.
pub const SENSOR_EVERY_MS: RangeInclusive<u64> = 100..=60_000;
/// Time between two samples for hardware that comes and goes: an NVML driver, hwmon chips.
pub const SENSOR_RELIST_EVERY: Duration = Duration::from_secs(60);
/// Time between two samples of a table that costs the kernel much and does not change.
pub const SENSOR_UNMOVED_EVERY: Duration = Duration::from_secs(10);
/// Wait for the sampler's threads to end; one that hangs in a driver is left behind.
pub const SENSOR_STOP_WAIT: Duration = Duration::from_secs(1);
/// CPU cores that are read one by one.
pub const CORES_MAX: usize = 512;
/// GPUs that are read.
pub const GPUS_MAX: usize = 16;
/// Time between two polls of each GPU.
pub const GPU_POLL_EVERY: Duration = Duration::from_millis(100);
/// Time between two samples at what hardly changes in a GPU: limits, links, broken memory.
pub const GPU_SELDOM_EVERY: Duration = Duration::from_secs(10);
/// Time between two loads of an NVML driver that has lost a GPU.
pub const GPU_RELOAD_EVERY: Duration = Duration::from_secs(600);
/// Fans of one GPU that are read.
pub const GPU_FANS_MAX: u32 = 8;
/// NVLinks of one GPU that are read; NVML's own bound.
pub const GPU_LINKS_MAX: u32 = 18;
/// Instances of one divided GPU that are read.
pub const GPU_INSTANCES_MAX: u32 = 8;
/// Faults taken from one GPU's driver at one poll.
pub const GPU_EVENTS_MAX: usize = 16;
/// Numbers of faults of one GPU that are counted one by one.
pub const GPU_XIDS_MAX: usize = 32;
/// Mounted file systems that are read, six readings each.
pub const DISKS_MAX: usize = 128;
/// Network interfaces that are read.
pub const INTERFACES_MAX: usize = 64;
/// Components whose temperature is read; a server has one for each core and memory module.
pub const COMPONENTS_MAX: usize = 256;
/// Block devices whose work is read.
pub const BLOCK_DEVICES_MAX: usize = 64;
/// Names that are read in one of the kernel's folders.
pub const SENSOR_FOLDER_ENTRIES_MAX: usize = 4_096;
/// Bytes of one of the kernel's files that hold one figure, at most and less one.
pub const SENSOR_LINE_BYTES_MAX: usize = 256;
/// Bytes of one of the kernel's tables: the mounts of 10 000 containers. The rest is not read.
pub const SENSOR_TABLE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of the buffer for tables that stay allocated between two samples.
pub const SENSOR_SPACE_KEPT: usize = 256 * 1024;
/// Wait for one answer of what may hang, after which the others are asked.
pub const SENSOR_ANSWER_WAIT: Duration = Duration::from_millis(100);
/// Age at which the latest answer of what hangs no longer counts.
pub const SENSOR_HANGS_AFTER: Duration = Duration::from_secs(5);
/// Threads that may hang at file systems, and as many at thermometers.
pub const SENSORS_HANGING_MAX: usize = 8;
/// Control groups above each other whose limits are read.
pub const CGROUP_DEPTH_MAX: usize = 16;
/// Watches: groups of processes whose figures are summed.
pub const WATCHES_MAX: usize = 16;
/// Processes that one watch sums; with more, it reports their number alone.
pub const WATCHED_PROCESSES_MAX: usize = 1_024;
/// Processes of the machine whose names one sample compares; the rest is counted as left out.
pub const WATCH_NAMES_MAX: usize = 65_536;
/// Control groups below that of one watch whose processes are listed.
pub const WATCH_CGROUPS_MAX: usize = 1_024;
/// Time between two samples for the processes of watches, in times of what the last sample took:
/// they cost half a hundredth of a core at most, and are made each second when there are few
/// processes. A sample takes 12 us a process of the machine.
pub const WATCH_LOOK_REST: u32 = 200;
/// Longest such time.
pub const WATCH_LOOK_REST_MAX: Duration = Duration::from_secs(30);
/// Control groups above a process whose limits are read.
pub const WATCH_GROUP_DEPTH_MAX: usize = 16;
/// Least time between two readings of peak, swap and shared pages, which take a millisecond for
/// each GiB; they rest [`WATCH_LOOK_REST`] times as long as they took as well.
pub const WATCH_MEMORY_EVERY: Duration = Duration::from_secs(10);
/// Time of whose resident memory the minimum counts: collectors and batches return what they took
/// within it.
pub const GROWTH_SLOT: Duration = Duration::from_secs(5 * 60);
/// Slots until there is a slope: one hour.
pub const GROWTH_SLOTS_MIN: usize = 12;
/// Slots that a slope is drawn through: four hours, 1 128 pairs.
pub const GROWTH_SLOTS_MAX: usize = 48;
/// Growth over these slots below which memory counts as level.
pub const GROWTH_BYTES_MIN: u64 = 64 << 20;
/// The same as a share of what there was at first.
pub const GROWTH_RATIO_MIN: f64 = 0.05;
/// Longest time until a limit that is reported, 30 days; also where memory does not grow.
pub const GROWTH_LIMIT_SECONDS_MAX: f64 = 30.0 * 24.0 * 3_600.0;
/// Bytes of one file about a process that are read; the kernel writes under 1 700.
pub const PROCESS_FILE_BYTES_MAX: usize = 4_096;
/// Bytes of a list of processes in one control group; with more, they are not summed.
pub const CGROUP_PROCESSES_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a spool's file. What an outbox holds fits in twice over: the file is written
/// anew once more of it is outdated than not.
pub const SPOOL_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Drafts in a spool, and sealed messages; twice what an outbox holds by default.
pub const SPOOL_ENTRIES_MAX: usize = 2 * OUTBOX_MESSAGES_MAX;
/// Incarnations in a spool of which something is still held; older ones are dropped.
pub const SPOOL_INCARNATIONS_MAX: usize = 64;
/// Outdated bytes in a spool's file that are not worth writing it anew.
pub const SPOOL_GARBAGE_BYTES: usize = 1024 * 1024;
/// Age of what a starting node finds in its spool above which it is dropped and counted: the
/// streams expire messages at the same age.
pub const SPOOL_AGE_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Pause after a write to the spool failed, before all of it is written anew.
pub const SPOOL_RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Steps of the wall clock that waiting drafts are corrected by; of more the oldest do not count. A
/// clock is set a few times in a process's life, and a draft waits for a day at most.
pub const CLOCK_STEPS_MAX: usize = 16;
/// Bytes of a segment of the history, from which on the next one begins: half an hour of a node
/// with three operations. A crash of the machine costs what of it was not yet written back.
pub const HISTORY_SEGMENT_BYTES: u64 = 2 * 1024 * 1024;
/// Bytes of segments that one response is made of, nearly: about a twentieth of a second of one
/// core.
pub const HISTORY_READ_BYTES: u64 = 4 * 1024 * 1024;
/// Segments read for one response. More overlap only where a clock is set back again and again.
pub const HISTORY_READ_SEGMENTS_MAX: usize = 16;
/// Messages before a range in which its first set of readings is searched: a set is sent each
/// minute.
pub const HISTORY_SETS_SEARCHED_MAX: usize = 512;
/// Records that wait for the thread of the history; one more is counted and not kept.
pub const HISTORY_QUEUE_MAX: usize = 64;
/// Sealed messages of a killed incarnation that are written again: more than can have waited.
pub const HISTORY_WRITTEN_AGAIN: usize = HISTORY_QUEUE_MAX / 2;
/// Requests that wait beside them; one more is counted, and its aggregator gives up.
pub const HISTORY_REQUESTS_MAX: usize = 8;
/// Time after a failed write in which none is tried.
pub const SEGMENTS_RETRY_PAUSE: Duration = Duration::from_secs(30);
/// Time at the end for what waits to be written.
pub const HISTORY_END_WAIT: Duration = Duration::from_secs(2);
/// Days for which the history is kept by default.
pub const HISTORY_DAYS: u32 = 30;
/// Its bytes by default, in MiB.
pub const HISTORY_MIB: u64 = 2_048;
/// By how much the thread of the history gives way to all others.
pub const HISTORY_NICENESS: i32 = 10;

/// Captures at one time: a process at fault and a healthy one beside it, of one alert.
pub const CAPTURES_AT_ONCE: usize = 2;
/// Orders of captures whose state is kept. Few run at a time, and their profiles are few: at most
/// [`CAPTURES_PER_WINDOW`] of each kind start in an hour, and each has up to 4 MiB.
pub const CAPTURE_ORDERS_MAX: usize = 64;
/// Time for which the state and the profile of an order that has ended are kept.
pub const CAPTURE_KEPT_FOR: Duration = Duration::from_secs(600);
/// Time from one response with a chunk of a profile to the next with the same one. Aggregators wait
/// longer before they ask again.
pub const CAPTURE_CHUNK_PAUSE: Duration = Duration::from_secs(1);
/// How far ahead an order's instant may be. Aggregators choose a few seconds; beyond, a clock is
/// wrong, and the one order that may wait would keep others out.
pub const CAPTURE_EARLY_MAX: Duration = Duration::from_secs(60);
/// Time after the instant in which a process may still send what it is searched by: clients send
/// each second, by default.
pub const CAPTURE_SEARCH_AFTER: Duration = Duration::from_secs(5);
/// Processes that are kept of those that send a series; two are too many already.
pub const CAPTURE_SENDERS_MAX: usize = 8;
/// Time from one capture to the next for the same rule.
pub const CAPTURE_RULE_PAUSE: Duration = Duration::from_secs(20 * 60);
/// Time in which as many captures start as [`CAPTURES_PER_WINDOW`].
pub const CAPTURE_WINDOW: Duration = Duration::from_secs(3_600);
/// Captures for alerts in that time, and as many by operators: one has under 1 % of a core.
pub const CAPTURES_PER_WINDOW: usize = 6;
/// Orders of the past whose state and profile are kept at one time.
pub const PAST_ORDERS_MAX: usize = 8;
/// Time from the start of one to that of the next: reading an hour takes some 10 ms of a core.
pub const PAST_PAUSE: Duration = Duration::from_millis(500);

/// Processes that are profiled all the time: a job on each of eight GPUs, and their helpers.
pub const CONTINUOUS_PROCESSES_MAX: usize = 16;
/// Length of each of their profiles: short enough to show a minute, and long enough that finding
/// the interpreter of a process again costs little beside its samples.
pub const CONTINUOUS_SECONDS: u32 = 10;
/// Time after a recording in which its last profiles end and are stored.
pub const RECORDED_READ_AFTER: Duration = Duration::from_secs(CONTINUOUS_SECONDS as u64 + 2);
/// Samples a second by default: not a divisor of what programs do by the clock.
pub const CONTINUOUS_HZ: u32 = 19;
/// Longest pause after captures that failed in a row.
pub const CONTINUOUS_RETRY_MAX: Duration = Duration::from_secs(600);
/// Time between two lists of the processes that have the names.
pub const CONTINUOUS_FIND_EVERY: Duration = Duration::from_secs(10);
/// Time in which senders are searched, and from one such time to the next. Clients send each
/// second, by default.
pub const CONTINUOUS_SEARCH_FOR: Duration = Duration::from_secs(5);
/// See [`CONTINUOUS_SEARCH_FOR`].
pub const CONTINUOUS_SEARCH_EVERY: Duration = Duration::from_secs(60);
/// Time after which a process that was not found again is watched no longer: five searches, of
/// which a job of long steps may be silent in some.
pub const CONTINUOUS_FORGET_AFTER: Duration = Duration::from_secs(300);
/// Bytes of a segment of profiles, and its longest time, at which it is closed.
pub const PROFILES_SEGMENT_BYTES: u64 = 8 * 1024 * 1024;
/// See [`PROFILES_SEGMENT_BYTES`].
pub const PROFILES_SEGMENT_TIME: Duration = Duration::from_secs(3_600);
/// Days for which profiles are kept by default, and their bytes, in MiB.
pub const PROFILES_DAYS: u32 = 30;
/// See [`PROFILES_DAYS`].
pub const PROFILES_MIB: u64 = 512;
/// Profiles and requests that wait for the thread that stores them.
pub const PROFILES_QUEUE_MAX: usize = 64;
/// Bytes of the profiles among them: one of 10 s at 19 Hz has some 12 KiB, one of a hostile client
/// 4 MiB.
pub const PROFILES_WAITING_BYTES_MAX: usize = 16 << 20;
/// Time by which a profile's own clock may differ from the node's.
pub const PROFILES_SKEW_MAX: Duration = Duration::from_secs(60);
/// Threads of one process whose time a profile may have.
pub const PROFILES_THREADS_MAX: u64 = 1_024;

/// Time beyond the length of a capture in which the profiler must respond.
pub const PROFILER_WAIT: Duration = Duration::from_secs(10);
/// Time beyond it after which a capture is given up, whatever became of the thread that waits.
pub const CAPTURE_RESPONSE_WAIT: Duration = Duration::from_secs(15);
