//! One bin of a cohort: each peer's excess over the median peer, and the block that ends with it.

use crate::culprit::Counts;
use crate::evidence::Evidence;
use crate::limits::{BLOCK_BINS, CLASSES_MAX, EXCESS_MAX, PEERS_MIN};
use crate::member::Member;
use crate::noise::{Block, Model, Noise};
use crate::order::median;
use crate::report::Interval;
use crate::setup::{Setup, Step};
use crate::suspicion::{Slower, Suspicion};

/// What a bin showed, by the members' places.
#[derive(Debug)]
pub(crate) struct JudgedBin {
    phase: usize,
    median: Step,
    blocks: Vec<Option<Block>>,
    /// Of suspects and culprits alone.
    slower: Vec<(usize, Slower)>,
    counts: Counts,
}

impl JudgedBin {
    /// Closes the bin of this number; `None` if no peer can be compared with others.
    pub(crate) fn new(setup: &Setup, members: &mut [Member], number: u64) -> Option<Self> {
        let steps: Vec<Option<Step>> =
            members.iter().map(|member| setup.step(&member.bin)).collect();
        let found = median_step(&steps).filter(|step| step.work_ns > 0.0);
        let excess = |step: &Step, median: &Step| {
            ((step.load_ns - median.load_ns) / median.work_ns).clamp(-EXCESS_MAX, EXCESS_MAX)
        };

        let mut slower = found.map_or_else(Vec::new, |median| {
            suspects(setup, members, &steps, &median, |step| excess(step, &median))
        });
        for (member, step) in members.iter_mut().zip(&steps) {
            let judged = step.as_ref().zip(found.as_ref());
            member.close_bin(number, judged.map(|(step, median)| excess(step, median)));
        }
        let median = found?;

        let (blocks, counts) = blocks(members, number);
        slower.retain_mut(|(place, slower)| {
            let level = blocks[*place].map(|block| block.level);
            slower.level = level.unwrap_or_default();
            slower.level_ns = slower.level * median.work_ns;
            level.is_some()
        });

        Some(Self { phase: phase(number), median, blocks, slower, counts })
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// The nanoseconds of the median peer's step, waiting included.
    pub(crate) fn wall_ns(&self) -> f64 {
        self.median.work_ns + self.median.wait_ns
    }

    /// The healthy member whose block is closest to the median level.
    pub(crate) fn median_member<'m>(&self, members: &'m [Member]) -> Option<&'m Member> {
        let healthy = members.iter().zip(&self.blocks).filter_map(|(member, block)| {
            let is_healthy = member.suspicion.tally().is_none();
            block.filter(|_| is_healthy).map(|block| (member, block.level.abs()))
        });
        healthy.min_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(member, _)| member)
    }

    /// Adds each block to its peer's evidence.
    pub(crate) fn judge(
        &self,
        model: &Model,
        members: &mut [Member],
        seconds: f64,
        block_start: Interval,
    ) {
        for (member, block) in members.iter_mut().zip(&self.blocks) {
            let Some(block) = block else { continue };
            if let Some(factors) = model.evidence(*block, member.own_variance()) {
                member.evidence.add(self.phase, &factors, seconds);
                member.suspicion.on_evidence(member.evidence.seconds(), block_start);
            }
        }
        for (place, slower) in &self.slower {
            // One wild bin would outweigh all others in the shares of classes.
            let is_wild = model.is_wild(slower.bin - slower.level);
            let classes = if is_wild { [0.0; CLASSES_MAX] } else { slower.classes };
            let bin = if is_wild { 0.0 } else { slower.bin };

            let member = &mut members[*place];
            member.suspicion.add(&Slower { bin, classes, ..*slower });
            let variance = member.own_variance();
            if member.suspicion.has_ended(|bins| model.error(bins, variance)) {
                member.suspicion = Suspicion::Healthy;
                member.evidence = Evidence::default();
            }
        }
    }

    /// Learns the noise from each block.
    pub(crate) fn teach(&self, model: &Model, members: &mut [Member], noise: &mut Noise) {
        for (member, block) in members.iter_mut().zip(&self.blocks) {
            if let Some(block) = block {
                member.teach(model, self.phase, *block, noise);
            }
        }
        noise.end_bin();
    }
}

/// Blocks whose bins are so far apart that they share none.
#[expect(clippy::cast_possible_truncation, reason = "the remainder is below a block's length")]
fn phase(number: u64) -> usize {
    (number % BLOCK_BINS as u64) as usize
}

