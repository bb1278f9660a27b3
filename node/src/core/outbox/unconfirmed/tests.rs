//! Copies rule by rule, and against a naive model under random schedules.

use bytes::Bytes;
use plimsoll_schemas::ids::{Incarnation, NodeName, Seq};
use plimsoll_schemas::limits::delivery::ACK_WAIT;
use plimsoll_schemas::time::Wall;
use proptest::prelude::*;

use super::*;
use crate::core::outbox::MessageNonce;

const BOUNDS: UnconfirmedBounds = UnconfirmedBounds { messages: 8, bytes: 1_000, required: 1 };

fn sealed(seq: u64) -> SealedMessage {
    SealedMessage {
        incarnation: Incarnation(1),
        seq: Seq(seq),
        lane: Lane::Normal,
        subject: "plimsoll.v1.m.normal.n.latency".to_owned(),
        payload: Bytes::from_static(&[7; 10]),
        samples: seq,
        own_samples: 0,
        produced: 1,
        last: false,
        sealed_at: Wall(1),
        nonce: MessageNonce::default(),
    }
}

fn at(seconds: u64) -> Mono {
    Mono(0).plus(Duration::from_secs(seconds))
}

fn holding(seqs: std::ops::RangeInclusive<u64>) -> Unconfirmed {
    let mut unconfirmed = Unconfirmed::new(BOUNDS);
    seqs.for_each(|seq| unconfirmed.insert(at(0), Ticket(seq), sealed(seq), false));
    unconfirmed
}

fn confirm(behind: bool, spans: &[(u64, u64)]) -> Confirmation {
    let spans = spans.iter().map(|(first, last)| (Seq(*first), Seq(*last))).collect();
    let incarnations = vec![ConfirmedIncarnation { incarnation: Incarnation(1), spans }];
    Confirmation { behind, incarnations, ..Confirmation::of(NodeName::new("n").unwrap()) }
}

fn resent(unconfirmed: &mut Unconfirmed, now: Mono) -> Vec<(u64, String)> {
    let mut sent = Vec::new();
    while let Some(ticket) = unconfirmed.waiting(Lane::Normal) {
        sent.push((ticket.0, unconfirmed.send(now, ticket).unwrap().message_id));
    }
    sent
}

#[test]
fn what_is_stored_is_let_go_and_what_is_not_goes_again_under_another_id() {
    let mut unconfirmed = holding(1..=5);
    assert_eq!(unconfirmed.on_confirmation(at(4), &confirm(false, &[(1, 1), (3, 3)])).len(), 2);
    assert_eq!(resent(&mut unconfirmed, at(4)), [], "it may still be on its way to the aggregator");
    unconfirmed.on_confirmation(at(5), &confirm(false, &[(1, 1), (3, 3)]));
    let ids = [(2, "n-1-2-r1".to_owned()), (4, "n-1-4-r1".into()), (5, "n-1-5-r1".into())];
    assert_eq!(resent(&mut unconfirmed, at(5)), ids);
    assert_eq!((unconfirmed.messages(), unconfirmed.samples(), unconfirmed.bytes()), (3, 11, 30));
}

#[test]
fn a_leaving_node_sends_again_at_once_what_a_confirmation_leaves_out() {
    let mut unconfirmed = holding(1..=2);
    unconfirmed.on_leave(at(1));
    unconfirmed.insert(at(2), Ticket(3), sealed(3), false);
    // The checkpoint was taken before the third message was acknowledged.
    let of_1 = Confirmation { age: Duration::from_secs(1), ..confirm(false, &[(2, 2)]) };
    unconfirmed.on_confirmation(at(2), &of_1);
    assert_eq!(resent(&mut unconfirmed, at(2)), [(1, "n-1-1-r1".to_owned())]);
    unconfirmed.on_answered(Ticket(1));
    unconfirmed.on_confirmation(at(3), &confirm(false, &[(2, 2)]));
    assert_eq!(resent(&mut unconfirmed, at(3)), [(3, "n-1-3-r1".to_owned())], "each once");
}

#[test]
fn a_leaving_node_sends_its_newest_message_again_when_nothing_is_confirmed() {
    let mut unconfirmed = holding(1..=3);
    unconfirmed.on_confirmation(at(1), &confirm(true, &[]));
    unconfirmed.on_leave(at(4));
    let probe_at = at(4).plus(LEAVE_PROBE_AFTER);
    assert_eq!(unconfirmed.next_deadline(ACK_WAIT), Some(probe_at));
    unconfirmed.on_deadline(probe_at);
    assert_eq!(resent(&mut unconfirmed, probe_at), [(3, "n-1-3-r1".to_owned())]);
}

#[test]
fn what_was_acknowledged_while_a_checkpoint_was_written_is_not_taken_for_missing() {
    let mut unconfirmed = Unconfirmed::new(BOUNDS);
    // One message each second; the checkpoint is of second 20 and known to be stored at 50.
    (10..=14)
        .for_each(|second| unconfirmed.insert(at(second), Ticket(second), sealed(second), false));
    let of_20 = Confirmation { age: Duration::from_secs(30), ..confirm(false, &[(10, 13)]) };
    (30..=33)
        .for_each(|second| unconfirmed.insert(at(second), Ticket(second), sealed(second), false));
    assert_eq!(unconfirmed.on_confirmation(at(50), &of_20).len(), 4);
    assert_eq!(resent(&mut unconfirmed, at(50)), [(14, "n-1-14-r1".to_owned())]);
    // What was sent again at 50 rests for 10 s, seen from when a checkpoint was taken.
    let of = |second, age| {
        let age = Duration::from_secs(age);
        (at(second), Confirmation { age, ..confirm(false, &[(10, 13), (30, 33)]) })
    };
    for ((now, confirmation), expected) in [(of(80, 21), 0), (of(80, 20), 1)] {
        unconfirmed.on_answered(Ticket(14));
        unconfirmed.on_confirmation(now, &confirmation);
        assert_eq!(resent(&mut unconfirmed, now).len(), expected);
    }
}

