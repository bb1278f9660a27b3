//! Asks an aggregator for everything that a report is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;

use anyhow::{Context, Result, bail, ensure};
use jiff::Zoned;
use plimsoll_compare::history::{SecondsRange, extent};
use plimsoll_runtime::client::Api;
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::own_operations::is_own_name;
use plimsoll_schemas::run::RUN_LABEL;
use plimsoll_schemas::summary::{
    BottlenecksPage, HeatmapPage, HistoryPage, HistoryPoint, MetricHistoryPage, MetricsPage,
    OperationsPage, Summary,
};
use plimsoll_schemas::unit::Unit;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::beside::beside;
use super::document::{DrillResult, NodeMachine, Subject};
use super::limits::{
    BANDS_MAX, BUCKETS_MAX, COLUMNS_MAX, HARDWARE_PAGES_MAX, METRICS_MAX, NODES_ASKED_MAX,
    OPERATIONS_ASKED_MAX, OPERATIONS_MAX, QUERY_LIST_MAX, REQUEST_SLOTS, SLOTS_MAX,
};
use super::machines::HardwarePage;
use super::material::{Material, NodePoint, OperationPages};
use super::wanted::{RunTimes, SLOT_MIN, Wanted};
use crate::bottlenecks;
use crate::nodes;
use crate::run_results::epoch_rank;
use crate::runs;
use crate::targets::{page, with_parameters};

/// The quantiles of every operation; those of budgets are added.
const QUANTILES: [f64; 10] = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999];
/// Operations that an error lists.
const LISTED_MAX: usize = 20;
/// Answers until a run's extent is as exact as the history: each is some thousand times as exact.
const NARROWINGS_MAX: usize = 4;

/// What is asked for.
pub(super) struct Request<'a> {
    pub(super) api: &'a Api,
    pub(super) wanted: Wanted,
    /// These operations alone; all if it is empty.
    pub(super) named: &'a [Operation],
    /// Whether each slot's distribution is needed.
    pub(super) with_slots: bool,
    /// What it is compared with.
    pub(super) beside: Option<&'a str>,
    /// Whether those of epochs are needed at least.
    pub(super) with_epochs: bool,
}

