//! The event `latency_high`: said on the bus each time that a budget's alert begins anew, which is
//! before anybody is alarmed. Bounded and counted as notices are; a restart forgets those on
//! their way.

use plimsoll_schemas::alert::{AlertKey, AlertState, Evidence, LatencyHigh};
use plimsoll_schemas::time::{Wall, seconds};

use super::Core;
use super::alert::Change;
use super::notices::Notices;

/// Tokens of events, which none of a notice reaches.
pub(super) const TOKENS_FROM: u64 = 1 << 63;

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
        if let Some(found) = evidence.latency().filter(|_| begins) {
            let event = LatencyHigh::new(self.mesh.clone(), key.clone(), seconds(at.0), found);
            self.overruns.push(event);
        }
    }

    /// Events on their way to the bus.
    pub fn overruns(&mut self) -> &mut Notices<LatencyHigh> {
        &mut self.overruns
    }

    /// The broker has what bears this token.
    pub fn on_delivered(&mut self, token: u64) {
        self.notices.on_delivered(token);
        self.overruns.on_delivered(token);
    }

    /// The broker will never take what bears this token.
    pub fn on_refused(&mut self, token: u64) {
        self.notices.on_refused(token);
        self.overruns.on_refused(token);
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
            while let Some(due) = core.overruns().next_due(now.mono) {
                core.on_delivered(due.token);
                let Scope::Node(_) = due.notice.scope else { continue };
                said.push((second, due.notice));
            }
        }
        let [(10, first), (50, _)] = &said[..] else { panic!("{said:?}") };
        let text = serde_json::to_value(first).unwrap();
        assert_eq!(text["event"], "latency_high");
        assert_eq!(text["budget"], "epoch_hook");
        assert_eq!(text["scope"]["node"], "slow");
        assert_eq!((&text["limit_seconds"], &text["samples"]), (&0.018.into(), &600.into()));
        assert!(first.value_seconds > 0.029, "{first:?}");
        let counts = NoticeCounts { raised: 4, delivered: 4, undelivered: 0 };
        assert_eq!(core.overruns().counts(), counts);
    }
}
