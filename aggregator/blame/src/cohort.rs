//! A cohort: its peers in the order of their numbers, the intervals that are open, and the noise
//! that they share. It closes intervals in order, fills bins with them, and judges each peer's
//! block whenever a bin ends.
//!
//! The same reports give the same result in whatever order they come, as long as none is late.

use crate::culprit::{Counts, Culprit, Evaluation, Excess};
use crate::judged::JudgedBin;
use crate::limits::{
    AWAITED_INTERVALS, BIN_INTERVALS_MAX, BLOCK_BINS, CANDIDATES_MAX, CULPRITS_MAX, DAY_SECONDS,
    FORGOTTEN_INTERVALS, GRACE_INTERVALS, INTERVAL_Z, OPEN_INTERVALS_MAX, PEERS_MAX, WEEK_SECONDS,
};
use crate::member::Member;
use crate::naming::{Candidate, Hypotheses, named, per_week, share_ties};
use crate::noise::{Model, Noise};
use crate::order::median;
use crate::report::{Interval, Peer, StepTimes};
use crate::ring::Ring;
use crate::setup::{Rule, Setup};

/// Intervals without a report from any peer that are passed over at once.
const PAUSE_INTERVALS: u64 = OPEN_INTERVALS_MAX as u64 + GRACE_INTERVALS;

/// Why a report was not added. The caller counts them by reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    #[error("interval {0} is closed: the report came after the grace period")]
    Late(u64),
    #[error("interval {0} is too far ahead: evaluate first, or check the peer's clock")]
    Ahead(u64),
    #[error("peer {0} is one more than {PEERS_MAX}: divide the cohort")]
    TooManyPeers(u64),
}

/// Peers that do the same work.
#[derive(Clone, Debug)]
pub struct Cohort {
    setup: Setup,
    interval_seconds: f64,
    /// By their numbers, ascending.
    members: Vec<Member>,
    /// The oldest interval that is open.
    next: Interval,
    bin_start: Interval,
    bin_intervals: u32,
    /// The number of the bin that is being filled.
    bin: u64,
    /// The first interval of each bin.
    starts: Ring<Interval>,
    noise: Noise,
    /// Of the median peer's step, in the last bin.
    wall_ns: f64,
    counts: Counts,
    median_peer: Option<Peer>,
    closest_seconds: Option<f64>,
    scratch: Vec<f64>,
}

impl Cohort {
    /// A cohort without peers, whose intervals have this length; `now` is the one that is running.
    pub fn new(setup: Setup, interval_seconds: f64, now: Interval) -> Self {
        Self {
            setup,
            interval_seconds,
            members: Vec::new(),
            next: before_grace(now),
            bin_start: Interval::default(),
            bin_intervals: 0,
            bin: 0,
            starts: Ring::filled(Interval::default()),
            noise: Noise::default(),
            wall_ns: 0.0,
            counts: Counts::default(),
            median_peer: None,
            closest_seconds: None,
            scratch: Vec::new(),
        }
    }

    /// Adds what a peer reports of an interval. Reports of one interval add up.
    pub fn add(&mut self, at: Interval, peer: Peer, times: &StepTimes) -> Result<(), ReportError> {
        if at < self.next {
            return Err(ReportError::Late(at.0));
        }
        if at.0 - self.next.0 >= OPEN_INTERVALS_MAX as u64 {
            return Err(ReportError::Ahead(at.0));
        }

        let place = match self.members.binary_search_by_key(&peer, |member| member.peer) {
            Ok(place) => place,
            Err(_) if self.members.len() >= PEERS_MAX => {
                return Err(ReportError::TooManyPeers(peer.0));
            }
            Err(place) => {
                self.members.insert(place, Member::new(peer, at));
                place
            }
        };
        self.members[place].report(at, times);
        Ok(())
    }

    /// Closes the intervals before `now` that are complete or past the grace period, judges the
    /// blocks that end with them, and returns who is to blame. `hypotheses` bounds false names over
    /// all cohorts; it is at least this cohort's peers.
    pub fn evaluate(&mut self, now: Interval, hypotheses: Hypotheses) -> Evaluation {
        let hypotheses = Hypotheses(hypotheses.0.max(self.members.len()));
        while self.is_due(self.next, now) {
            let at = self.next;
            let is_pause = now.0 - at.0 > PAUSE_INTERVALS && self.newest_report() < at;
            if is_pause {
                self.skip_to(before_grace(now));
            } else {
                self.close_interval(at, hypotheses);
                self.next = Interval(at.0 + 1);
            }
        }
        self.evaluation(hypotheses)
    }

    fn newest_report(&self) -> Interval {
        self.members.iter().map(|member| member.last_report).max().unwrap_or_default()
    }

    /// Bounds the work after a pause of all peers: blocks do not reach over it, evidence stays.
    fn skip_to(&mut self, at: Interval) {
        self.members.iter_mut().for_each(Member::clear_bins);
        self.bin_intervals = 0;
        self.next = at;
    }

    fn is_due(&self, at: Interval, now: Interval) -> bool {
        let is_complete = || {
            let mut awaited = self.members.iter().filter(|member| is_awaited(member, at));
            awaited.all(|member| member.has_reported(at))
        };
        at < now && (before_grace(now) > at || is_complete())
    }