impl Request<'_> {
    /// All answers.
    ///
    /// # Errors
    /// When the aggregator does not answer, keeps no history, or does not know what is named.
    pub(super) async fn send(mut self, drills: Vec<DrillResult>) -> Result<Material> {
        let known: OperationsPage = self.get("/api/v1/operations").await?;

        let (subject, run) = match &self.wanted {
            Wanted::Run(name) => (Subject::Run(name.clone()), self.run(name).await?),
            Wanted::Range(..) => (Subject::Fleet, None),
        };

        // Before its operations are listed: a run without label has none of its own.
        let is_of_fleet = self.read_fleet_of(run, &known);
        let names = self.operations(&known)?;
        let range = self.range(&names, run, known.kept_from_seconds).await?;
        let summary: Summary = self.get("/metrics/summary").await?;

        let mut material = Material {
            asked_at: seconds_now(),
            subject,
            is_of_fleet,
            range,
            operations: Vec::new(),
            empty: None,
            operations_left_out: names.len().saturating_sub(OPERATIONS_MAX),
            slots_left_out: None,
            alerts: self.get("/api/v1/alerts").await?,
            events: self.get("/api/v1/events").await?,
            ledger: self.get("/api/v1/ledger").await?,
            // An aggregator that has no such page answers with an error.
            hardware: self.hardware().await.ok(),
            machines: self.machines().await.unwrap_or_default(),
            bottlenecks: Err("there are no operations".to_owned()),
            metrics: Vec::new(),
            nodes: Vec::new(),
            nodes_silent: BTreeMap::new(),
            summary,
            drills,
            beside: None,
            recorded: None,
        };

        let most = names.len().min(OPERATIONS_MAX);
        for (at, name) in names.iter().take(most).enumerate() {
            progress(&format!("operation {} of {most}, {name}", at + 1));
            self.operation(name, &mut material).await?;
        }

        self.slots(&mut material).await?;
        if let Some(other) = self.beside {
            progress(&format!("beside {other}"));
            material.beside = Some(beside(self.api, &material, other, self.named).await?);
        }
        progress("bottlenecks");
        material.bottlenecks = self.bottlenecks(range).await.map_err(|error| format!("{error:#}"));
        progress("metrics");
        // An aggregator of an earlier version has no such page.
        material.metrics = self.metrics(range).await.unwrap_or_default();
        // Last: it can take the longest, and a report without it is still one.
        self.nodes(&mut material).await;
        Ok(material)
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        page(self.api, path).await
    }

    /// When a run was; `None` if the aggregator does not know it, although its history may.
    ///
    /// # Errors
    /// When samples of it are not kept by its name: neither the fleet's nor a part of them are it.
    async fn run(&self, name: &str) -> Result<Option<RunTimes>> {
        let Some(row) = runs::find(self.api, name).await else { return Ok(None) };
        let is_asked = |of: &Operation| self.named.is_empty() || self.named.contains(of);
        if let Some(why) = row.not_kept(is_asked) {
            bail!("{why}; --operation names others");
        }
        Ok(Some(RunTimes::of(&row, seconds_now())))
    }

    /// Where no sample has the label of a run that was, its report is of the fleet meanwhile.
    fn read_fleet_of(&mut self, run: Option<RunTimes>, known: &OperationsPage) -> bool {
        let range = run.and_then(|run| run.with(None));
        let is_of_fleet = range.is_some() && self.wanted.operations(known).is_err();
        if let (true, Some(range)) = (is_of_fleet, range) {
            self.wanted = Wanted::Range(range);
        }
        is_of_fleet
    }

    /// The readings of all nodes, page by page.
    async fn hardware(&self) -> Result<HardwarePage> {
        let mut all: HardwarePage = self.get("/api/v1/hardware").await?;
        for _ in 1..HARDWARE_PAGES_MAX {
            let Some(after) = all.next.clone() else { break };
            let parameters = [("after", &Some(after))];
            all.add(self.get(&with_parameters("/api/v1/hardware", &parameters)).await?);
        }
        Ok(all)
    }

    /// What machines nodes run on, as far as they state it.
    async fn machines(&self) -> Result<BTreeMap<String, NodeMachine>> {
        let page = nodes::all_pages(self.api, &None, &None).await?;
        let described = page.nodes.into_iter().filter_map(|of| {
            let machine = NodeMachine { machine: of.machine?, plimsoll_version: of.row.version };
            Some((of.row.node, machine))
        });
        Ok(described.collect())
    }

    /// The names of all operations, jobs' before the system's own.
    fn operations(&self, known: &OperationsPage) -> Result<Vec<String>> {
        let mut names = self.wanted.operations(known)?;
        if !self.named.is_empty() {
            for name in self.named {
                let listed = || names.iter().take(LISTED_MAX).cloned().collect::<Vec<_>>();
                let is_known = names.iter().any(|other| other == name.as_str());
                ensure!(is_known, "--operation {name}: it has {}", listed().join(", "));
            }
            names.retain(|name| self.named.iter().any(|wanted| wanted.as_str() == name));
        }
        names.sort_by_cached_key(|name| (is_own_name(name), name.clone()));
        Ok(names)
    }

    async fn range(
        &self,
        names: &[String],
        run: Option<RunTimes>,
        since: f64,
    ) -> Result<SecondsRange> {
        if let Wanted::Range(range) = self.wanted {
            return Ok(range);
        }
        let now = seconds_now();
        let kept = SecondsRange { from: since.min(now - SLOT_MIN), to: now };
        let searched = run.map_or(kept, |run| run.searched(now));
        let mut whole: Option<SecondsRange> = None;

        for name in names {
            let found = match self.extent(name, searched).await {
                Ok(found) => found,
                // It may have samples of an earlier run with the same name.
                Err(_) if run.is_some() => continue,
                Err(error) => return Err(error),
            };

            whole = Some(whole.unwrap_or(found).joined(found));
        }

        let whole = run.map_or(whole, |run| run.with(whole));
        whole.context("the run has no samples")
    }

    /// From when until when the run has samples of an operation. Points of two years are hours
    /// long: each answer narrows the range, and so the next points.
    async fn extent(&self, name: &str, kept: SecondsRange) -> Result<SecondsRange> {
        let mut range = kept;
        for _ in 0..NARROWINGS_MAX {
            let step = format!("{}s", (range.seconds() / SLOTS_MAX).max(SLOT_MIN).ceil());
            let more = [("step", step), ("quantiles", "0.5".to_owned())];
            let page: HistoryPage = self.ask("query", name, range, &more).await?;
            let found = extent(&page.points);
            let found = found.with_context(|| format!("{name}: the run has no samples"))?;
            if found == range {
                break;
            }
            range = found;
        }
        Ok(range)
    }

    /// Adds an operation, if it has samples.
    async fn operation(&self, name: &str, material: &mut Material) -> Result<()> {
        let (limits, quantiles) = watched(&material.summary, name);
        let (over, quantiles) = (list_limits(&limits, name), list(&quantiles));
        let of_whole = [("quantiles", quantiles), ("distribution", "true".to_owned())];
        let of_whole = of_whole.into_iter().chain(Some(("over", over.clone())));
        let of_whole: Vec<_> = of_whole.filter(|(_, value)| !value.is_empty()).collect();
        let whole: HistoryPage = self.ask("query", name, material.range, &of_whole).await?;

        if whole.points.iter().all(|point| point.count == 0) {
            material.empty = Some(whole);
            return Ok(());
        }

        // The answer's own range, so that all columns together are the whole.
        let range = SecondsRange { from: whole.from_seconds, to: whole.to_seconds };
        let step = format!("{}s", (range.seconds() / COLUMNS_MAX).ceil().max(1.0));
        let mut of_columns = vec![("step", step.clone()), ("quantiles", "0.5,0.99".to_owned())];
        if !over.is_empty() {
            of_columns.push(("over", over));
        }
        let columns = self.ask("query", name, range, &of_columns).await?;
        let of_heatmap = [("step", step), ("bands", BANDS_MAX.to_string())];
        let heatmap: HeatmapPage = self.ask("heatmap", name, range, &of_heatmap).await?;
        material.operations.push(OperationPages { whole, columns, heatmap, slots: Vec::new() });
        Ok(())
    }

    /// Where the time goes; an aggregator that has no such page answers with an error.
    async fn bottlenecks(&self, range: SecondsRange) -> Result<BottlenecksPage> {
        let parameters = match &self.wanted {
            Wanted::Run(name) => vec![("run", Some(name.clone()))],
            Wanted::Range(_) => {
                vec![("from", Some(range.from.to_string())), ("to", Some(range.to.to_string()))]
            }
        };
        let parameters: Vec<_> = parameters.iter().map(|(key, value)| (*key, value)).collect();
        self.get(&with_parameters(bottlenecks::PATH, &parameters)).await
    }

    /// Counters and gauges over the whole range, of the run or of the fleet.
    async fn metrics(&self, range: SecondsRange) -> Result<Vec<MetricHistoryPage>> {
        let known: MetricsPage = self.get("/api/v1/metrics").await?;
        let (names, run): (Vec<&str>, _) = match &self.wanted {
            Wanted::Run(run) => (known.of_group(RUN_LABEL, run).into_iter().collect(), Some(run)),
            Wanted::Range(_) => {
                let kept = known.metrics.iter().filter(|row| row.is_kept);
                let names: BTreeSet<&str> = kept.map(|row| row.metric.as_str()).collect();
                (names.into_iter().collect(), None)
            }
        };

        let mut pages = Vec::new();
        for name in names.into_iter().take(METRICS_MAX) {
            let parameters = [
                ("metric", Some(name.to_owned())),
                ("rollup", run.map(|_| RUN_LABEL.to_owned())),
                ("value", run.cloned()),
                ("from", Some(range.from.to_string())),
                ("to", Some(range.to.to_string())),
            ];
            let parameters: Vec<_> = parameters.iter().map(|(key, value)| (*key, value)).collect();
            pages.push(self.get(&with_parameters("/api/v1/query", &parameters)).await?);
        }
        Ok(pages)
    }

    /// Adds what nodes have of the operations with samples over their limits. Without an answer, as
    /// from an aggregator that does not ask nodes, there is just nothing to add.
    async fn nodes(&self, material: &mut Material) {
        let over = |of: &OperationPages| {
            let most = of.point().map(|point| point.over.iter().map(|over| over.over).max());
            most.flatten().unwrap_or_default()
        };

        let mut limited: Vec<(u64, String, SecondsRange)> = material
            .operations
            .iter()
            .filter(|of| over(of) > 0 && !is_own_name(&of.whole.operation))
            .map(|of| {
                let to = of.whole.to_seconds.min(material.asked_at);
                let range = SecondsRange { from: of.whole.from_seconds, to };
                (over(of), of.whole.operation.clone(), range)
            })
            .collect();

        // Those with the most samples over their limits: asking nodes
        // costs them work, so few operations are asked for (A86).
        limited.sort_by_key(|(over, ..)| std::cmp::Reverse(*over));

        for (_, operation, range) in limited.into_iter().take(OPERATIONS_ASKED_MAX) {
            progress(&format!("nodes of {operation}"));
            let Ok(all) = self.ask_node("*", &operation, range, &[]).await else { return };
            let silent =
                all.nodes.iter().filter_map(|of| Some((of.node.clone(), of.error.clone()?)));
            material.nodes_silent.extend(silent);
            let mut answering: Vec<NodeAnswer> =
                all.nodes.into_iter().filter(|of| of.samples > 0).collect();
            // Nodes that alerts are about first: with many nodes they may have fewer samples.
            let firing = material.firing_nodes();
            answering.sort_by_key(|of| {
                (!firing.contains(of.node.as_str()), std::cmp::Reverse(of.samples))
            });

            for NodeAnswer { node, .. } in answering.into_iter().take(NODES_ASKED_MAX) {
                let over = list_limits(&watched(&material.summary, &operation).0, &operation);
                let more = [("distribution", "true".to_owned()), ("over", over)];
                let Ok(page) = self.ask_node(&node, &operation, range, &more).await else {
                    continue;
                };
                let point = page.points.into_iter().next().filter(|point| point.count > 0);
                let operation = operation.clone();
                material.nodes.extend(point.map(|point| NodePoint { node, operation, point }));
            }
        }
    }

    /// Has a node asked, or all of them.
    async fn ask_node(
        &self,
        node: &str,
        operation: &str,
        range: SecondsRange,
        more: &[(&str, String)],
    ) -> Result<NodesPage> {
        let run = match &self.wanted {
            Wanted::Run(name) => Some(format!("run={name}")),
            Wanted::Range(..) => None,
        };

        let mut parameters = vec![
            ("operation", Some(operation.to_owned())),
            ("node", Some(node.to_owned())),
            ("label", run),
            ("from", Some(range.from.to_string())),
            ("to", Some(range.to.to_string())),
        ];

        parameters.extend(more.iter().map(|(key, value)| (*key, Some(value.clone()))));
        let parameters: Vec<_> = parameters.iter().map(|(key, value)| (*key, value)).collect();
        self.get(&with_parameters("/api/v1/query", &parameters)).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        page: &str,
        operation: &str,
        range: SecondsRange,
        more: &[(&str, String)],
    ) -> Result<T> {
        let more = more.iter().map(|(key, value)| (*key, Some(value.clone())));
        let mut parameters = vec![
            ("operation", Some(operation.to_owned())),
            ("from", Some(range.from.to_string())),
            ("to", Some(range.to.to_string())),
        ];
        parameters.extend(self.wanted.group());
        parameters.extend(more);
        let parameters: Vec<_> = parameters.iter().map(|(key, value)| (*key, value)).collect();
        self.get(&with_parameters(&format!("/api/v1/{page}"), &parameters)).await
    }

    /// Adds each operation's slots with their distributions, or states why there are none.
    async fn slots(&self, material: &mut Material) -> Result<()> {
        let mut left = BUCKETS_MAX;
        let is_needed =
            |name: &str| self.with_slots || (self.with_epochs && epoch_rank(name).is_some());

        for pages in &mut material.operations {
            if !is_needed(&pages.whole.operation) {
                continue;
            }
            progress(&format!("slots of {}", pages.whole.operation));

            let Some(slots) = self.slots_of(&pages.whole, &mut left).await? else {
                material.operations.iter_mut().for_each(|pages| pages.slots.clear());
                material.slots_left_out = Some(format!(
                    "the slots have more than {BUCKETS_MAX} buckets; choose a shorter range, or \
                     fewer operations with --operation"
                ));
                return Ok(());
            };

            pages.slots = slots;
        }

        Ok(())
    }

    /// `None` if they have more buckets than are `left`.
    async fn slots_of(
        &self,
        whole: &HistoryPage,
        left: &mut usize,
    ) -> Result<Option<Vec<HistoryPoint>>> {
        let step = slot_seconds(whole)?;
        let (mut from, to) = (whole.from_seconds, whole.to_seconds);
        let mut slots = Vec::new();

        while from < to {
            // In parts: an aggregator refuses an answer of more than 256 MiB (A89), and the
            // distributions of a long run may have more.
            let end = (from + step * REQUEST_SLOTS).min(to);

            let more = [
                ("step", format!("{step}s")),
                ("quantiles", "0.5".to_owned()),
                ("distribution", "true".to_owned()),
            ];

            let range = SecondsRange { from, to: end };
            let page: HistoryPage = self.ask("query", &whole.operation, range, &more).await?;
            let points = page.points.into_iter().filter(|point| point.count > 0);

            for point in points {
                let buckets = point.distribution.iter().flat_map(|of| of.counts.buckets()).count();
                let Some(rest) = left.checked_sub(buckets) else { return Ok(None) };
                *left = rest;
                slots.push(point);
            }

            from = end;
        }

        Ok(Some(slots))
    }
}

