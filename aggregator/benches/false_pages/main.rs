//! False pages and the delay of true ones: the aggregator's judgement beside a plain `p99 > limit`,
//! Prometheus' `histogram_quantile > limit for 1m` and burn rates of two windows, over the same
//! samples of a workload whose true p99 is 5 % below the limit. Every sample is drawn, and the
//! aggregator's own windows, findings and alerts judge it; only messages and their delay are left
//! out.
//!
//! `cargo bench -p plimsoll-aggregator --bench false_pages -- --json`

mod burn_rates;
mod contest;
mod load;
mod prometheus;
mod windowed;

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use clap::Parser;
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::rule::file::effective;
use serde::Serialize;

use contest::{Contest, Tally};
use load::{Dice, Load};
use plimsoll_aggregator::core::fleet::Overdispersion;

/// Where the true p99 lies, as a share of the limit.
const UNDER: f64 = 0.95;
/// By how much every sample is stretched when it gets slow in truth.
const SHIFTS: [f64; 3] = [1.1, 1.5, 3.0];
const HOUR: u64 = 3_600;
/// Hours before anything counts, in which [`WARM_UP_OVER`] samples over the limit come: enough to
/// learn how they cluster.
const WARM_UP_HOURS: (u64, u64) = (2, 480);
const WARM_UP_OVER: u64 = 1_500;

#[derive(Parser)]
struct Arguments {
    /// `cargo bench` adds it.
    #[arg(long, hide = true)]
    bench: bool,
    /// Runs of each, which differ in all that is drawn.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// Simulated hours of each run without a shift.
    #[arg(long, default_value_t = 24)]
    hours: u64,
    /// Samples a minute, a divisor or a multiple of sixty; several times for several loads.
    #[arg(long = "per-minute", default_values_t = [3, 3_000])]
    per_minute: Vec<u64>,
    /// Deviation of the samples' logarithms.
    #[arg(long, default_value_t = 0.4)]
    sigma: f64,
    /// How much each sample has of the one before, 0 to 1.
    #[arg(long, default_value_t = 0.0)]
    correlation: f64,
    /// The p99 rises and falls within each day.
    #[arg(long)]
    season: bool,
    /// The share of seconds in which all samples take three times as long.
    #[arg(long, default_value_t = 0.0)]
    bursts: f64,
    /// How much of the variance all samples of one second share.
    #[arg(long, default_value_t = 0.0)]
    shared: f64,
    /// Hours before anything counts; by default as many as show 1 500 samples over the limit, 2 to
    /// 480.
    #[arg(long)]
    warm_up_hours: Option<u64>,
    /// Seconds that a shift lasts, unless every rule has paged before.
    #[arg(long, default_value_t = 3_600)]
    shift_seconds: u64,
    /// Threads; by default as many as there are cores.
    #[arg(long)]
    threads: Option<usize>,
    /// Print figures for a program.
    #[arg(long)]
    json: bool,
}

/// Figures of one load.
#[derive(Serialize)]
struct Figures {
    per_minute: u64,
    sigma: f64,
    correlation: f64,
    has_season: bool,
    bursts: f64,
    shared: f64,
    warm_up_hours: u64,
    /// The median at the end of the warm-up, and runs in which it was still taken for granted.
    overdispersion: f64,
    learning: u64,
    hours: u64,
    seeds: u64,
    contenders: Vec<Contender>,
}

#[derive(Serialize)]
struct Contender {
    name: String,
    /// Pages of all runs without a shift, and runs that had any.
    pages: u64,
    runs_with_pages: u64,
    /// Share of their time in which it fired.
    firing: f64,
    /// Seconds from each shift to the page, by how much longer samples take.
    delays: Vec<Delay>,
}

#[derive(Serialize)]
struct Delay {
    times: f64,
    /// Runs in which it fired before the shift, so that there is no delay.
    already: u64,
    never: u64,
    median: Option<u64>,
    p95: Option<u64>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let built_in = effective(&[])?;
    let shipped = built_in.iter().find(|budget| budget.name.as_str() == "epoch_hook");
    let budget = shipped.context("there is no built-in budget epoch_hook")?;
    let loads = arguments.per_minute.iter();
    let figures: Vec<_> = loads.map(|load| measure(&arguments, budget, *load)).collect();
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&figures)?);
    } else {
        figures.iter().for_each(print);
    }
    Ok(())
}

/// What became of one run: without a shift, and with each.
struct Run {
    overdispersion: Overdispersion,
    calm: Vec<Tally>,
    shifts: Vec<Vec<Tally>>,
}

