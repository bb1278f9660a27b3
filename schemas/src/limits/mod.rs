//! Every bound in the mesh, in one place: nothing grows past a number written here.
//!
//! A bound that a user may lower or raise is a default here and a key in a config file; the
//! hard bounds of the wire are fixed for the life of a schema version.
//!
//! DESIGN S17.

pub mod api;
pub mod delivery;
pub mod rules;

/// What one message may hold. Readers check these before they allocate.
pub mod wire {
    use std::ops::RangeInclusive;

    /// Bytes of one message. The broker's own default limit is 1 MiB; half of it leaves room
    /// for headers and for brokers that were set lower.
    pub const MESSAGE_BYTES_MAX: usize = 512 * 1024;
    /// Bytes of a shard's report: one node's largest message, with the labels of its node
    /// in each series, beside what was merged before; less than the broker's own default.
    pub const SHARD_BYTES_MAX: usize = 960 * 1024;
    /// Slots of one report: a second of nodes with as many different labels, or a minute of those
    /// with 64.
    pub const SHARD_SLOTS_MAX: usize = 4_096;
    /// Bytes of what identifies a stream: when it was created.
    pub const STREAM_ID_BYTES_MAX: usize = 64;
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
    /// Limits of one series over which a node counts samples exactly, and limits of one operation
    /// in a confirmation.
    pub const LIMITS_MAX: usize = 4;
    /// Reasons in one message's account of lost samples, and of refused lines.
    pub const LOSS_REASONS_MAX: usize = 32;
    /// Incarnations in one confirmation: as many as an aggregator keeps of a node, so that a
    /// node that crashed repeatedly still receives confirmations of all that it has adopted.
    pub const CONFIRMED_INCARNATIONS_MAX: usize = 16;
    /// Unbroken spans of seqs of one incarnation in one confirmation.
    pub const CONFIRMED_SPANS_MAX: usize = 64;
    /// Limits in one confirmation: one for each budget of the rule files.
    pub const CONFIRMED_LIMITS_MAX: usize = 256;
    /// Declared urgencies in one confirmation, and in all rule files together.
    pub const CONFIRMED_URGENT_MAX: usize = 32;
    /// Parts that the nodes of a mesh are divided into.
    pub const PARTITIONS_MAX: u16 = 64;
    /// Nodes that a confirmation may state: twice as many as an aggregator takes.
    pub const MESH_NODES_MAX: u32 = 32_768;
    /// Mean connects a second of a whole mesh after an outage. A broker on two cores accepts 500.
    /// Where both cores are busy for a second, its connects join those of the next.
    pub const RECONNECTS_PER_SECOND: u32 = 200;
    /// Bytes of the key of confirmations: no less than a hash of it has, no more than is of use.
    pub const CONFIRM_KEY_BYTES: RangeInclusive<usize> = 32..=128;
    /// Bytes of the signature of a confirmation.
    pub const SIGNATURE_BYTES: usize = 32;
    /// Silences in the report of one aggregator.
    pub const SHARED_SILENCES_MAX: usize = 256;
    /// Silences in it that ended before their time.
    pub const SHARED_SILENCES_ENDED_MAX: usize = 1_024;
    /// Bytes of it; the fullest takes less than 400 KiB.
    pub const SHARED_SILENCES_BYTES_MAX: usize = 512 * 1024;
    /// Bytes of one confirmation; the fullest takes less than 20 KiB, 36 KiB of limits and 6 KiB of
    /// declared urgencies.
    pub const CONFIRMATION_BYTES_MAX: usize = 64 * 1024;
    /// Events in one message.
    pub const EVENTS_MAX: usize = 256;
    /// Bytes of an event's title, and of a service check's name.
    pub const EVENT_TITLE_BYTES_MAX: usize = 256;
    /// Bytes of an event's text.
    pub const EVENT_TEXT_BYTES_MAX: usize = 1_024;
    /// Bytes of a request of a node's history: an operation, labels and some numbers.
    pub const HISTORY_REQUEST_BYTES_MAX: usize = 16 * 1024;
    /// Bytes of a node's response; as large as a message.
    pub const HISTORY_RESPONSE_BYTES_MAX: usize = MESSAGE_BYTES_MAX;
    /// Slots in a response: twelve minutes of seconds.
    pub const HISTORY_SLOTS_MAX: usize = 720;
    /// Metrics in one request: one, and the eight counters by which a query may divide it.
    pub const HISTORY_METRICS_ASKED_MAX: usize = 9;
    /// Operations, each in each of its classes, in one slot: at 200 bytes each, half a response.
    pub const HISTORY_OPERATIONS_MAX: usize = 1_024;
    /// Longest ordered capture, in seconds.
    pub const CAPTURE_SECONDS_MAX: u32 = 60;
    /// Seconds of a recording of all that a node watches: from the time in which it finds the
    /// senders to a day.
    pub const CONTINUOUS_SECONDS: RangeInclusive<u32> = 60..=24 * 3_600;
    /// From the start of one of its profiles to the next. Each takes 10 s.
    pub const CONTINUOUS_INTERVAL_SECONDS: RangeInclusive<u32> = 10..=3_600;
    /// Highest ordered rate, in samples a second.
    pub const CAPTURE_HZ_MAX: u32 = 1_000;
    /// Bytes of a request of a capture: an operation, labels and some numbers.
    pub const CAPTURE_REQUEST_BYTES_MAX: usize = 16 * 1024;
    /// Bytes of a captured profile, as compressed pprof; one of a minute of a training job takes
    /// less than a tenth.
    pub const CAPTURE_PROFILE_BYTES_MAX: usize = 4 * 1024 * 1024;
    /// Bytes of it in one response: a quarter of a second on a link of 1 Mbit/s, so that samples
    /// do not wait behind it.
    pub const CAPTURE_CHUNK_BYTES_MAX: usize = 32 * 1024;
    /// Bytes of a response: a chunk and some facts; less than a message.
    pub const CAPTURE_RESPONSE_BYTES_MAX: usize = CAPTURE_CHUNK_BYTES_MAX + 16 * 1024;
    /// Bytes of a line between a node and the profiler; facts take the most.
    pub const PROFILER_LINE_BYTES_MAX: usize = 8 * 1024;
    /// Bytes of one frame from a client beside a node; as large as a message, so that what a
    /// client merged while the node was away is cut as a snapshot would be.
    pub const FRAME_BYTES_MAX: usize = MESSAGE_BYTES_MAX;
    /// Samples in one histogram of one message; 2^40 cannot overflow any total.
    pub const SAMPLES_MAX: u64 = 1 << 40;
    /// Highest seq and highest running total; an incarnation that counted a million a second
    /// would need 285 years for it, and sums of thousands of them cannot overflow.
    pub const COUNT_MAX: u64 = 1 << 53;
    /// Incarnations without a spool file of which a node reports what they had noted.
    pub const FORMER_INCARNATIONS_MAX: usize = 7;
    /// Operations that one bus message reports as ended.
    pub const ENDED_OPERATIONS_MAX: usize = 64;
    /// Bytes of the version of a node's software.
    pub const VERSION_BYTES_MAX: usize = 64;
    /// Length of one interval that a reader accepts, in nanoseconds (one day).
    pub const INTERVAL_NS_MAX: u64 = 86_400_000_000_000;
}
