//! How often two runs of the same program are `same`, how often a shift of 5 % is found, and how
//! long a comparison takes.
//!
//! `cargo bench -p plimsoll-compare --bench power`, with `-- --pairs N` for other than 100 pairs.

#[path = "../tests/runs/mod.rs"]
mod runs;

use plimsoll_clock::Stopwatch;
use plimsoll_compare::{
    BucketLayout, Change, Compared, Comparison, Measured, Named, Options, Side, Slot, Verdict,
    compare, compare_runs,
};
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::random::SplitMix64;
use runs::{Run, operation};

/// Runs that do not change, by their names.
const UNCHANGED: [(&str, Run); 7] = [
    ("independent", Run::PLAIN),
    ("samples 0.8", Run { correlation: 0.8, ..Run::PLAIN }),
    ("level 0.8, 100 slots", LEVEL),
    ("level 0.8, 300 slots", Run { slots: 300, per_slot: 33, ..LEVEL }),
    ("level 0.8, 1 000 slots", Run { slots: 1_000, ..LEVEL }),
    ("level 0.8, 8 nodes of 60 slots", Run { nodes: 8, slots: 60, ..LEVEL }),
    ("level 0.95, 1 000 slots", Run { slots: 1_000, level_correlation: 0.95, ..LEVEL }),
];
const LEVEL: Run = Run { correlation: 0.8, level_sigma: 0.1, level_correlation: 0.8, ..Run::PLAIN };

fn main() {
    let pairs = pairs();
    let options = Options { tolerance: 0.0, ..Options::default() };
    let judged = |run: &Run, other: &Run, seed: u64| {
        let (a, b) = (run.side(2 * seed), other.side(2 * seed + 1));
        compare(&a, &b, &options).operations.remove(&operation()).expect("both sides have it")
    };
    println!(
        "| A against A, {pairs} pairs | samples a side | same | worse or better | not enough data | floor of p50, p99 |"
    );
    println!("|---|---|---|---|---|---|");
    for (name, run) in UNCHANGED {
        let all: Vec<Compared> = (0..pairs).map(|seed| judged(&run, &run, seed)).collect();
        let of = |verdict| all.iter().filter(|compared| compared.verdict == verdict).count();
        println!(
            "| {name} | {} | {} | {} | {} | {}, {} |",
            run.nodes * run.slots * run.per_slot,
            of(Verdict::Same),
            of(Verdict::Worse) + of(Verdict::Better),
            of(Verdict::NotEnoughData),
            floor(&all, 0.5),
            floor(&all, 0.99),
        );
    }
    println!(
        "\n| 5 % more, 10 000 independent samples, {pairs} pairs | worse | p99 alone worse | floor of p99 |"
    );
    println!("|---|---|---|---|");
    for sigma in [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4] {
        let run = Run { sigma, ..Run::PLAIN };
        let slower = Run { scale: 1.05, ..run };
        let all: Vec<Compared> = (0..pairs).map(|seed| judged(&run, &slower, seed)).collect();
        let worse = all.iter().filter(|compared| compared.verdict == Verdict::Worse).count();
        let tail = all.iter().filter(|one| is_worse(one, 0.99)).count();
        println!("| sigma {sigma} | {worse} | {tail} | {} |", floor(&all, 0.99));
    }
    between_runs(pairs);
    speed();
}

/// Runs of equal versions whose levels differ: judged by run, and in one pool as if each were a
/// node.
fn between_runs(pairs: u64) {
    println!(
        "\n| A against A, {pairs} pairs | runs a side | p50 holds | worse or better | floor of p50 | in one pool: p50 holds | worse or better |"
    );
    println!("|---|---|---|---|---|---|---|");
    for between in [0.0, 0.02, 0.05] {
        for runs in [3, 5, 10] {
            let sides = |seed| {
                let mut rng = SplitMix64(seed);
                let mut level = || {
                    let normal = (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
                    Run { slots: 60, scale: (between * normal).exp(), ..Run::PLAIN }
                };
                (0..runs).map(|n| level().side(100 * seed + n)).collect::<Vec<Side>>()
            };
            let both: Vec<[Vec<Side>; 2]> =
                (0..pairs).map(|seed| [2 * seed + 1, 2 * seed + 2].map(sides)).collect();
            let judged = |[a, b]: &[Vec<Side>; 2]| {
                let [a, b] = [a, b].map(|runs| named(runs));
                only(compare_runs([&a, &b], &Options::default()))
            };
            let pooled = |sides: &[Vec<Side>; 2]| {
                let [a, b] = sides.each_ref().map(|runs| pool(runs));
                only(compare(&a, &b, &Options::default()))
            };
            let ours: Vec<Compared> = both.iter().map(judged).collect();
            let plain: Vec<Compared> = both.iter().map(pooled).collect();
            let [(held, differ), (of_pool, pool_differs)] =
                [&ours, &plain].map(|all| (held(all), differs(all)));
            println!(
                "| runs differ by {} % | {runs} | {held} | {differ} | {} | {of_pool} | {pool_differs} |",
                100.0 * between,
                floor(&ours, 0.5),
            );
        }
    }
}

const NAMES: [&str; 10] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"];

fn named(runs: &[Side]) -> Vec<Named<'_, Side>> {
    NAMES.iter().zip(runs).map(|(name, of)| Named { name, of }).collect()
}

fn pool(runs: &[Side]) -> Side {
    let mut all = Measured::new(BucketLayout::MESH);
    for (name, run) in NAMES.iter().zip(runs) {
        let node = NodeName::new(*name).ok();
        let slots = run.operations[&operation()].slots.iter();
        all.slots.extend(slots.map(|slot| Slot { node: node.clone(), ..slot.clone() }));
    }
    Side { operations: [(operation(), all)].into(), ..Side::default() }
}

fn only(mut comparison: Comparison) -> Compared {
    comparison.operations.remove(&operation()).expect("both sides have it")
}

fn held(all: &[Compared]) -> usize {
    let median = |one: &Compared| one.shifts.get(4).and_then(|shift| shift.change);
    let holds = |change: &Change| (change.low..=change.high).contains(&0.0);
    all.iter().filter_map(median).filter(holds).count()
}

fn differs(all: &[Compared]) -> usize {
    all.iter().filter(|one| matches!(one.verdict, Verdict::Worse | Verdict::Better)).count()
}

fn pairs() -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--pairs").skip(1);
    arguments.next().and_then(|pairs| pairs.parse().ok()).unwrap_or(100)
}

fn is_worse(compared: &Compared, quantile: f64) -> bool {
    let shift = compared.shifts.iter().find(|shift| shift.quantile == quantile);
    shift.and_then(|shift| shift.change).is_some_and(|change| change.verdict == Verdict::Worse)
}

/// The mean over pairs, in percent.
fn floor(all: &[Compared], quantile: f64) -> String {
    let shifts = all.iter().flat_map(|one| &one.shifts).filter(|one| one.quantile == quantile);
    let floors: Vec<f64> = shifts.filter_map(|shift| Some(shift.change?.floor)).collect();
    format!("{:.1} %", 100.0 * floors.iter().sum::<f64>() / floors.len().max(1) as f64)
}

/// Two sides of 10^8 samples together, in 1 000 slots each.
fn speed() {
    let run = Run { slots: 1_000, per_slot: 50_000, ..LEVEL };
    let (a, b) = (run.side(1), run.side(2));
    let watch = Stopwatch::start();
    let compared = compare(&a, &b, &Options::default());
    let seconds = watch.elapsed().as_secs_f64();
    println!("\n10^8 samples: {} after {seconds:.2} s", compared.verdict.words());
}
