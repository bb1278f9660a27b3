//! The outbox rule by rule.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::limits::{ATTEMPTS_IN_A_ROW_MAX, BREAKER_OPEN, RETRY_PAUSE, WINDOW_BYTES_MIN};
use bytes::Bytes;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Labels, NodeName, Operation, Series};
use plimsoll_schemas::limits::delivery::ACK_WAIT;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::confirmation::{Confirmation, ConfirmedIncarnation};
use plimsoll_schemas::wire::{Body, Hardware, Latency};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn thresholds() -> Thresholds {
    OutboxBounds::default().thresholds
}

/// Nothing is merged below 50 messages; rerouting begins at 20, dropping at 30, both end at 5.
fn bounds() -> OutboxBounds {
    OutboxBounds {
        thresholds: Thresholds { drop: 30, reroute: 20, recover: 5, ..thresholds() },
        coalesce_messages: 50,
        ..OutboxBounds::default()
    }
}

fn latency(samples: u64) -> Draft {
    latency_of(Mono(7), samples)
}

/// An interval of its own that was closed at `enqueued`.
fn latency_of(enqueued: Mono, samples: u64) -> Draft {
    static STARTS: AtomicU64 = AtomicU64::new(1);
    let mut histogram = Histogram::default();
    histogram.record_n(1_000_000, samples);
    let series = Series::plain(Operation::new("a").unwrap());
    let body = Latency { histograms: vec![(series, histogram)], ..Latency::default() };
    let start = Wall(STARTS.fetch_add(1, Ordering::Relaxed));
    Draft::new(&Body::Latency(body), start, 1, enqueued)
}

