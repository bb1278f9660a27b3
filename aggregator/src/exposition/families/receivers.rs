//! Receivers of notifications (Alertmanagers and webhooks): outcomes, posts and queues. Nothing is
//! written when none is configured.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::core::alerting::{ReceiverCounts, ReceiverStats};
use crate::core::view::View;
use crate::exposition::writer::{Family, Value, Writer};

/// Label values whose counters start at 0, so that the first loss is an increase.
const OUTCOMES: [&str; 4] = ["delivered", "superseded", "suppressed", "undeliverable"];
const REASONS: [&str; 5] = ["attempts", "no_room", "queue_full", "refused", "too_old"];
const POSTS: [&str; 1] = ["taken"];

/// A counter by one label: name, help, label key, label values that are always written, counts.
type CounterByLabel = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    fn(&ReceiverCounts) -> &BTreeMap<Cow<'static, str>, u64>,
);

const COUNTERS: [CounterByLabel; 3] = [
    (
        "plimsoll_notifications_total",
        "Notifications for a receiver, by outcome: delivered, superseded by a newer state, \
         suppressed by a silence or an acknowledgement, or undeliverable",
        "outcome",
        &OUTCOMES,
        |tally| &tally.outcomes,
    ),
    (
        "plimsoll_notifications_undeliverable_total",
        "Undeliverable notifications for a receiver, by reason",
        "reason",
        &REASONS,
        |tally| &tally.undeliverable,
    ),
    (
        "plimsoll_notification_posts_total",
        "HTTP posts to a receiver, by result",
        "result",
        &POSTS,
        |tally| &tally.posts,
    ),
];

pub(super) fn write(writer: &mut Writer, view: &View) {
    let receivers = &view.own.receivers;
    if receivers.is_empty() {
        return;
    }

    for (name, help, key, always, of) in COUNTERS {
        writer.family(Family::counter(name, help), |rows| {
            for receiver in receivers {
                let zeros = always.iter().map(|word| (*word, 0));
                let counted = of(&receiver.tally).iter().map(|(word, n)| (word.as_ref(), *n));
                for (word, n) in zeros.chain(counted).collect::<BTreeMap<&str, u64>>() {
                    let labels = rows.labels([("receiver", receiver.name.as_str()), (key, word)]);
                    rows.add(&[&labels], n.into());
                }
            }
        });
    }

    let help = "Notifications queued for a receiver";
    let queued = receivers.iter().map(|of| (of.name.as_str(), of.waits.notifications));
    writer.by_label(Family::gauge("plimsoll_notifications_queued", help), "receiver", queued);
    let help = "Age of the oldest notification queued for a receiver; 0 without any";
    let age = |of: &ReceiverStats| of.waits.oldest.map(|oldest| view.at.since(oldest));
    let ages = receivers.iter().map(|of| (of.name.as_str(), age(of).unwrap_or_default()));
    let family = Family::gauge("plimsoll_notification_oldest_age_seconds", help);
    writer.by_label(family, "receiver", ages);
    let help = "Time of the last successful post to a receiver";
    let last = |of: &ReceiverStats| of.tally.last_success.map(|at| Value::nanos(at.0));
    let last = receivers.iter().filter_map(|of| Some((of.name.as_str(), last(of)?)));
    let family = Family::gauge("plimsoll_notification_last_success_timestamp_seconds", help);
    writer.by_label(family, "receiver", last);
}
