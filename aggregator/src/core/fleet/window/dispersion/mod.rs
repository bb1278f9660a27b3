//! How much more the number of samples over a limit varies than that of independent samples would:
//! its overdispersion. Slow samples come in clusters: a pause of the collector, a slow disk, a step
//! that all ranks wait for.
//!
//! Samples are counted in blocks. Within each half hour the variance of the blocks' counts is set
//! beside that of independent samples with the same share over the limit, for blocks of growing
//! length: as long as the longer ones vary more, clusters reach over the ends of the shorter ones.
//! A half hour is closed some minutes after its end, and its sums are added to what was learned.
//! One that is in breach teaches nothing about how samples vary while all is well.
//!
//! DESIGN A179.

use std::array::from_fn;

use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

use super::tally::{Limits, Overs};

const BLOCK_NS: u64 = 30 * 1_000_000_000;
/// Blocks of half an hour.
const BLOCKS: usize = 60;
const HALF_HOUR_NS: u64 = BLOCK_NS * BLOCKS as u64;
/// Samples that come later than this after the end of their half hour are in no estimate.
const AWAITED_NS: u64 = 10 * 60 * 1_000_000_000;
/// Half hours that are open: the running one, and those that may still get samples.
const OPEN_MAX: usize = 4;
/// Blocks of half a minute, of two and a half and of ten, in the shortest ones; behind them are
/// half hours, two of which are compared.
const LENGTHS: [usize; 3] = [1, 5, 20];
/// Longer blocks are looked at while fewer samples than this are over the limit in one: at higher
/// rates clusters are shorter, and long blocks show the seasons of a day.
const FEW: f64 = 10.0;

/// The factor that is assumed until this number of clusters was seen.
const UNTIL_LEARNED: f64 = 4.0;
const CLUSTERS_LEARNED: f64 = 100.0;
/// This number of clusters shows that it is higher.
const CLUSTERS_SHOWN: f64 = 5.0;
/// New half hours are compared with what was learned before, and added to it with this number of
/// clusters.
const CLUSTERS_ADDED: f64 = 30.0;
/// What was learned counts half after twelve such additions.
const KEPT: f64 = 0.943_874;
/// The factor has changed when the ratio of one block length has, by this multiple and by this
/// number of standard errors.
const CHANGED: (f64, f64) = (2.0, 3.0);
/// A longer block's ratio counts if it is higher by this number of standard errors.
const GROWN: f64 = 3.0;
/// How much of the excess is in the size of the largest clusters. Of those of geometric sizes the
/// third moment would make it 1.5; a process that stays high has longer ones (DESIGN A179).
const SKEW: f64 = 2.0;

/// How samples over a limit come in clusters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overdispersion {
    /// The variance of their number divided by that of independent samples; at least 1.
    pub factor: f64,
    /// The size of the clusters that make up the variance, weighted by it; at least 1.
    pub cluster: f64,
    /// Whether too few clusters were seen to know the factor.
    pub is_learning: bool,
}

impl Overdispersion {
    /// That of independent samples.
    pub const NONE: Self = Self { factor: 1.0, cluster: 1.0, is_learning: false };
    /// As long as nothing was seen.
    pub const UNKNOWN: Self =
        Self { factor: UNTIL_LEARNED, cluster: UNTIL_LEARNED, is_learning: true };
}

/// What is known of one operation's samples over each of its limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Dispersion {
    /// Oldest first.
    open: Vec<HalfHour>,
    /// By the limits' places.
    learned: Vec<Learned>,
}

/// Counts of one half hour: of each block its samples, and those over each limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct HalfHour {
    number: u64,
    counts: Vec<u32>,
}

/// Samples of a block, and those over the limit.
#[derive(Clone, Copy, Default)]
struct Block {
    samples: f64,
    over: f64,
}

