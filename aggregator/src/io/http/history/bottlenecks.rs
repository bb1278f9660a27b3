//! `/api/v1/bottlenecks`: where the time of a run or a range goes. The sums of all its operations
//! come from one reading of the history, the readings of machines from nodes' own histories.
//!
//! DESIGN A185, A186, A187.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use plimsoll_schemas::histogram::ExactFigures;
use plimsoll_schemas::ids::{Labels, NodeName, Operation};
use plimsoll_schemas::own_operations::is_own;
use plimsoll_schemas::rule::Bottlenecks;
use plimsoll_schemas::run::RUN_LABEL;
use plimsoll_schemas::straggler::{CLASS_LABEL, class_of, step_of};
use plimsoll_schemas::summary::{
    BottlenecksPage, HardwareHistoryPage, MetricKind, NodeHardwareHistory, NodeHistory, RunRow,
    WallTime,
};
use plimsoll_schemas::time::{Wall, seconds};
use plimsoll_schemas::unit::{Unit, is_overflow};

use super::nodes::TimesOfNode;
use super::parameters::{HardwareQuery, range};
use super::shares_query::{SharesQuery, Subject};
use super::{HistoryHandler, PoolSamples, WholeRange, nodes, pools};
use crate::core::advice::{
    CounterGrowth, Counters, Inputs, MIXED, MachineReading, MachineReadings, OperationSamples,
    ProfileShares, Shares, bottlenecks,
};
use crate::core::fleet::{Group, Pool};
use crate::core::history::{Accumulator, AskedNodes, HistoryKey, MetricKey, MetricTotals};
use crate::core::runs::RunsQuery;
use crate::io::http::query::{ProfileSource, Query};
use crate::io::http::refusal::{Refusal, computed};
use crate::io::profiles;
use crate::limits::{BOTTLENECK_ASK_WAIT, BOTTLENECK_COUNTERS_MAX, BOTTLENECK_OPERATIONS_MAX};

/// A run has this at least: it may end in the second in which it starts.
const RUN_MIN: Duration = Duration::from_secs(1);

/// Operations that an error names.
const CYCLES_NAMED_MAX: usize = 20;

/// What is read for a query.
struct Resolved {
    /// A run without samples of its own is read as the fleet.
    read_as: Subject,
    run: Option<RunRow>,
    by_label: Option<bool>,
    range: Range<Wall>,
}

/// What was read for a page.
struct ReadShares {
    of: Resolved,
    picked: Picked,
    whole: WholeRange,
    machines: MachineReadings,
    /// The node that was asked, if one was.
    node: Option<NodeHistory>,
}

impl HistoryHandler {
    pub(super) async fn bottlenecks(
        &self,
        asked: SharesQuery,
        now: Wall,
    ) -> Result<BottlenecksPage, Refusal> {
        let ReadShares { of, picked, whole, machines, node } = match &asked.subject {
            Subject::Node(name) => self.of_node(&asked, name, now).await?,
            Subject::Fleet | Subject::Run(_) | Subject::Group { .. } => {
                self.of_history(&asked, now).await?
            }
        };

        let wall = wall(&of, &whole, now);
        let samples = picked.samples(&of.read_as, &whole.samples);
        let shares = Shares::of(&samples, wall, asked.cycle.as_ref());
        let completeness = whole.received.ratio;
        let counters = whole.counters.as_ref();
        let counters: Option<Counters> =
            counters.map(|counters| counters.iter().filter_map(growth).collect());
        let wall_seconds = wall.seconds;
        let profiles = self.profiles(&of, now).await?;
        let inputs = Inputs {
            shares: &shares,
            completeness,
            wall_seconds,
            counters: counters.as_ref(),
            machines: &machines,
            profiles: &profiles,
        };
        let bottlenecks = bottlenecks(Bottlenecks::built_in(), inputs);

        let (rollup, values) = match &asked.subject {
            Subject::Group { rollup, values } => {
                let values = values.iter().map(ToString::to_string).collect();
                (Some(rollup.clone()), Some(values))
            }
            Subject::Run(_) | Subject::Fleet | Subject::Node(_) => (None, None),
        };
        let run = match asked.subject {
            Subject::Run(name) => Some(name.to_string()),
            Subject::Group { .. } | Subject::Fleet | Subject::Node(_) => None,
        };
        let Shares { cycles, classes, operations } = shares;
        Ok(BottlenecksPage {
            mesh: whole.mesh.to_string(),
            run,
            by_label: of.by_label,
            rollup,
            values,
            node,
            from_seconds: seconds(whole.layout.range.start.0),
            to_seconds: seconds(whole.layout.range.end.0),
            resolution: whole.layout.slots().to_owned(),
            kept_from_seconds: whole.kept_from_seconds,
            completeness,
            wall,
            cycles,
            classes,
            operations,
            operations_omitted: picked.omitted,
            bottlenecks,
        })
    }

