//! The past by the second: nodes are asked for their own histories, several at the same time, and
//! what they answer is merged as it comes.
//!
//! DESIGN A88, A199.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::ids::{Labels, MeshName, NodeName, Operation};
use plimsoll_schemas::limits::wire::HISTORY_OPERATIONS_MAX;
use plimsoll_schemas::summary::{
    HardwareHistoryPage, HistoryPage, MetricHistoryPage, NodeHardwareHistory, NodeHistory,
    ReadingHistory, ReadingPoint,
};
use plimsoll_schemas::time::{Wall, nanos, seconds};
use plimsoll_schemas::wire::history::{HistoryOf, HistoryRequest, HistorySlot, ReadingRange};
use tokio::time::timeout;

use super::metric_page::page_of;
use super::parameters::HardwareQuery;
use crate::core::fleet::Pool;
use crate::core::history::{Accumulator, AskedNodes, HistoryQuery, Layout};
use crate::io::asker::{AskError, AskHandle};
use crate::io::http::query::{Query, QuerySender};
use crate::io::http::refusal::{Refusal, near};
use crate::limits::{
    ASK_ALL_WAIT, ASK_NODES_AT_ONCE, ASK_WAIT, BOTTLENECK_ASK_WAIT, BOTTLENECKS_OF_RULE_MAX,
    HISTORY_NODES_MAX, READING_POINTS_MAX,
};

struct Requests<'q> {
    handle: &'q AskHandle,
    of: HistoryOf,
    layout: &'q Layout,
    begun: Stopwatch,
    /// Time for all of them.
    wait: Duration,
}

/// Who is asked, and by what.
struct Asked {
    mesh: MeshName,
    names: Vec<NodeName>,
    handle: AskHandle,
}

/// The page of latencies of a query that nodes answer.
pub(in crate::io::http) async fn latencies(
    queries: &QuerySender,
    query: HistoryQuery,
    now: Wall,
) -> Result<HistoryPage, Refusal> {
    let (Pool::Fleet(operation), Some(asked)) = (&query.pool, &query.nodes) else {
        return Err(Refusal::bad("node is given with a group; name labels instead"));
    };
    let layout = Layout::of_nodes(&query.range, query.step, now)
        .map_err(|error| Refusal::bad(error.to_string()))?;
    let AskedNodes { names, labels } = asked;
    let asked = asked_nodes(queries, names.as_deref()).await?;
    let of = HistoryOf::Latency { operation: operation.clone(), labels: labels.clone() };
    let Merged { rows, answer } = asked.merged(of, &layout, ASK_ALL_WAIT).await;
    let Asked { mesh, .. } = asked;

    let kept = rows.iter().filter_map(|row| row.kept_from_seconds);

    Ok(HistoryPage {
        mesh: mesh.to_string(),
        operation: operation.to_string(),
        rollup: None,
        values: None,
        unit: query.unit().shown_as().to_owned(),
        from_seconds: seconds(layout.range.start.0),
        to_seconds: seconds(layout.range.end.0),
        resolution: layout.slots().to_owned(),
        step_seconds: layout.step.as_secs_f64(),
        kept_from_seconds: kept.fold(seconds(layout.range.end.0), f64::min),
        labels: text_of(labels),
        points: answer.points(&query),
        nodes: Some(rows),
    })
}

