//! The event `latency_high`, from samples to the bus.

use plimsoll_schemas::alert::Scope;

use super::*;

#[test]
fn latency_high_is_sent_once_each_time_an_alert_begins() {
    let (mut core, mut slow, mut now) = (core(), Speaker::new("slow"), start());
    let mut sent = Vec::new();
    for second in 0..60 {
        now = now.after(SECOND);
        let ms = if (10..20).contains(&second) || second >= 50 { 30 } else { 5 };
        deliver(&mut core, now, &slow.send(now, ms * MS, 60));
        core.on_deadline(now);
        while let Some((token, event)) = core.notifications().next_event_due(now.mono) {
            core.notifications().on_delivered(token);
            let Scope::Node(_) = event.key.scope else { continue };
            sent.push((second, event));
        }
    }
    let [(10, first), (50, _)] = &sent[..] else { panic!("{sent:?}") };
    let text = serde_json::to_value(first).unwrap();
    assert_eq!((&text["event"], &text["rule"]), (&"latency_high".into(), &"epoch_hook".into()));
    assert_eq!(text["scope"]["node"], "slow");
    assert_eq!((first.evidence.limit_seconds, first.evidence.samples), (0.018, 660));
}
