//! Ends: each receiver of a begin is sent the end, late if need be, and no other receiver is.

use crate::limits::notifications::OWED_AGE_MAX;

use super::*;

/// All notifications that are sent when each post is accepted.
fn all_sent(hook: &mut Deliveries, now: Now) -> Vec<(String, AlertState)> {
    let mut got = Vec::new();
    while let Some(next) = hooked(hook, now) {
        got.push(next);
        hook.on_answer(now, "hook", Answer::Taken);
    }
    got
}

fn notified_of(node: &str) -> Deliveries {
    let mut hook = deliveries(vec![webhook()]);
    hook.on_notification(&notification(start(), node, Firing));
    assert_eq!(all_sent(&mut hook, start()), [(node.to_owned(), Firing)]);
    hook
}

#[test]
fn an_end_goes_to_each_notified_receiver_whatever_its_present_routes() {
    let critical = Receiver { severity_min: Severity::Critical, ..webhook() };
    let mut hook = deliveries(vec![critical]);
    let bad = Notification { severity: Severity::Critical, ..notification(start(), "a", Firing) };
    hook.on_notification(&bad);
    assert_eq!(all_sent(&mut hook, start()), [("a".to_owned(), Firing)]);
    let routes = vec!["other".to_owned()];
    hook.on_notification(&Notification { routes, ..notification(start(), "a", Resolved) });
    hook.on_notification(&Notification {
        severity: Severity::Critical,
        ..notification(start(), "b", Resolved)
    });
    assert_eq!(all_sent(&mut hook, start()), [("a".to_owned(), Resolved)]);
}

#[test]
fn a_webhook_without_ends_receives_no_begin_that_is_over() {
    let kind = ReceiverKind::Webhook { resolved: false, acknowledged: false };
    let mut hook = deliveries(vec![receiver("hook", kind)]);
    hook.on_notification(&notification(start(), "a", Firing));
    hook.on_notification(&notification(start(), "a", Resolved));
    assert_eq!(all_sent(&mut hook, start()), []);
    // Nor is it sent if the post was under way as the alert ended.
    hook.on_notification(&notification(start(), "b", Firing));
    assert!(hooked(&mut hook, start()).is_some());
    hook.on_notification(&notification(start(), "b", Resolved));
    hook.on_answer(start(), "hook", Answer::Failed("timeout", None));
    assert_eq!(all_sent(&mut hook, start().after(RESEND)), []);
    assert_eq!((count(&hook, "superseded"), hook.stats()[0].waits.notifications), (2, 0));
    assert!(hook.states["hook"].queue.is_drained());
}

#[test]
fn an_owed_end_is_retried_slowly_for_a_day_after_undeliverable() {
    for answer in [Answer::of_status(404, None), Answer::of_status(503, None)] {
        let (mut hook, mut now) = (notified_of("a"), start());
        hook.on_notification(&notification(now, "a", Resolved));
        let mut tries = 0;
        while hooked(&mut hook, now).is_some() {
            tries += 1;
            hook.on_answer(now, "hook", answer);
            now = now.after(RESEND);
        }
        assert_eq!(tries, if answer == Answer::of_status(404, None) { 1 } else { ATTEMPTS_MAX });
        assert_eq!((count(&hook, "undeliverable"), hook.is_settled()), (0, true));
        assert_eq!(hook.stats()[0].waits.notifications, 1);
        now = now.after(OWED_RETRY_EVERY);
        assert_eq!(hooked(&mut hook, now), Some(("a".to_owned(), Resolved)));
        hook.on_answer(now, "hook", answer);
        let mut taken = hook.clone();
        let later = now.after(OWED_RETRY_EVERY);
        assert_eq!(all_sent(&mut taken, later), [("a".to_owned(), Resolved)]);
        assert_eq!(taken.stats()[0].waits.notifications, 0);
        assert_eq!(hooked(&mut hook, now.after(OWED_AGE_MAX)), None);
        assert_eq!((count(&hook, "undeliverable"), hook.undeliverable().count()), (1, 1));
        assert!(hook.states["hook"].queue.is_drained());
    }
}

#[test]
fn an_alert_that_fires_again_replaces_an_undeliverable_end() {
    let mut hook = notified_of("a");
    hook.on_notification(&notification(start(), "a", Resolved));
    assert!(hooked(&mut hook, start()).is_some());
    hook.on_answer(start(), "hook", Answer::of_status(404, None));
    hook.on_notification(&notification(start(), "a", Firing));
    assert_eq!(all_sent(&mut hook, start()), [("a".to_owned(), Firing)]);
    assert_eq!((count(&hook, "superseded"), hook.stats()[0].waits.notifications), (1, 0));
}

#[test]
fn a_begin_possibly_received_is_followed_by_its_end_and_an_unreceived_one_is_not() {
    let got = |why| {
        let mut hook = deliveries(vec![webhook()]);
        hook.on_notification(&notification(start(), "a", Firing));
        assert!(hooked(&mut hook, start()).is_some());
        hook.on_answer(start(), "hook", Answer::Failed(why, None));
        hook.on_notification(&notification(start(), "a", Resolved));
        all_sent(&mut hook, start().after(RESEND))
    };
    assert_eq!(got("timeout"), [("a".to_owned(), Resolved)]);
    assert_eq!(got("connect"), []);
}

#[test]
fn where_there_is_no_room_begins_of_nodes_go_and_neither_the_fleets_nor_ends() {
    let mut hook = notified_of("owed");
    hook.on_notification(&notification(start(), "owed", Resolved));
    let fleet =
        |of: Notification| Notification { key: AlertKey { scope: Scope::Fleet, ..of.key }, ..of };
    hook.on_notification(&notification(start(), "first", Firing));
    hook.on_notification(&fleet(notification(start(), "any", Firing)));
    for number in 1..NOTIFICATIONS_WAITING_MAX {
        hook.on_notification(&notification(start(), &format!("n{number}"), Firing));
    }
    let pushed_out: Vec<_> = hook.undeliverable().map(|of| of.key.scope.node()).collect();
    assert_eq!(pushed_out, ["first"]);
    let got = all_sent(&mut hook, start());
    assert_eq!(got[0], (String::new(), Firing), "the fleet's first");
    assert_eq!(got[1], ("owed".to_owned(), Resolved));
    assert_eq!(got.len(), NOTIFICATIONS_WAITING_MAX + 1);
}
