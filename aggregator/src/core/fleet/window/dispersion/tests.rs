//! Factors of samples whose clusters are known: independent ones, clusters of one size, and a chain
//! that stays over the limit with a given probability.

use std::sync::LazyLock;

use plimsoll_schemas::histogram::Over;
use plimsoll_schemas::random::SplitMix64;
use plimsoll_schemas::rule::file::effective;
use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000;
const HOUR: u64 = 3_600;

/// How samples get over the limit.
#[derive(Clone, Copy)]
enum Way {
    /// Each with this probability.
    Alone(f64),
    /// With this probability a whole second's.
    Seconds(f64),
    /// As a chain: so great a share, and so much of it from the sample before.
    Chain(f64, f64),
}

/// Those of the first built-in budget.
fn limits() -> Limits {
    static LIMITS: LazyLock<Limits> = LazyLock::new(|| Limits::of(&effective(&[]).unwrap()[..1]));
    *LIMITS
}

/// An operation's samples over one limit, second by second.
struct Load {
    dispersion: Dispersion,
    rng: SplitMix64,
    second: u64,
    is_over: bool,
}

impl Load {
    fn new(seed: u64) -> Self {
        Self {
            dispersion: Dispersion::default(),
            rng: SplitMix64(seed),
            second: START,
            is_over: false,
        }
    }

    fn over(&mut self, samples: u64, way: Way) -> u64 {
        let rng = &mut self.rng;
        match way {
            Way::Alone(share) => (0..samples).filter(|_| rng.unit() < share).count() as u64,
            Way::Seconds(share) => {
                if rng.unit() < share {
                    samples
                } else {
                    0
                }
            }
            Way::Chain(share, same) => {
                let mut next = || {
                    let stays = if self.is_over { same } else { 0.0 };
                    self.is_over = rng.unit() < stays + (1.0 - same) * share;
                    self.is_over
                };
                (0..samples).filter(|_| next()).count() as u64
            }
        }
    }

    /// Takes this number of samples a second.
    fn run(&mut self, samples: u64, way: Way, seconds: u64) -> Overdispersion {
        for _ in 0..seconds {
            self.second += 1;
            let (now, over) = (Wall(self.second * SECOND), self.over(samples, way));
            add(&mut self.dispersion, now, now, samples, over);
            self.dispersion.expire(now, &limits());
        }
        self.dispersion.of(Some(0))
    }
}

fn add(dispersion: &mut Dispersion, now: Wall, taken: Wall, samples: u64, over: u64) {
    let mut overs = Overs::default();
    overs[0] = Over { over, uncertain: 0 };
    dispersion.add(now, taken, samples, &overs, &limits());
}

fn is_near(found: f64, expected: f64, tolerance: f64) -> bool {
    (found / expected - 1.0).abs() < tolerance
}

#[test]
fn independent_samples_have_a_factor_of_one_at_every_rate() {
    for (seed, samples) in [(1, 1), (2, 50), (3, 1_000)] {
        let found = Load::new(seed).run(samples, Way::Alone(0.008), 24 * HOUR);
        assert!(!found.is_learning, "{samples}");
        assert!((1.0..1.1).contains(&found.factor), "{samples}: {found:?}");
        assert!((1.0..1.3).contains(&found.cluster), "{samples}: {found:?}");
    }
}

#[test]
fn clusters_of_one_size_have_their_size_as_factor() {
    for (seed, samples) in [(1, 5), (2, 64)] {
        let found = Load::new(seed).run(samples, Way::Seconds(0.008), 24 * HOUR);
        #[expect(clippy::cast_precision_loss, reason = "few")]
        let size = samples as f64;
        assert!(is_near(found.factor, size, 0.15), "{size}: {found:?}");
        assert!(found.cluster >= 0.85 * size, "{size}: {found:?}");
    }
}

#[test]
fn the_factor_of_a_chain_is_that_of_its_theory_although_clusters_reach_over_the_ends_of_blocks() {
    // A cluster of the last one lasts for 20 s of a block's 30.
    for (seed, samples, same, hours) in [(1, 20, 0.5, 12), (2, 10, 0.8, 12), (3, 1, 0.95, 200)] {
        let found = Load::new(seed).run(samples, Way::Chain(0.008, same), hours * HOUR);
        let expected = (1.0 + same) / (1.0 - same);
        assert!(is_near(found.factor, expected, 0.35), "{samples} {same}: {found:?}");
    }
}

