//! Compares two runs, or several a side, with the numbers of `plimsoll compare run:A run:B`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_compare::history::{
    Group as RollupGroup, HistoryRequest, HistorySide, NoSide, Others, RateRequest, SecondsRange,
    SideReader, is_whole, measured_rate, rate_requests, runs_of,
};
use plimsoll_compare::{Comparison, Named, Options, Side, compare_runs};
use plimsoll_schemas::ids::{Labels, Operation, RunName};
use plimsoll_schemas::run::run_name;
use plimsoll_schemas::summary::{HistoryPoint, OperationsPage};
use plimsoll_schemas::time::{Wall, seconds};

use super::RunHandler;
use super::requests::ComparedRuns;
use crate::core::fleet::{Group, Pool};
use crate::core::history::{AskedNodes, HistoryQuery};
use crate::io::http::history::{latencies, page};
use crate::io::http::refusal::{Refusal, computed, near};
use crate::limits::runs::RUN_OPERATIONS_MAX;

/// The default of `plimsoll compare --tolerance`.
const TOLERANCE: f64 = 0.01;

/// One run of a side.
struct RunSide {
    name: RunName,
    side: Side,
}

fn named(runs: &[RunSide]) -> Vec<Named<'_, Side>> {
    runs.iter().map(|run| Named { name: run.name.as_str(), of: &run.side }).collect()
}

impl RunHandler {
    pub(super) async fn comparison(&self, runs: ComparedRuns) -> Result<Comparison, Refusal> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let ComparedRuns { a, b, operations } = runs;
        let now = self.clock.now().wall;
        let known = self.history.operations().await?;
        let a = self.runs_of_side("a", &a, &known, &operations, now).await?;
        let b = self.runs_of_side("b", &b, &known, &operations, now).await?;
        let options = Options { operations, tolerance: TOLERANCE, ..Options::default() };

        let compared = computed(move || {
            // A client that leaves does not begin another one's turn.
            let _turn = turn;
            compare_runs([&named(&a), &named(&b)], &options)
        });

        compared.await
    }

    /// The samples of each run that a side names.
    async fn runs_of_side(
        &self,
        key: &str,
        text: &str,
        known: &OperationsPage,
        operations: &BTreeSet<Operation>,
        now: Wall,
    ) -> Result<Vec<RunSide>, Refusal> {
        let names = runs_of(text, known).map_err(|error| match error {
            NoSide::TooMany { .. } => Refusal::bad(format!("{key}: {error}")),
            error => Refusal::not_found(format!("{key}: {error}")),
        })?;
        let mut runs = Vec::with_capacity(names.len());
        for name in names {
            let name = run_name(&name).map_err(|error| Refusal::bad(format!("{key}: {error}")))?;
            let side = self.side(key, name.clone(), known, operations, now).await?;
            runs.push(RunSide { name, side });
        }
        Ok(runs)
    }

    /// The samples of a run: those with its label, or the fleet's from its begin to its end. A run
    /// of which samples are not kept by its name has no side.
    async fn side(
        &self,
        key: &str,
        run: RunName,
        known: &OperationsPage,
        operations: &BTreeSet<Operation>,
        now: Wall,
    ) -> Result<Side, Refusal> {
        let now_seconds = seconds(now.0);
        let row = self.find(&run).await?;
        let is_asked = |of: &Operation| operations.is_empty() || operations.contains(of);
        if let Some(why) = row.as_ref().and_then(|row| row.not_kept(is_asked)) {
            return Err(Refusal::not_found(format!("{key}: {why}")));
        }
        let mut of = HistorySide::Run(run.to_string());

        let mut reader = match SideReader::new(&of, known, now_seconds) {
            Ok(reader) => reader,
            Err(error) => {
                let Some(row) = row else { return Err(unknown(key, &run, &error)) };
                let end = row.ended_seconds.unwrap_or(now_seconds);
                let range = SecondsRange { from: row.begun_seconds, to: end };
                of = HistorySide::Range(range);
                let reader = SideReader::new(&of, known, now_seconds);
                reader.map_err(|error| refused(key, &run, &error))?
            }
        };

        // Before the side is read: each operation that is left costs two answers with all of its
        // slots.
        if !operations.is_empty() {
            reader.retain(|name| operations.contains(name));
        }
        if reader.operations_left() > RUN_OPERATIONS_MAX {
            let error = format!(
                "{key} has {} operations, and one comparison may have {RUN_OPERATIONS_MAX}; select \
                 some with operation=NAME",
                reader.operations_left()
            );
            return Err(Refusal::bad(error));
        }

        while let Some(request) = reader.next_request() {
            let of_fleet = self.ask(&request, now).await?;
            let points = match request.of_nodes() {
                // Seconds give more blocks than slots of 10 s, and so narrower intervals; where any
                // node lacks some, the fleet's slots are the whole.
                Some(request) => self.of_nodes(&request, now, &of_fleet).await.unwrap_or(of_fleet),
                None => of_fleet,
            };
            reader.on_answer(&points);
        }

        let mut side = reader.finish().map_err(|error| refused(key, &run, &error))?;
        let metrics = self.history.metrics().await?;
        let is_wanted = |name: &str| operations.is_empty() || operations.contains(name);
        let requests = rate_requests(&of, &side, &metrics, is_wanted).requests;
        let queries = requests.iter().filter_map(rate_query).collect();
        for page in self.history.metrics_of(queries, now).await? {
            let Ok(name) = Operation::new(&page.metric) else { continue };
            side.rates.extend(measured_rate(&page).map(|rate| (name, rate)));
        }
        Ok(side)
    }

    /// What nodes answer, if it is all that the fleet's history has.
    async fn of_nodes(
        &self,
        request: &HistoryRequest,
        now: Wall,
        of_fleet: &[HistoryPoint],
    ) -> Option<Vec<HistoryPoint>> {
        let labels = Labels::new(request.labels()).ok()?;
        let to_all = query(&HistoryRequest { group: None, ..request.clone() }).ok()?;
        let nodes = Some(AskedNodes { names: None, labels });
        let page = latencies(&self.queries, HistoryQuery { nodes, ..to_all }, now).await;
        page.ok().filter(|page| is_whole(page, of_fleet)).map(|page| page.points)
    }

    async fn ask(&self, request: &HistoryRequest, now: Wall) -> Result<Vec<HistoryPoint>, Refusal> {
        Ok(self.history.answer(query(request)?, now, page).await?.points)
    }
}

