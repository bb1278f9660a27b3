//! Ids that someone else has used before the node did.

use std::collections::BTreeSet;

use super::*;
use crate::limits::TAKEN_IDS_MAX;

fn seal_secretly(seq: Seq, lane: Lane, draft: Draft) -> SealedMessage {
    let subject = "plimsoll.v1.m.normal.n.latency".to_owned();
    SealedMessage { subject, nonce: MessageNonce([7; 16]), ..seal(seq, lane, draft) }
}

fn send_secretly(outbox: &mut Outbox, now: Mono) -> Vec<Publish> {
    std::iter::from_fn(|| outbox.next_publish(now, seal_secretly)).collect()
}

fn sending(messages: u64) -> (Outbox, Vec<Publish>) {
    let mut outbox = filled(bounds(), messages);
    outbox.on_connected();
    let sent = send_secretly(&mut outbox, at(0));
    (outbox, sent)
}

#[test]
fn a_duplicate_of_what_was_never_sent_is_sent_again_at_once_under_another_id() {
    let (mut outbox, sent) = sending(1);
    assert_eq!(outbox.on_duplicate(at(1), sent[0].ticket), None);
    let stats = outbox.stats();
    assert_eq!((stats.taken_ids, stats.published, outbox.depth()), (1, 0, 1));
    let again = send_secretly(&mut outbox, at(1));
    assert_eq!((again.len(), &again[0].payload), (1, &sent[0].payload));
    assert_ne!(again[0].message_id, sent[0].message_id);
    assert_eq!(outbox.on_acknowledged(at(1), again[0].ticket), Some(Mono(7)));
    assert_eq!((outbox.stats().published, outbox.depth()), (1, 0));
}

#[test]
fn a_duplicate_of_what_may_have_arrived_is_an_acknowledgement() {
    let (mut outbox, sent) = sending(1);
    outbox.on_connected();
    let again = send_secretly(&mut outbox, at(1));
    assert_eq!(again[0].message_id, sent[0].message_id, "a stream recognises the repetition");
    assert_eq!(outbox.on_duplicate(at(1), again[0].ticket), Some(Mono(7)));
    assert_eq!((outbox.stats().taken_ids, outbox.stats().published), (0, 1));
}

#[test]
fn a_duplicate_of_what_a_former_incarnation_held_is_an_acknowledgement() {
    let mut outbox = Outbox::new(Incarnation(2), bounds());
    outbox.adopt(at(0), seal_secretly(Seq(3), Lane::Normal, latency(5)));
    outbox.on_connected();
    let sent = send_secretly(&mut outbox, at(0));
    assert!(outbox.on_duplicate(at(1), sent[0].ticket).is_some());
    assert_eq!((outbox.stats().taken_ids, outbox.stats().published), (0, 1));
}

#[test]
fn a_broker_that_calls_everything_a_duplicate_causes_no_loop() {
    let (mut outbox, mut sent) = sending(1);
    let mut ids = BTreeSet::new();
    for _ in 0..=TAKEN_IDS_MAX {
        assert_eq!((sent.len(), outbox.stats().published), (1, 0));
        assert!(ids.insert(sent[0].message_id.clone()), "{ids:?}");
        outbox.on_duplicate(at(1), sent[0].ticket);
        sent = send_secretly(&mut outbox, at(1));
    }
    // From here on it is for the aggregator to state that it has the message.
    let stats = outbox.stats();
    assert_eq!((sent.len(), stats.published, stats.unconfirmed), (0, 1, 1));
    assert_eq!(stats.taken_ids, u64::from(TAKEN_IDS_MAX));
}

#[test]
fn a_resend_whose_id_is_taken_is_sent_again_at_once() {
    let (mut outbox, sent) = sending(2);
    for sent in &sent {
        let _next_attempt = outbox.on_acknowledged(at(0), sent.ticket);
    }
    outbox.on_confirmation(at(6), &confirm(2, 2)).unwrap();
    let resent = send_secretly(&mut outbox, at(6));
    assert_eq!(resent.len(), 1);
    assert_eq!(outbox.on_duplicate(at(6), resent[0].ticket), None);
    let again = send_secretly(&mut outbox, at(6));
    assert_eq!(again.len(), 1);
    assert_ne!(again[0].message_id, resent[0].message_id);
    assert_eq!(outbox.stats().taken_ids, 1);
}
