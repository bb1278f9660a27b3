//! The past by the second: nodes are asked for their own histories, several at the same time, and
//! what they answer is merged as it comes.
//!
//! DESIGN A88.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::ids::{Labels, MeshName, NodeName};
use plimsoll_schemas::summary::{
    HardwareHistoryPage, HistoryPage, NodeHardwareHistory, NodeHistory, ReadingHistory,
    ReadingPoint, STATISTICS_UNIT,
};
use plimsoll_schemas::time::{Wall, nanos, seconds};
use plimsoll_schemas::wire::history::{HistoryOf, HistoryRequest, HistorySlot, ReadingRange};
use tokio::time::timeout;

use super::parameters::HardwareQuery;
use crate::core::fleet::Pool;
use crate::core::history::{Accumulator, AskedNodes, HistoryQuery, Layout};
use crate::io::asker::{AskError, AskHandle};
use crate::io::http::query::{Query, QuerySender};
use crate::io::http::refusal::{Refusal, near};
use crate::limits::{
    ASK_ALL_WAIT, ASK_NODES_AT_ONCE, ASK_WAIT, HISTORY_NODES_MAX, READING_POINTS_MAX,
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
    let Asked { mesh, names, handle } = asked_nodes(queries, names.as_deref()).await?;
    let mut answer = Accumulator::new(layout.clone());
    answer.expect_nodes(names.len());
    let answer = Mutex::new(answer);
    let of = HistoryOf::Latency { operation: operation.clone(), labels: labels.clone() };
    let (begun, wait) = (Stopwatch::start(), ASK_ALL_WAIT);
    let requests = Requests { handle: &handle, of, layout: &layout, begun, wait };

    let rows = requests.ask_all(&names, |row, slots| {
        let mut answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
        for slot in slots {
            let count = slot.samples.as_ref().map_or(0, |samples| samples.exact().count);
            row.samples = row.samples.saturating_add(count);
            answer.add_of_node(&slot);
        }
        Ok(())
    });

    let rows = rows.await;
    let answer = answer.into_inner().unwrap_or_else(PoisonError::into_inner);
    let kept = rows.iter().filter_map(|row| row.kept_from_seconds);

    Ok(HistoryPage {
        mesh: mesh.to_string(),
        operation: operation.to_string(),
        rollup: None,
        values: None,
        unit: STATISTICS_UNIT.to_owned(),
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
