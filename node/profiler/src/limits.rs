//! Bounds of a capture, and of the service, each with its reason.

use std::time::Duration;

/// Highest sampling rate. A sample of eight threads takes some 0.1 ms, a tenth of its interval.
pub const RATE_HZ_MAX: u32 = 1_000;
/// Highest rate of captures that share a thread: their samples take less than 1 % of it each.
pub const TOGETHER_HZ_MAX: u32 = 20;
/// Time of a step after which its capture gets a thread of its own. A sample of 8 threads takes
/// some 0.1 ms.
pub const STEP_SLOW_AFTER: Duration = Duration::from_millis(20);
/// The same after which another thread takes all other captures.
pub const STEP_HANGS_AFTER: Duration = Duration::from_secs(1);
/// Longest capture, in seconds; what is longer is made of several.
pub const SECONDS_MAX: u32 = 600;

/// Leaf-most functions read of a stack: one more than a profile keeps shows that there are more.
pub const FRAMES_MAX: usize = plimsoll_profile::limits::FRAMES_MAX + 1;
/// The same of frames that are objects: a few more, for those that are left out since they moved.
pub const OBJECTS_MAX: usize = FRAMES_MAX + 32;
/// Frames followed in a process: each function may have an entry frame of the interpreter.
pub const LINKS_MAX: usize = 2 * FRAMES_MAX;
pub const THREADS_MAX: usize = 1_024;
pub const INTERPRETERS_MAX: usize = 16;

/// Functions with an instruction that are kept between samples.
pub const FRAMES_KEPT_MAX: usize = 65_536;

/// Code objects kept between samples, and their bytes; beyond, all are read again.
pub const CODES_MAX: usize = 8_192;
pub const CODE_BYTES_MAX: usize = 32 << 20;
/// Characters of a function's or file's name. Linux allows paths of 4 096 bytes.
pub const NAME_CHARS_MAX: usize = 1_024;
/// Bytes of one code object's table of lines; generated modules reach some 200 KB.
pub const LINE_TABLE_BYTES_MAX: usize = 1 << 20;

/// Tries to read one stack while it changes underneath. One takes 1 to 2 µs.
pub const ATTEMPTS_MAX: usize = 64;
/// Readings of a stack that show the same frames and none that runs: one that leaves a function
/// stands so for nanoseconds, unless it frees much; these take some 10 µs.
pub const STANDING_READS_MIN: usize = 8;
/// Readings of a stack that may be given up because they were interrupted.
pub const INTERRUPTIONS_MAX: usize = 8;
/// Calls that one sample takes for stacks, over all threads: some 20 ms. A process of 100 threads
/// takes some 300; only one that is made to mislead gets here.
pub const CALLS_PER_SAMPLE_MAX: usize = 16_384;
/// Tries to read the list of threads while threads start and end.
pub const LIST_ATTEMPTS_MAX: usize = 4;
/// Bytes of a thread's stack read at once. A chunk of CPython has 16 KiB unless a frame is larger.
pub const STACK_BYTES_MAX: usize = 32 << 10;
/// What a thread may push between the reading of its top and that of its stack.
pub const STACK_SLACK_BYTES: usize = 1 << 10;
/// Ranges read of one stack. Twice this and two more fit into one call (`IOV_MAX` is 1 024).
pub const SPANS_MAX: usize = 256;
/// Ranges in one call of `process_vm_readv`.
pub const SPANS_PER_CALL_MAX: usize = 1_024;

/// Bytes of a stack that the kernel copies with a native sample: the leaf-most 300 functions of a
/// usual program. A sample is shorter than 64 KiB.
pub const STACK_DUMP_BYTES: u32 = 32 << 10;
/// Of a thread's samples that were not read yet: seven of them. What finds no room is lost.
pub const RING_BYTES: usize = 256 << 10;
/// Periods in which samples are read once that wake no reader: up to 6 may be between two readings,
/// and a ring holds 7.
pub const STRIDE_MAX: u32 = 3;
/// Events of a thread that are read at once: more than its ring has.
pub const EVENTS_AT_ONCE_MAX: usize = 64;
/// Native frames of one stack; most of them may be the interpreter's own.
pub const NATIVE_FRAMES_MAX: usize = 1_024;
/// Threads of which native samples are taken: 64 MiB of rings, and a descriptor each.
pub const NATIVE_THREADS_MAX: usize = 256;
/// Bytes of tables of frames and functions that are kept, of all files of a process together. Those
/// of CPython with its libraries are some 5 MiB, those of PyTorch some 60 MiB.
pub const CODE_TABLES_BYTES_MAX: usize = 64 << 20;
/// The kernel's shared object in each process has two pages.
pub const VDSO_BYTES_MAX: usize = 64 << 10;
/// Length of `/proc/kallsyms`: some 12 MiB.
pub const KALLSYMS_BYTES_MAX: u64 = 32 << 20;
/// Age of a native sample beyond which Python's stack is no longer that of it.
pub const PYTHON_LATE_MILLIS_MAX: u64 = 2;

/// Length of `/proc/PID/maps` that is read: some 150 000 mappings.
pub const MAPS_BYTES_MAX: u64 = 16 << 20;
/// Size of a program's file that is looked into; a CPython with all its debug symbols has
/// less than 300 MiB.
pub const PROGRAM_BYTES_MAX: u64 = 1 << 30;
/// Bytes of its sections, symbols and names that are read; of CPython they are some 5 MiB.
pub const PROGRAM_READ_BYTES_MAX: u64 = 64 << 20;
/// Fields of the runtime and of an interpreter lie below this; an offset beyond is damage.
pub const RUNTIME_OFFSET_MAX: usize = 1 << 20;
/// The same of the smaller structures, which are read at once.
pub const FIELD_OFFSET_MAX: usize = 4_096;
/// Open files of threads of one capture: of two captures, they are fewer than the 1 024 files that
/// a process may usually open.
pub const THREAD_FILES_MAX: usize = 384;
/// Threads of which files stay open; those of more are opened for each sample.
pub const THREADS_OPEN_MAX: usize = 288;
/// The first of them, which have two. The others are read in each sample.
pub const THREADS_COUNTED_MAX: usize = THREAD_FILES_MAX - THREADS_OPEN_MAX;

/// Orders that are carried out at one time: a process at fault and a healthy one beside it, and
/// 16 that the node profiles all the time, which so never keep an ordered one out.
pub const ORDERS_AT_ONCE: usize = 2 + 16;
// `LimitNOFILE` of the unit, with some descriptors for the sockets.
const _: () = assert!(ORDERS_AT_ONCE * THREAD_FILES_MAX + 64 < 8_192);
/// Time without an order after which a service ends that the service manager starts again.
pub const SERVE_IDLE_SECONDS: i64 = 60;
/// Time in which a cancelled order has ended, also of a service that was stopped and goes on.
pub const CANCELLED_WITHIN: Duration = Duration::from_secs(1);
/// Time in which an order must have come. A node writes its line at once.
pub const ORDER_WAIT: Duration = Duration::from_secs(2);
/// Time beyond the length of a capture after which an order hangs, and the service ends: as long as
/// the node waits for it. The next order starts another one.
pub const ORDER_OVERDUE: Duration = Duration::from_secs(15);
/// Time after which connections are accepted again when descriptors or memory were short.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time in which a peer must take a part of the response.
pub const RESPONSE_WAIT: Duration = Duration::from_secs(5);
