//! Whether messages are delivered within their budget again: by what was merged since the latest
//! look, since the budget's own window holds what waited during the outage too.
//!
//! DESIGN D32.

use std::time::Duration;

use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::own_operations::MESSAGE_DELIVERY;
use plimsoll_schemas::summary::Summary;

use crate::live::expectation::{Expectation, Look, Span};
use crate::live::rig::{Rig, look};

/// How long after an outage deliveries may still be late.
const DELIVER_WAIT: Duration = Duration::from_secs(10);
/// Messages that show it: some seconds of three nodes.
const MESSAGES_MIN: u64 = 9;
/// The budget is a p95: of this many messages one may be late.
const ONE_LATE_IN: u64 = 20;

/// The deliveries that a look compares with: all so far, and those of them over the limit.
#[derive(Debug, Default)]
struct Deliveries {
    before: Option<(u64, u64)>,
}

impl Deliveries {
    /// Of enough messages since this was last met with enough, how many were late.
    fn look(&mut self, now: Option<(u64, u64)>) -> Look {
        let Some((all, over)) = now else { return Look::new(false, "nothing delivered") };
        let (all_before, over_before) = *self.before.get_or_insert((all, over));
        let (news, late) = (all.saturating_sub(all_before), over.saturating_sub(over_before));
        if news >= MESSAGES_MIN {
            self.before = now;
        }
        let met = news >= MESSAGES_MIN && late <= news / ONE_LATE_IN;
        Look::new(met, format!("{late} of {news} messages late"))
    }
}

fn delivered(summary: &Summary) -> Option<(u64, u64)> {
    let of = |budget: &str, scope: &Scope| budget == MESSAGE_DELIVERY && *scope == Scope::Fleet;
    summary.budgets.iter().find(|row| of(&row.budget, &row.scope))?.since_limit
}

impl Rig {
    /// Waits until messages are delivered within their budget, after an outage that ended at
    /// `since`.
    pub(super) async fn expect_delivery(&mut self, since: Duration) {
        let expectation = Expectation::new(
            "delivers",
            format!(
                "messages are delivered within their budget {} s later",
                DELIVER_WAIT.as_secs()
            ),
        );
        let mut deliveries = Deliveries::default();
        let look = async || look(&self.stack, |summary| deliveries.look(delivered(summary))).await;
        self.drill.expect(expectation, Span { since, within: DELIVER_WAIT }, look).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_is_late_and_what_follows_it_is_judged_by_itself() {
        let mut deliveries = Deliveries::default();
        for (now, met, seen) in [
            (None, false, "nothing delivered"),
            (Some((100, 0)), false, "0 of 0 messages late"),
            (Some((108, 0)), false, "0 of 8 messages late"),
            (Some((140, 30)), false, "30 of 40 messages late"),
            (Some((149, 31)), false, "1 of 9 messages late"),
            (Some((155, 31)), false, "0 of 6 messages late"),
            (Some((158, 31)), true, "0 of 9 messages late"),
            (Some((178, 32)), true, "1 of 20 messages late"),
        ] {
            let look = deliveries.look(now);
            assert_eq!((look.met, look.seen.as_str()), (met, seen), "{now:?}");
        }
    }
}