    /// What the history has of the fleet, a run or a group.
    async fn of_history(&self, asked: &SharesQuery, now: Wall) -> Result<ReadShares, Refusal> {
        let (_, _, keys) = self.keys().await?;
        let counters = counters_of(&keys);
        let known = pools(keys);
        let of = self.resolved(asked, &known, now).await?;
        asked.cycle.iter().try_for_each(|cycle| check_cycle(cycle, &of.read_as, &known))?;
        let mut picked = Picked::of(&of.read_as, &known, asked.cycle.as_ref());
        let samples = picked.pools(&of.read_as).into_iter().map(HistoryKey::Samples);
        let counters =
            counters.into_iter().filter(|key| self::of(&of.read_as, &key.pool).is_some());
        let mut counters: Vec<HistoryKey> = counters.map(HistoryKey::Metric).collect();
        picked.omitted += counters.len().saturating_sub(BOTTLENECK_COUNTERS_MAX);
        counters.truncate(BOTTLENECK_COUNTERS_MAX);
        let whole = self.whole(samples.chain(counters).collect(), &of.range, now);
        // Together: nodes without a history of their own are waited for.
        let (whole, machines) = tokio::join!(whole, self.machines(&of, now));
        Ok(ReadShares { of, picked, whole: whole?, machines, node: None })
    }

    /// What a node has of itself.
    async fn of_node(
        &self,
        asked: &SharesQuery,
        name: &NodeName,
        now: Wall,
    ) -> Result<ReadShares, Refusal> {
        let last_hour = || range(None, None, None, now);
        let range = asked.range.clone().map_or_else(last_hour, Ok)?;
        let of = Resolved { read_as: asked.subject.clone(), run: None, by_label: None, range };
        let cycles = |answer: &Accumulator| cycles(&pools_of(answer), asked.cycle.as_ref());
        let times = nodes::times(&self.queries, name, &of.range, now, cycles);
        let (times, machines) = tokio::join!(times, self.machines(&of, now));
        let TimesOfNode { mesh, row, answer, p99_ns } = times?;

        let picked = Picked::of(&of.read_as, &pools_of(&answer), asked.cycle.as_ref());
        let whole = WholeRange {
            mesh,
            samples: samples_of(&answer, &p99_ns),
            counters: None,
            kept_from_seconds: row.kept_from_seconds.unwrap_or(seconds(now.0)),
            received: answer.received().unwrap_or_default(),
            layout: answer.layout,
        };
        Ok(ReadShares { of, picked, whole, machines, node: Some(row) })
    }

    /// Which samples of which range are read.
    async fn resolved(
        &self,
        asked: &SharesQuery,
        known: &[Pool],
        now: Wall,
    ) -> Result<Resolved, Refusal> {
        let has_samples = |subject: &Subject| known.iter().any(|pool| of(subject, pool).is_some());
        let last_hour = || range(None, None, None, now);
        let asked_range = asked.range.clone().map_or_else(last_hour, Ok);

        let Subject::Run(name) = &asked.subject else {
            if let (Subject::Group { rollup, values }, false) =
                (&asked.subject, has_samples(&asked.subject))
            {
                let why = format!("no samples of {rollup}={}", values.join(","));
                return Err(Refusal::not_found(why + ". /api/v1/operations lists all names"));
            }
            let (read_as, range) = (asked.subject.clone(), asked_range?);
            return Ok(Resolved { read_as, run: None, by_label: None, range });
        };

        let query = RunsQuery { name: Some(name.clone()), ..RunsQuery::default() };
        let page = self.queries.send(|answer| Query::Runs(query, answer)).await?;
        let run = page.runs.into_iter().next();
        if let Some(why) = run.as_ref().and_then(|run| run.not_kept(|_| true)) {
            return Err(Refusal::not_found(why));
        }

        let by_label = has_samples(&asked.subject);
        let range = match (&run, &asked.range) {
            (None, _) if !by_label => {
                let why = format!("run {:?} is unknown. /api/v1/runs lists runs", name.as_str());
                return Err(Refusal::not_found(why));
            }
            (Some(run), None) => range_of(run, now),
            (_, _) => asked_range?,
        };
        let read_as = if by_label { asked.subject.clone() } else { Subject::Fleet };
        Ok(Resolved { read_as, run, by_label: Some(by_label), range })
    }

