//! All that may page, side by side over the same samples.

use plimsoll_aggregator::core::fleet::Overdispersion;
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::time::Wall;

use crate::burn_rates::BurnRates;
use crate::load::{Dice, Load, Source};
use crate::prometheus::{DEFAULT_BUCKETS, EVERY, Prometheus};
use crate::windowed::{Fleet, Judged, Plain};

/// Somewhen in 2023, in seconds.
const BEGIN: u64 = 1_700_000_000;
const SECOND_NS: u64 = 1_000_000_000;
const PLAIN_FOR: [u32; 2] = [1, 60];

/// What one contender did after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Seconds before anything counts.
    warm_up: u64,
    /// Whether it fired already at the end of the warm-up.
    pub(crate) already: bool,
    /// Times that it began to fire.
    pub(crate) pages: u64,
    /// Seconds in which it fired.
    pub(crate) seconds: u64,
    /// The second of the first page.
    pub(crate) first: Option<u64>,
    firing: bool,
}

impl Tally {
    fn note(&mut self, second: u64, fires: bool) {
        let begins = fires && !self.firing;
        self.firing = fires;
        if second <= self.warm_up {
            self.already = fires;
            return;
        }
        self.pages += u64::from(begins);
        self.seconds += u64::from(fires);
        if begins {
            self.first = self.first.or(Some(second - self.warm_up));
        }
    }
}

#[derive(Clone)]
pub(crate) struct Contest {
    fleet: Fleet,
    judged: Judged,
    plain: [Plain; 2],
    prometheus: [Prometheus; 2],
    burn_rates: BurnRates,
    tallies: Vec<Tally>,
    source: Source,
    second: u64,
    samples: Vec<u64>,
}

impl Contest {
    /// The contenders' names, in the order of their tallies.
    pub(crate) fn names() -> Vec<String> {
        let others = [
            "`p99 > limit`",
            "`p99 > limit` for 1m",
            "Prometheus, limit a bucket's edge",
            "Prometheus, default buckets",
            "burn rates of 14.4 over 1h and 5m, 6 over 6h and 30m",
        ];
        ["Plimsoll"].into_iter().chain(others).map(str::to_owned).collect()
    }

    /// Nothing seen yet; the budget is the aggregator's as shipped.
    pub(crate) fn new(budget: &Budget, load: Load, warm_up: u64, dice: &mut Dice) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds")]
        let limit = budget.limit_ns as f64 / 1e9;
        let scrapes_at = dice.below(EVERY);
        let phases = (scrapes_at, (scrapes_at + 1 + dice.below(EVERY - 1)) % EVERY);
        let mut with_edge = [&DEFAULT_BUCKETS[..], &[limit]].concat();
        with_edge.sort_by(f64::total_cmp);
        Self {
            fleet: Fleet::new(budget),
            judged: Judged::new(budget.clone()),
            plain: PLAIN_FOR.map(|evaluations| Plain::new(budget, evaluations)),
            prometheus: [&with_edge[..], &DEFAULT_BUCKETS[..]]
                .map(|buckets| Prometheus::new(limit, buckets, phases)),
            burn_rates: BurnRates::new(budget),
            tallies: vec![Tally { warm_up, ..Tally::default() }; Self::names().len()],
            source: Source::new(load),
            second: 0,
            samples: Vec::new(),
        }
    }

    /// Advances time by this many seconds.
    pub(crate) fn run(&mut self, dice: &mut Dice, seconds: u64) {
        (0..seconds).for_each(|_| self.pass(dice));
    }

    /// From now on samples take this many times as long; advances time until every contender has
    /// paged, or until this many seconds have passed.
    pub(crate) fn run_until_paged(&mut self, times: f64, dice: &mut Dice, seconds: u64) {
        self.source.load = self.source.load.times(times);
        for _ in 0..seconds {
            if self.tallies.iter().all(|tally| tally.already || tally.first.is_some()) {
                return;
            }
            self.pass(dice);
        }
    }

    fn pass(&mut self, dice: &mut Dice) {
        self.second += 1;
        self.source.draw(self.second, dice, &mut self.samples);
        let (second, now) = (self.second, Wall((BEGIN + self.second) * SECOND_NS));
        let sums = self.fleet.take(now, &self.samples);
        self.prometheus.iter_mut().for_each(|one| one.observe(&self.samples));
        let judged = self.judged.fires(now, &sums, &self.fleet);
        let plain = self.plain.iter_mut().map(|one| one.fires(&sums));
        let prometheus = self.prometheus.iter_mut().map(|one| one.fires(second));
        let burns = self.burn_rates.fires(second, &self.samples);
        let fire = std::iter::once(judged).chain(plain).chain(prometheus).chain([burns]);
        self.tallies.iter_mut().zip(fire).for_each(|(tally, fires)| tally.note(second, fires));
    }

    /// How the judge takes samples over the limit to come together.
    pub(crate) fn overdispersion(&self) -> Overdispersion {
        self.fleet.overdispersion()
    }

    /// What became of each.
    pub(crate) fn tallies(self) -> Vec<Tally> {
        self.tallies
    }
}