    fn close_interval(&mut self, at: Interval, hypotheses: Hypotheses) {
        if self.bin_intervals == 0 {
            self.bin_start = at;
            self.members
                .retain(|member| at.0.saturating_sub(member.last_report.0) <= FORGOTTEN_INTERVALS);
        }
        self.members.iter_mut().for_each(|member| member.close_interval(at));
        self.bin_intervals += 1;

        let awaited = self.members.iter().filter(|member| is_awaited(member, at));
        self.scratch.clear();
        self.scratch.extend(awaited.map(|member| member.bin.steps() as f64));
        let has_step = median(&mut self.scratch).is_some_and(|steps| steps >= 1.0);
        if has_step || self.bin_intervals >= BIN_INTERVALS_MAX {
            self.close_bin(at, hypotheses);
        }
    }

    /// Judges the blocks that end with this bin, then learns from them.
    fn close_bin(&mut self, at: Interval, hypotheses: Hypotheses) {
        let seconds = f64::from(std::mem::take(&mut self.bin_intervals)) * self.interval_seconds;
        let number = self.bin;
        self.bin += 1;
        *self.starts.at_mut(number) = self.bin_start;
        // The oldest bin of the block; before the ring is full, the first one.
        let oldest = number.saturating_sub(BLOCK_BINS as u64 - 1);
        let block_start = *self.starts.at(oldest);

        let Some(bin) = JudgedBin::new(&self.setup, &mut self.members, number) else { return };
        self.wall_ns = bin.wall_ns();
        let model = self.noise.model();
        self.counts = Counts {
            peers: self.members.iter().filter(|member| is_awaited(member, at)).count(),
            ..bin.counts()
        };

        bin.judge(&model, &mut self.members, seconds, block_start);
        let median = bin.median_member(&self.members).map(|member| member.peer);
        self.median_peer = median.or(self.median_peer);
        bin.teach(&model, &mut self.members, &mut self.noise);
        self.name(&model, hypotheses);
    }

    /// Names the suspects whose evidence passes the bound.
    fn name(&mut self, model: &Model, hypotheses: Hypotheses) {
        let candidate = |(place, member): (usize, &Member)| {
            let tally = member.suspicion.tally()?;
            let error = model.error(tally.bins(), member.own_variance());
            let (excess, seconds) = (tally.excess(), member.evidence.seconds());
            Some(Candidate { place, seconds, excess, error })
        };
        let members = self.members.iter().enumerate();
        let mut candidates: Vec<Candidate> = members.filter_map(candidate).collect();
        candidates.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        candidates.truncate(CANDIDATES_MAX);

        self.counts.tied = share_ties(&mut candidates);
        let named = named(&mut candidates, hypotheses);
        for candidate in &candidates[..named] {
            self.members[candidate.place].suspicion.on_proof();
        }
        let mut open = candidates[named..].iter();
        let closest = open.find(|one| self.members[one.place].suspicion.name().is_none());
        self.closest_seconds = closest.map(|candidate| candidate.seconds);
    }

    fn evaluation(&self, hypotheses: Hypotheses) -> Evaluation {
        let model = self.noise.model();
        let culprit = |member: &Member| culprit(member, &model, hypotheses);
        let mut culprits: Vec<Culprit> = self.members.iter().filter_map(culprit).collect();
        culprits.sort_by(|one, other| {
            let slower = other.excess.percent.total_cmp(&one.excess.percent);
            slower.then(one.peer.cmp(&other.peer))
        });
        self.add_costs(&mut culprits);

        let named = culprits.len();
        culprits.truncate(CULPRITS_MAX);
        Evaluation {
            culprits,
            named,
            counts: self.counts,
            median_peer: self.median_peer,
            is_learning: !model.is_learned(),
            closest_per_week: self.closest_seconds.map(|seconds| per_week(seconds, hypotheses)),
        }
    }

    /// Costs of culprits that are sorted, the slowest first.
    fn add_costs(&self, culprits: &mut [Culprit]) {
        let waiting = self.counts.peers.saturating_sub(1) as f64;
        let mut less_slow_ms = 0.0;
        for culprit in culprits.iter_mut().rev() {
            let (ms, share) = (culprit.excess.ms_per_step, culprit.excess.percent / 100.0);
            culprit.peer_hours_per_hour = match self.setup.rule() {
                // Behind a slower peer a culprit delays no others.
                Rule::WaitsLeast => waiting * (ms - less_slow_ms) * 1e6 / self.wall_ns.max(1.0),
                Rule::Slowest => share / (1.0 + share),
            };
            culprit.peer_hours_per_hour = culprit.peer_hours_per_hour.max(0.0);
            less_slow_ms = ms;
        }
    }
}

/// What is known of a member that is named, but for its cost.
fn culprit(member: &Member, model: &Model, hypotheses: Hypotheses) -> Option<Culprit> {
    let tally = &member.suspicion.name()?.tally;
    let error = model.error(tally.bins(), member.own_variance()).max(tally.error()) * INTERVAL_Z;
    let week = per_week(member.evidence.seconds(), hypotheses);
    Some(Culprit {
        peer: member.peer,
        since: tally.since,
        excess: Excess {
            ms_per_step: tally.excess_ns() / 1e6,
            percent: 100.0 * tally.excess(),
            lower_percent: 100.0 * (tally.excess() - error),
            upper_percent: 100.0 * (tally.excess() + error),
        },
        class: tally.class(),
        peer_hours_per_hour: 0.0,
        chance_of_error: (week * DAY_SECONDS / WEEK_SECONDS).min(1.0),
    })
}

fn is_awaited(member: &Member, at: Interval) -> bool {
    at.0.saturating_sub(member.last_report.0) <= AWAITED_INTERVALS
}

/// The oldest interval that still waits for reports.
fn before_grace(now: Interval) -> Interval {
    Interval(now.0.saturating_sub(GRACE_INTERVALS))
}