    /// The profiles of the range that are kept.
    async fn profiles(&self, of: &Resolved, now: Wall) -> Result<ProfileShares, Refusal> {
        let source: ProfileSource = self.queries.send(Query::Profiles).await?;
        let Some(store) = source.store else { return Ok(ProfileShares::default()) };
        let nodes = match &of.read_as {
            Subject::Node(name) => Some(vec![name.clone()]),
            _ => of.run.as_ref().map(|run| run.nodes.clone()),
        };
        let range = of.range.clone();
        computed(move || profiles::shares(&store, now, &range, nodes.as_deref())).await
    }

    /// What the nodes read of themselves over the range.
    async fn machines(&self, of: &Resolved, now: Wall) -> MachineReadings {
        let none = |why: String| MachineReadings { none: Some(why), ..MachineReadings::default() };
        if let Subject::Group { .. } = of.read_as {
            return none("the nodes of a group are not known".to_owned());
        }
        let names = match &of.read_as {
            Subject::Node(name) => Some(vec![name.clone()]),
            _ => of.run.as_ref().map(|run| run.nodes.clone()),
        };
        if names.as_ref().is_some_and(Vec::is_empty) {
            return none("no node has sent samples of the run".to_owned());
        }

        let nodes = AskedNodes { names, labels: Labels::default() };
        let query = HardwareQuery { nodes, sensor: None, range: of.range.clone(), step: None };
        match nodes::hardware(&self.queries, query, now, BOTTLENECK_ASK_WAIT).await {
            Ok(page) => readings(page),
            Err(refusal) => none(refusal.1),
        }
    }
}

/// The counters that a rule of bottlenecks may ask for, by the last part of their names.
fn counters_of(keys: &[HistoryKey]) -> Vec<MetricKey> {
    let names = Bottlenecks::built_in().counter_names();
    let counters = keys.iter().filter_map(|key| match key {
        HistoryKey::Metric(key) if key.kind == MetricKind::Counter => Some(key),
        HistoryKey::Metric(_) | HistoryKey::Samples(_) => None,
    });
    let is_named = |key: &&MetricKey| {
        let name = key.pool.operation_name();
        name.rsplit('.').next().is_some_and(|last| names.contains(last))
    };
    counters.filter(is_named).cloned().collect()
}

fn growth((key, totals): (&MetricKey, &MetricTotals)) -> Option<(Operation, CounterGrowth)> {
    let name = Operation::new(key.pool.operation_name()).ok()?;
    let MetricTotals { sum, count, .. } = totals;
    Some((name, CounterGrowth { amount: sum.value(), intervals: *count }))
}

/// A cycle of which there are no samples would be left out in silence.
fn check_cycle(cycle: &Operation, subject: &Subject, known: &[Pool]) -> Result<(), Refusal> {
    let operations: BTreeSet<&str> =
        known.iter().filter_map(|pool| of(subject, pool)).map(Operation::as_str).collect();
    if operations.contains(cycle.as_str()) {
        return Ok(());
    }
    let listed = operations.into_iter().take(CYCLES_NAMED_MAX).collect::<Vec<_>>().join(", ");
    let why = format!("cycle: no samples of {cycle}; there are those of {listed}");
    Err(Refusal::not_found(why + ". /api/v1/operations lists all names"))
}