/// What half hours have shown that are closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Learned {
    past: Seen,
    /// Since the last comparison with the past.
    latest: Seen,
    first_half: Option<Half>,
}

/// A half hour as one block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Half {
    number: u64,
    samples: f64,
    over: f64,
}

/// Sums over half hours, of one limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Seen {
    over: f64,
    by_length: [Variance; LENGTHS.len() + 1],
}

/// How the counts of blocks of one length vary round their expectation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Variance {
    blocks: f64,
    squares: f64,
    cubes: f64,
    /// The squares of independent samples.
    independent: f64,
}

impl Dispersion {
    /// Adds samples taken then, where nothing before `shown` is shown any more.
    pub(super) fn add(
        &mut self,
        shown: Wall,
        taken: Wall,
        samples: u64,
        overs: &Overs,
        of: &Limits,
    ) {
        let number = taken.0 / HALF_HOUR_NS;
        // A half hour teaches once. What comes after that is in no estimate, so that the estimate
        // does not depend on the order of arrival.
        if is_closed(number, shown) {
            return;
        }
        let width = 1 + of.used();
        let place = self.open.binary_search_by_key(&number, |open| open.number);

        let place = place.unwrap_or_else(|place| {
            self.open.insert(place, HalfHour { number, counts: vec![0; BLOCKS * width] });
            place
        });

        let block = (taken.0 % HALF_HOUR_NS / BLOCK_NS) as usize * width;
        let counts = &mut self.open[place].counts[block..block + width];
        let added = std::iter::once(samples).chain(overs.iter().map(|over| over.over));
        for (count, added) in counts.iter_mut().zip(added) {
            *count = count.saturating_add(u32::try_from(added).unwrap_or(u32::MAX));
        }
    }

    /// Learns from half hours that get no more samples.
    pub(super) fn expire(&mut self, shown: Wall, limits: &Limits) {
        let passed = self.open.partition_point(|open| is_closed(open.number, shown));
        // Samples may state any time: beyond the bound the oldest is closed early.
        let passed = passed.max(self.open.len().saturating_sub(OPEN_MAX));
        for half_hour in self.open.drain(..passed) {
            self.learned.resize_with(limits.used(), Learned::default);
            for (place, learned) in self.learned.iter_mut().enumerate() {
                learned.take(&half_hour, place, limits.allowed(place));
            }
        }
    }

    /// Whether there is anything that time closes.
    pub(super) fn is_idle(&self, shown: Wall) -> bool {
        self.open.first().is_none_or(|open| !is_closed(open.number, shown))
            && self.open.len() <= OPEN_MAX
    }

    /// The clock was set back: when samples of the future were taken is no longer known.
    pub(super) fn turn_back(&mut self, now: Wall) {
        self.open.retain(|open| open.number <= now.0 / HALF_HOUR_NS);
    }

    /// Keeps what was learned of limits that stay.
    pub(super) fn keep(&mut self, before: &Limits, limits: &Limits) {
        let learned = |place| {
            let former = before.place(limits.ns(place)).and_then(|at| self.learned.get(at));
            former.copied().unwrap_or_default()
        };
        self.learned = (0..limits.used()).map(learned).collect();
        // Their counts have a column for each limit of before.
        self.open.clear();
    }

    /// How samples over the limit at this place come.
    pub(super) fn of(&self, place: Option<usize>) -> Overdispersion {
        let learned = place.and_then(|place| self.learned.get(place));
        learned.map_or(Overdispersion::UNKNOWN, Learned::overdispersion)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let counts: usize = self.open.iter().map(|open| open.counts.capacity()).sum();
        counts * size_of::<u32>()
            + self.open.capacity() * size_of::<HalfHour>()
            + self.learned.capacity() * size_of::<Learned>()
    }
}

fn is_closed(number: u64, shown: Wall) -> bool {
    number.saturating_add(1).saturating_mul(HALF_HOUR_NS).saturating_add(AWAITED_NS) <= shown.0
}