/// The page of a metric that nodes answer.
pub(super) async fn metric(
    queries: &QuerySender,
    query: HistoryQuery,
    now: Wall,
) -> Result<MetricHistoryPage, Refusal> {
    let Some(AskedNodes { names, labels }) = &query.nodes else {
        return Err(Refusal::bad("node is missing"));
    };
    let layout = Layout::of_nodes(&query.range, query.step, now)
        .map_err(|error| Refusal::bad(error.to_string()))?;
    let asked = asked_nodes(queries, names.as_deref()).await?;

    // Each name once, although it is looked up as a counter and as a gauge.
    let name = |pool: &Pool| match pool {
        Pool::Fleet(name) => Some(name.clone()),
        Pool::Group(..) | Pool::Selected(_) => None,
    };
    let names: BTreeSet<Operation> =
        query.metrics.iter().filter_map(|key| name(&key.pool)).collect();
    let names = names.into_iter().collect();
    let of = HistoryOf::Metric { names, operation: name(&query.pool), labels: labels.clone() };
    let Merged { rows, answer } = asked.merged(of, &layout, ASK_ALL_WAIT).await;

    let kept = rows.iter().filter_map(|row| row.kept_from_seconds);
    let begun = kept.fold(seconds(layout.range.end.0), f64::min);
    let begun = Wall(0).plus(Duration::try_from_secs_f64(begun).unwrap_or_default());
    Ok(MetricHistoryPage {
        mesh: asked.mesh.to_string(),
        labels: text_of(labels),
        nodes: Some(rows),
        ..page_of(&query, &answer, begun)
    })
}

/// The times of a node's operations over a range, and p99 of those of cycles.
pub(super) struct TimesOfNode {
    pub(super) mesh: MeshName,
    pub(super) row: NodeHistory,
    pub(super) answer: Accumulator,
    pub(super) p99_ns: BTreeMap<Operation, u64>,
}

/// What a node answers of its operations in this time; `cycles` picks those of which it is asked
/// for p99, which no sums have.
pub(super) async fn times(
    queries: &QuerySender,
    node: &NodeName,
    range: &Range<Wall>,
    now: Wall,
    cycles: impl FnOnce(&Accumulator) -> Vec<Operation>,
) -> Result<TimesOfNode, Refusal> {
    let layout = Layout::of_nodes(range, None, now)
        .map_err(|error| Refusal::bad(error.to_string()))?
        .in_long_slots();
    let asked = asked_nodes(queries, Some(std::slice::from_ref(node))).await?;
    let begun = Stopwatch::start();
    let Merged { mut rows, answer } =
        asked.merged(HistoryOf::Operations, &layout, BOTTLENECK_ASK_WAIT).await;
    let mut row = rows.pop().ok_or_else(|| Refusal::bad("node is missing"))?;
    row.samples = answer.operations().values().map(|of| of.count).fold(0, u64::saturating_add);

    let mut cycles = cycles(&answer);
    cycles.truncate(BOTTLENECKS_OF_RULE_MAX);
    let left = BOTTLENECK_ASK_WAIT.saturating_sub(begun.elapsed());
    let p99 = cycles.into_iter().map(async |operation| {
        let labels = Labels::default();
        let of = HistoryOf::Latency { operation: operation.clone(), labels };
        let of_cycle = asked.merged(of, &layout, left).await.answer;
        let p99 = of_cycle.samples().and_then(|samples| samples.quantile(0.99));
        p99.map(|found| (operation, found.value_ns))
    });
    let p99_ns = join_all(p99).await.into_iter().flatten().collect();
    Ok(TimesOfNode { mesh: asked.mesh, row, answer, p99_ns })
}

