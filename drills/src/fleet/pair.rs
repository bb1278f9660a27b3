//! Whether two aggregators of one broker give the same answers.
//!
//! Of a whole run everything must be equal: the ledger of each node, and for each operation and
//! group every bucket of its distribution. Slots of ten seconds are equal while the clocks of
//! broker and aggregator are known to agree. Where that is not known yet, as after a start, samples
//! near the end of a slot fall into a neighbouring one; they must not move further than
//! [`APART_MAX`].
//!
//! DESIGN D36.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use plimsoll_clock::Clock;
use plimsoll_runtime::client::Api;
use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::summary::{
    HistoryGroup, HistoryPage, HistoryPoint, Ledger, LedgerPage, MESSAGEPACK, OperationsPage,
    Quantiles, Summary,
};
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::faults::FaultClock;
use super::watched::LedgerSums;
use crate::live::expectation::Look;

/// Seconds of a slot of the finest tier.
const SLOT: u64 = 10;
/// Points of an answer.
const POINTS_MAX: u64 = 3_600;
/// Slots by which samples may be apart: the longest stall, and the edge of a slot.
pub const APART_MAX: usize = 2;
/// Bytes of one answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Differences that are described.
const DESCRIBED_MAX: usize = 5;
/// Time for one look at both while the fleet sends.
const LOOK_WAIT: Duration = Duration::from_secs(20);
/// Seconds between two looks, and age of what is compared.
const LOOK_EVERY: Duration = Duration::from_secs(60);
const LOOK_AGE: u64 = 120;
/// The same in runs of less than ten minutes.
const SHORT_LOOK_EVERY: Duration = Duration::from_secs(10);
const SHORT_LOOK_AGE: u64 = 20;
/// A run that is not short.
pub const LONG: Duration = Duration::from_secs(600);
/// Looks at one range before it counts as different: a message may come between two questions.
const ATTEMPTS_MAX: usize = 4;

/// What was compared, and what differs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PairStats {
    /// Nodes whose ledgers were compared.
    pub nodes: u64,
    /// Operations and groups whose histories were compared.
    pub histories: u64,
    pub samples: u64,
    /// Buckets of their distributions over the whole run.
    pub buckets: u64,
    /// Quantiles over the whole run.
    pub quantiles: u64,
    /// Totals of the summary.
    pub totals: u64,
    /// Slots of ten seconds in all histories.
    pub slots: u64,
    /// Of those, slots with equal samples on both.
    pub slots_equal: u64,
    /// Seconds by which samples are apart at most, in whole slots.
    pub apart_seconds_max: u64,
    /// Looks at both while the fleet sent.
    pub looks: u64,
    /// Looks that were not taken because of a fault, or because one was behind.
    pub looks_skipped: u64,
    /// How many differences there are.
    pub differences: u64,
    /// The first of them.
    pub described: Vec<String>,
}

impl PairStats {
    fn differ(&mut self, what: String) {
        self.differences += 1;
        if self.described.len() < DESCRIBED_MAX {
            eprintln!("the pair differs: {what}");
            self.described.push(what);
        }
    }

    fn check(&mut self, difference: Option<String>) {
        if let Some(what) = difference {
            self.differ(what);
        }
    }

    /// Whether nothing differs, in words.
    pub fn look(&self) -> Look {
        let seen = format!(
            "{} nodes; {} histories with {} samples in {} buckets, {} quantiles; {} totals; {} looks \
             ({} left out); {} of {} slots equal, samples at most {} s apart",
            self.nodes,
            self.histories,
            self.samples,
            self.buckets,
            self.quantiles,
            self.totals,
            self.looks,
            self.looks_skipped,
            self.slots_equal,
            self.slots,
            self.apart_seconds_max
        );

        let seen = match self.differences {
            0 => seen,
            n => format!("{n} differences: {}; {seen}", self.described.join("; ")),
        };

        Look::new(self.differences == 0 && self.histories > 0, seen)
    }

