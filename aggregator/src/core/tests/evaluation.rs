//! Rules are judged elsewhere while messages are merged.

use plimsoll_schemas::alert::Evidence;

use super::*;

/// A core with 60 samples over the limit, and the evaluation of them that has begun.
fn begun(speaker: &mut Speaker) -> (Core, Now, Evaluation) {
    let (mut core, now) = (core(), start().after(SECOND));
    deliver(&mut core, now, &speaker.send(now, 30 * MS, 60));
    let evaluation = core.begin_evaluation(now).expect("a second is over");
    (core, now, evaluation)
}

fn notified(core: &mut Core, now: Now) -> Vec<(AlertState, u64)> {
    let mut notified = Vec::new();
    while let Some(DueNotification { token, notification, .. }) =
        core.notifications().next_due(now.mono)
    {
        let Evidence::Latency(evidence) = &notification.evidence else { panic!("no samples") };
        notified.push((notification.state, evidence.samples));
        core.notifications().on_delivered(token);
    }
    notified
}

#[test]
fn an_evaluation_is_of_the_time_at_which_it_began() {
    let mut speaker = Speaker::new("slow");
    let (mut core, now, evaluation) = begun(&mut speaker);
    deliver(&mut core, now, &speaker.send(now, MS, 60_000));
    let next = now.after(2 * SECOND);
    assert!(core.begin_evaluation(next).is_none(), "one at a time");
    assert_eq!(core.next_deadline(), Mono(u64::MAX));
    core.on_judged(next, evaluation.judge());
    // The node and the fleet, without what came meanwhile.
    assert_eq!(notified(&mut core, next), [(AlertState::Pending, 60); 2]);
    assert_eq!(fleet_row(&core, next).total.count, 60_060);
    core.on_deadline(next);
    assert_eq!(notified(&mut core, next), [(AlertState::Inactive, 60_060); 2]);
}

#[test]
fn findings_by_replaced_rules_move_no_alert() {
    let (mut core, now, evaluation) = begun(&mut Speaker::new("slow"));
    let mut rules = core.rules().clone();
    rules.budgets.iter_mut().for_each(|budget| budget.limit_ns = 1_000 * MS);
    core.reload(now, rules);
    core.on_judged(now, evaluation.judge());
    assert_eq!(notified(&mut core, now), []);
    assert_eq!(core.alerting.alerts.active().count(), 0);
}