/// What a report reads of an answer that nodes gave.
#[derive(Deserialize)]
struct NodesPage {
    nodes: Vec<NodeAnswer>,
    points: Vec<HistoryPoint>,
}

#[derive(Deserialize)]
struct NodeAnswer {
    node: String,
    samples: u64,
    /// Why something is missing.
    error: Option<String>,
}

/// The length of slots: a multiple of the history's, so that slots of two requests do not overlap.
fn slot_seconds(whole: &HistoryPage) -> Result<f64> {
    let resolution = &whole.resolution;
    let slot = humantime::parse_duration(resolution).map(|span| span.as_secs_f64());
    let Some(slot) = slot.ok().filter(|slot| *slot >= 1.0) else {
        bail!("/api/v1/query has an unexpected form: a resolution of {resolution:?}");
    };
    let range = whole.to_seconds - whole.from_seconds;
    Ok((range / SLOTS_MAX / slot).ceil().max(1.0) * slot)
}

/// The limits, in whole numbers of its unit, and the quantiles that are asked for of an operation.
fn watched(summary: &Summary, operation: &str) -> (Vec<u64>, Vec<f64>) {
    let budgets = || summary.budgets.iter().filter(|budget| budget.operation == operation);
    let limits: BTreeSet<u64> = budgets().map(|budget| budget.limit_ns).collect();
    let mut quantiles = QUANTILES.to_vec();
    for budget in budgets() {
        if !quantiles.contains(&budget.quantile) && quantiles.len() < QUERY_LIST_MAX {
            quantiles.push(budget.quantile);
        }
    }
    quantiles.sort_by(f64::total_cmp);
    (limits.into_iter().take(QUERY_LIST_MAX).collect(), quantiles)
}

/// Limits as a query takes them, in the unit of the operation.
fn list_limits(limits: &[u64], operation: &str) -> String {
    let limit = |raw: &u64| match Unit::of(operation) {
        Unit::Nanoseconds => format!("{raw}ns"),
        Unit::Picoseconds => format!("{}ns", raw / 1_000),
        unit @ (Unit::Bytes | Unit::Count) => unit.shown(*raw).to_string(),
    };
    list(&limits.iter().map(limit).collect::<Vec<_>>())
}

fn list<T: ToString>(values: &[T]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn seconds_now() -> f64 {
    Zoned::now().timestamp().as_millisecond() as f64 / 1e3
}

fn progress(words: &str) {
    if std::io::stderr().is_terminal() {
        eprintln!("plimsoll report: {words}");
    }
}
