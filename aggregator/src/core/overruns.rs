//! The event `latency_high`: said on the bus each time that a budget's alert begins anew, which is
//! before anybody is alarmed.

use plimsoll_schemas::alert::{AlertKey, AlertState, Evidence, LatencyHigh};
use plimsoll_schemas::time::{Wall, seconds};

use super::Core;
use super::alert::Change;

impl Core {
    /// An alert has moved for this reason.
    pub(super) fn note_overrun(
        &mut self,
        at: Wall,
        key: &AlertKey,
        change: Change,
        evidence: &Evidence,
    ) {
        let rested = matches!(change.from, AlertState::Inactive | AlertState::Resolved);
        let begins = rested && matches!(change.to, AlertState::Pending | AlertState::Firing);
        if let Some(evidence) = evidence.latency().filter(|_| begins).cloned() {
            let (mesh, key) = (self.mesh.clone(), key.clone());
            let event = LatencyHigh { mesh, key, at_seconds: seconds(at.0), evidence };
            self.notices.push_event(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::alert::Scope;

    use crate::core::notices::NoticeCounts;
    use crate::core::tests::{MS, SECOND, Speaker, core, deliver, start};

    #[test]
    fn an_overrun_is_said_once_each_time_that_an_alert_begins_anew() {
        let (mut core, mut slow, mut now) = (core(), Speaker::new("slow"), start());
        let mut said = Vec::new();
        for second in 0..60 {
            now = now.after(SECOND);
            let ms = if (10..20).contains(&second) || second >= 50 { 30 } else { 5 };
            deliver(&mut core, now, &slow.say(now, ms * MS, 60));
            core.on_deadline(now);
            while let Some((token, event)) = core.notices().next_event_due(now.mono) {
                core.notices().on_delivered(token);
                if matches!(event.key.scope, Scope::Node(_)) {
                    said.push((second, event));
                }
            }
        }
        let [(10, first), (50, _)] = &said[..] else { panic!("{said:?}") };
        let text = serde_json::to_value(first).unwrap();
        assert_eq!(text["event"], "latency_high");
        assert_eq!(text["rule"], "epoch_hook");
        assert_eq!(text["scope"]["node"], "slow");
        let found = &text["evidence"];
        assert_eq!((&found["limit_seconds"], &found["samples"]), (&0.018.into(), &600.into()));
        assert!(first.evidence.value_seconds > 0.029, "{first:?}");
        let counts = NoticeCounts { raised: 4, delivered: 4, undelivered: 0 };
        assert_eq!(core.notices().event_counts(), counts);
    }
}