impl HalfHour {
    /// Its blocks, for the limit at this place.
    fn blocks(&self, place: usize) -> [Block; BLOCKS] {
        let width = self.counts.len() / BLOCKS;
        let count = |at: usize| self.counts.get(at).map_or(0.0, |count| f64::from(*count));
        from_fn(|block| {
            let samples = count(block * width);
            Block { samples, over: count(block * width + 1 + place).min(samples) }
        })
    }
}

impl Learned {
    fn overdispersion(&self) -> Overdispersion {
        let seen = self.past.and(&self.latest);
        let (factor, of) = seen.factor();
        let cluster = (1.0 + SKEW * (factor - 1.0)).max(of.largest());
        let clusters = seen.over / factor;
        // Few clusters can show that the factor is higher than assumed; to assume a lower one, and
        // with it less evidence, takes a hundred.
        if clusters < CLUSTERS_SHOWN || factor < UNTIL_LEARNED && clusters < CLUSTERS_LEARNED {
            return Overdispersion::UNKNOWN;
        }
        Overdispersion { factor, cluster, is_learning: clusters < CLUSTERS_LEARNED }
    }

    fn take(&mut self, half_hour: &HalfHour, place: usize, allowed: f64) {
        let blocks = half_hour.blocks(place);
        let all = Block::sum(&blocks);

        // A breach of minutes within a half hour that is calm as a whole counts as one too.
        let is_breach = |length| blocks.chunks(length).any(|part| self.is_breach(part, allowed));
        let is_breach = [LENGTHS[1], LENGTHS[2], BLOCKS].into_iter().any(is_breach);

        let half = Half { number: half_hour.number, samples: all.samples, over: all.over };
        let before = self.first_half.take().filter(|half| half.number + 1 == half_hour.number);
        // How samples vary in a breach is what is to be
        // detected: once learned it would pass for usual.
        if is_breach {
            return;
        }

        // The halves of an hour are the longest blocks.
        match before {
            None if half.number.is_multiple_of(2) => self.first_half = Some(half),
            before => self.latest = self.latest.and(&Seen::of_hour(before, half)),
        }

        self.latest = self.latest.and(&Seen::of(&blocks, all));

        let is_other = self.latest.differs_from(&self.past);
        if is_other || self.latest.clusters() >= CLUSTERS_ADDED {
            // Another process from now on: what was learned of the
            // former one would still count half after twelve additions.
            let past = if is_other { Seen::default() } else { self.past.times(KEPT) };
            *self = Self { past: past.and(&self.latest), latest: Seen::default(), ..*self };
        }
    }

    /// Whether the share over the limit is more than twice the allowed one, beyond what clusters
    /// explain.
    fn is_breach(&self, blocks: &[Block], allowed: f64) -> bool {
        let all = Block::sum(blocks);
        let allowed = all.samples * allowed;
        let Overdispersion { factor, cluster, .. } = self.overdispersion();
        let likely = 2.0 * allowed + 3.0 * (factor * allowed).sqrt() + 3.0 * cluster;
        allowed > 0.0 && all.over > likely
    }
}

impl Seen {
    /// What one half hour shows.
    fn of(blocks: &[Block], all: Block) -> Self {
        let mut by_length = [Variance::default(); LENGTHS.len() + 1];
        for (of, length) in by_length.iter_mut().zip(LENGTHS) {
            *of = Variance::of(blocks, length, all);
        }
        Self { over: all.over, by_length }
    }

    /// What the two halves of an hour show beside each other.
    fn of_hour(first: Option<Half>, second: Half) -> Self {
        let mut seen = Self::default();
        if let Some(first) = first {
            let halves = [first, second].map(|Half { samples, over, .. }| Block { samples, over });
            seen.by_length[LENGTHS.len()] = Variance::of(&halves, 1, Block::sum(&halves));
        }
        seen
    }