    /// Compares everything of both since `from`, in seconds since 1970, once nothing is pending.
    ///
    /// # Errors
    /// When one does not answer.
    pub async fn compare(&mut self, pair: &Pair, from: u64) -> Result<()> {
        let from = from / SLOT * SLOT;
        let to = (wall_seconds() / SLOT + 1) * SLOT;
        let ledgers = pair.both::<LedgerPage>("/api/v1/ledger").await?;
        self.nodes = ledgers.0.nodes.len() as u64;
        for what in ledger_differences(&ledgers.0, &ledgers.1) {
            self.differ(what);
        }
        let (first, second) = pair.both::<Summary>("/metrics/summary").await?;
        let (first, second) = (totals(&first), totals(&second));
        self.totals = first.len() as u64;
        let names =
            |totals: &BTreeMap<String, Quantiles>| totals.keys().cloned().collect::<Vec<_>>();
        self.check(unequal("names in the summary", &names(&first), &names(&second)));

        for (name, total) in &first {
            let other = second.get(name).unwrap_or(total);
            self.check(unequal(&format!("total of {name}"), total, other));
        }

        for series in self.series(pair).await? {
            let whole =
                format!("{series}&from={from}&to={to}&step={}s&distribution=true", to - from);
            let (first, second) = pair.history(&whole).await?;
            self.whole(&series, &first, &second);
            let step = step(from, to);
            let slots = format!("{series}&from={from}&to={to}&step={step}s");
            let (first, second) = pair.history(&slots).await?;
            self.slots(&series, &first.points, &second.points, step);
        }

        Ok(())
    }

    /// The queries of all operations and groups that both have.
    async fn series(&mut self, pair: &Pair) -> Result<Vec<String>> {
        let (first, second) = pair.both::<OperationsPage>("/api/v1/operations").await?;
        self.check(unequal("operations", &first.operations, &second.operations));
        self.check(unequal("groups", &first.groups, &second.groups));
        let fleet = first.operations.iter().filter(|one| second.operations.contains(one));
        let fleet = fleet.map(|operation| format!("operation={operation}"));
        let groups = first.groups.iter().filter(|one| second.groups.contains(one));
        Ok(fleet.chain(groups.map(group_query)).collect())
    }

    fn whole(&mut self, series: &str, first: &HistoryPage, second: &HistoryPage) {
        self.histories += 1;
        for point in &first.points {
            self.samples += point.count;
            self.quantiles += point.quantiles.len() as u64;
            let buckets = point.distribution.as_ref().map_or(0, |all| all.counts.buckets().count());
            self.buckets += buckets as u64;
        }
        let bare = |page: &HistoryPage| page.points.iter().map(samples_of).collect::<Vec<_>>();
        self.check(unequal(series, &bare(first), &bare(second)));
    }

    fn slots(&mut self, series: &str, first: &[HistoryPoint], second: &[HistoryPoint], step: u64) {
        let equal =
            |(one, other): &(&HistoryPoint, &HistoryPoint)| samples_of(one) == samples_of(other);
        self.slots += first.len() as u64;
        self.slots_equal += first.iter().zip(second).filter(equal).count() as u64;
        match apart(&counts(first), &counts(second)) {
            Some(slots) => {
                self.apart_seconds_max = self.apart_seconds_max.max(slots as u64 * step);
            }
            None => {
                let seconds = APART_MAX as u64 * step;
                self.differ(format!("{series}: samples more than {seconds} s apart"));
            }
        }
    }
}

#[derive(Clone, Debug)]
pub struct Pair {
    /// The first.
    pub first: Api,
    pub second: Api,
}

impl Pair {
    async fn both<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<(T, T)> {
        let (first, second) = tokio::try_join!(self.first.get(path), self.second.get(path))?;
        Ok((
            serde_json::from_str(&first).with_context(|| format!("the first's {path}"))?,
            serde_json::from_str(&second).with_context(|| format!("the second's {path}"))?,
        ))
    }

    async fn history(&self, query: &str) -> Result<(HistoryPage, HistoryPage)> {
        let path = format!("/api/v1/query?{query}");
        let fetch = |api: &Api| {
            let (api, path) = (api.clone(), path.clone());
            async move {
                let bytes = api.fetch(&path, MESSAGEPACK, ANSWER_BYTES_MAX).await?;
                HistoryPage::from_messagepack(&bytes).with_context(|| path)
            }
        };
        let (first, second) = tokio::try_join!(fetch(&self.first), fetch(&self.second))?;
        ensure!(first.points.len() == second.points.len(), "{path}: other points");
        Ok((first, second))
    }

    async fn are_pending(&self) -> Result<bool> {
        let (first, second) =
            tokio::try_join!(self.first.get("/metrics"), self.second.get("/metrics"))?;
        let pending = |text: &str| LedgerSums::read(text).pending > 0.0;
        Ok(pending(&first) || pending(&second))
    }
}

/// Looks at both while the fleet sends.
pub struct Looks {
    task: JoinHandle<PairStats>,
    stop: watch::Sender<bool>,
}

