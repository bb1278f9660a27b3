//! Limits of captures and of the profiles that they leave.

use std::time::Duration;

/// Captures that wait or run: a pair for each of eight alerts. A node accepts those
/// of one alert at a time.
pub const RUNNING_MAX: usize = 16;
/// Captures that have ended and are listed without a profile, such as refused ones.
pub const ENDED_MAX: usize = 256;
/// Time from an order to its instant, in which the requests arrive. With the capture and what
/// follows it, the difference is part of an alert 15 s after it fires.
pub const START_AHEAD: Duration = Duration::from_secs(1);
/// Orders by alerts within one such time have one id, so that the aggregators of a pair, which find
/// a breach within about a second of each other, mostly order one capture.
pub const ALERTS_APART: Duration = Duration::from_secs(10);
/// Time after its instant in which a node may still start a capture.
pub const START_WITHIN: Duration = Duration::from_secs(30);
/// Time between two requests for the state of a capture, which are few: the first is sent when the
/// capture should be over.
pub const POLL_EVERY: Duration = Duration::from_millis(500);
/// Time in which a node responds with a chunk of a profile: longer than other responses take, since
/// its link may be slow. The largest profile is in time at half a second for each of 128 chunks.
pub const CHUNK_WAIT: Duration = Duration::from_secs(5);
/// Time after its instant at which a capture is given up whose node has never responded: it is
/// away, or captures are not enabled there.
pub const UNANSWERED_AFTER: Duration = Duration::from_secs(10);
/// Time after the end of a capture at which it is given up: a node looks for a process for seconds,
/// and the profiler has ten more than the capture takes.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(90);
/// Time in which a node has ended a capture that a client stops.
pub const STOPPED_WITHIN: Duration = Duration::from_secs(10);
/// The same of a recording, whose last profiles end first.
pub const RECORDED_WITHIN: Duration = Duration::from_secs(30);
/// Time between two requests for the state of a recording, which ends when its node restarts.
pub const RECORDING_POLL_EVERY: Duration = Duration::from_secs(60);
/// Recordings that run, which hold no place of other captures.
pub const RECORDINGS_MAX: usize = 256;
/// Time between two captures for one rule and node.
pub const BREACH_PAUSE: Duration = Duration::from_secs(20 * 60);
/// Captures by alerts in an hour, the pair counted once: when the whole fleet is slow, some nodes
/// are enough to show why.
pub const BREACHES_AN_HOUR_MAX: usize = 12;
/// Alerts of one evaluation for which a peer is looked for, found or not: each search takes up to
/// a few milliseconds of the driver's.
pub const PAIRS_SOUGHT_MAX: usize = 16;
/// Seconds and rate of a capture by an alert, and of one that states neither.
pub const SECONDS_DEFAULT: u32 = 10;
/// See [`SECONDS_DEFAULT`].
pub const HZ_DEFAULT: u32 = 100;
/// Seconds and rate of a recording that states neither: those of a node's settings for an hour.
pub const RECORDING_SECONDS_DEFAULT: u32 = 3_600;
/// See [`RECORDING_SECONDS_DEFAULT`].
pub const RECORDING_HZ_DEFAULT: u32 = 19;
/// Nodes of which the one with the median value is the peer: merging the windows of more would keep
/// the driver for longer than a few milliseconds.
pub const PEERS_MAX: usize = 256;
/// Profiles of alerts that fire, which are shown with them.
pub const EVIDENCE_MAX: usize = 256;
/// Functions that an alert names.
pub const FUNCTIONS_NAMED: usize = 5;
/// Standard deviations of counting by which a function must differ to be named. In a profile of a
/// few hundred functions less than one healthy one differs by as much.
pub const NOISE_DEVIATIONS: f64 = 3.0;
/// Seconds in each second by which it must differ, too: 5 % of the wall time of one thread. What a
/// straggler is blamed for is mostly a fifth of it, and samples that follow each other are alike,
/// so counting alone claims too much.
pub const DIFFERENCE_MIN: f64 = 0.05;
/// Bytes of all profiles that are kept: at some 50 KB each a thousand have 50 MB. All are read at a
/// start.
pub const PROFILES_BYTES_MAX: u64 = 1 << 28;
/// Profiles that may be kept at most.
pub const PROFILES_MAX: usize = 10_000;
/// Bytes of the line of facts at the start of a profile's file: names and labels of a row have some
/// four kilobytes, its texts less than two.
pub const FACTS_BYTES_MAX: usize = 16 * 1024;
/// Profiles that are kept under a name and do not expire: with the largest of 4 MiB they add as
/// many bytes as [`PROFILES_BYTES_MAX`].
pub const NAMED_MAX: usize = 64;
/// Bytes of a trace once it is inflated: an event takes some 100, and compresses to a tenth.
pub const TRACE_BYTES_MAX: u64 = 1 << 26;
/// Nodes whose past is added up as one profile: each answers with up to 4 MiB.
pub const NODES_SUMMED_MAX: usize = 64;
/// Captures under way beside which a sum asks its next node: half of all are left to others.
pub const SUMMED_AT_ONCE: usize = RUNNING_MAX / 2;
/// Sums that run, or have ended and are listed.
pub const SUMS_MAX: usize = 8;
/// Functions of a ranking.
pub const FUNCTIONS_MAX: usize = 500;
/// Profiles on one page.
pub const PAGE_MAX: usize = 1_000;
/// Profiles of a range that rules of bottlenecks read, the newest ones: each takes some
/// milliseconds.
pub const PROFILES_JUDGED_MAX: usize = 32;
/// Functions of these that are judged: of more, one that has a twentieth is among twenty.
pub const FUNCTIONS_JUDGED_MAX: usize = 20;