#[test]
fn four_is_taken_until_a_hundred_clusters_were_seen() {
    let mut load = Load::new(1);
    assert_eq!(load.dispersion.of(Some(0)), Overdispersion::UNKNOWN);
    // Eighteen slow ones an hour.
    let early = load.run(1, Way::Alone(0.005), 4 * HOUR);
    assert_eq!((early.factor, early.is_learning), (UNTIL_LEARNED, true));
    let late = load.run(1, Way::Alone(0.005), 4 * HOUR);
    assert!(late.factor < 1.5 && !late.is_learning, "{late:?}");
    // What varies more is never taken to vary less meanwhile.
    let worse = Load::new(2).run(64, Way::Seconds(0.01), HOUR);
    assert!(worse.is_learning && worse.factor > 30.0, "{worse:?}");
    // Two clusters may be by chance what they are.
    let chance = Load::new(1).run(100, Way::Seconds(0.001), HOUR + HOUR);
    assert_eq!(chance, Overdispersion::UNKNOWN);
}

#[test]
fn another_factor_is_followed_within_an_hour() {
    let mut load = Load::new(1);
    let same = |same| Way::Chain(0.008, same);
    let found = load.run(50, same(0.0), 12 * HOUR);
    assert!(found.factor < 1.1, "{found:?}");
    let found = load.run(50, same(0.8), HOUR);
    assert!(is_near(found.factor, 9.0, 0.5), "{found:?}");
    load.run(50, same(0.8), 12 * HOUR);
    let found = load.run(50, same(0.3), HOUR);
    assert!(is_near(found.factor, 13.0 / 7.0, 0.5), "{found:?}");
}

#[test]
fn a_breach_changes_no_factor() {
    for (minutes, share) in [(5, 1.0), (40, 0.6), (180, 0.08)] {
        let mut load = Load::new(1);
        let before = load.run(50, Way::Chain(0.007, 0.5), 24 * HOUR + 600);
        load.run(50, Way::Chain(share, 0.5), minutes * 60);
        let after = load.run(50, Way::Chain(0.007, 0.5), HOUR);
        assert!(is_near(after.factor, before.factor, 0.2), "{share}: {before:?} {after:?}");
    }
}

#[test]
fn a_day_whose_share_rises_and_falls_has_the_factor_of_its_samples_at_its_peak() {
    let mut load = Load::new(1);
    let mut found = Overdispersion::UNKNOWN;
    for minute in 0..1_440 * 5 / 2_u32 {
        let phase = std::f64::consts::TAU * f64::from(minute) / 1_440.0;
        found = load.run(50, Way::Alone(0.004 * (1.0 - phase.cos())), 60);
    }
    assert!(found.factor < 1.3, "{found:?}");
}

#[test]
fn forged_counts_leave_numbers() {
    let mut dispersion = Dispersion::default();
    for second in 0..4 * HOUR {
        let now = Wall((START + second) * SECOND);
        add(&mut dispersion, now, now, u64::MAX - second, u64::MAX);
        add(&mut dispersion, now, Wall(u64::MAX), u64::MAX, 0);
        dispersion.expire(now, &limits());
        assert!(dispersion.open.len() <= OPEN_MAX);
    }
    let found = dispersion.of(Some(0));
    assert!(found.factor >= 1.0 && found.cluster >= 1.0, "{found:?}");
}

#[test]
fn other_limits_keep_what_was_learned_of_those_that_stay() {
    let mut load = Load::new(1);
    let before = load.run(50, Way::Seconds(0.008), 12 * HOUR);
    let all = effective(&[]).unwrap();
    let both = Limits::of([&all[1], &all[0]]);
    load.dispersion.keep(&limits(), &both);
    assert_eq!(load.dispersion.of(both.place(all[0].limit_ns)), before);
    assert_eq!(load.dispersion.of(both.place(all[1].limit_ns)), Overdispersion::UNKNOWN);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3))]

    /// Whatever the order in which messages arrive, as long as none is later than the wait.
    #[test]
    fn the_order_of_messages_changes_no_estimate(
        seed in any::<u64>(), delays in prop::collection::vec(0..600_u64, 7..13),
    ) {
        let mut rng = SplitMix64(seed);
        let messages: Vec<_> = (0..5 * HOUR)
            .map(|second| (second, u64::from(rng.unit() < 0.05) * 3))
            .collect();
        let estimate = |delays: &[u64]| {
            let delay = |second: u64| delays[usize::try_from(second).unwrap() % delays.len()];
            let late = |second: u64| second + delay(second);
            let mut arriving = messages.clone();
            arriving.sort_by_key(|(second, _)| late(*second));
            let mut dispersion = Dispersion::default();
            for (second, over) in arriving {
                let now = Wall((START + late(second)) * SECOND);
                add(&mut dispersion, now, Wall((START + second) * SECOND), 4, over);
                dispersion.expire(now, &limits());
            }
            dispersion.expire(Wall((START + 6 * HOUR) * SECOND), &limits());
            let stored = rmp_serde::to_vec_named(&dispersion).unwrap();
            let restored: Dispersion = rmp_serde::from_slice(&stored).unwrap();
            assert_eq!(restored, dispersion);
            dispersion
        };
        prop_assert_eq!(estimate(&[0]), estimate(&delays));
    }
}
