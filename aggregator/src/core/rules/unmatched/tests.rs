//! Budgets that no sample matches are reported once.

use std::time::Duration;

use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::ids::RuleName;
use plimsoll_schemas::ids::Series;
use plimsoll_schemas::limits::rules::UNMATCHED_AFTER;
use plimsoll_schemas::rule::file::effective;
use plimsoll_schemas::time::Mono;

use super::*;

fn series(operation: &str, labels: &[(&str, &str)]) -> Series {
    let labels = Labels::new(labels.iter().copied()).unwrap();
    Series { operation: Operation::new(operation).unwrap(), labels }
}

fn names(matches: &UnmatchedBudgets) -> Vec<&str> {
    matches.all().into_iter().map(RuleName::as_str).collect()
}

#[test]
fn a_budget_that_samples_pass_by_for_minutes_is_unmatched_until_one_fits() {
    let text = "[[budget]]\nname = 'misses'\noperation = 'kernel_fetch'\nquantile = 0.9\n\
                limit = '1ms'\nlabels = { outcome = 'miss' }\nnode_labels = { rack = 'r7' }";
    let (hook, publish) = ("[[budget]]\nname = 'epoch_hook'", "[[budget]]\nname = 'publish'");
    let mut matches = UnmatchedBudgets::new(&effective(&[text, hook, publish]).unwrap());
    let (r7, r8) = (Labels::new([("rack", "r7")]).unwrap(), Labels::default());
    let hit = series("kernel_fetch", &[("outcome", "hit")]);
    matches.on_samples(Mono(0), &hit, &r7);
    let later = Mono(0).plus(UNMATCHED_AFTER);
    assert_eq!(names(&matches), [""; 0], "no time has passed");
    matches.on_samples(later.plus(Duration::from_secs(1)), &hit, &r7);
    assert_eq!(names(&matches), ["epoch_hook", "misses", "publish"]);
    let miss = series("kernel_fetch", &[("outcome", "miss")]);
    matches.on_samples(later, &miss, &r8);
    assert_eq!(names(&matches), ["epoch_hook", "misses", "publish"], "of another rack");
    matches.on_samples(later, &miss, &r7);
    matches.on_samples(later, &series("publish", &[("a", "b")]), &r8);
    assert_eq!(names(&matches), ["epoch_hook"]);
}

#[test]
fn where_nothing_comes_no_budget_is_unmatched() {
    let mut matches = UnmatchedBudgets::new(&effective(&["[[budget]]\nname = 'publish'"]).unwrap());
    assert_eq!(names(&matches), [""; 0]);
    matches.on_samples(Mono(0), &series("o", &[]), &Labels::default());
    assert_eq!(names(&matches), [""; 0]);
}

#[test]
fn a_built_in_budget_of_an_operation_that_a_mesh_lacks_is_not_unmatched() {
    let mut matches = UnmatchedBudgets::new(&effective(&[]).unwrap());
    matches.on_samples(Mono(0), &series("o", &[]), &Labels::default());
    matches.on_samples(Mono(0).plus(UNMATCHED_AFTER), &series("o", &[]), &Labels::default());
    assert_eq!(names(&matches), [""; 0]);
}

#[test]
fn what_nodes_take_of_themselves_passes_no_budget_by() {
    let mut matches =
        UnmatchedBudgets::new(&effective(&["[[budget]]\nname = 'epoch_hook'"]).unwrap());
    for at in [Mono(0), Mono(0).plus(UNMATCHED_AFTER)] {
        matches.on_samples(at, &series("publish", &[]), &Labels::default());
    }
    assert_eq!(names(&matches), [""; 0], "no job has sent anything");
}
