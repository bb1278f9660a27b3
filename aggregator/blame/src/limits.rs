//! Constants of the method and bounds of its memory, each with its reason.

/// By how much a peer may be slower than the median peer and still be healthy, as a share of the
/// median peer's work per step. Machines of one type differ by 1 to 2 %.
pub const FLOOR: f64 = 0.03;

/// Expected names in a week that noise alone causes, over all peers and rules.
pub const FALSE_NAMES_PER_WEEK: f64 = 1.0;
pub(crate) const WEEK_SECONDS: f64 = 7.0 * 24.0 * 3_600.0;
pub(crate) const DAY_SECONDS: f64 = 24.0 * 3_600.0;

/// With two peers either may be the slow one: the median peer is not known.
pub const PEERS_MIN: usize = 3;
/// Each takes 1.25 KiB, so all take 10 MiB. A larger cohort is divided by its caller.
pub const PEERS_MAX: usize = 8_192;
/// Classes of time of one cohort.
pub const CLASSES_MAX: usize = 6;

/// Intervals that may get reports at once: the running one, those within [`GRACE_INTERVALS`], and
/// as many ahead for peers whose clock is ahead.
pub const OPEN_INTERVALS_MAX: usize = 8;
/// How many intervals after its end an interval still waits for reports. One interval covers the
/// way over the broker, the second a node that sends late.
pub const GRACE_INTERVALS: u64 = 2;
/// A peer without a report for as long is no longer awaited.
pub(crate) const AWAITED_INTERVALS: u64 = 10;
/// A peer without a report for as long is removed, with its evidence: ten minutes, as long as a
/// node that restarts is awaited elsewhere.
pub const FORGOTTEN_INTERVALS: u64 = 600;
/// A bin closes after as many intervals even if the median peer has made no step.
pub(crate) const BIN_INTERVALS_MAX: u32 = 60;

/// Bins of one block, whose median is its level: where 1 % of bins are wild, three of five are in
/// one of 100 000 blocks. Of three bins two would be in one of 3 000, and a single block would show
/// little. Of seven an onset is seen two bins later.
pub(crate) const BLOCK_BINS: usize = 5;
/// Bins of a block that must be there.
pub(crate) const BLOCK_BINS_MIN: usize = 3;
/// Bins before a block whose median is the level from which the block is predicted.
pub(crate) const BEFORE_BINS: usize = 3;
/// Bins and intervals that are kept: a block with those before it, and all open intervals.
pub(crate) const RING_ENTRIES: usize = OPEN_INTERVALS_MAX;
const _: () = assert!(RING_ENTRIES >= BLOCK_BINS + BEFORE_BINS);

/// A peer's highest excess in one bin: ten times as slow. It bounds sums, not evidence.
pub(crate) const EXCESS_MAX: f64 = 9.0;

/// Blocks that do not overlap, and bins, from which on the noise is known well enough to judge.
pub(crate) const LEARNED_BLOCKS: f64 = 200.0;
pub(crate) const LEARNED_BINS: f64 = 120.0;
/// Noise that was learned counts half after 1 800 bins: half an hour at one step a second.
pub(crate) const NOISE_KEPT: f64 = 0.999_615;
/// Bins over which a peer's own mean forgets. It is used to learn noise, not to judge.
pub(crate) const MEAN_BINS: f64 = 600.0;
/// Peers' blocks over which the noise of the moment is measured.
pub(crate) const RECENT_BLOCKS: f64 = 200.0;
/// Blocks in a row whose sum shows how far noise reaches beyond a block.
pub(crate) const GROUP_BLOCKS: u8 = 8;

/// Evidence, in seconds, below which a peer's evidence has not started: healthy peers reach ten
/// minutes' worth now and then.
pub(crate) const SUSPECT_SECONDS: f64 = 600.0;
/// Evidence from which on a peer teaches nothing about noise. Healthy peers spend less than a
/// thousandth of their time above it.
pub(crate) const TEACHES_BELOW: f64 = 1e5;
/// Bounds evidence within what a float holds.
pub(crate) const EVIDENCE_MAX: f64 = 1e200;

/// Bins of which the excess of a suspect is the mean, at most; half of it at least.
pub(crate) const TALLY_BINS: f64 = 60.0;
/// Bins in a row in which a name must be shown to be over before it ends.
pub const ENDED_BINS: u32 = 30;
/// Share of the excess that a class of time must cover to explain it.
pub const EXPLAINED: f64 = 0.8;
/// The normal quantile of a two-sided interval of 95 %.
pub(crate) const INTERVAL_Z: f64 = 1.96;
/// Culprits of one evaluation; more than this are counted, not listed.
pub const CULPRITS_MAX: usize = 16;
/// Noise below a thousandth of a step is not believed, however equal peers were so far.
pub(crate) const NOISE_MIN: f64 = 1e-3;
/// Residuals beyond as many standard deviations teach as much as these.
pub(crate) const CLIPPED_AT: f64 = 3.0;
/// Residuals beyond as many standard deviations are wild: of normal ones 7 in a million are.
pub(crate) const WILD_FROM: f64 = 4.5;
/// Suspects that are compared with each other: those with the most evidence. More at once means
/// that the noise has changed, and 256 squared is within a tenth of a millisecond.
pub(crate) const CANDIDATES_MAX: usize = 256;
