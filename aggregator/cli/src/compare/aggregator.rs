//! Reads one side from the history of an aggregator: a run, or a range of the fleet. Each point of
//! the answer is a slot; where all nodes answer from their own histories, these are seconds.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use jiff::Zoned;
use plimsoll_compare::{BucketLayout, Measured, Side, Slot};
use plimsoll_mesh::api::Api;
use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::summary::{HistoryPage, HistoryPoint, OperationsPage};

use crate::targets::with_parameters;
use crate::time_range;

/// The roll-up of the label that `plimsoll run` sets.
const RUN: &str = "run";
/// Points of one answer; an aggregator gives 3 600 at most, and widens the range by a few.
const POINTS_MAX: f64 = 3_500.0;
/// The shortest slots of a history.
const STEP_MIN: f64 = 10.0;
/// The shortest slots of nodes' own histories.
const NODES_STEP_MIN: f64 = 1.0;
/// The share of the fleet's samples that nodes must answer with; their clocks may cut off a few.
const ANSWERED_MIN: f64 = 0.99;

/// A side that an aggregator has.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stored {
    /// `run:NAME`.
    Run(String),
    /// `range:FROM/TO`, in seconds since 1970.
    Range(f64, f64),
}

impl Stored {
    /// What a side's name stands for; `None` for a file.
    ///
    /// # Errors
    /// When a range is not understood.
    pub(super) fn named(text: &str, now: &Zoned) -> Result<Option<Self>> {
        if let Some(name) = text.strip_prefix("run:") {
            return Ok(Some(Self::Run(name.to_owned())));
        }
        let Some(range) = text.strip_prefix("range:") else { return Ok(None) };
        let (from, to) = range
            .split_once('/')
            .with_context(|| format!("{text:?}: write range:FROM/TO, such as range:10:00/10:30"))?;
        let (from, to) = (time_range::seconds_of(from, now)?, time_range::seconds_of(to, now)?);
        ensure!(from < to, "{text:?}: the range ends before it begins");
        Ok(Some(Self::Range(from, to)))
    }