fn measure(arguments: &Arguments, budget: &Budget, per_minute: u64) -> Figures {
    let Arguments { seeds, hours, sigma, correlation, season: has_season, .. } = *arguments;
    let Arguments { bursts, shared, .. } = *arguments;

    #[expect(clippy::cast_precision_loss, reason = "milliseconds")]
    let p99_ns = UNDER * budget.limit_ns as f64;
    let load = Load { per_minute, sigma, p99_ns, correlation, has_season, bursts, shared };

    let (least, most) = WARM_UP_HOURS;
    // Up to three a minute nothing is learned.
    let enough = if per_minute <= 3 { least } else { WARM_UP_OVER * 100 / (per_minute * 60) };
    let enough = enough.clamp(least, most);
    let warm_up_hours = arguments.warm_up_hours.unwrap_or(enough);

    let runs = side_by_side(arguments, |seed| {
        let mut dice = Dice::new(seed);
        let mut contest = Contest::new(budget, load, warm_up_hours * HOUR, &mut dice);
        contest.run(&mut dice, warm_up_hours * HOUR);
        let shift = |times| {
            // Other samples than those of the calm run.
            let (mut contest, mut dice) =
                (contest.clone(), Dice::new(dice.0.0 ^ seed.rotate_left(32)));
            contest.run_until_paged(times, &mut dice, arguments.shift_seconds);
            contest.tallies()
        };
        let shifts = SHIFTS.map(shift).to_vec();
        let overdispersion = contest.overdispersion();
        contest.run(&mut dice, hours * HOUR);
        Run { overdispersion, calm: contest.tallies(), shifts }
    });

    let contender = |(number, name): (usize, String)| {
        let calm: Vec<_> = runs.iter().map(|run| run.calm[number]).collect();
        let delays = SHIFTS.iter().enumerate().map(|(shift, times)| {
            delay(*times, &runs.iter().map(|run| run.shifts[shift][number]).collect::<Vec<_>>())
        });
        contender(name, &calm, hours, delays.collect())
    };
    let contenders = Contest::names().into_iter().enumerate().map(contender).collect();

    let mut factors: Vec<_> = runs.iter().map(|run| run.overdispersion.factor).collect();
    factors.sort_by(f64::total_cmp);
    Figures {
        per_minute,
        sigma,
        correlation,
        has_season,
        bursts,
        shared,
        warm_up_hours,
        overdispersion: factors[factors.len() / 2],
        learning: runs.iter().filter(|run| run.overdispersion.is_learning).count() as u64,
        hours,
        seeds,
        contenders,
    }
}

/// All runs, by seed; each thread takes the next free one.
fn side_by_side(arguments: &Arguments, run: impl Fn(u64) -> Run + Sync) -> Vec<Run> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(0);
    let take = || {
        let seeds = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let mine = seeds.take_while(|seed| *seed < arguments.seeds);
        mine.map(|seed| (seed, run(seed))).collect::<Vec<_>>()
    };
    let mut runs = std::thread::scope(|scope| {
        let threads = (0..arguments.threads.unwrap_or_else(cores)).map(|_| scope.spawn(take));
        let threads: Vec<_> = threads.collect();
        let ended = threads.into_iter().flat_map(|thread| thread.join().expect("no run panics"));
        ended.collect::<Vec<_>>()
    });
    runs.sort_by_key(|(seed, _)| *seed);
    runs.into_iter().map(|(_, run)| run).collect()
}

#[expect(clippy::cast_precision_loss, reason = "seconds of some months")]
fn contender(name: String, calm: &[Tally], hours: u64, delays: Vec<Delay>) -> Contender {
    let seconds: u64 = calm.iter().map(|tally| tally.seconds).sum();
    Contender {
        name,
        pages: calm.iter().map(|tally| tally.pages).sum(),
        runs_with_pages: calm.iter().map(|tally| u64::from(tally.pages > 0)).sum(),
        firing: seconds as f64 / (calm.len() as u64 * hours * HOUR) as f64,
        delays,
    }
}

/// Of the runs that did not fire before the shift; one that never paged took longest.
fn delay(times: f64, runs: &[Tally]) -> Delay {
    let blind = runs.iter().filter(|tally| tally.already).count();
    let mut delays: Vec<_> = runs.iter().filter(|tally| !tally.already).collect();
    delays.sort_by_key(|tally| tally.first.unwrap_or(u64::MAX));
    let at = |percent: usize| {
        let place = (delays.len() * percent).div_ceil(100).saturating_sub(1);
        delays.get(place).and_then(|tally| tally.first)
    };
    Delay {
        times,
        already: blind as u64,
        never: delays.iter().filter(|tally| tally.first.is_none()).count() as u64,
        median: at(50),
        p95: at(95),
    }
}

fn print(figures: &Figures) {
    let Figures { per_minute, hours, seeds, overdispersion, learning, .. } = figures;
    println!("{per_minute} samples a minute, {seeds} runs of {hours} hours");
    println!("overdispersion {overdispersion:.2}, {learning} of the runs still learning");
    for contender in &figures.contenders {
        let Contender { name, pages, runs_with_pages, firing, delays } = contender;
        println!("{name}: {pages} pages in {runs_with_pages} runs, firing {:.4} %", firing * 100.0);
        for Delay { times, already, never, median, p95 } in delays {
            println!(
                "  x {times}: median {median:?} s, p95 {p95:?} s, {never} never, {already} before"
            );
        }
    }
}