/// Each quantity's median over peers; `None` of too few peers.
fn median_step(steps: &[Option<Step>]) -> Option<Step> {
    let steps: Vec<&Step> = steps.iter().flatten().collect();
    if steps.len() < PEERS_MIN {
        return None;
    }
    let of = |value: fn(&Step) -> f64| {
        median(&mut steps.iter().map(|step| value(step)).collect::<Vec<_>>())
    };
    Some(Step {
        work_ns: of(|step| step.work_ns)?,
        wait_ns: of(|step| step.wait_ns)?,
        load_ns: of(|step| step.load_ns)?,
    })
}

/// Of each suspect and culprit by how much it is slower in this bin, and in which classes.
fn suspects(
    setup: &Setup,
    members: &[Member],
    steps: &[Option<Step>],
    median_step: &Step,
    excess: impl Fn(&Step) -> f64,
) -> Vec<(usize, Slower)> {
    let with_tally = members.iter().zip(steps).enumerate().filter_map(|(place, (member, step))| {
        member.suspicion.tally().and(step.as_ref()).map(|step| (place, step))
    });
    let suspects: Vec<_> = with_tally.collect();
    if suspects.is_empty() {
        return Vec::new();
    }

    // A class that is not measured has no median, or no value of the peer: it explains nothing.
    let mut medians = [f64::NAN; CLASSES_MAX];
    for class in setup.work_classes() {
        let mut all: Vec<f64> =
            members.iter().filter_map(|member| member.bin.per_step(class)).collect();
        medians[class.0] = median(&mut all).unwrap_or(f64::NAN);
    }

    let slower = |(place, step): (usize, &Step)| {
        let mut classes = [f64::NAN; CLASSES_MAX];
        for class in setup.work_classes() {
            let own = members[place].bin.per_step(class).unwrap_or(f64::NAN);
            classes[class.0] = (own - medians[class.0]) / median_step.work_ns;
        }
        (place, Slower { bin: excess(step), classes, ..Slower::default() })
    };
    suspects.into_iter().map(slower).collect()
}

/// The block of each peer that ends with this bin, relative to the median peer's.
fn blocks(members: &[Member], number: u64) -> (Vec<Option<Block>>, Counts) {
    let steps: Vec<f64> = members.iter().map(|member| member.block_steps(number)).collect();
    let mut some: Vec<f64> = steps.iter().copied().filter(|steps| *steps > 0.0).collect();
    let needed = 0.5 * median(&mut some).unwrap_or_default();

    let mut counts = Counts::default();
    let mut found: Vec<Option<Block>> = Vec::with_capacity(members.len());
    for (member, steps) in members.iter().zip(steps) {
        let block = member.block(number);
        let has_steps = steps >= needed;
        match (block, has_steps) {
            (Some(_), true) => {}
            (None, _) => counts.incomplete += 1,
            (Some(_), false) => counts.abstained += 1,
        }
        found.push(block.filter(|_| has_steps));
    }

    // The level of skewed bins is above their median over peers, for all peers alike: levels are
    // compared with levels.
    let mut levels: Vec<f64> = found.iter().flatten().map(|block| block.level).collect();
    let middle = median(&mut levels).unwrap_or_default();
    found.iter_mut().flatten().for_each(|block| block.level -= middle);
    if levels.len() < PEERS_MIN {
        found.fill(None);
    }
    (found, counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Peer, StepTimes};

    /// Peers with these steps and this excess in each of eight bins.
    fn members(all: &[(u64, f64)]) -> Vec<Member> {
        let member = |(peer, (steps, excess)): (u64, &(u64, f64))| {
            let mut member = Member::new(Peer(peer), Interval(0));
            for number in 0..8 {
                member.bin = StepTimes::new(*steps);
                member.close_bin(number, Some(*excess));
            }
            member
        };
        (0..).zip(all).map(member).collect()
    }

    #[test]
    fn levels_are_relative_to_the_median_level() {
        let of = |all: &[(u64, f64)]| {
            let (found, counts) = blocks(&members(all), 7);
            let levels = found.iter().map(|block| block.map(|block| block.level));
            (levels.collect::<Vec<_>>(), counts.abstained, counts.incomplete)
        };
        let levels = vec![Some(0.0), Some(-0.25), Some(0.25)];
        assert_eq!(of(&[(9, 0.5), (9, 0.25), (9, 0.75)]), (levels, 0, 0));
        // Too few are left.
        assert_eq!(of(&[(9, 0.5), (9, 0.25), (4, 0.75)]), (vec![None; 3], 1, 0));
        assert_eq!(of(&[(9, 0.5), (9, 0.25)]), (vec![None; 2], 0, 0));
    }
}
