//! Posts to receivers as part of the whole core.

use std::time::Duration;

use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Now, nanos};

use super::*;
use crate::core::alerting::Body as PostBody;
use crate::core::tests::checkpoint::restarted;

fn alertmanager() -> Receiver {
    let kind = ReceiverKind::Alertmanager { resend_every: Duration::from_secs(60) };
    Receiver { name: "am".into(), kind, severity_min: Severity::Info }
}

fn alerts(core: &mut Core, now: Now) -> usize {
    let Some(Post { body: PostBody::Alerts(json), .. }) = core.next_post(now) else { return 0 };
    let alerts: Vec<serde_json::Value> = serde_json::from_slice(&json).unwrap();
    alerts.len()
}

#[test]
fn a_new_receiver_is_sent_firing_alerts_and_the_delay_is_an_operation() {
    let (mut core, mut slow, mut now) = (core(), Speaker::new("slow"), start());
    for _ in 0..8 {
        now = now.after(SECOND);
        deliver(&mut core, now, &slow.send(now, 30 * MS, 60));
        core.on_deadline(now);
    }
    assert_eq!(alerts(&mut core, now), 0);
    let mut core = restarted(&mut core, now).with_receivers(now, vec![alertmanager()], 1);
    assert_eq!(alerts(&mut core, now), 2);
    core.on_answer(now, "am", Answer::Taken);
    Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));

    // The delivery latency of changes as they happen is recorded, and in no ledger entry.
    let ledger = core.view(now.wall, "test").summary.ledger;
    for _ in 0..40 {
        now = now.after(SECOND);
        deliver(&mut core, now, &slow.send(now, 5 * MS, 60));
        core.on_deadline(now);
    }
    assert_eq!(alerts(&mut core, now), 2);
    core.on_answer(now.after(SECOND), "am", Answer::Taken);
    let operation = Operation::new(NOTIFICATION_DELIVERY).unwrap();
    let sent = core.fleet.operations().get(&operation).unwrap().total_exact();
    // Two beginnings and two ends.
    assert_eq!(sent.count, 4);
    assert!(sent.max_ns >= nanos(SECOND), "{sent:?}");
    let after = core.view(now.wall, "test").summary.ledger;
    assert_eq!(after.merged, ledger.merged + 40 * 60);
}