fn state(hardware: bool) -> Draft {
    let body =
        if hardware { Body::Hardware(Hardware::default()) } else { Body::Bus(Bus::default()) };
    Draft::new(&body, Wall(1), 1, Mono(7))
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of the outbox's argument")]
fn seal(seq: Seq, lane: Lane, draft: Draft) -> SealedMessage {
    SealedMessage {
        incarnation: Incarnation(1),
        seq,
        lane,
        subject: format!("{}-{}", lane.as_str(), draft.last),
        payload: Bytes::from(draft.samples().to_string()),
        samples: draft.samples(),
        own_samples: draft.own_samples(),
        produced: draft.produced,
        last: draft.last,
        sealed_at: Wall(1),
        nonce: MessageNonce::default(),
    }
}

fn filled(bounds: OutboxBounds, messages: u64) -> Outbox {
    let mut outbox = Outbox::new(Incarnation(1), bounds);
    for _ in 0..messages {
        outbox.try_push(Mono(0), latency(5)).unwrap();
    }
    outbox
}

fn send(outbox: &mut Outbox, now: Mono) -> Option<Publish> {
    outbox.next_publish(now, seal)
}

fn send_all(outbox: &mut Outbox, now: Mono) -> Vec<Publish> {
    std::iter::from_fn(|| send(outbox, now)).collect()
}

fn subjects(messages: &[Publish]) -> Vec<&str> {
    messages.iter().map(|publish| publish.subject.as_str()).collect()
}

fn confirm(first: u64, last: u64) -> Confirmation {
    let incarnations = vec![ConfirmedIncarnation {
        incarnation: Incarnation(1),
        spans: vec![(Seq(first), Seq(last))],
    }];
    Confirmation { incarnations, ..Confirmation::of(NodeName::new("n").unwrap()) }
}

fn at(seconds: u64) -> Mono {
    Mono(0).plus(Duration::from_secs(seconds))
}

#[test]
fn nothing_is_sent_without_a_connection() {
    let mut outbox = filled(bounds(), 1);
    assert_eq!(send(&mut outbox, Mono(9)), None);
    outbox.on_connected();
    assert_eq!(send(&mut outbox, Mono(9)).map(|publish| publish.ticket), Some(Ticket(1)));
    assert_eq!(send(&mut outbox, Mono(9)), None);
}

#[test]
fn a_message_stays_until_acknowledged_with_its_time() {
    let mut outbox = filled(bounds(), 2);
    outbox.on_connected();
    send(&mut outbox, Mono(9));
    assert_eq!(outbox.on_acknowledged(Mono(9), Ticket(1)), Some(Mono(7)));
    assert_eq!(outbox.on_acknowledged(Mono(9), Ticket(1)), None);
    assert_eq!((outbox.samples(), outbox.stats().published), (5, 1));
}

#[test]
fn an_overdue_message_is_sent_again_with_the_same_bytes_before_newer_ones() {
    let mut outbox = filled(bounds(), 2);
    outbox.on_connected();
    let first = send(&mut outbox, Mono(0));
    assert_eq!(outbox.next_deadline(), Some(Mono(0).plus(ACK_WAIT)));
    outbox.on_deadline(Mono(0).plus(ACK_WAIT));
    assert_eq!(send(&mut outbox, at(6)), first);
    assert_eq!(outbox.stats().retried, 1);
}

#[test]
fn depth_counts_messages_as_they_were_produced() {
    let mut outbox = Outbox::new(Incarnation(1), OutboxBounds { coalesce_messages: 3, ..bounds() });
    for n in 0..15 {
        outbox.try_push(Mono(0), if n % 3 == 0 { state(true) } else { latency(5) }).unwrap();
    }
    let stats = outbox.stats();
    assert_eq!((stats.outbox_messages, stats.outbox_depth, stats.coalesced), (3, 15, 12));
    assert_eq!((stats.outbox_depth_max, outbox.samples()), (15, 50));
    outbox.on_connected();
    let mut depths = Vec::new();
    for publish in send_all(&mut outbox, at(1)) {
        outbox.on_acknowledged(at(1), publish.ticket);
        depths.push(outbox.depth());
    }
    assert!(depths.is_sorted_by(|one, next| one > next), "{depths:?}");
    assert_eq!(depths.last(), Some(&0));
}

#[test]
fn a_deep_outbox_drops_old_readings_and_keeps_samples() {
    let mut outbox = filled(bounds(), 27);
    let low = |hardware| state(hardware).prioritized(Priority::Low);
    outbox.try_push(Mono(0), low(true)).unwrap();
    outbox.try_push(Mono(0), low(false)).unwrap();
    assert_eq!((outbox.depth(), outbox.stats().dropping), (29, false));
    outbox.try_push(Mono(0), latency(9)).unwrap();
    assert_eq!((outbox.depth(), outbox.stats().dropped, outbox.samples()), (28, 2, 144));
    assert!(outbox.stats().dropping);
    outbox.try_push(Mono(0), low(true)).unwrap();
    outbox.try_push(Mono(0), state(false)).unwrap();
    outbox.try_push(Mono(0), low(true)).unwrap();
    assert_eq!((outbox.depth(), outbox.stats().dropped), (30, 3), "the newest stays");
    outbox.on_connected();
    outbox.on_deadline(at(60));
    for publish in send_all(&mut outbox, at(60)) {
        outbox.on_acknowledged(at(60), publish.ticket);
    }
    assert_eq!((outbox.depth(), outbox.stats().dropping), (0, false));
}

#[test]
fn without_room_in_bytes_drafts_are_merged_if_they_can_and_dropped_if_not() {
    let bytes = latency(5).bytes();
    let thresholds = Thresholds { bytes_max: bytes * 2 + 64, ..bounds().thresholds };
    let mut outbox = Outbox::new(Incarnation(1), OutboxBounds { thresholds, ..bounds() });
    (0..3).for_each(|_| outbox.try_push(Mono(0), latency(5)).unwrap());
    let stats = outbox.stats();
    assert_eq!((stats.outbox_messages, stats.coalesced, outbox.samples()), (2, 1, 15));
    assert!(stats.dropping && stats.outbox_pressure >= 900_000, "{stats:?}");
    let other = latency(7).labelled(Labels::new([("role", "another")]).unwrap());
    outbox.try_push(Mono(0), other.clone()).unwrap();
    assert_eq!((outbox.stats().coalesced, outbox.samples()), (2, 22));
    outbox.try_push(Mono(0), latency(9).labelled(other.labels)).unwrap();
    let third = latency(4).labelled(Labels::new([("role", "a third")]).unwrap());
    assert_eq!(outbox.try_push(Mono(0), third).unwrap_err().samples(), 4);
    assert_eq!((outbox.stats().dropped, outbox.samples()), (1, 31));
}

#[test]
fn a_breach_of_long_ago_joins_the_backlog_and_other_critical_messages_do_not() {
    for (second, urgent) in [(72, ["8", "7"].as_slice()), (73, &["8"])] {
        let mut outbox = filled(bounds(), 3);
        let bus = Draft::new(&Body::Bus(Bus::default()), Wall(9), 1, at(12));
        outbox.try_push(at(12), bus.prioritized(Priority::Critical)).unwrap();
        outbox.try_push(at(12), latency_of(at(12), 7).prioritized(Priority::Critical)).unwrap();
        let newest = latency_of(at(second), 8).prioritized(Priority::Critical);
        outbox.try_push(at(second), newest).unwrap();
        outbox.on_connected();
        let sent = send_all(&mut outbox, at(second));
        let overtook: Vec<_> =
            sent.iter().take_while(|sent| sent.subject.starts_with("emergency")).collect();
        assert_eq!(overtook.len(), 1 + urgent.len(), "the bus message too, after {second} s");
        let latencies: Vec<_> =
            overtook[..urgent.len()].iter().map(|sent| sent.payload.to_vec()).collect();
        assert_eq!(latencies, urgent.iter().map(|of| of.as_bytes().to_vec()).collect::<Vec<_>>());
    }
}

#[test]
fn drafts_of_one_interval_travel_together_as_far_as_they_fit() {
    let of = |body: &Body, bytes: usize| {
        let mut draft = Draft::new(body, Wall(5), 1, Mono(7));
        draft.body = Bytes::from(vec![0; bytes]);
        draft
    };
    let (latency, bus) = (Body::Latency(Latency::default()), Body::Bus(Bus::default()));
    let hardware = Body::Hardware(Hardware::default());
    let sent = |drafts: &[Draft]| {
        let mut outbox = Outbox::new(Incarnation(1), bounds());
        outbox.on_connected();
        drafts.iter().for_each(|draft| outbox.try_push(Mono(7), draft.clone()).unwrap());
        let mut kinds = Vec::new();
        let mut seal_one = |seq, lane, draft: Draft| {
            kinds.push(draft.kind.as_str());
            seal(seq, lane, draft)
        };
        while outbox.next_publish(Mono(7), &mut seal_one).is_some() {}
        (kinds, outbox.stats().combined)
    };
    let (small, large) = (100, 10 * 1024);
    let whole = [of(&latency, small), of(&hardware, small), of(&bus, small)];
    assert_eq!(sent(&whole), (vec!["interval"], 2));
    let in_parts = [of(&latency, small), of(&latency, small), of(&bus, small)];
    assert_eq!(sent(&in_parts), (vec!["interval", "latency"], 1));
    let mut next = of(&bus, small);
    next.start = Wall(6);
    assert_eq!(sent(&[of(&latency, small), next]), (vec!["latency", "bus"], 0));
    // The window has room for one large one at first.
    let wide = [of(&latency, large), of(&hardware, large), of(&bus, small)];
    assert_eq!(sent(&wide), (vec!["interval", "hardware"], 1));
}

#[test]
fn a_message_that_no_stream_keeps_is_tried_again_as_soon_as_there_may_be_one() {
    let again_after = |messages, reason| {
        let mut outbox = filled(bounds(), messages);
        outbox.on_connected();
        for sent in send_all(&mut outbox, at(10)) {
            assert!(outbox.on_refused(at(10), sent.ticket, reason).is_none());
        }
        let is_sent = |second: &u64| {
            outbox.on_deadline(at(*second));
            outbox.next_publish(at(*second), seal).is_some()
        };
        (11..60).find(is_sent)
    };
    // Five open the breaker, which then waits no longer than they rest.
    for messages in [1, 5] {
        assert_eq!(again_after(messages, DeadLetterReason::NoStream), Some(13));
        assert_eq!(again_after(messages, DeadLetterReason::StreamFull), Some(40));
    }
}

#[test]
fn while_a_stream_stays_missing_probes_become_rarer() {
    let mut outbox = filled(bounds(), 9);
    outbox.on_connected();
    let mut probed_at = Vec::new();
    for second in 10..200 {
        outbox.on_deadline(at(second));
        let sent = send_all(&mut outbox, at(second));
        if !sent.is_empty() {
            probed_at.push((second, sent.len()));
        }
        for publish in sent {
            outbox.on_refused(at(second), publish.ticket, DeadLetterReason::NoStream);
        }
    }
    let expected = [(10, 9), (13, 1), (19, 1), (31, 1), (55, 1), (85, 1), (115, 1), (145, 1)];
    assert_eq!(probed_at[..8], expected);
    outbox.on_deadline(at(240));
    let probe = send(&mut outbox, at(240)).unwrap();
    outbox.on_acknowledged(at(240), probe.ticket);
    let sent = send(&mut outbox, at(240)).unwrap();
    outbox.on_refused(at(240), sent.ticket, DeadLetterReason::NoStream);
    outbox.on_deadline(at(243));
    assert!(send_all(&mut outbox, at(243)).iter().any(|again| again.ticket == sent.ticket));
}

/// Rerouting, with twenty messages that have waited for longer than ten seconds.
fn behind() -> Outbox {
    let mut outbox = filled(bounds(), 20);
    outbox.on_deadline(at(61));
    assert!(outbox.stats().rerouting && outbox.is_behind(at(61)));
    outbox
}

#[test]
fn while_rerouting_the_newest_interval_goes_first_and_the_one_before_joins_the_backlog() {
    let mut outbox = behind();
    for second in [61, 62] {
        outbox.try_push(at(second), latency_of(at(second), second)).unwrap();
        let hardware = Draft::new(&Body::Hardware(Hardware::default()), Wall(9), 1, at(second));
        outbox.try_push(at(second), hardware).unwrap();
        let bus = Draft::new(&Body::Bus(Bus::default()), Wall(9), 1, at(second));
        outbox.try_push(at(second), bus).unwrap();
    }
    outbox.on_connected();
    let sent = send_all(&mut outbox, at(62));
    assert_eq!(subjects(&sent[..3]), ["emergency-false", "emergency-false", "normal-false"]);
    assert_eq!(&sent[0].payload[..], b"62", "the newest latency");
    assert_eq!((sent.len(), outbox.stats().rerouted), (25, 2));
    assert_eq!(sent.iter().map(|sent| sent.ticket.0).collect::<Vec<_>>(), Vec::from_iter(1..=25));
}

#[test]
fn what_is_critical_overtakes_a_delayed_lane_and_no_other() {
    let mut outbox = filled(bounds(), 3);
    outbox.try_push(at(1), latency_of(at(1), 7).prioritized(Priority::Critical)).unwrap();
    outbox.on_connected();
    outbox.on_deadline(at(9));
    assert!(outbox.drafts.front(Lane::Emergency).is_none(), "nothing is delayed yet");
    outbox.try_push(at(12), latency_of(at(12), 1)).unwrap();
    outbox.try_push(at(12), latency_of(at(12), 8).prioritized(Priority::Critical)).unwrap();
    let sent = send_all(&mut outbox, at(12));
    let lanes = [["emergency-false"; 2].as_slice(), &["normal-false"; 4]].concat();
    assert_eq!(subjects(&sent), lanes);
    assert_eq!([&sent[0].payload[..], &sent[1].payload[..]], [b"8", b"7"], "the newest first");
}

#[test]
fn what_is_declared_critical_goes_at_once_and_what_is_high_without_reserved_tokens() {
    let of = |priority| latency(5).prioritized(priority);
    let tokens = || OutboxBounds { emergency_burst: 2, emergency_reserved: 2, ..bounds() };
    let mut outbox = filled(tokens(), 3);
    for priority in [Priority::High, Priority::Critical, Priority::Immediate] {
        outbox.try_push(at(1), of(priority)).unwrap();
    }
    outbox.on_connected();
    let sent = send_all(&mut outbox, at(1));
    let lanes = [["emergency-false"].as_slice(), &["normal-false"; 5]].concat();
    assert_eq!(subjects(&sent), lanes, "nothing is delayed");

    let mut outbox = filled(tokens(), 3);
    outbox.on_deadline(at(12));
    for priority in [Priority::High, Priority::Critical] {
        outbox.try_push(at(12), latency_of(at(12), 5).prioritized(priority)).unwrap();
    }
    let in_lane = outbox.drafts.iter().filter(|held| held.lane == Lane::Emergency);
    assert_eq!(in_lane.count(), 2, "both overtake what is delayed");
    outbox.on_connected();
    let sent = send_all(&mut outbox, at(12));
    let [first, rest @ ..] = &subjects(&sent)[..] else { panic!("{sent:?}") };
    assert_eq!(*first, "emergency-false", "of two tokens both are reserved");
    assert_eq!(rest, ["normal-false"; 4], "the other goes by the normal lane once that is idle");
}

#[test]
fn what_is_high_takes_its_place_in_the_backlog_once_it_has_waited_behind_what_is_critical() {
    let tokens = OutboxBounds { emergency_burst: 1, emergency_reserved: 1, ..bounds() };
    let mut outbox = filled(tokens, 3);
    outbox.on_deadline(at(12));
    outbox.try_push(at(12), latency_of(at(12), 7).prioritized(Priority::High)).unwrap();
    for second in 13..=23 {
        let critical = latency_of(at(second), 8).prioritized(Priority::Critical);
        outbox.try_push(at(second), critical).unwrap();
        outbox.try_push(at(second), latency_of(at(second), 1)).unwrap();
    }
    let normal = outbox.drafts.iter().filter(|held| held.lane == Lane::Normal);
    let samples: Vec<u64> = normal.map(|held| held.draft.samples()).collect();
    assert_eq!(samples[..5], [5, 5, 5, 7, 1], "before what came after it");
}

#[test]
fn an_aggregator_that_reads_a_backlog_lets_what_is_critical_overtake() {
    let mut outbox = filled(bounds(), 0);
    outbox.on_connected();
    let confirmation = |seconds| {
        let backlog = Duration::from_secs(seconds);
        Confirmation { backlog, incarnations: Vec::new(), ..confirm(1, 1) }
    };
    for (seconds, is_behind) in [(10, false), (11, true)] {
        outbox.on_confirmation(at(1), &confirmation(seconds)).unwrap();
        assert_eq!(outbox.is_behind(at(1)), is_behind, "{seconds}");
    }
    assert!(outbox.is_behind(at(60)) && !outbox.is_behind(at(61)), "for a minute");
    outbox.on_confirmation(at(2), &confirmation(11)).unwrap();
    outbox.try_push(at(3), latency(5).prioritized(Priority::Critical)).unwrap();
    outbox.try_push(at(3), latency(5)).unwrap();
    assert_eq!(subjects(&send_all(&mut outbox, at(3))), ["emergency-false", "normal-false"]);
    outbox.on_confirmation(at(4), &confirmation(0)).unwrap();
    outbox.try_push(at(5), latency(5).prioritized(Priority::Critical)).unwrap();
    assert_eq!(subjects(&send_all(&mut outbox, at(5))), ["normal-false"]);
}

#[test]
fn a_slow_link_holds_a_window_of_the_backlog_and_the_emergency_lane_passes_it() {
    let mut outbox = filled(OutboxBounds::default(), 19);
    outbox.on_connected();
    let first = send_all(&mut outbox, at(0));
    assert_eq!(first.len(), 19, "a fast link has room for all");
    outbox.on_deadline(at(5));
    outbox.on_deadline(at(15));
    assert_eq!(outbox.window.body_bytes(), outbox.window.bytes(), "two time-outs: it is slow");
    assert_eq!(outbox.in_flight(), 0);
    outbox.breaker = Breaker::new(99);
    let payload = |bytes: usize| {
        move |seq: Seq, lane: Lane, draft: Draft| SealedMessage {
            payload: Bytes::from(vec![0; bytes]),
            ..seal(seq, lane, draft)
        }
    };
    (0..9).for_each(|_| outbox.try_push(at(16), latency(5)).unwrap());
    outbox.try_push(at(16), latency(5).prioritized(Priority::Critical)).unwrap();
    let mut sent = Vec::new();
    while let Some(publish) = outbox.next_publish(at(16), payload(3_000)) {
        sent.push(publish);
    }
    let (urgent, rest): (Vec<_>, Vec<_>) =
        sent.iter().partition(|publish| publish.subject.starts_with("emergency"));
    assert_eq!(urgent.len(), 1);
    let new = rest.iter().filter(|publish| publish.payload.len() == 3_000).count();
    assert!((1..=3).contains(&new), "{new} messages of 3 kB in {} B", outbox.window.bytes());
}

/// A node that comes back after an outage with fourteen breaches of the last minute, and has one
/// more a second later. Each takes most of the window that a stall leaves.
#[test]
fn a_breach_that_is_new_passes_those_that_wait_for_a_slow_link() {
    let critical = |second| latency_of(at(second), second).prioritized(Priority::Critical);
    let mut outbox = filled(bounds(), 15);
    outbox.on_connected();
    assert_eq!(send_all(&mut outbox, at(0)).len(), 15);
    outbox.on_disconnected();
    (101..115).for_each(|second| outbox.try_push(at(second), critical(second)).unwrap());
    outbox.on_connected();
    let long = |seq: Seq, lane: Lane, draft: Draft| {
        let mut bytes = draft.samples().to_string().into_bytes();
        bytes.resize(WINDOW_BYTES_MIN / 2, b' ');
        SealedMessage { payload: Bytes::from(bytes), ..seal(seq, lane, draft) }
    };
    let send = |outbox: &mut Outbox, now| -> Vec<(Ticket, u64)> {
        let sent = std::iter::from_fn(|| outbox.next_publish(now, long));
        let samples = |payload: &[u8]| std::str::from_utf8(payload).unwrap().trim().parse();
        sent.map(|publish| (publish.ticket, samples(&publish.payload).unwrap())).collect()
    };
    let sent = send(&mut outbox, at(120));
    assert_eq!(sent.iter().map(|(_, second)| *second).collect::<Vec<_>>(), [114]);
    outbox.try_push(at(121), critical(121)).unwrap();
    let new = send(&mut outbox, at(121));
    assert_eq!(new.iter().map(|(_, second)| *second).collect::<Vec<_>>(), [121]);
    for (ticket, _) in [sent, new].concat() {
        outbox.on_acknowledged(at(122), ticket);
    }
    assert_eq!(send(&mut outbox, at(122))[0].1, 113, "older ones follow as the link has room");
}

#[test]
fn after_a_stall_that_outlasts_every_wait_the_window_opens_anew() {
    for lasted in [1, 600] {
        let mut outbox = filled(OutboxBounds::default(), 3);
        outbox.on_connected();
        assert_eq!(send_all(&mut outbox, at(0)).len(), 3);
        outbox.on_disconnected();
        outbox.on_deadline(at(lasted));
        outbox.on_connected();
        assert_eq!(outbox.window.bytes(), WINDOW_BYTES_MIN, "after {lasted} s");
    }
}

#[test]
fn conservative_mode_sends_the_emergency_lane_alone_and_ends() {
    let mut outbox = filled(bounds(), 19);
    outbox.on_connected();
    outbox.try_push(at(61), latency_of(at(61), 5)).unwrap();
    let sent = send_all(&mut outbox, at(61));
    assert_eq!(subjects(&sent), ["emergency-false"]);
    for publish in sent {
        outbox.on_acknowledged(at(61), publish.ticket);
    }
    let end = at(121);
    assert_eq!(outbox.drafts.pressure.next_deadline(), Some(end));
    assert!(outbox.stats().conservative);
    outbox.on_deadline(end);
    assert!(!outbox.stats().conservative);
    let sent = send_all(&mut outbox, end);
    assert_eq!(subjects(&sent[1..]), ["normal-false"; 19], "after a copy of the newest");
}

#[test]
fn an_urgent_message_without_a_token_waits_and_is_counted_once() {
    let tight = OutboxBounds { emergency_burst: 2, emergency_reserved: 1, ..bounds() };
    let mut outbox = filled(tight, 19);
    (0..3).for_each(|_| outbox.try_push(at(61), latency_of(at(61), 5)).unwrap());
    outbox.on_connected();
    assert_eq!([0; 2].map(|_| send_all(&mut outbox, at(61)).len()), [1, 0]);
    assert_eq!((outbox.stats().rate_limited, outbox.depth()), (1, 22));
    let next = at(61).plus(SECOND / 2);
    assert_eq!(outbox.next_deadline(), Some(next));
    assert_eq!(send_all(&mut outbox, next).len(), 1);
}

/// Each interval breaches a limit, and there are fewer tokens than intervals: a queue that nothing
/// else empties would grow although the normal lane is idle.
#[test]
fn what_waits_for_a_token_goes_by_an_idle_normal_lane() {
    let tight = OutboxBounds { emergency_burst: 2, emergency_reserved: 0, ..bounds() };
    let critical = |second| latency_of(at(second), second).prioritized(Priority::Critical);
    let mut outbox = filled(tight, 0);
    (0..5).for_each(|_| outbox.try_push(at(1), critical(1)).unwrap());
    outbox.on_deadline(at(12));
    outbox.try_push(at(12), critical(12)).unwrap();
    outbox.on_connected();
    let sent = send_all(&mut outbox, at(12));
    let lanes = [["emergency-false"; 2].as_slice(), &["normal-false"; 4]].concat();
    assert_eq!(subjects(&sent), lanes);

    // An aggregator that is behind in the normal lane: a token may come sooner, for a while.
    let behind = Confirmation { backlog: SECOND * 60, incarnations: Vec::new(), ..confirm(1, 1) };
    outbox.on_confirmation(at(12), &behind).unwrap();
    (0..3).for_each(|_| outbox.try_push(at(12), critical(12)).unwrap());
    assert_eq!(send_all(&mut outbox, at(12)).len(), 0);
    assert_eq!(subjects(&send_all(&mut outbox, at(12).plus(SECOND / 2))), ["emergency-false"]);
    let sent = send_all(&mut outbox, at(23));
    assert_eq!(subjects(&sent), ["emergency-false"; 2], "eleven seconds make more tokens");
}

#[test]
fn the_final_message_goes_last_and_may_take_a_reserved_token() {
    let tight = OutboxBounds { emergency_burst: 3, emergency_reserved: 1, ..bounds() };
    let mut outbox = filled(tight, 19);
    outbox.on_connected();
    (0..6).for_each(|_| outbox.try_push(at(61), latency_of(at(61), 5)).unwrap());
    assert_eq!(send_all(&mut outbox, at(61)).len(), 2);
    outbox.try_push(at(61), state(false).into_final()).unwrap();
    outbox.on_leave(at(61));
    let sent = send_all(&mut outbox, at(61));
    assert_eq!(subjects(&sent)[..23], ["normal-false"; 23]);
    assert_eq!(subjects(&sent)[23..], ["emergency-true"]);
    assert_eq!(sent[23].ticket, Ticket(26));
}

#[test]
fn without_a_token_the_final_message_goes_by_the_normal_lane() {
    let tight = OutboxBounds { emergency_burst: 1, emergency_reserved: 1, ..bounds() };
    let mut outbox = filled(tight, 1);
    outbox.on_connected();
    let critical = latency_of(at(61), 5).prioritized(Priority::Critical);
    outbox.try_push(at(61), critical).unwrap();
    assert_eq!(subjects(&send_all(&mut outbox, at(61))), ["emergency-false", "normal-false"]);

    // An aggregator that is behind in the normal lane: the final message is for the emergency lane.
    let behind = Confirmation { backlog: SECOND * 60, incarnations: Vec::new(), ..confirm(1, 1) };
    outbox.on_confirmation(at(61), &behind).unwrap();
    outbox.try_push(at(61), state(false).into_final()).unwrap();
    outbox.on_leave(at(61));

    assert_eq!(subjects(&send_all(&mut outbox, at(61))), ["normal-true"]);
}

#[test]
fn above_the_coalesce_mark_drafts_are_merged_and_sent_messages_are_not() {
    let mut outbox = Outbox::new(Incarnation(1), OutboxBounds { coalesce_messages: 3, ..bounds() });
    outbox.on_connected();
    (0..3).for_each(|_| outbox.try_push(Mono(0), latency(5)).unwrap());
    let first = send(&mut outbox, Mono(0));
    outbox.try_push(Mono(0), latency(5)).unwrap();
    let account = outbox.stats();
    assert_eq!((account.outbox_messages, account.coalesced, outbox.samples()), (3, 1, 20));
    outbox.on_deferred(Mono(0), Ticket(1));
    assert_eq!(send(&mut outbox, at(1)), first, "what was sent is what is sent again");
    let payloads = send_all(&mut outbox, at(1));
    assert_eq!(payloads.iter().map(|p| &p.payload[..]).collect::<Vec<_>>(), [&b"10"[..], b"5"]);
}

#[test]
fn a_message_without_a_readable_answer_is_sent_again_after_a_pause_and_rests_after_five_attempts() {
    let mut outbox = filled(OutboxBounds { breaker_failures: 99, ..bounds() }, 2);
    outbox.on_connected();
    let mut now = Mono(0);
    for _ in 0..ATTEMPTS_IN_A_ROW_MAX {
        assert_eq!(send(&mut outbox, now).map(|publish| publish.ticket), Some(Ticket(1)));
        outbox.on_unreadable(now, Ticket(1));
        assert_eq!(send(&mut outbox, now), None, "a pause runs");
        now = now.plus(RETRY_PAUSE);
        outbox.on_deadline(now);
    }
    assert_eq!(send(&mut outbox, now).map(|publish| publish.ticket), Some(Ticket(2)));
    outbox.on_acknowledged(now, Ticket(2));
    assert_eq!(send(&mut outbox, now), None);
    now = now.plus(BREAKER_OPEN);
    outbox.on_deadline(now);
    assert_eq!(send(&mut outbox, now).map(|publish| publish.ticket), Some(Ticket(1)));
}

#[test]
fn only_failures_of_the_broker_open_the_breaker() {
    let mut outbox = filled(bounds(), 6);
    outbox.on_connected();
    for now in 1..9 {
        let seq = send(&mut outbox, at(now)).unwrap().ticket;
        outbox.on_handover_failed(at(now), seq);
        outbox.on_deadline(at(now + 1));
    }
    assert!(outbox.try_push(at(9), latency(1)).is_ok());
    send_all(&mut outbox, at(10));
    outbox.on_disconnected();
    outbox.on_deadline(at(16));
    assert_eq!(outbox.breaker(), BreakerState::Closed, "none of these was the broker's fault");
    outbox.on_connected();
    send_all(&mut outbox, at(17));
    outbox.on_deadline(at(22));
    assert_eq!((outbox.breaker(), send(&mut outbox, at(51))), (BreakerState::Open, None));
    outbox.on_deadline(at(52));
    let probe = send_all(&mut outbox, at(52));
    assert_eq!(probe.len(), 1, "exactly one probe");
    outbox.on_acknowledged(at(52), probe[0].ticket);
    assert_eq!(send_all(&mut outbox, at(52)).len(), 6);
}

#[test]
fn a_confirmation_takes_the_place_of_an_acknowledgement_that_was_lost() {
    let mut outbox = filled(bounds(), 3);
    outbox.on_connected();
    send_all(&mut outbox, Mono(9));
    outbox.on_acknowledged(Mono(9), Ticket(1));
    assert_eq!(outbox.on_confirmation(Mono(9), &confirm(1, 2)), Ok(()));
    let account = outbox.stats();
    assert_eq!((account.published, account.confirmed, account.unconfirmed), (2, 2, 0));
    assert_eq!((outbox.depth(), outbox.on_acknowledged(Mono(9), Ticket(2))), (1, None));
}

#[test]
fn a_confirmation_of_an_unsent_message_is_rejected() {
    let mut outbox = filled(bounds(), 3);
    outbox.on_connected();
    send(&mut outbox, Mono(9));
    outbox.on_acknowledged(Mono(9), Ticket(1));
    assert_eq!(outbox.on_confirmation(Mono(9), &confirm(1, 2)), Err(ForgedConfirmation));
    assert_eq!(outbox.unconfirmed.messages(), 1);
    assert_eq!(outbox.on_confirmation(Mono(9), &confirm(1, 1)), Ok(()));
    assert_eq!(outbox.unconfirmed.messages(), 0);
}

#[test]
fn past_the_bound_of_copies_new_messages_wait_and_then_the_oldest_copies_go() {
    let unconfirmed = UnconfirmedBounds { messages: 3, bytes: 1 << 20, required: 1 };
    let mut outbox = filled(OutboxBounds { unconfirmed, ..bounds() }, 5);
    outbox.on_connected();
    let sent = send_all(&mut outbox, at(0));
    assert_eq!(sent.len(), 3);
    for publish in &sent {
        outbox.on_acknowledged(at(0), publish.ticket);
    }
    assert_eq!((send(&mut outbox, at(1)), outbox.depth()), (None, 2));
    assert_eq!(outbox.next_deadline(), Some(at(10)));
    outbox.on_deadline(at(10));
    assert_eq!(send_all(&mut outbox, at(10)).len(), 2);
    let account = outbox.stats();
    assert_eq!((account.released, account.unconfirmed, account.published), (2, 1, 3));
}

#[test]
fn with_a_spool_a_message_sets_out_only_once_it_is_in_there() {
    let mut outbox = filled(bounds(), 2);
    outbox.set_spooled(true);
    outbox.on_connected();
    assert_eq!((send(&mut outbox, at(0)), outbox.in_flight.amount().messages), (None, 2));
    outbox.on_spooling();
    outbox.try_push(at(0), latency(5)).unwrap();
    assert_eq!(send(&mut outbox, at(0)), None);
    outbox.on_spooled();
    assert_eq!(send_all(&mut outbox, at(0)).len(), 2, "the third came after the batch");
    outbox.on_spool_failed();
    assert_eq!(send_all(&mut outbox, at(0)).len(), 1, "there is nothing to wait for any more");
}

#[test]
fn a_probe_that_is_confirmed_before_it_is_acknowledged_lets_another_go() {
    let mut outbox = filled(OutboxBounds { breaker_failures: 1, ..bounds() }, 2);
    outbox.on_connected();
    for publish in send_all(&mut outbox, at(0)) {
        outbox.on_acknowledged(at(0), publish.ticket);
    }
    // The broker lost the second. It is sent again and stored, but its acknowledgement is lost.
    outbox.on_confirmation(at(5), &confirm(1, 1)).unwrap();
    assert_eq!(send_all(&mut outbox, at(5)).len(), 1);
    outbox.on_deadline(at(10));
    assert_eq!(outbox.breaker(), BreakerState::Open);
    outbox.on_confirmation(at(16), &confirm(1, 1)).unwrap();
    outbox.on_deadline(at(40));
    let probe = send_all(&mut outbox, at(40));
    assert_eq!((probe.len(), outbox.breaker()), (1, BreakerState::HalfOpen));
    outbox.on_confirmation(at(41), &confirm(1, 2)).unwrap();
    assert_eq!(outbox.on_acknowledged(at(41), probe[0].ticket), None);
    outbox.try_push(at(42), latency(5)).unwrap();
    let next = send_all(&mut outbox, at(42));
    assert_eq!(next.len(), 1);
    outbox.on_acknowledged(at(42), next[0].ticket);
    assert_eq!(outbox.breaker(), BreakerState::Closed);
}

#[test]
fn the_final_message_finds_its_reserve_whatever_waits_in_its_lane() {
    let thresholds = Thresholds { drop: 200, reroute: 20, recover: 5, ..thresholds() };
    let mut outbox =
        filled(OutboxBounds { thresholds, coalesce_messages: 500, ..OutboxBounds::default() }, 20);
    let critical = || latency_of(at(59), 5).prioritized(Priority::Critical);
    (0..100).for_each(|_| outbox.try_push(at(59), critical()).unwrap());
    outbox.on_connected();
    for quarter in 240..256 {
        let now = Mono(quarter * 250_000_000);
        outbox.on_deadline(now);
        send_all(&mut outbox, now);
    }
    // All of them wait to go again, and for tokens.
    outbox.on_connected();
    outbox.try_push(at(64), state(false).into_final()).unwrap();
    outbox.on_leave(at(64));
    let mut after = None;
    for quarter in 256..440 {
        let now = Mono(quarter * 250_000_000);
        outbox.on_deadline(now);
        for publish in send_all(&mut outbox, now) {
            if publish.subject.ends_with("true") {
                after.get_or_insert(quarter / 4 - 64);
            }
            outbox.on_acknowledged(now, publish.ticket);
        }
    }
    assert!(after.is_some_and(|seconds| seconds < 2), "{after:?} s");
}

#[test]
fn a_copy_older_than_what_any_aggregator_remembers_is_evicted() {
    let mut outbox = filled(bounds(), 1);
    outbox.on_connected();
    let sent = send_all(&mut outbox, at(0));
    outbox.on_acknowledged(at(0), sent[0].ticket);
    let day = at(24 * 3_600);
    outbox.on_deadline(Mono(day.0 - 1));
    assert_eq!(outbox.unconfirmed.messages(), 1);
    outbox.on_deadline(day);
    assert_eq!((outbox.unconfirmed.messages(), outbox.stats().released), (0, 1));
}

mod events;
mod links;
mod properties;
mod refusals;
mod taken_ids;
