//! The evidence of a budget: the judgement of its samples at one point in time.

use plimsoll_schemas::alert::{Evidence, LatencyEvidence, StretchEvidence};
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::time::Wall;

use super::judge::Judge;
use crate::core::fleet::Windows;

pub(super) fn of_budget(at: Wall, budget: &Budget, windows: &Windows) -> Evidence {
    let samples = windows.merged(at, budget.window);
    let sums = windows.sums(at, budget.window, budget.limit_ns);
    let recent = windows.recent(at, budget.window, budget.limit_ns);
    let judge = Judge::new(budget).of(windows.overdispersion(budget.limit_ns));
    let judgement = judge.judge(at, &sums, &recent, |rank| samples.at_rank(rank));
    let stretch = judgement.stretch.filter(|stretch| !stretch.has_ended);
    let unit = budget.unit();
    let shown = |raw| unit.shown(raw);

    Evidence::Latency(LatencyEvidence {
        quantile: budget.quantile,
        value_seconds: shown(judgement.value_ns.unwrap_or(0)),
        lower_seconds: shown(judgement.lower_ns.unwrap_or(0)),
        limit_seconds: shown(budget.limit_ns),
        window: budget.window,
        samples: sums.samples,
        upper_seconds: judgement.upper_ns.map(shown),
        over: sums.over,
        uncertain: sums.uncertain,
        stretch: stretch.map(|stretch| StretchEvidence {
            seconds: at.since(stretch.begin).as_secs_f64(),
            samples: stretch.samples,
            over: stretch.over,
        }),
        overdispersion: judgement.overdispersion.factor,
        learning: judgement.overdispersion.is_learning,
        within_seconds: judgement.within_ns.map(|(least, most)| (shown(least), shown(most))),
    })
}
