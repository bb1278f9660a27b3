//! The page of one run: the latencies of its own window, from the history. They are those of the
//! samples with its label, or, if there are none, of the whole fleet between its begin and its end.
//! Of samples with its label that are not kept by its name the page states that, with the bound; it
//! never has the fleet's or another group's in their place.

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
use crate::io::http::history::page;
use crate::io::http::query::Query;
use crate::io::http::refusal::Refusal;
use crate::limits::runs::{RUN_MARGIN, RUN_OPERATIONS_MAX};

const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
/// The shortest window of a run that has just begun.
const WINDOW_MIN: Duration = Duration::from_secs(1);

/// The limit of a budget about all samples of an operation.
struct BudgetLimit {
    budget: RuleName,
    limit_ns: u64,
}

type Limits = BTreeMap<Operation, Vec<BudgetLimit>>;

impl RunHandler {
    pub(super) async fn status(&self, run: RunRow) -> Result<RunPage, Refusal> {
        let _turn = self.turn.lock().await;
        let now = self.clock.now().wall;
        let source = self.queries.send(Query::ReadView).await?;
        let mesh = source.view.mesh.to_string();
        let mut limits = Limits::new();
        let budgets = source.view.rules.budgets.iter();

        for budget in budgets.filter(|budget| budget.selector.is_everything()) {
            let of_operation = limits.entry(budget.operation.clone()).or_default();
            let (name, limit_ns) = (budget.name.clone(), budget.limit_ns);
            of_operation.push(BudgetLimit { budget: name, limit_ns });
        }

        // The last reference to a read view takes a while to drop.
        drop(spawn_blocking(move || drop(source)));
        let not_kept = run.not_kept(|_| true);

        let mut status = RunPage {
            mesh,
            at_seconds: seconds(now.0),
            not_kept,
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

        let (by_label, pools) = pools_of(&status.run, known);
        status.by_label = by_label;
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
        budgets: Vec<BudgetLimit>,
        now: Wall,
    ) -> Result<Option<RunOperation>, Refusal> {
        let query = HistoryQuery {
            pool,
            metrics: Vec::new(),
            range,
            step: None,
            quantiles: QUANTILES.to_vec(),
            limits_ns: budgets.iter().map(|of| of.limit_ns).collect(),
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

/// What a run's page is read from, and whether that is what has its label. Without any it is the
/// fleet; of a run with samples that are not kept by its name it is nothing else.
fn pools_of(run: &RunRow, known: Vec<Pool>) -> (bool, Vec<Pool>) {
    let of_run: Vec<Pool> =
        known.iter().filter(|pool| is_of(pool, run.name.as_str())).cloned().collect();
    if !of_run.is_empty() || run.not_kept(|_| true).is_some() {
        return (true, of_run);
    }
    (false, known.into_iter().filter(|pool| matches!(pool, Pool::Fleet(_))).collect())
}

fn is_of(pool: &Pool, run: &str) -> bool {
    let Pool::Group(rollup, group) = pool else { return false };
    let is_named = matches!(&*group.values, [value] if **value == *run);
    rollup == RUN_LABEL && is_named && !group.is_overflow()
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

fn row(page: HistoryPage, budgets: Vec<BudgetLimit>) -> Option<RunOperation> {
    let point = page.points.into_iter().next()?;
    let over_budget = budgets.into_iter().zip(&point.over).map(|(limit, over)| OverBudget {
        budget: limit.budget,
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

#[cfg(test)]
mod tests {
    use plimsoll_schemas::ids::Labels;
    use plimsoll_schemas::summary::{RunOrigin, RunState};

    use super::*;

    fn run(name: &str, folded: &[(&str, u64)]) -> RunRow {
        let folded = folded.iter().map(|(name, n)| (Operation::new(*name).unwrap(), *n));
        RunRow {
            name: name.parse().unwrap(),
            state: RunState::Running,
            begun_seconds: 0.0,
            ended_seconds: None,
            exit_code: None,
            origin: RunOrigin::Client,
            by: None,
            labels: Labels::default(),
            commands: 0,
            nodes: Vec::new(),
            has_more_nodes: false,
            folded: folded.collect(),
        }
    }

    #[test]
    fn a_run_without_room_is_never_shown_as_the_fleet() {
        let names =
            ["fleet op", "rollup run op [\"kept\"]", "rollup run op [\"other\"]", "fleet load"];
        let known: Vec<Pool> = names.iter().map(|name| Pool::named(name).unwrap().0).collect();
        let of = |run: RunRow| {
            let (by_label, pools) = pools_of(&run, known.clone());
            (by_label, pools.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(of(run("kept", &[])), (true, vec![names[1].to_owned()]));
        assert_eq!(of(run("kept", &[("load", 3)])), (true, vec![names[1].to_owned()]));
        assert_eq!(of(run("folded", &[("op", 3)])), (true, Vec::new()));
        let fleet = vec![names[0].to_owned(), names[3].to_owned()];
        assert_eq!(of(run("bare", &[])), (false, fleet.clone()), "no sample has its label");
        assert_eq!(of(run("other", &[])), (false, fleet), "it is not what took further runs");
    }
}
