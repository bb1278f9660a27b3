//! Budgets that have too few samples, on their own interface.

use super::*;
use crate::core::Core;
use crate::core::tests::{MS, SECOND, Speaker, core, deliver, start};

/// The budget of a core that was sent a sample of this many milliseconds at each of these minutes,
/// observed once a minute; by minute what is returned as new.
fn minutes(samples: &[(u32, u64)], until: u32) -> (Core, Vec<(u32, Vec<String>)>) {
    let (mut core, mut speaker) = (core(), Speaker::new("a"));
    let mut budgets = InsufficientBudgets::default();
    let mut news = Vec::new();
    for minute in 0..until {
        let now = start().after(SECOND * 60 * minute);
        for (_, ms) in samples.iter().filter(|(at, _)| *at == minute) {
            deliver(&mut core, now, &speaker.send(now, ms * MS, 1));
        }
        budgets.observe(now.wall, &core.fleet, &core.rules().budgets);
        let next = budgets.next();
        if !next.is_empty() {
            news.push((minute, next.iter().map(RuleName::to_string).collect()));
        }
    }
    (core, news)
}

#[test]
fn too_few_samples_over_the_limit_are_reported_once_after_fifteen_minutes() {
    let (_, news) = minutes(&[(1, 30), (20, 30)], 60);
    assert_eq!(news, [(16, vec!["epoch_hook".to_owned()])]);
}

#[test]
fn samples_within_the_limit_and_enough_samples_are_not_reported() {
    assert_eq!(minutes(&[(1, 5), (12, 5)], 40).1, []);
    assert_eq!(minutes(&[(1, 30), (5, 30), (9, 30)], 35).1, []);
}

#[test]
fn it_begins_anew_after_a_pause() {
    let (_, news) = minutes(&[(1, 30), (100, 30)], 140);
    let at: Vec<u32> = news.iter().map(|(minute, _)| *minute).collect();
    assert_eq!(at, [16, 115]);
}
