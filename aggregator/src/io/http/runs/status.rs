//! The page of one run: the latencies of its own window, from the history. They are those of the
//! samples with its label, or, if there are none, of the whole fleet between its begin and its end.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use axum::http::StatusCode;
use plimsoll_schemas::ids::{Operation, RuleName};
use plimsoll_schemas::run::RUN_LABEL;
use plimsoll_schemas::summary::{HistoryPage, OverBudget, RunOperation, RunPage, RunRow};
use plimsoll_schemas::time::{Wall, seconds};
use tokio::task::spawn_blocking;

use super::RunHandler;
use crate::core::fleet::Pool;
use crate::core::history::HistoryQuery;
use crate::io::http::history::{Refusal, page};
use crate::io::http::query::Query;
use crate::limits::runs::{RUN_MARGIN, RUN_OPERATIONS_MAX};

const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
/// The shortest window of a run that has just begun.
const WINDOW_MIN: Duration = Duration::from_secs(1);

/// The limits of budgets about all samples of an operation.
type Limits = BTreeMap<Operation, Vec<(RuleName, u64)>>;

impl RunHandler {
    /// The page of a run.
    pub(super) async fn status(&self, run: RunRow) -> Result<RunPage, Refusal> {
        let _turn = self.turn.lock().await;
        let now = self.clock.now().wall;
        let source = self.queries.send(Query::ReadView).await.ok_or_else(Refusal::ending)?;
        let mesh = source.view.mesh.to_string();
        let mut limits = Limits::new();
        let budgets = source.view.rules.budgets.iter();
        for budget in budgets.filter(|budget| budget.selector.is_everything()) {
            let of_operation = limits.entry(budget.operation.clone()).or_default();
            of_operation.push((budget.name.clone(), budget.limit_ns));
        }
        // The last reference to a read view takes a while to drop.
        drop(spawn_blocking(move || drop(source)));
        let mut status = RunPage {
            mesh,
            at_seconds: seconds(now.0),
            run,
            by_label: false,
            completeness: None,
            operations: Vec::new(),
            operations_omitted: 0,
            no_history: None,
        };
        let known = match self.history.pools().await {
            Ok((_, _, known)) => known,
            Err(Refusal(StatusCode::NOT_FOUND, why)) => {
                status.no_history = Some(why);
                return Ok(status);
            }
            Err(refusal) => return Err(refusal),
        };
        let mut pools: Vec<Pool> =
            known.iter().filter(|pool| is_of(pool, status.run.name.as_str())).cloned().collect();
        status.by_label = !pools.is_empty();
        if pools.is_empty() {
            pools = known.into_iter().filter(|pool| matches!(pool, Pool::Fleet(_))).collect();
        }
        status.operations_omitted = pools.len().saturating_sub(RUN_OPERATIONS_MAX);
        let range = window(&status.run, status.by_label, now);
        for pool in pools.into_iter().take(RUN_OPERATIONS_MAX) {
            let operation = operation(&pool).cloned();
            let budgets = operation.and_then(|name| limits.remove(&name)).unwrap_or_default();
            let found = self.latencies(pool, range.clone(), budgets, now).await?;
            status.operations.extend(found.filter(|found| found.count > 0));
        }
        // All windows are the same, and nodes send all operations together.
        status.completeness = status.operations.first().and_then(|first| first.completeness);
        Ok(status)
    }

    async fn latencies(
        &self,
        pool: Pool,
        range: Range<Wall>,
        budgets: Vec<(RuleName, u64)>,
        now: Wall,
    ) -> Result<Option<RunOperation>, Refusal> {
        let query = HistoryQuery {
            pool,
            range,
            step: None,
            quantiles: QUANTILES.to_vec(),
            limits_ns: budgets.iter().map(|(_, limit)| *limit).collect(),
            with_distribution: false,
            nodes: None,
        };
        match self.history.answer(query, now, page).await {
            Ok(found) => Ok(row(found, budgets)),
            // Its last slot may have expired meanwhile.
            Err(Refusal(StatusCode::NOT_FOUND, _)) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }
}

/// Whether a pool has the samples of a run.
fn is_of(pool: &Pool, run: &str) -> bool {
    let Pool::Group(rollup, group) = pool else { return false };
    rollup == RUN_LABEL && matches!(&*group.values, [value] if **value == *run)
}

fn operation(pool: &Pool) -> Option<&Operation> {
    match pool {
        Pool::Fleet(operation) => Some(operation),
        Pool::Group(_, group) => Some(&group.operation),
        Pool::Selected(_) => None,
    }
}

/// From begin to end; with a margin if only the run's own samples are in what is read.
fn window(run: &RunRow, by_label: bool, now: Wall) -> Range<Wall> {
    let at = |seconds: f64| {
        let since = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        Wall(0).plus(since)
    };
    let margin = if by_label { RUN_MARGIN } else { Duration::ZERO };
    let begin = at(run.begun_seconds).minus(margin).min(now.minus(WINDOW_MIN));
    let end = run.ended_seconds.map_or(now, at).plus(margin);
    begin..end.max(begin.plus(WINDOW_MIN))
}

fn row(page: HistoryPage, budgets: Vec<(RuleName, u64)>) -> Option<RunOperation> {
    let point = page.points.into_iter().next()?;
    let over_budget = budgets.into_iter().zip(&point.over).map(|((budget, _), over)| OverBudget {
        budget,
        over: *over,
        share: if point.count > 0 { over.over as f64 / point.count as f64 } else { 0.0 },
    });
    Some(RunOperation {
        operation: page.operation,
        unit: page.unit,
        from_seconds: point.from_seconds,
        to_seconds: point.to_seconds,
        resolution: page.resolution,
        count: point.count,
        mean: point.mean,
        max: point.max,
        quantiles: point.quantiles,
        approximate: point.approximate,
        over_budget: over_budget.collect(),
        completeness: point.completeness,
    })
}