impl Looks {
    /// Compares what is some time old, of a fleet that began at `from` and sends for `length`.
    pub fn start(pair: Pair, clock: FaultClock, from: u64, length: Duration) -> Self {
        let (stop, mut stopped) = watch::channel(false);

        let (every, age) = match length >= LONG {
            true => (LOOK_EVERY, LOOK_AGE),
            false => (SHORT_LOOK_EVERY, SHORT_LOOK_AGE),
        };

        let task = tokio::spawn(async move {
            let (mut stats, mut ticks) = (PairStats::default(), interval(every));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let from = from / SLOT * SLOT;

            loop {
                tokio::select! {
                    _ = ticks.tick() => {}
                    _ = stopped.changed() => return stats,
                }

                let to = wall_seconds().saturating_sub(age) / SLOT * SLOT;
                if to <= from {
                    continue;
                }
                let look = timeout(LOOK_WAIT, looked(&pair, &clock, from..to));

                match look.await {
                    Ok(Ok(Some(difference))) => {
                        stats.looks += 1;
                        stats.check(difference);
                    }
                    _ => stats.looks_skipped += 1,
                }
            }
        });

        Self { task, stop }
    }

    /// What was seen so far.
    ///
    /// # Errors
    /// When the task failed.
    pub async fn end(self) -> Result<PairStats> {
        self.stop.send_replace(true);
        Ok(self.task.await?)
    }
}

/// `None` when no look could be taken; then what differs in it.
async fn looked(
    pair: &Pair,
    clock: &FaultClock,
    span: Range<u64>,
) -> Result<Option<Option<String>>> {
    let Range { start: from, end: to } = span;
    let begun = clock.now();
    if clock.is_on() || pair.are_pending().await? {
        return Ok(None);
    }
    let (operations, _) = pair.both::<OperationsPage>("/api/v1/operations").await?;

    for operation in &operations.operations {
        let query = format!("operation={operation}&from={from}&to={to}&step={}s", step(from, to));
        let mut found = None;

        for _ in 0..ATTEMPTS_MAX {
            let (first, second) = pair.history(&query).await?;
            found = apart(&counts(&first.points), &counts(&second.points));
            if found.is_some() {
                break;
            }
            sleep(Duration::from_secs(1)).await;
        }

        if clock.now() != begun {
            return Ok(None);
        }

        if found.is_none() {
            let what = format!("{operation} from {from} to {to}: samples too far apart");
            return Ok(Some(Some(what)));
        }
    }

    Ok(Some(None))
}

/// Seconds of a point: a slot, unless there were more points than an answer has.
fn step(from: u64, to: u64) -> u64 {
    SLOT * to.saturating_sub(from).div_ceil(SLOT * POINTS_MAX).max(1)
}

fn wall_seconds() -> u64 {
    Clock::start().now().wall.0 / 1_000_000_000
}

/// When a fleet that begins now does, in seconds since 1970.
pub fn begin() -> u64 {
    wall_seconds().saturating_sub(SLOT)
}

fn group_query(group: &HistoryGroup) -> String {
    let HistoryGroup { rollup, operation, values } = group;
    let values: String = values.iter().map(|value| format!("&value={value}")).collect();
    format!("operation={operation}&rollup={rollup}{values}")
}

/// A point without its completeness, which counts for how long each aggregator ran and when it saw
/// the nodes.
fn samples_of(point: &HistoryPoint) -> HistoryPoint {
    HistoryPoint { completeness: None, ..point.clone() }
}

fn counts(points: &[HistoryPoint]) -> Vec<u64> {
    points.iter().map(|point| point.count).collect()
}

/// By how many slots samples of one are at most from those of the other; `None` when it is more
/// than [`APART_MAX`]. Samples keep their order, so that by the end of a slot one has at least
/// what the other had this many slots earlier, and at most what it has this many slots later.
fn apart(first: &[u64], second: &[u64]) -> Option<usize> {
    let sums = |counts: &[u64]| -> Vec<u64> {
        counts
            .iter()
            .scan(0, |sum, n| {
                *sum += n;
                Some(*sum)
            })
            .collect()
    };

    let (first, second) = (sums(first), sums(second));

    (0..=APART_MAX).find(|slots| {
        let covers = |one: &[u64], other: &[u64]| {
            (*slots..one.len()).all(|place| one[place] >= other[place - slots])
        };
        covers(&first, &second) && covers(&second, &first)
    })
}

fn unequal<T: PartialEq + std::fmt::Debug>(what: &str, first: &T, second: &T) -> Option<String> {
    const WORDS_MAX: usize = 200;
    let short = |one: &T| format!("{one:?}").chars().take(WORDS_MAX).collect::<String>();
    (first != second).then(|| format!("{what}: {} and {}", short(first), short(second)))
}

