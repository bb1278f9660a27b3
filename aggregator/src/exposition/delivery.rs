//! What the aggregator says of those whom it tells of alerts; nothing where there are none.

use std::collections::BTreeMap;

use super::writer::{Family, Value, Writer};
use crate::core::alerting::{ReceiverCounts, ReceiverStats};
use crate::core::view::View;
use std::borrow::Cow;

/// Counters begin at 0, so that the first loss is an increase.
const OUTCOMES: [&str; 4] = ["delivered", "superseded", "suppressed", "undelivered"];
const REASONS: [&str; 5] = ["attempts", "no_room", "queue_full", "refused", "too_old"];
const POSTS: [&str; 1] = ["taken"];

/// A table of one tally: its family, help and label, and the values that are always shown.
type Table = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    fn(&ReceiverCounts) -> &BTreeMap<Cow<'static, str>, u64>,
);

const TABLES: [Table; 3] = [
    (
        "plimsoll_notices_total",
        "Notices for a receiver by outcome: told, overtaken by a newer state before that, kept \
         back by a silence or an acknowledgement, or given up",
        "outcome",
        &OUTCOMES,
        |tally| &tally.outcomes,
    ),
    (
        "plimsoll_notices_given_up_total",
        "Notices that a receiver will not hear of, by reason",
        "reason",
        &REASONS,
        |tally| &tally.undelivered,
    ),
    (
        "plimsoll_notice_posts_total",
        "Posts to a receiver, by how they ended",
        "result",
        &POSTS,
        |tally| &tally.posts,
    ),
];

/// All families about receivers.
pub(super) fn write(writer: &mut Writer, view: &View) {
    let receivers = &view.receivers;
    if receivers.is_empty() {
        return;
    }
    for (name, help, key, always, of) in TABLES {
        writer.family(Family::counter(name, help), |rows| {
            for receiver in receivers {
                let shown = always.iter().map(|word| (*word, 0));
                let counted = of(&receiver.tally).iter().map(|(word, n)| (word.as_ref(), *n));
                for (word, n) in shown.chain(counted).collect::<BTreeMap<&str, u64>>() {
                    let labels = rows.labels([("receiver", receiver.name.as_str()), (key, word)]);
                    rows.add(&[&labels], Value::Count(n));
                }
            }
        });
    }
    let mut gauge = |name, help, of: fn(&ReceiverStats, &View) -> Option<Value>| {
        writer.family(Family::gauge(name, help), |rows| {
            for receiver in receivers {
                if let Some(value) = of(receiver, view) {
                    rows.add(&[&rows.labels([("receiver", receiver.name.as_str())])], value);
                }
            }
        });
    };
    let help = "Notices that a receiver has still to be told";
    gauge("plimsoll_notices_waiting", help, |of, _| Some(Value::Count(of.waits.notices)));
    let help = "Time since the oldest of these is known; 0 when there is none";
    gauge("plimsoll_notices_oldest_age_seconds", help, |of, view| {
        let age = of.waits.oldest.map(|oldest| view.at.since(oldest).as_nanos());
        Some(Value::Nanos(age.unwrap_or_default()))
    });
    let help = "When a receiver last took a post";
    gauge("plimsoll_notice_last_success_timestamp_seconds", help, |of, _| {
        of.tally.last_success.map(|at| Value::nanos(at.0))
    });
}
