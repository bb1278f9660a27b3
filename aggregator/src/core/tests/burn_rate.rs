//! Error budgets from real samples, with windows shortened.

use plimsoll_schemas::alert::AlertState::{Firing, Inactive, Resolved};
use plimsoll_schemas::alert::{Evidence, Notification, Scope};
use plimsoll_schemas::budget::{Budget, Window};
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::rule::file::shipped;

use plimsoll_schemas::alert::BurnEvidence;
use plimsoll_schemas::budget::BurnRate;

use super::*;
use crate::core::rules::burn_finding;
use crate::core::tests::thresholds::world::World;

/// An hour is a minute then, and a day half an hour.
const TIME_SCALE: u32 = 60;

fn rules() -> Rules {
    Rules { thresholds: Vec::new(), time_scale: TIME_SCALE, ..shipped() }
}

fn burns() -> Vec<(Budget, BurnRate)> {
    let of = |budget: Budget| {
        budget.burn_rates(TIME_SCALE).into_iter().map(move |burn| (budget.clone(), burn))
    };
    rules().budgets.into_iter().flat_map(of).collect()
}

/// A world of which samples are known for longer than the longest window is, though they are few.
fn grown(takes_ms: u64) -> World {
    let mut world = World::new(rules());
    world.takes_ms = Some(takes_ms);
    world.live();
    let longest = burns().into_iter().map(|(_, burn)| burn.long.span()).max().unwrap();
    world.now = world.now.after(longest);
    world
}

fn finding_of(core: &Core, at: Wall, budget: &Budget, burn: &BurnRate) -> Finding {
    burn_finding(at, budget, burn, core.fleet.windows_of(budget, &Scope::Fleet))
}

fn evidence_of(core: &Core, budget: &Budget, burn: &BurnRate) -> BurnEvidence {
    let (rule, operation) = (burn.rule(budget), budget.operation.clone());
    let key = AlertKey { rule, scope: Scope::Fleet, operation };
    match core.evaluator.evidence(start().wall, &key, inputs(core)) {
        Some(Evidence::Burn(evidence)) => evidence,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_pace_of_every_error_budget_fires_when_samples_are_over_and_resolves_afterwards() {
    let mut world = grown(1);
    let names: Vec<_> = burns().iter().map(|(budget, burn)| burn.rule(budget)).collect();
    assert_eq!(names.len(), 8, "{names:?}");
    let states = |world: &World| names.iter().map(|name| world.state(name)).collect::<Vec<_>>();
    world.lives(30);
    assert_eq!(states(&world), [Inactive; 8]);
    world.takes_ms = Some(1_000);
    world.lives(40);
    assert_eq!(states(&world), [Firing; 8]);
    world.takes_ms = Some(1);
    let mut resolved = vec![false; names.len()];
    for _ in 0..2_000 {
        world.live();
        for (is, state) in resolved.iter_mut().zip(states(&world)) {
            *is |= state == Resolved;
        }
    }
    assert_eq!(resolved, [true; 8]);
    let view = world.core.view(world.now.wall, "t");
    let fleet = view.summary.budgets.iter().filter(|row| row.scope == Scope::Fleet);
    let left: Vec<_> = fleet.map(|row| (row.objective, row.budget_remaining)).collect();
    assert!(left.iter().all(|(objective, left)| objective.is_some() == left.is_some()));
    assert!(left.iter().any(|(_, left)| left.is_some_and(|left| left < 0.0)), "{left:?}");
    let page = crate::exposition::fleet(&view, &[]);
    for family in [
        "plimsoll_error_budget_objective_ratio{budget=\"epoch_hook\"} 0.99\n",
        "plimsoll_error_budget_remaining_ratio{budget=\"epoch_hook\"} -",
        "plimsoll_error_budget_burn_rate{budget=\"epoch_hook\",window=\"1m\"} 0\n",
    ] {
        assert!(page.contains(family), "{family}{page}");
    }
}

#[test]
fn figures_are_exact_and_a_pace_that_is_just_reached_is_within() {
    let mut world = grown(1);
    let (budget, burn) = burns().remove(0);
    let factor = |factor| {
        let mut other = burn;
        other.factor = factor;
        other
    };
    world.samples = 100;
    world.lives(7);
    world.takes_ms = Some(1_000);
    world.live();
    // One second of eight: an eighth of the samples, of which a hundredth may be over.
    let at = world.now.wall;
    let found = evidence_of(&world.core, &budget, &burn);
    assert!((found.long_burn - 12.5).abs() < 1e-9, "{found:?}");
    let all = f64::from(8 * 100 + 40);
    assert!((found.remaining - (1.0 - 100.0 / all / 0.01)).abs() < 1e-9, "{found:?}");
    let of = |factor| finding_of(&world.core, at, &budget, &factor);
    let reached = found.long_burn;
    assert_eq!(of(factor(reached)), Finding::Clear);
    assert_eq!(of(factor(reached - 1e-6)), Finding::Breach);
}

#[test]
fn too_few_samples_of_late_move_nothing_and_none_at_all_neither() {
    let mut world = grown(1);
    let (budget, burn) = burns().remove(0);
    let finding = |world: &World| finding_of(&world.core, world.now.wall, &budget, &burn);
    assert_eq!(finding(&world), Finding::NoData);
    (world.samples, world.takes_ms) = (9, Some(1_000));
    world.lives(8);
    assert_eq!(finding(&world), Finding::Insufficient);
    world.samples = 90;
    world.lives(8);
    assert_eq!(finding(&world), Finding::Breach);
    assert_eq!(world.state(&burn.rule(&budget)), Firing);
    world.takes_ms = None;
    world.lives(600);
    assert_eq!(finding(&world), Finding::NoData);
    assert_eq!(world.state(&burn.rule(&budget)), Firing);
}

#[test]
fn one_bad_minute_of_a_young_mesh_is_no_bad_hour() {
    let mut world = World::new(rules());
    let (budget, burn) = burns().remove(0);
    world.takes_ms = Some(1_000);
    let half = u32::try_from(burn.long.span().as_secs() / 2).unwrap();
    for (lives, expected) in [(half - 1, Finding::Insufficient), (2, Finding::Breach)] {
        world.lives(lives);
        assert_eq!(finding_of(&world.core, world.now.wall, &budget, &burn), expected);
    }
}

#[test]
fn a_notification_states_both_burn_rates_and_rest() {
    let mut world = grown(1_000);
    world.lives(20);
    let (budget, burn) = burns().remove(0);
    let is_it = |notification: &&Notification| {
        notification.key.rule == burn.rule(&budget) && notification.state == Firing
    };
    let notification = world.core.alerting.changes().iter().find(is_it).unwrap();
    let Evidence::Burn(sent) = &notification.evidence else { panic!("{notification:?}") };
    assert_eq!((sent.factor, sent.objective, sent.limit_seconds), (14.4, 0.99, 0.018));
    assert!((sent.long_burn - 100.0).abs() < 1e-9 && (sent.remaining + 99.0).abs() < 1e-9);
    assert_eq!((sent.long, sent.short), (Window::OneMinute, Window::TenSeconds));
}
