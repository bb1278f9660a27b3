//! Posts to those who are told of alerts: from the core to their tasks, and answers back.

use bytes::Bytes;
use plimsoll_bus::Aside;
use plimsoll_schemas::subject::undelivered_subject;
use plimsoll_schemas::time::Now;

use super::Driver;
use crate::core::alerting::Answer;

impl Driver {
    /// Hands out every post that is due, and says on the bus what was given up.
    pub(super) fn post_notices(&mut self, now: Now) {
        while let Some(post) = self.core.next_post(now) {
            let receiver = post.receiver.clone();
            if !self.notifier.post(post) {
                self.core.on_answer(now, &receiver, Answer::Failed("task", None));
            }
        }
        if self.delivery.is_none() {
            return;
        }
        while let Some(undelivered) = self.core.next_unsaid() {
            let (receiver, reason) = (&undelivered.receiver, &undelivered.reason);
            let alert = undelivered.key.to_string();
            tracing::warn!(receiver, %reason, alert, "a notice was given up");
            let payload = Bytes::from(serde_json::to_vec(&undelivered).unwrap_or_default());
            let subject = undelivered_subject(&self.mesh);
            // It is kept to be shown too, whatever becomes of this.
            drop(self.bus.tell(Aside { subject, headers: Vec::new(), payload }));
        }
    }

    pub(super) fn on_answer(&mut self, receiver: &str, answer: Answer) {
        self.core.on_answer(self.clock.now(), receiver, answer);
    }
}