/// The operation of a pool, if the pool has samples of the subject.
fn of<'p>(subject: &Subject, pool: &'p Pool) -> Option<&'p Operation> {
    match (subject, pool) {
        (Subject::Fleet | Subject::Node(_), Pool::Fleet(operation)) => Some(operation),
        (Subject::Run(name), Pool::Group(rollup, group)) => {
            let is_its = rollup == RUN_LABEL && *group.values == [name.as_str().into()];
            is_its.then_some(&group.operation)
        }
        (Subject::Group { rollup, values }, Pool::Group(name, group)) => {
            (rollup == name && *values == group.values).then_some(&group.operation)
        }
        _ => None,
    }
}

/// The pool of an operation that has the samples of the subject.
fn pool(subject: &Subject, operation: &Operation) -> Pool {
    let operation = operation.clone();
    match subject {
        Subject::Fleet | Subject::Node(_) => Pool::Fleet(operation),
        Subject::Run(name) => {
            let values = vec![name.as_str().into()];
            Pool::Group(RUN_LABEL.to_owned(), Group { operation, values })
        }
        Subject::Group { rollup, values } => {
            Pool::Group(rollup.clone(), Group { operation, values: values.clone() })
        }
    }
}

/// The fleet's samples of an operation in one class of time.
fn class_pool(operation: &Operation, class: &str) -> Pool {
    let group = Group { operation: operation.clone(), values: vec![class.into()] };
    Pool::Group(CLASS_LABEL.to_owned(), group)
}

/// The pools that a node's answer has samples of.
fn pools_of(answer: &Accumulator) -> Vec<Pool> {
    let pools = answer.operations().keys().flat_map(|(operation, class)| {
        let of_class = class.as_ref().map(|class| class_pool(operation, class));
        of_class.into_iter().chain([Pool::Fleet(operation.clone())])
    });
    let mut pools: Vec<Pool> = pools.collect();
    pools.sort_unstable();
    pools.dedup();
    pools
}

/// The samples of each of these pools, with p99 where it was asked for.
fn samples_of(
    answer: &Accumulator,
    p99_ns: &BTreeMap<Operation, u64>,
) -> BTreeMap<Pool, PoolSamples> {
    let mut samples = BTreeMap::new();
    for ((operation, class), exact) in answer.operations() {
        let of_class = class.as_ref().map(|class| class_pool(operation, class));
        for pool in of_class.into_iter().chain([Pool::Fleet(operation.clone())]) {
            let p99_ns = p99_ns.get(operation).copied();
            let none = PoolSamples { exact: ExactFigures::default(), p99_ns };
            samples.entry(pool).or_insert(none).exact.merge(exact);
        }
    }
    samples
}

/// The steps with phases among these, and the operation that is named as a cycle.
fn cycles(known: &[Pool], named: Option<&Operation>) -> Vec<Operation> {
    let step = |pool: &Pool| match pool {
        Pool::Group(_, Group { operation, .. }) => {
            Operation::new(step_of(operation.as_str())?).ok()
        }
        Pool::Fleet(_) | Pool::Selected(_) => None,
    };
    let steps: BTreeSet<Operation> = known.iter().filter_map(step).chain(named.cloned()).collect();
    steps.into_iter().filter(|step| known.contains(&Pool::Fleet(step.clone()))).collect()
}

/// The operations of a page, each with the classes that it has ever had.
struct Picked {
    operations: Vec<(Operation, Vec<&'static str>)>,
    omitted: usize,
}

impl Picked {
    /// Jobs' operations, those of cycles first.
    fn of(subject: &Subject, known: &[Pool], cycle: Option<&Operation>) -> Self {
        let mut classes: BTreeMap<&Operation, Vec<&'static str>> = BTreeMap::new();
        for pool in known {
            let Pool::Group(rollup, group) = pool else { continue };
            if let (CLASS_LABEL, [class]) = (rollup.as_str(), group.values.as_slice()) {
                classes.entry(&group.operation).or_default().push(class_of(class));
            }
        }

        let of_jobs = known.iter().filter_map(|pool| of(subject, pool));
        let of_jobs = of_jobs.filter(|of| !is_own(of) && !is_overflow(of.as_str()));
        // Sizes and numbers have no share of any time.
        let of_jobs = of_jobs.filter(|of| Unit::of(of.as_str()).is_time());
        let mut names: Vec<&Operation> = of_jobs.collect();
        let phases = names.iter().filter(|name| classes.contains_key(**name));
        let steps: BTreeSet<&str> = phases.filter_map(|of| step_of(of.as_str())).collect();
        let is_of_cycle = |name: &Operation| {
            let step = step_of(name.as_str()).filter(|step| steps.contains(step));
            Some(name) == cycle || steps.contains(name.as_str()) || step.is_some()
        };
        names.sort_by_key(|name| (!is_of_cycle(name), !classes.contains_key(*name)));

        let omitted = names.len().saturating_sub(BOTTLENECK_OPERATIONS_MAX);
        names.truncate(BOTTLENECK_OPERATIONS_MAX);
        let classes = |name: &Operation| classes.get(name).cloned().unwrap_or_default();
        let operations = names.into_iter().map(|name| (name.clone(), classes(name))).collect();
        Self { operations, omitted }
    }