/// The page of hardware readings that nodes answer within this time.
pub(super) async fn hardware(
    queries: &QuerySender,
    query: HardwareQuery,
    now: Wall,
    wait: Duration,
) -> Result<HardwareHistoryPage, Refusal> {
    let step = query.step.or_else(|| Some(query.range.end.since(query.range.start)));
    let layout = Layout::of_nodes(&query.range, step, now)
        .map_err(|error| Refusal::bad(error.to_string()))?;
    let names = query.nodes.names.as_deref();
    let Asked { mesh, names, handle } = asked_nodes(queries, names).await?;
    let of = HistoryOf::Hardware { sensor: query.sensor };
    let found = Mutex::new(BTreeMap::new());
    // In equal shares, so that a node that answers too much leaves the others theirs (A88).
    let room = READING_POINTS_MAX / names.len().max(1);
    let begun = Stopwatch::start();
    let requests = Requests { handle: &handle, of, layout: &layout, begun, wait };

    let rows = requests.ask_all(&names, |row, slots| {
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        let of_node: &mut Readings = found.entry(row.node.clone()).or_default();
        let mut points_of_node: usize = of_node.values().map(BTreeMap::len).sum();

        for slot in slots {
            let Some(place) = layout.point_of(Wall(slot.begin_ns)) else { continue };
            for reading in slot.readings {
                let key = (reading.sensor.clone(), reading.labels.clone());
                let points = of_node.entry(key).or_default();
                points_of_node += usize::from(!points.contains_key(&place));

                if points_of_node > room {
                    // All of it or none: what is left would look whole.
                    found.remove(&row.node);
                    row.samples = 0;
                    return Err(AskError::TooMuch { points: room });
                }

                row.samples = row.samples.saturating_add(reading.count);
                let point = points.entry(place).or_insert_with(|| Values::of(&reading));
                point.add(&reading);
            }
        }

        Ok(())
    });

    let rows = rows.await;
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let points: Vec<_> = layout.points().collect();

    let reading = |((sensor, labels), values): ((String, Labels), BTreeMap<usize, Values>)| {
        let point = |(place, values): (usize, Values)| ReadingPoint {
            from_seconds: seconds(points[place].start.0),
            min: values.min,
            mean: (values.sum / values.count as f64).clamp(values.min, values.max),
            max: values.max,
            count: values.count,
        };

        let points = values.into_iter().map(point).collect();
        ReadingHistory { sensor, labels: text_of(&labels), points }
    };

    let node = |row: NodeHistory| NodeHardwareHistory {
        readings: found.remove(&row.node).unwrap_or_default().into_iter().map(&reading).collect(),
        of: row,
    };

    Ok(HardwareHistoryPage {
        mesh: mesh.to_string(),
        from_seconds: seconds(layout.range.start.0),
        to_seconds: seconds(layout.range.end.0),
        step_seconds: layout.step.as_secs_f64(),
        nodes: rows.into_iter().map(node).collect(),
    })
}

/// Values of one node by reading, then by point.
type Readings = BTreeMap<(String, Labels), BTreeMap<usize, Values>>;

/// Values of one reading in one point.
#[derive(Clone, Copy, Debug)]
struct Values {
    min: f64,
    max: f64,
    sum: f64,
    count: u64,
}

impl Values {
    /// None yet, beside this range.
    fn of(range: &ReadingRange) -> Self {
        Self { min: range.min, max: range.max, sum: 0.0, count: 0 }
    }

    fn add(&mut self, range: &ReadingRange) {
        self.min = self.min.min(range.min);
        self.max = self.max.max(range.max);
        self.sum += range.mean * range.count as f64;
        self.count = self.count.saturating_add(range.count);
    }
}