/// What two ledgers say differently of a node.
fn ledger_differences(first: &LedgerPage, second: &LedgerPage) -> Vec<String> {
    let by_node = |page: &LedgerPage| -> BTreeMap<String, [String; 6]> {
        let row = |ledger: &Ledger| {
            let Ledger { recorded, merged, held, unaccounted, unread, lost, .. } = ledger;
            let numbers = [recorded, merged, held, unaccounted, unread].map(u64::to_string);
            let [recorded, merged, held, unaccounted, unread] = numbers;
            [recorded, merged, held, unaccounted, unread, format!("{lost:?}")]
        };
        page.nodes.iter().map(|node| (node.node.clone(), row(&node.ledger))).collect()
    };

    let (first, mut second) = (by_node(first), by_node(second));

    let mut found: Vec<String> = first
        .into_iter()
        .filter_map(|(node, row)| match second.remove(&node) {
            None => Some(format!("the second does not know {node}")),
            Some(other) => unequal(&node, &row, &other),
        })
        .collect();

    found.extend(second.into_keys().map(|node| format!("the first does not know {node}")));
    found
}

/// All samples ever merged, by operation of the fleet and by group. What an aggregator records
/// itself, such as how long messages were on their way to it, is its own.
fn totals(summary: &Summary) -> BTreeMap<String, Quantiles> {
    let fleet = summary.operations.iter().filter(|row| row.scope == Scope::Fleet && !row.own);
    let fleet = fleet.map(|row| (row.operation.clone(), row.total.clone()));
    let groups = summary.rollups.iter().map(|row| {
        let labels: Vec<&str> = row.labels.iter().map(|(_, value)| value.as_str()).collect();
        (format!("{} of {} {}", row.operation, row.rollup, labels.join(" ")), row.total.clone())
    });
    fleet.chain(groups).collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::summary::NodeLedger;

    use super::*;

    fn point(count: u64, completeness: Option<f64>) -> HistoryPoint {
        HistoryPoint { count, max: Some(0.9), completeness, ..HistoryPoint::default() }
    }

    fn page(points: Vec<HistoryPoint>) -> HistoryPage {
        HistoryPage { points, ..HistoryPage::default() }
    }

    #[test]
    fn one_sample_more_or_another_extreme_is_a_difference_and_completeness_is_none() {
        let first = page(vec![point(5, Some(1.0))]);
        let mut stats = PairStats::default();
        stats.whole("x", &first, &page(vec![point(5, Some(0.5))]));
        assert!(stats.look().met, "{}", stats.look().seen);
        stats.whole("x", &first, &page(vec![point(6, Some(1.0))]));
        let slower = HistoryPoint { max: Some(1.0), ..point(5, None) };
        stats.whole("x", &first, &page(vec![slower]));
        assert_eq!((stats.differences, stats.look().met), (2, false));
        assert!(!PairStats::default().look().met, "nothing compared proves nothing");
    }

    #[test]
    fn samples_may_be_in_a_neighbouring_slot_and_no_further() {
        assert_eq!(apart(&[5, 5, 5, 5, 5], &[5, 5, 5, 5, 5]), Some(0));
        assert_eq!(apart(&[5, 4, 6, 5, 5], &[5, 5, 5, 5, 5]), Some(1));
        assert_eq!(apart(&[5, 5, 0, 0, 15], &[5, 5, 5, 5, 5]), Some(2));
        assert_eq!(apart(&[5, 0, 0, 0, 20], &[5, 5, 5, 5, 5]), None, "three slots");
        assert_eq!(apart(&[5, 5, 4, 5, 5, 5], &[5, 5, 5, 5, 5, 5]), Some(1));
        assert_eq!(apart(&[0, 0, 0, 0], &[5, 0, 0, 0]), None, "lost for good");
    }

    #[test]
    fn a_doctored_ledger_is_named_with_its_node() {
        let ledger = Ledger { recorded: 9, merged: 9, ..Ledger::default() };
        let node = |name: &str, ledger: &Ledger| {
            let (node, ledger) = (name.to_owned(), ledger.clone());
            NodeLedger { node, ledger, ..NodeLedger::default() }
        };
        let page = |nodes| LedgerPage { nodes, ..LedgerPage::default() };
        let first = page(vec![node("a", &ledger), node("b", &ledger)]);
        assert!(ledger_differences(&first, &first.clone()).is_empty());
        let less = Ledger { merged: 8, unaccounted: 1, ..ledger.clone() };
        let second = page(vec![node("b", &less), node("c", &ledger)]);
        let found = ledger_differences(&first, &second).join("; ");
        for words in ["the second does not know a", "b: [\"9\", \"9\"", "the first does not know c"]
        {
            assert!(found.contains(words), "{found}");
        }
    }
}
