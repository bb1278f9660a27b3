"""Every bound of the client in one place: nothing grows past a number written here.

Holds numbers and the reasons for them, and no code. The node's own bounds are in
`schemas/src/limits/mod.rs`; copies of them are marked.
"""

# Time between two flushes of a process that records, in milliseconds. A killed process is to lose
# at most its last 50 ms: that leaves ten to get the interpreter's lock (5 ms from a thread that
# only computes) and to send. PLIMSOLL_FLUSH_MS sets it between the two bounds.
FLUSH_MS_DEFAULT = 40
FLUSH_MS_MIN = 10
FLUSH_MS_MAX = 60_000
# Seconds between two attempts to reach a node that is not there.
RETRY_S = 0.5
# Seconds without a node after which the flush thread warns, once: longer than a node's restart.
ABSENT_WARN_S = 10.0
# Seconds without a value after which a datagram marks the end of what was sent.
TAIL_AFTER_S = 0.5

# Bytes of one datagram. The node reads lines of up to 8 KiB, so one line may fill a datagram; a
# UDP datagram of this size crosses an Ethernet link in one piece.
UNIX_DATAGRAM_BYTES_MAX = 8_192
UDP_DATAGRAM_BYTES_MAX = 1_432
# Bytes kept free in each for the sequence line: a token of 16, three numbers of 19 digits, `last`.
SEQUENCE_BYTES_MAX = 96

# Bytes that a line gets at least: the longest name and labels with one value take 3 300.
LINE_BYTES_MIN = 3_584

# Characters of a unit behind the name of a distribution, such as `:count`.
UNIT_CHARS_MAX = 6
# Values of a process that wait as single numbers, shared out among its series; what is above
# folds into cells. An integer in a list takes 40 bytes, so this is 2.6 MB.
VALUES_MAX = 65_536
# The share of one series, at most and at least: a single series needs no more between two
# flushes, and the least share of all series is again VALUES_MAX. A share shrinks as series are
# added; what is above it then is folded with the next value or the next flush.
SERIES_VALUES_MAX = 16_384
SERIES_VALUES_MIN = 32
# Values that a caller's thread folds at once when it finds its series full: about 0.2 ms.
FOLD_AT_ONCE = 1_024
# Values of a drain that are checked for repeats: if half of them are, repeats are counted first.
REPEATS_SAMPLE = 256
# Cells (count and sum of the values in one bucket) of a process. A cell takes about 250 bytes,
# so this is 25 MB. A series of real latencies fills a few hundred to a few thousand.
CELLS_MAX = 100_000
# Cells of the statistics of a process (`metrics_snapshot`): another 25 MB at most.
RECORDED_CELLS_MAX = 100_000
# Cells that become text at once.
CELLS_AT_ONCE = 256
# A cell's count travels as powers of two up to 2^19; the node takes sample rates down to 1e-6.
WEIGHT_BITS_MAX = 19
# The largest latency, in nanoseconds: 104 days, up to which milliseconds in a float keep every
# nanosecond. The node counts what is above an hour as an hour.
VALUE_NS_MAX = 2**53

# Bytes of a socket's path: the kernel's `sun_path` has 108, the last of which is zero.
PATH_BYTES_MAX = 107

# Invalid parts of PLIMSOLL_LABELS that are reported, each with a warning of its own.
FAULTS_MAX = 4
# Types of returned values that are known to need no wait; others are asked at each call.
FINISHED_TYPES_MAX = 256
# Names of functions decorated while timers are off that a warning lists; their number is exact.
UNDECORATED_NAMES_MAX = 5

# Digits of a rank, and characters of a value that is none which a warning repeats.
RANK_DIGITS_MAX = 7
RANK_SHOWN_CHARS_MAX = 40

# Phases of one step, `other` included, and those that may be open at once: each is a series.
PHASES_MAX = 32
PHASES_OPEN_MAX = 32
# Characters of a phase's name, so that the step's own name keeps as many; also of a timing's gauge.
PART_CHARS_MAX = 63

# Of a sampler of stacks: seconds, and ticks a second.
SAMPLING_S_MAX = 300.0
SAMPLING_HZ_MAX = 1_000.0
# Frames of one stack, the innermost ones, and different stacks of a request.
STACK_DEPTH_MAX = 128
STACKS_MAX = 10_000

# Of kept spans: seconds, spans of one ring, their bytes, and those of one without its texts. At
# 1 000 spans a second a ring holds the last minute.
TRACE_S_MAX = 600
SPANS_MAX = 65_536
SPAN_BYTES_MAX = 24 << 20
SPAN_FIXED_BYTES = 300
# Rows of one lane of a trace, for spans that overlap: scopes of as many generators.
TRACE_ROWS_MAX = 64
# Nanoseconds in which nothing was timed that a trace shows: less is the cost of code in between.
GAP_NS_MIN = 1_000_000

# Of a profiled request: ticks a second, those that one stack may stand for (a machine may have been
# asleep), seconds after which its stacks are no longer taken and another one may be profiled, its
# stacks, and results that are kept.
REQUEST_HZ = 200
REQUEST_LATE_TICKS_MAX = 200
REQUEST_S_MAX = 60.0
REQUEST_STACKS_MAX = 200
REQUESTS_KEPT_MAX = 16