fn text_of(labels: &Labels) -> BTreeMap<String, String> {
    labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

async fn asked_nodes(queries: &QuerySender, names: Option<&[NodeName]>) -> Result<Asked, Refusal> {
    let (mesh, known, handle) = queries.send(Query::Asker).await?;

    if let Some(unknown) = names.into_iter().flatten().find(|name| !known.contains(name)) {
        let known = known.iter().map(ToString::to_string);
        let error =
            format!("no node {:?} is known{}", unknown.as_str(), near(unknown.as_str(), known));
        return Err(Refusal::not_found(error));
    }

    let names = names.map_or(known, <[_]>::to_vec);
    if names.len() > HISTORY_NODES_MAX {
        let (nodes, most) = (names.len(), HISTORY_NODES_MAX);
        return Err(Refusal::bad(format!(
            "node is \"*\", and there are {nodes} nodes; at most {most} are asked at once: name some, \
             or leave node out for the history of the fleet"
        )));
    }

    Ok(Asked { mesh, names, handle })
}

/// What nodes answered.
struct Merged {
    /// In the order of their names.
    rows: Vec<NodeHistory>,
    answer: Accumulator,
}

impl Asked {
    /// What these nodes answer in this time, added up.
    async fn merged(&self, of: HistoryOf, layout: &Layout, wait: Duration) -> Merged {
        let mut answer = Accumulator::new(layout.clone());
        answer.expect_nodes(self.names.len());
        let answer = Mutex::new(answer);
        let requests =
            Requests { handle: &self.handle, of, layout, begun: Stopwatch::start(), wait };

        let rows = requests.ask_all(&self.names, |row, slots| {
            let mut answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
            for slot in slots {
                row.samples = row.samples.saturating_add(values_in(&slot));
                answer.add_of_node(&slot);
            }
            // Each slot has few, and one that names others in each of them has no end.
            match answer.operations().len() > HISTORY_OPERATIONS_MAX {
                true => Err(AskError::TooManyOperations),
                false => Ok(()),
            }
        });
        let rows = rows.await;
        Merged { rows, answer: answer.into_inner().unwrap_or_else(PoisonError::into_inner) }
    }
}

/// Samples, or values of metrics.
fn values_in(slot: &HistorySlot) -> u64 {
    let samples = slot.samples.as_ref().map_or(0, |samples| samples.exact().count);
    let metrics = slot.counters.iter().chain(&slot.gauges).map(|of| of.count);
    metrics.fold(samples, u64::saturating_add)
}

impl Requests<'_> {
    /// Asks all nodes, some at the same time; in the order of their names.
    async fn ask_all(
        &self,
        names: &[NodeName],
        take: impl Fn(&mut NodeHistory, Vec<HistorySlot>) -> Result<(), AskError>,
    ) -> Vec<NodeHistory> {
        let rows = stream::iter(names.to_vec()).map(|node| self.ask(node, &take));
        let mut rows: Vec<NodeHistory> = rows.buffer_unordered(ASK_NODES_AT_ONCE).collect().await;
        // Answers come in any order; the same question should have the same page.
        rows.sort_by(|a, b| a.node.cmp(&b.node));
        rows
    }

    /// Asks one node for the range, part by part, the newest first.
    async fn ask(
        &self,
        node: NodeName,
        take: impl Fn(&mut NodeHistory, Vec<HistorySlot>) -> Result<(), AskError>,
    ) -> NodeHistory {
        let mut left = self.layout.range.clone();
        let mut row = NodeHistory {
            node: node.to_string(),
            samples: 0,
            answered_from_seconds: seconds(left.end.0),
            kept_from_seconds: None,
            missing: 0,
            error: None,
        };

        while left.start < left.end {
            let request = HistoryRequest {
                number: 0,
                asker: String::new(),
                of: self.of.clone(),
                range: left.clone(),
                step_ns: nanos(self.layout.node_slot()),
            };

            let left_of_all = self.wait.saturating_sub(self.begun.elapsed());
            let response = timeout(left_of_all, self.handle.ask(&node, request)).await;
            // One that had the time for an answer has none.
            let late = if left_of_all < ASK_WAIT { AskError::OutOfTime } else { AskError::Silent };

            let taken = response.unwrap_or(Err(late)).and_then(|mut response| {
                take(&mut row, std::mem::take(&mut response.slots))?;
                Ok(response)
            });

            let response = match taken {
                Ok(response) => response,
                Err(error) => {
                    row.error = Some(error.to_string());
                    return row;
                }
            };

            // A message holds part of a long range at most, so the older rest is asked for next.
            left.end = response.from;
            row.kept_from_seconds = response.kept_from.map(|at| seconds(at.0));
            row.missing = response.missing;

            // Nothing older is there to be asked for.
            if response.kept_from.is_none_or(|kept| kept >= left.end) {
                left.end = left.start;
            }

            row.answered_from_seconds = seconds(left.end.0);
        }

        row
    }
}