    fn group(&self) -> [(&'static str, Option<String>); 2] {
        match self {
            Self::Run(name) => [("rollup", Some(RUN.to_owned())), ("value", Some(name.clone()))],
            Self::Range(..) => [("rollup", None), ("value", None)],
        }
    }
}

/// The side as an aggregator has it.
///
/// # Errors
/// When the aggregator does not answer, keeps no history, or has nothing of it.
pub(super) async fn load(api: &Api, stored: &Stored) -> Result<Side> {
    let text = api.request("GET", "/api/v1/operations", None).await?;
    let known: OperationsPage = serde_json::from_str(&text).context("/api/v1/operations")?;
    let mut side = Side::default();
    for name in operations(&known, stored)? {
        let (from, to) = match stored {
            Stored::Range(from, to) => (*from, *to),
            Stored::Run(_) => extent(api, stored, &name, known.kept_from_seconds).await?,
        };
        let of_fleet = points(api, stored, &name, (from, to), true).await?;
        let page = finer(api, stored, &of_fleet).await.unwrap_or(of_fleet);
        let mut measured = Measured::new(BucketLayout::MESH);
        measured.slots = page.points.iter().filter_map(slot).collect();
        let operation = Operation::new(&name).with_context(|| name.clone())?;
        side.operations.insert(operation, measured);
    }
    side.operations.retain(|_, measured| !measured.slots.is_empty());
    ensure!(!side.operations.is_empty(), "the history has no samples of it");
    Ok(side)
}

fn operations(known: &OperationsPage, stored: &Stored) -> Result<Vec<String>> {
    let Stored::Run(name) = stored else { return Ok(known.operations.clone()) };
    let runs = || known.groups.iter().filter(|group| group.rollup == RUN);
    let of_run = runs().filter(|group| group.values == [name.as_str()]);
    let found: Vec<String> = of_run.map(|group| group.operation.clone()).collect();
    if found.is_empty() {
        let mut names: Vec<&str> =
            runs().filter_map(|group| group.values.first()).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        bail!("run {name:?} is not in the history; it has {}", names.join(", "));
    }
    Ok(found)
}

/// From when until when a run has samples of an operation.
async fn extent(api: &Api, stored: &Stored, name: &str, since: f64) -> Result<(f64, f64)> {
    let now = Zoned::now().timestamp().as_millisecond() as f64 / 1e3;
    let page = points(api, stored, name, (since.min(now - STEP_MIN), now), false).await?;
    let mut used = page.points.iter().filter(|point| point.count > 0);
    let first = used.next().with_context(|| format!("{name}: the run has no samples"))?;
    let last = used.next_back().unwrap_or(first);
    Ok((first.from_seconds, last.to_seconds))
}

async fn points(
    api: &Api,
    stored: &Stored,
    name: &str,
    (from, to): (f64, f64),
    with_distribution: bool,
) -> Result<HistoryPage> {
    let step = ((to - from) / POINTS_MAX).max(STEP_MIN).ceil();
    let of = [("operation", Some(name.to_owned()))].into_iter().chain(stored.group());
    asked(api, of, (from, to, step), with_distribution).await
}

/// The same from nodes' own histories, in shorter slots; `None` when they do not have it all.
async fn finer(api: &Api, stored: &Stored, of_fleet: &HistoryPage) -> Option<HistoryPage> {
    let (from, to) = (of_fleet.from_seconds, of_fleet.to_seconds);
    let step = ((to - from) / POINTS_MAX).max(NODES_STEP_MIN).ceil();
    if step >= of_fleet.step_seconds {
        return None;
    }
    let label = match stored {
        Stored::Run(name) => Some(format!("{RUN}={name}")),
        Stored::Range(..) => None,
    };
    let of = [
        ("operation", Some(of_fleet.operation.clone())),
        ("node", Some("*".to_owned())),
        ("label", label),
    ];
    let page = asked(api, of.into_iter(), (from, to, step), true).await.ok()?;
    let has_all = page.nodes.iter().flatten().all(|node| node.error.is_none());
    let samples =
        |page: &HistoryPage| page.points.iter().map(|point| point.count as f64).sum::<f64>();
    let is_enough = samples(&page) >= samples(of_fleet) * ANSWERED_MIN;
    (has_all && is_enough).then_some(page)
}

async fn asked(
    api: &Api,
    of: impl Iterator<Item = (&'static str, Option<String>)>,
    (from, to, step): (f64, f64, f64),
    with_distribution: bool,
) -> Result<HistoryPage> {
    let range = [
        ("from", Some(from.to_string())),
        ("to", Some(to.to_string())),
        ("step", Some(format!("{step}s"))),
        ("quantiles", Some("0.5".to_owned())),
        ("distribution", Some(with_distribution.to_string())),
    ];
    let parameters: Vec<_> = of.chain(range).collect();
    let parameters: Vec<_> = parameters.iter().map(|(key, value)| (*key, value)).collect();
    let path = with_parameters("/api/v1/query", &parameters);
    let text = api.request("GET", &path, None).await?;
    serde_json::from_str(&text).context("/api/v1/query has an unexpected form")
}

fn slot(point: &HistoryPoint) -> Option<Slot> {
    let mut samples = Histogram::default();
    for bucket in point.distribution.iter().flatten() {
        samples.record_n(nanos(bucket.upper)?, bucket.count);
    }
    (!samples.is_empty()).then_some(Slot {
        node: None,
        start_ns: nanos(point.from_seconds)?,
        length_ns: nanos(point.to_seconds - point.from_seconds)?,
        samples: Packed::from(&samples),
    })
}

fn nanos(seconds: f64) -> Option<u64> {
    let span = Duration::try_from_secs_f64(seconds).ok()?;
    u64::try_from(span.as_nanos()).ok()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use jiff::tz::TimeZone;
    use plimsoll_schemas::summary::{BucketCount, HistoryGroup};

    use super::*;

    #[test]
    fn runs_and_ranges_differ_from_files() {
        let now = Timestamp::from_second(1_700_000_000).unwrap().to_zoned(TimeZone::UTC);
        let of = |text: &str| Stored::named(text, &now);
        assert_eq!(of("a.hlog").unwrap(), None);
        assert_eq!(of("run:v42").unwrap(), Some(Stored::Run("v42".to_owned())));
        let range = Stored::Range(1_699_992_000.0, 1_699_993_800.0);
        assert_eq!(of("range:20:00/20:30").unwrap(), Some(range));
        let error = of("range:20:30/20:00").unwrap_err().to_string();
        assert!(error.ends_with("the range ends before it begins"), "{error}");
        assert!(of("range:20:30").unwrap_err().to_string().contains("write range:FROM/TO"));
    }

    #[test]
    fn a_run_that_is_not_there_is_named_with_those_that_are() {
        let group = |value: &str| HistoryGroup {
            rollup: "run".to_owned(),
            operation: "fetch".to_owned(),
            values: vec![value.to_owned()],
        };
        let known = OperationsPage {
            mesh: "m".to_owned(),
            kept_from_seconds: 0.0,
            tiers: Vec::new(),
            operations: vec!["fetch".to_owned()],
            groups: vec![group("v41"), group("v40")],
        };
        assert_eq!(operations(&known, &Stored::Run("v41".to_owned())).unwrap(), ["fetch"]);
        let error = operations(&known, &Stored::Run("v42".to_owned())).unwrap_err().to_string();
        assert_eq!(error, "run \"v42\" is not in the history; it has v40, v41");
    }

    #[test]
    fn a_point_becomes_a_slot_with_its_samples_in_their_buckets() {
        let bucket = |upper, count| BucketCount { lower: 0.0, upper, count };
        let mut point = HistoryPoint {
            from_seconds: 20.0,
            to_seconds: 30.0,
            count: 5,
            mean: None,
            min: None,
            max: None,
            approximate: false,
            quantiles: Vec::new(),
            over: Vec::new(),
            completeness: None,
            distribution: Some(vec![bucket(0.001_024, 2), bucket(0.018, 3)]),
        };
        let found = slot(&point).unwrap();
        assert_eq!((found.start_ns, found.length_ns), (20_000_000_000, 10_000_000_000));
        assert_eq!((found.samples.exact().count, found.samples.exact().max_ns), (5, 18_000_000));
        point.distribution = Some(Vec::new());
        assert_eq!(slot(&point), None);
    }
}