# Of a capture of memory: innermost frames of an allocation, and bytes that tracemalloc may take for
# itself until the capture ends early: some 650 000 blocks, whose copy holds up all threads for up
# to a second.
ALLOCATION_FRAMES_MAX = 16
TRACEMALLOC_BYTES_MAX = 64 << 20
TRACEMALLOC_POLL_S = 0.1
# Lines of code in the figures of a block.
ALLOCATIONS_MAX = 1_000

# Of an order of a capture: seconds in which it must come, and bytes of it and of its profile.
ORDER_WAIT_S = 5.0
ORDER_BYTES_MAX = 4_096
PROFILE_BYTES_MAX = 4 * 1024 * 1024

# Series of a process (as many as a node takes in one interval); the rest folds into `other`.
SERIES_MAX = 2_000
# Series under former default labels: what they have not sent, and their statistics. Those of the
# rest are merged into `other`.
FORMER_SERIES_MAX = 2_000
# Named profilers: names are for parts of a program, and series are 2 000.
PROFILERS_MAX = 256
# Ways to write a series (order and spelling of labels) that are remembered.
SPELLINGS_MAX = 8_000
# Characters of name and labels above which a way is not remembered, only read anew each time.
SPELLING_CHARS_MAX = 512
# As the wire has them: bytes of a name, labels of a series, bytes of a key and of a value.
NAME_BYTES_MAX = 128
LABELS_MAX = 16
LABEL_KEY_BYTES_MAX = 64
LABEL_VALUE_BYTES_MAX = 128

# Samples added for one that took longer than its expected interval.
CORRECTED_MAX = 10_000

# Events that wait to be sent, and the bytes of an event's text.
EVENTS_MAX = 16
EVENT_TEXT_BYTES_MAX = 1_000
# Seconds between two events about slow reads: a disk that is slow is slow for every read.
SLOW_READ_EVENT_EVERY_S = 10.0
# Reads before one can be called slow, and the slowest ones kept.
READS_BEFORE_SLOW = 10
SLOWEST_READS_MAX = 10

# Seconds for which the flush thread waits until the node has read something. A Unix datagram
# socket holds about ten datagrams (net.unix.max_dgram_qlen), then its senders wait.
SEND_WAIT_S = 0.1
# Seconds that the end of a process waits for a node that is there and busy.
EXIT_WAIT_S = 2.0

# Of a self-test: seconds that a page of the node may take, bytes that are read of it, and seconds
# until the values must be counted there, with the pause between two reads.
METRICS_WAIT_S = 2.0
METRICS_BYTES_MAX = 4 << 20
ARRIVAL_WAIT_S = 3.0
ARRIVAL_POLL_S = 0.05

# Of an aggregator: bytes of a token, of a refusal that an error repeats, and of one read.
SECRET_BYTES_MAX = 4_096
REFUSAL_BYTES_MAX = 512
READ_AT_ONCE_BYTES = 65_536
# Its list of alerts: one with context takes 2 KB, and there are as many as nodes, 16 384, or a few
# times more. Read within this time; alerts beyond these are not followed.
ALERTS_BYTES_MAX = 128 << 20
ALERTS_WAIT_S = 30.0
ALERTS_MAX = 50_000
# Its stream sends an event of some 250 bytes each second. After this many seconds of silence it is
# opened again.
STREAM_SILENCE_S = 10.0
STREAM_LINE_BYTES_MAX = 8_192
# Seconds until another attempt: doubled each time, by chance a quarter more or less.
STREAM_RETRY_MIN_S = 1.0
STREAM_RETRY_MAX_S = 30.0
# The share of the time in which a list is read, when changes never end: a job is not to notice it.
ALERTS_READ_SHARE = 0.05
# Seconds between two reads of the list at least, and for which calls may have no place.
ALERTS_READ_EVERY_S = 1.0
CALLS_WAIT_S = 5.0
CALLS_POLL_S = 0.02
# Watches of one process: each has a thread, and a stream of the 64 that an aggregator has.
WATCHES_MAX = 8
# Calls of functions of the job that wait for those before them.
CALLS_MAX = 1_024
# Thresholds of a process: they are for a few values of a program.
THRESHOLDS_MAX = 256

# Of an event loop: between two looks at its lag, the lag from which its stack is noted, frames of
# that, and between two events about it.
LOOP_EVERY_S = 0.05
LOOP_LATE_S = 0.1
LOOP_FRAMES_MAX = 8
LOOP_EVENT_EVERY_S = 10.0

# Of a deterministic profile: functions in its file, and calls that measure what counting costs,
# some 5 ms.
PROFILED_FUNCTIONS_MAX = 10_000
PROFILE_TRIAL_CALLS = 10_000

# Epochs of one name and process in the file of `plimsoll run`, at some 60 bytes: 600 KB. A report
# lists as many.
EPOCHS_MAX = 10_000
# Names of epochs that one process has in it.
EPOCH_OPERATIONS_MAX = 8

# Of an experiment: cycles kept one by one (the totals hold all), operations of one cycle, cells
# of all cycles together, and snapshots of memory.
CYCLES_MAX = 1_000
CYCLE_OPERATIONS_MAX = 100
EXPERIMENT_CELLS_MAX = 200_000
MEMORY_SNAPSHOTS_MAX = 1_000