    fn and(&self, other: &Self) -> Self {
        Self {
            over: self.over + other.over,
            by_length: from_fn(|at| self.by_length[at].and(&other.by_length[at])),
        }
    }

    fn times(&self, kept: f64) -> Self {
        Self { over: self.over * kept, by_length: self.by_length.map(|of| of.times(kept)) }
    }

    /// The ratio of the shortest blocks above which it grows no more, at least 1, and theirs.
    fn factor(&self) -> (f64, &Variance) {
        let mut found = &self.by_length[0];
        for longer in &self.by_length[1..] {
            if self.over >= FEW * found.blocks {
                break;
            }
            if longer.ratio() > found.ratio().max(1.0) * (1.0 + GROWN * longer.error()) {
                found = longer;
            }
        }
        (found.ratio().max(1.0), found)
    }

    fn clusters(&self) -> f64 {
        self.over / self.factor().0
    }

    /// Whether blocks of any length vary otherwise, and by more than chance explains.
    fn differs_from(&self, past: &Self) -> bool {
        let ((times, errors), clusters) = (CHANGED, self.clusters().max(1.0));
        self.by_length.iter().zip(&past.by_length).any(|(now, before)| {
            let change = (now.ratio().max(1.0) / before.ratio().max(1.0)).ln().abs();
            let error = now.error().hypot(2.0 / clusters.sqrt());
            past.over > 0.0 && change > times.ln().max(errors * error)
        })
    }
}

impl Variance {
    /// That of blocks of this length, in the shortest ones, which have all these samples.
    fn of(blocks: &[Block], length: usize, all: Block) -> Self {
        let Block { samples, over } = all;
        let share = over / samples;
        if over == 0.0 {
            return Self::default();
        }
        // Of one half hour it is the share of the half hour itself that is allowed for.
        let each = share * (1.0 - share) * samples / (samples - 1.0).max(1.0);

        // One degree of freedom is spent: the share is estimated from these blocks themselves.
        let mut found = Self { blocks: -1.0, ..Self::default() };
        for block in blocks.chunks(length).map(Block::sum) {
            if block.samples > 0.0 {
                let beyond = block.over - block.samples * share;
                found.blocks += 1.0;
                found.squares += beyond * beyond;
                found.cubes += beyond * beyond * beyond;
                found.independent += each * block.samples * (1.0 - block.samples / samples);
            }
        }

        if found.blocks > 0.0 { found } else { Self::default() }
    }

    fn and(&self, other: &Self) -> Self {
        Self {
            blocks: self.blocks + other.blocks,
            squares: self.squares + other.squares,
            cubes: self.cubes + other.cubes,
            independent: self.independent + other.independent,
        }
    }

    fn times(&self, kept: f64) -> Self {
        let Self { blocks, squares, cubes, independent } = *self;
        Self {
            blocks: blocks * kept,
            squares: squares * kept,
            cubes: cubes * kept,
            independent: independent * kept,
        }
    }

    /// The variance, divided by that of independent samples.
    fn ratio(&self) -> f64 {
        if self.independent > 0.0 { self.squares / self.independent } else { 1.0 }
    }

    /// The relative standard error of a variance with these degrees of freedom.
    fn error(&self) -> f64 {
        (2.0 / self.blocks.max(1.0)).sqrt()
    }

    /// The size of clusters that the skewness of counts shows, less what chance explains of it.
    fn largest(&self) -> f64 {
        let chance = 3.0 * (6.0 * self.squares).sqrt() / self.blocks.max(1.0);
        if self.squares > 0.0 { self.cubes / self.squares - chance } else { 1.0 }
    }
}

impl Block {
    fn sum(blocks: &[Self]) -> Self {
        blocks.iter().fold(Self::default(), |sum, block| Self {
            samples: sum.samples + block.samples,
            over: sum.over + block.over,
        })
    }
}

#[cfg(test)]
mod tests;
