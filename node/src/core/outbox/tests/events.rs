//! Events on their way through an outbox: each leaves at most once, and none unnamed.

use proptest::prelude::*;

use super::draft::tests::events::{draft, numbers};
use super::*;

/// Sends all that may be sent; returns the numbers of the events in it.
fn send_events(outbox: &mut Outbox, now: Mono) -> Vec<u64> {
    let mut sent = Vec::new();
    let mut numbered = |seq, lane, draft: Draft| {
        if draft.events() > 0 {
            sent.extend(numbers(&draft));
        }
        seal(seq, lane, draft)
    };
    while let Some(publish) = outbox.next_publish(now, &mut numbered) {
        outbox.on_acknowledged(now, publish.ticket);
    }
    sent
}

#[test]
fn waiting_events_become_one_message_and_state_or_samples_never_take_their_place() {
    let bounds = OutboxBounds { coalesce_messages: 3, ..OutboxBounds::default() };
    let mut outbox = Outbox::new(Incarnation(1), bounds);
    for n in 0..9 {
        outbox.try_push(Mono(0), draft(2 * n..2 * n + 2)).unwrap();
        outbox.try_push(Mono(0), state(n % 2 == 0)).unwrap();
        outbox.try_push(Mono(0), latency(1)).unwrap();
    }
    assert!(outbox.messages() <= 4, "{}", outbox.messages());
    assert_eq!((outbox.samples(), outbox.events_lost().len()), (9, 0));
    outbox.on_connected();
    assert_eq!(send_events(&mut outbox, Mono(1)), (0..18).collect::<Vec<_>>());
}

#[test]
fn events_for_which_there_is_no_room_are_counted_by_reason() {
    let bounds = OutboxBounds { coalesce_messages: 1, ttl: Some(5 * SECOND), ..bounds() };
    let mut outbox = Outbox::new(Incarnation(1), bounds);
    for n in 0..3 {
        outbox.try_push(Mono(0), draft(200 * n..200 * (n + 1))).unwrap();
    }
    assert_eq!(outbox.events_lost(), &BTreeMap::from([("message_full", 600 - 256)]));
    assert!(outbox.expire(at(9)).is_some());
    assert_eq!(outbox.events_lost()["expired"], 256);
    let thresholds = Thresholds { bytes_max: 3_500, ..thresholds() };
    let bounds = OutboxBounds { thresholds, ..OutboxBounds::default() };
    let mut outbox = Outbox::new(Incarnation(1), bounds);
    assert_eq!(outbox.try_push(Mono(0), draft(0..20)).map_err(|back| back.events()), Ok(()));
    assert_eq!(outbox.try_push(Mono(0), draft(20..40)).map_err(|back| back.events()), Err(20));
    assert_eq!(outbox.events_lost(), &BTreeMap::from([("outbox_full", 20)]));
}

proptest! {
    #[test]
    fn every_event_is_sent_once_held_or_lost(
        pushes in prop::collection::vec((0..5_u8, 0..256_u64, 0..9_u64), 1..80),
        coalesce_messages in 1..40_usize,
        bytes_max in 5_000..400_000_usize,
    ) {
        let bounds = OutboxBounds {
            coalesce_messages, coalesce_bytes: bytes_max / 2,
            thresholds: Thresholds { bytes_max, ..bounds().thresholds },
            ttl: Some(3 * SECOND), ..bounds()
        };
        let mut outbox = Outbox::new(Incarnation(1), bounds);
        let (mut pushed, mut sent) = (0, Vec::new());
        for (second, (kind, events, what)) in (0..).zip(pushes) {
            let now = at(second);
            let waiting = match kind {
                0 => latency(events),
                1 => state(events % 2 == 0),
                _ => {
                    pushed += events;
                    draft(pushed - events..pushed)
                }
            };
            // The counter of what is returned is what this test checks.
            let _taken = outbox.try_push(now, waiting);
            match what {
                0 => outbox.on_connected(),
                1 => outbox.on_disconnected(),
                2 => while outbox.expire(now).is_some() {},
                _ => sent.extend(send_events(&mut outbox, now)),
            }
            let held: u64 = outbox.drafts().map(|held| held.draft.events()).sum();
            let lost: u64 = outbox.events_lost().values().sum();
            prop_assert_eq!(sent.len() as u64 + held + lost, pushed);
            prop_assert!(outbox.stats().outbox_bytes <= bytes_max as u64);
        }
        let count = sent.len();
        sent.sort_unstable();
        sent.dedup();
        prop_assert_eq!(sent.len(), count, "an event was sent twice");
    }
}