#[test]
fn an_aggregator_that_is_behind_is_sent_nothing_again() {
    let mut unconfirmed = holding(1..=5);
    assert_eq!(unconfirmed.on_confirmation(at(60), &confirm(true, &[(1, 3)])).len(), 3);
    assert_eq!(resent(&mut unconfirmed, at(60)), []);
}

#[test]
fn what_is_of_an_incarnation_that_an_aggregator_has_nothing_of_goes_again() {
    let of =
        |incarnation, spans| ConfirmedIncarnation { incarnation: Incarnation(incarnation), spans };
    let confirm = |behind, incarnations| Confirmation { incarnations, ..confirm(behind, &[]) };
    let other = |n| of(n, vec![(Seq(1), Seq(9))]);
    let mut unconfirmed = holding(1..=2);
    unconfirmed.on_confirmation(at(60), &confirm(true, vec![other(2)]));
    assert_eq!(resent(&mut unconfirmed, at(60)), [], "it may still be read");
    unconfirmed.on_confirmation(
        at(60),
        &confirm(false, (2..2 + CONFIRMED_INCARNATIONS_MAX as u64).map(other).collect()),
    );
    assert_eq!(resent(&mut unconfirmed, at(60)), [], "the list may have been cut");
    unconfirmed.on_confirmation(at(60), &confirm(false, vec![other(2)]));
    assert_eq!(resent(&mut unconfirmed, at(60)).len(), 2);
}

#[test]
fn repetitions_come_at_growing_distances() {
    let mut unconfirmed = holding(1..=1);
    let nothing = confirm(false, &[]);
    let mut times = Vec::new();
    for second in 0..400 {
        unconfirmed.on_confirmation(at(second), &nothing);
        if !resent(&mut unconfirmed, at(second)).is_empty() {
            times.push(second);
            assert!(unconfirmed.on_answered(Ticket(1)));
        }
    }
    assert_eq!(times, [5, 15, 35, 75, 155, 315]);
}

#[test]
fn without_confirmations_the_newest_copy_is_resent_at_intervals() {
    let mut unconfirmed = holding(1..=3);
    let mut times = Vec::new();
    for second in 0..600 {
        unconfirmed.on_deadline(at(second));
        for (ticket, _) in resent(&mut unconfirmed, at(second)) {
            times.push((second, ticket));
            unconfirmed.on_answered(Ticket(ticket));
        }
    }
    assert_eq!(times, [(60, 3), (180, 3), (420, 3)]);
}

#[test]
fn at_the_bound_the_oldest_copy_is_let_go_once_its_time_is_over() {
    let mut unconfirmed = holding(1..=7);
    let is_full = |messages, bytes| unconfirmed.is_full(UpcomingCopies { messages, bytes });
    assert!(!is_full(0, 0) && is_full(1, 0) && is_full(0, 930));
    assert_eq!(unconfirmed.evict_oldest(at(9)), None);
    assert_eq!(unconfirmed.evictable_at(), Some(at(10)));
    assert_eq!(unconfirmed.evict_oldest(at(10)), Some(Ticket(1)));
    assert_eq!(unconfirmed.messages(), 6);
}

#[test]
fn numbers_before_a_list_that_may_be_cut_are_not_taken_for_missing() {
    let mut unconfirmed = holding(1..=3);
    let spans: Vec<(u64, u64)> = (2..66).map(|n| (n * 2, n * 2)).collect();
    unconfirmed.on_confirmation(at(60), &confirm(false, &spans));
    assert_eq!(resent(&mut unconfirmed, at(60)), []);
    unconfirmed.on_confirmation(at(60), &confirm(false, &spans[1..]));
    assert_eq!(resent(&mut unconfirmed, at(60)).len(), 3);
}

proptest! {
    /// What leaves was stored or evicted by the bound; the sums stay right.
    #[test]
    fn a_copy_leaves_only_when_it_is_stored(
        steps in prop::collection::vec((0..4_u8, 1..40_u64, 0..9_u64), 1..80),
    ) {
        let (mut unconfirmed, mut model) = (Unconfirmed::new(BOUNDS), BTreeMap::new());
        let (mut next, mut now) = (1, at(0));
        for (step, n, span) in steps {
            now = now.plus(Duration::from_secs(1));
            match step {
                0 => {
                    unconfirmed.insert(now, Ticket(next), sealed(next), false);
                    model.insert(next, sealed(next).samples);
                    next += 1;
                }
                1 => {
                    let before = model.len();
                    model.retain(|seq, _| !(n..=n + span).contains(seq));
                    let gone = unconfirmed.on_confirmation(now, &confirm(false, &[(n, n + span)]));
                    prop_assert_eq!(gone.len(), before - model.len());
                }
                2 => {
                    for (ticket, _) in resent(&mut unconfirmed, now) {
                        prop_assert!(model.contains_key(&ticket));
                    }
                }
                _ => {
                    for ticket in unconfirmed.overdue(now, ACK_WAIT) {
                        prop_assert!(unconfirmed.on_answered(ticket));
                    }
                    unconfirmed.on_deadline(now);
                    prop_assert!(unconfirmed.next_deadline(ACK_WAIT).is_none_or(|next| next > now));
                }
            }
            prop_assert_eq!(unconfirmed.messages(), model.len());
            prop_assert_eq!(unconfirmed.samples(), model.values().sum::<u64>());
            prop_assert_eq!(unconfirmed.bytes(), 10 * model.len());
        }
    }
}