    /// What is read: each operation, and of one that has had several classes each of them.
    fn pools(&self, subject: &Subject) -> Vec<Pool> {
        let pools = self.operations.iter().flat_map(|(operation, classes)| {
            let several = classes.iter().filter(|_| classes.len() > 1);
            let several = several.map(|class| class_pool(operation, class));
            std::iter::once(pool(subject, operation)).chain(several)
        });
        pools.collect()
    }

    fn samples(
        &self,
        subject: &Subject,
        read: &BTreeMap<Pool, PoolSamples>,
    ) -> Vec<OperationSamples> {
        let has_samples = |pool: &Pool| read.get(pool).is_some_and(|of| of.exact.count > 0);
        let all = self.operations.iter().flat_map(|(operation, classes)| {
            let mut found = classes.clone();
            if classes.len() > 1 {
                found.retain(|class| has_samples(&class_pool(operation, class)));
            }
            let whole = pool(subject, operation);

            let parts: Vec<(Option<&'static str>, Pool)> = match found.as_slice() {
                [_, _, ..] if matches!(subject, Subject::Fleet | Subject::Node(_)) => {
                    let part = |class: &&'static str| (Some(*class), class_pool(operation, class));
                    found.iter().map(part).collect()
                }
                // Samples of a run and a class are not known apart.
                [_, _, ..] => vec![(Some(MIXED), whole)],
                [class] => vec![(Some(*class), whole)],
                [] => vec![(None, whole)],
            };
            let read = |(class, pool): (Option<&'static str>, Pool)| {
                read.get(&pool).map(|of| samples(operation, class, of))
            };
            parts.into_iter().filter_map(read).collect::<Vec<_>>()
        });
        all.collect()
    }
}

fn samples(
    operation: &Operation,
    class: Option<&'static str>,
    of: &PoolSamples,
) -> OperationSamples {
    let ExactFigures { count, sum_ns, max_ns, .. } = of.exact;
    // All times are added, so those in picoseconds become nanoseconds.
    let per_ns = if Unit::of(operation.as_str()) == Unit::Picoseconds { 1_000 } else { 1 };
    OperationSamples {
        operation: operation.clone(),
        class,
        count,
        sum_ns: sum_ns / u128::from(per_ns),
        p99_ns: of.p99_ns.map(|p99| p99 / per_ns),
        max_ns: max_ns / per_ns,
    }
}

/// From the start of a run to its end, or to now.
fn range_of(run: &RunRow, now: Wall) -> Range<Wall> {
    let at = |at: f64| Wall(0).plus(Duration::try_from_secs_f64(at).unwrap_or_default());
    let start = at(run.begun_seconds);
    start..run.ended_seconds.map_or(now, at).max(start.plus(RUN_MIN))
}

/// The time in which the samples were taken.
fn wall(of: &Resolved, whole: &WholeRange, now: Wall) -> WallTime {
    let run = of.run.as_ref().filter(|_| of.by_label == Some(true));
    // Samples of a run are in it, also where its range is widened to whole slots.
    let range = if run.is_some() { &of.range } else { &whole.layout.range };
    let seconds = range.end.min(now).since(range.start).as_secs_f64();

    let node_seconds = match (&of.read_as, run) {
        (Subject::Fleet | Subject::Node(_), _) => Some(whole.received.ns as f64 / 1e9),
        (Subject::Run(_), Some(run)) if !run.has_more_nodes => {
            Some(seconds * run.nodes.len() as f64)
        }
        (Subject::Run(_) | Subject::Group { .. }, _) => None,
    };
    WallTime { seconds, node_seconds: node_seconds.filter(|seconds| *seconds > 0.0) }
}

/// The readings of a page of one point.
fn readings(page: HardwareHistoryPage) -> MachineReadings {
    let mut all = MachineReadings::default();
    for NodeHardwareHistory { of, readings } in page.nodes {
        let Ok(node) = NodeName::new(&of.node) else { continue };
        let is_short = of.answered_from_seconds > page.from_seconds;
        let since = of.kept_from_seconds.filter(|kept| *kept > page.from_seconds);
        let short = || match since {
            Some(_) => "its history starts within the range".to_owned(),
            None => "it did not answer for all of the range".to_owned(),
        };
        let why = of.error.or_else(|| (is_short || since.is_some()).then(short));
        all.missing.extend(why.map(|why| (node.clone(), format!("{node}: {why}"))));

        for reading in readings {
            let labels = Labels::new(reading.labels).unwrap_or_default();
            let point = reading.points.first().map(|point| MachineReading {
                node: node.clone(),
                sensor: reading.sensor,
                labels,
                mean: point.mean,
                max: point.max,
                count: point.count,
            });
            all.readings.extend(point);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::wire::history::{HistorySlot, OperationTime};

    use super::*;
    use crate::core::history::Layout;

    fn operation(name: &str) -> Operation {
        Operation::new(name).unwrap()
    }

    #[test]
    fn a_cycle_that_does_not_exist_is_refused_with_the_operations() {
        let known = ["step", "turn"].map(|name| Pool::Fleet(operation(name)));
        assert!(check_cycle(&operation("turn"), &Subject::Fleet, &known).is_ok());
        let Err(Refusal(status, why)) = check_cycle(&operation("trun"), &Subject::Fleet, &known)
        else {
            panic!("it was accepted");
        };
        assert_eq!(status, axum::http::StatusCode::NOT_FOUND);
        let words = "cycle: no samples of trun; there are those of step, turn. ";
        assert!(why.starts_with(words), "{why}");
        let run = Subject::Run(plimsoll_schemas::ids::RunName::new("v42").unwrap());
        assert!(check_cycle(&operation("turn"), &run, &known).is_err());
    }

    #[test]
    fn an_operation_has_the_class_of_its_samples_in_the_range() {
        let names = ["step", "step.a", "step.b", "step.c", "publish"].map(operation);
        let fleet = names.iter().cloned().map(Pool::Fleet);
        let of_class = [("step.a", "input"), ("step.b", "sync"), ("step.b", "compute")];
        let of_class = of_class.map(|(name, class)| class_pool(&operation(name), class));
        let [a, b, c] = [("step.c", "llm"), ("step.c", "mode"), ("gone", "input")]
            .map(|(name, class)| class_pool(&operation(name), class));
        let known: Vec<Pool> = fleet.chain(of_class.clone()).chain([a, b, c]).collect();

        let picked = Picked::of(&Subject::Fleet, &known, None);
        let pools = picked.pools(&Subject::Fleet);
        assert_eq!(pools.len(), 8, "four operations, and two of them in two classes each");
        let samples = |count: u64| {
            let mut samples = plimsoll_schemas::histogram::Histogram::default();
            samples.record_n(1_000, count);
            PoolSamples::of(&samples)
        };
        // Of the classes of b one has no sample in the range.
        let read = pools.into_iter().map(|pool| {
            let count = u64::from(pool != of_class[2]);
            (pool, samples(count))
        });
        let read: BTreeMap<Pool, PoolSamples> = read.collect();
        let found = picked.samples(&Subject::Fleet, &read);
        let mut found: Vec<_> = found.iter().map(|of| (of.operation.as_str(), of.class)).collect();
        found.sort_unstable();
        let one = [("step", None), ("step.a", Some("input")), ("step.b", Some("sync"))];
        let two = [("step.c", Some("llm")), ("step.c", Some("mode"))];
        assert_eq!(found, [&one[..], &two].concat());

        // Of a run its samples are not known by class.
        let run = Subject::Run(plimsoll_schemas::ids::RunName::new("v42").unwrap());
        let of_run = names.iter().map(|name| pool(&run, name));
        let of_class = known.into_iter().filter(|pool| matches!(pool, Pool::Group(..)));
        let known: Vec<Pool> = of_run.chain(of_class).collect();
        let picked = Picked::of(&run, &known, None);
        let read = picked.pools(&run).into_iter().map(|pool| (pool, samples(1)));
        let found = picked.samples(&run, &read.collect());
        let of = |name: &str| found.iter().find(|of| of.operation.as_str() == name).unwrap().class;
        assert_eq!((of("step.a"), of("step.c")), (Some("input"), Some(MIXED)));
    }

    #[test]
    fn times_of_a_node_are_shares_of_its_steps_by_class() {
        let now = Wall(1_700_003_600_000_000_000);
        let range = now.minus(Duration::from_secs(1_801))..now;
        let layout = Layout::of_nodes(&range, None, now).unwrap().in_long_slots();
        assert_eq!(layout.node_slot(), Duration::from_secs(60));
        let begin_ns = layout.range.start.0;
        let mut answer = Accumulator::new(layout);
        let time = |name: &str, class: Option<&str>, sum_ns| OperationTime {
            operation: operation(name),
            class: class.map(str::to_owned),
            count: 10,
            sum_ns,
            max_ns: sum_ns,
        };
        let operations = vec![
            time("step", None, 100),
            time("step.read", Some("input"), 70),
            time("step.mixed", Some("input"), 10),
            time("step.mixed", Some("sync"), 5),
        ];
        let slot = HistorySlot { begin_ns, operations, ..HistorySlot::default() };
        answer.add_of_node(&slot);
        answer.add_of_node(&HistorySlot { begin_ns: begin_ns + 60_000_000_000, ..slot });

        let known = pools_of(&answer);
        assert_eq!(cycles(&known, None), [operation("step")]);
        assert_eq!(cycles(&known, Some(&operation("gone"))), [operation("step")]);
        let subject = Subject::Node(NodeName::new("n1").unwrap());
        let picked = Picked::of(&subject, &known, None);
        let samples = samples_of(&answer, &BTreeMap::from([(operation("step"), 12)]));
        let found = picked.samples(&subject, &samples);
        let wall = WallTime { seconds: 1.0, node_seconds: Some(1.0) };
        let shares = Shares::of(&found, wall, None);
        let [step] = &shares.cycles[..] else { panic!("{shares:?}") };
        assert_eq!((step.count, step.p99), (20, Some(seconds(12))));
        let classes: Vec<_> =
            step.classes.iter().map(|of| (of.class.as_str(), of.share.unwrap())).collect();
        assert_eq!(classes, [("input", 0.8), ("sync", 0.05)]);
    }

    #[test]
    fn a_node_without_all_of_the_range_is_not_measured() {
        let page = serde_json::json!({
            "mesh": "m", "from_seconds": 100.0, "to_seconds": 200.0, "step_seconds": 100.0,
            "nodes": [
                {"node": "n1", "samples": 1, "answered_from_seconds": 100.0,
                 "kept_from_seconds": 50.0, "missing": 0, "readings": [
                    {"sensor": "load1", "points": [
                        {"from_seconds": 100.0, "min": 1.0, "mean": 2.0, "max": 3.0, "count": 90},
                    ]},
                ]},
                {"node": "n2", "samples": 0, "answered_from_seconds": 150.0,
                 "kept_from_seconds": 150.0, "missing": 0, "readings": []},
                {"node": "n3", "samples": 0, "answered_from_seconds": 200.0,
                 "kept_from_seconds": null, "missing": 0, "readings": [],
                 "error": "keeps no history"},
            ],
        });
        let found = readings(serde_json::from_value(page).unwrap());
        let missing: Vec<&str> = found.missing.values().map(String::as_str).collect();
        assert_eq!(missing, ["n2: its history starts within the range", "n3: keeps no history"]);
        let of = &found.readings[0];
        assert_eq!((of.node.as_str(), of.mean, of.max, of.count), ("n1", 2.0, 3.0, 90));
    }
}