/// A question about a counter as the history takes it.
fn rate_query(request: &RateRequest) -> Option<HistoryQuery> {
    let RateRequest { metric, group, from, to, step } = request;
    let metric = Operation::new(metric).ok()?;
    let pool = |operation: Operation| pool(operation, group.as_ref());
    let range = Wall(0).plus(span(*from))..Wall(0).plus(span(*to));
    Some(HistoryQuery::of_metric(&metric, &[], pool, range, Some(span(*step))))
}

fn pool(operation: Operation, group: Option<&RollupGroup>) -> Pool {
    match group {
        None => Pool::Fleet(operation),
        Some(RollupGroup { rollup, value }) => {
            let group = Group { operation, values: vec![value.clone().into_boxed_str()] };
            Pool::Group(rollup.clone(), group)
        }
    }
}

fn span(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// A question as the history takes it.
fn query(request: &HistoryRequest) -> Result<HistoryQuery, Refusal> {
    let HistoryRequest { operation, group, from, to, step, with_distribution, .. } = request;
    let operation = Operation::new(operation);
    let operation = operation.map_err(|error| Refusal::failed(error.to_string()))?;

    Ok(HistoryQuery {
        pool: pool(operation, group.as_ref()),
        metrics: Vec::new(),
        range: Wall(0).plus(span(*from))..Wall(0).plus(span(*to)),
        step: Some(span(*step)),
        quantiles: Vec::new(),
        limits_ns: Vec::new(),
        with_distribution: *with_distribution,
        nodes: None,
    })
}

fn unknown(key: &str, run: &RunName, error: &NoSide) -> Refusal {
    let (hint, others) = match error {
        NoSide::Unknown { known, others, .. } => {
            (near(run.as_str(), known.iter().cloned()), *others)
        }
        _ => (String::new(), Others::None),
    };
    let run = run.as_str();
    let why = format!("{key}: run {run:?} is unknown{hint}{others}. /api/v1/runs lists runs");
    Refusal::not_found(why)
}

fn refused(key: &str, run: &RunName, error: &NoSide) -> Refusal {
    Refusal::not_found(format!("{key}: run {:?}: {error}", run.as_str()))
}
