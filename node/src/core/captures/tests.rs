//! Orders from their arrival to their end, in virtual time.

use std::time::Duration;

use plimsoll_schemas::ids::{Labels, MeshName, RuleName};
use plimsoll_schemas::limits::wire::CAPTURE_CHUNK_BYTES_MAX;
use plimsoll_schemas::time::{BootMillis, Wall};
use plimsoll_schemas::wire::capture::{CaptureKind, ProcessSelector};
use proptest::prelude::*;

use super::*;
use crate::limits::{CAPTURES_PER_WINDOW, RECORDED_READ_AFTER};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn start() -> Now {
    Now { mono: Mono(0), wall: Wall(1_700_000_000_000_000_000) }
}

fn mesh() -> MeshName {
    MeshName::new("m").unwrap()
}

fn key(digits: &str) -> ConfirmKey {
    ConfirmKey::from_hex(&digits.repeat(32)).unwrap()
}

fn identity() -> Identity {
    let labels = Labels::new([("rack", "r7")]).unwrap();
    Identity { mesh: mesh(), node: NodeName::new("n").unwrap(), labels }
}

fn captures() -> Captures {
    Captures::new(identity(), Ok(key("5a")))
}

fn id(of: u64) -> CaptureId {
    CaptureId::derived(&[&of.to_be_bytes()])
}

fn by_pid(now: Now) -> CaptureOrder {
    CaptureOrder {
        kind: CaptureKind::Cpu,
        native: false,
        past: None,
        process: ProcessSelector { pid: Some(7), ..ProcessSelector::default() },
        seconds: 10,
        interval_seconds: None,
        hz: 100,
        start_at: now.wall.plus(3 * SECOND),
        expires_at: now.wall.plus(MINUTE),
        rule: None,
    }
}

fn by_rule(now: Now, rule: &str) -> CaptureOrder {
    CaptureOrder { rule: Some(RuleName::new(rule).unwrap()), ..by_pid(now) }
}

fn by_labels(now: Now, labels: &[(&str, &str)]) -> CaptureOrder {
    let process = ProcessSelector {
        pid: None,
        operation: Some("step".parse().unwrap()),
        labels: Labels::new(labels.iter().copied()).unwrap(),
    };
    CaptureOrder { process, ..by_pid(now) }
}

fn request(id: CaptureId, step: CaptureStep) -> CaptureRequest {
    let node = NodeName::new("n").unwrap();
    CaptureRequest { number: 9, asker: "0f".to_owned(), node, id, step }
}

fn send(captures: &mut Captures, now: Now, request: &CaptureRequest) -> CaptureResponse {
    let answer = captures.on_request(now, &request.encode(&mesh(), &key("5a"))).unwrap();
    assert_eq!((&*answer.asker, answer.response.number), ("0f", 9));
    answer.response
}

fn order(captures: &mut Captures, now: Now, of: u64, order: &CaptureOrder) -> CaptureState {
    send(captures, now, &request(id(of), CaptureStep::Order(order.clone()))).state
}

fn end(of: u64, state: CaptureState, bytes: usize) -> CaptureEnd {
    let profile = vec![7; bytes].into();
    CaptureEnd { id: id(of), state, facts: CaptureFacts::default(), profile }
}

/// Orders, starts and ends one capture by number.
fn run(captures: &mut Captures, now: Now, of: u64, by: &CaptureOrder) {
    assert_eq!(order(captures, now, of, by), CaptureState::Waiting);
    let started = captures.on_deadline(now.after(3 * SECOND).mono).unwrap();
    assert_eq!(started.id, id(of));
    captures.on_captured(now.after(14 * SECOND).mono, end(of, CaptureState::Kept, 1));
}

fn refused(refusal: CaptureRefusal) -> CaptureState {
    CaptureState::Refused(refusal)
}

fn sender(pid: u32) -> SendingProcess {
    SendingProcess { pid, alive_at: BootMillis(1_000) }
}

fn outcome(captures: &Captures, state: CaptureState) -> u64 {
    captures.stats().outcomes.get(&state.labels()).copied().unwrap_or_default()
}

fn assert_balanced(captures: &Captures) {
    let CaptureStats { ordered, outcomes, active, .. } = captures.stats();
    assert_eq!(ordered, outcomes.values().sum::<u64>() + active);
}

#[test]
fn an_order_waits_runs_and_is_handed_out_in_chunks() {
    let (mut captures, now) = (captures(), start());
    let by = by_pid(now);
    assert_eq!(order(&mut captures, now, 1, &by), CaptureState::Waiting);
    assert_eq!(captures.on_deadline(now.after(2 * SECOND).mono), None);
    assert_eq!(captures.next_deadline(), Some(now.after(3 * SECOND).mono));

    let now = now.after(3 * SECOND);
    let started = captures.on_deadline(now.mono);
    let ordered = ProfilerOrder {
        kind: CaptureKind::Cpu,
        native: false,
        pid: 7,
        seconds: 10,
        hz: 100,
        full_paths: false,
        alive_at: None,
    };
    assert_eq!(
        started,
        Some(CaptureStart { id: id(1), order: ordered, past: None, from_outside: false })
    );
    assert_eq!(captures.on_deadline(now.mono), None, "it starts once");
    assert_eq!(order(&mut captures, now, 1, &by), CaptureState::Running);

    let bytes = CAPTURE_CHUNK_BYTES_MAX + 5;
    captures.on_captured(now.after(11 * SECOND).mono, end(1, CaptureState::Kept, bytes));
    let now = now.after(12 * SECOND);
    let lengths = [0, 1, 2, u32::MAX].map(|chunk| {
        let response = send(&mut captures, now, &request(id(1), CaptureStep::Chunk(chunk)));
        assert_eq!((response.state, response.bytes), (CaptureState::Kept, bytes as u64));
        response.chunk.len()
    });
    assert_eq!(lengths, [CAPTURE_CHUNK_BYTES_MAX, 5, 0, 0]);
    let again = request(id(1), CaptureStep::Chunk(0)).encode(&mesh(), &key("5a"));
    let soon = now.after(Duration::from_millis(999));
    assert_eq!(captures.on_request(soon, &again), None, "a chunk is sent once a second");
    let second = captures.on_request(now.after(SECOND), &again).unwrap().response;
    assert_eq!(second.chunk.len(), CAPTURE_CHUNK_BYTES_MAX);

    let later = now.after(10 * MINUTE);
    let gone = send(&mut captures, later, &request(id(1), CaptureStep::Chunk(0)));
    assert_eq!((gone.state, gone.chunk.len()), (CaptureState::Unknown, 0));
    assert_eq!((captures.stats().ordered, outcome(&captures, CaptureState::Kept)), (1, 1));
}

#[test]
fn what_is_not_signed_for_this_node_is_refused() {
    let (mut captures, now) = (captures(), start());
    let ordered = request(id(1), CaptureStep::Order(by_pid(now)));
    let signed = ordered.encode(&mesh(), &key("5a"));
    let other = CaptureRequest { node: NodeName::new("o").unwrap(), ..ordered.clone() };
    let unsigned = [&[0x86], &signed[1..signed.len() - 44]].concat();
    for (bytes, refusal) in [
        (ordered.encode(&mesh(), &key("5b")), CaptureRefusal::Signature),
        (ordered.encode(&MeshName::new("o").unwrap(), &key("5a")), CaptureRefusal::Signature),
        (unsigned, CaptureRefusal::Unsigned),
        (other.encode(&mesh(), &key("5a")), CaptureRefusal::OtherNode),
    ] {
        let response = captures.on_request(now, &bytes).unwrap().response;
        assert_eq!((response.state, response.id), (refused(refusal), id(1)));
    }
    assert_eq!(captures.on_request(now, b"x"), None);
    assert_eq!((captures.stats().ordered, captures.stats().undecodable), (4, 1));
    assert_eq!(captures.next_deadline(), None);
    assert_balanced(&captures);

    captures.set_key(key("5b"));
    let response = captures.on_request(now, &ordered.encode(&mesh(), &key("5b")));
    assert_eq!(response.unwrap().response.state, CaptureState::Waiting);
}

#[test]
fn a_closed_gate_refuses_signed_orders_too() {
    for refusal in [CaptureRefusal::NoKey, CaptureRefusal::NoCredentials] {
        let mut captures = Captures::new(identity(), Err(refusal));
        assert_eq!(order(&mut captures, start(), 1, &by_pid(start())), refused(refusal));
        assert_balanced(&captures);
    }
}

#[test]
fn one_order_is_carried_out_at_a_time_and_an_id_has_one_content() {
    let (mut captures, now) = (captures(), start());
    let by = by_pid(now);
    assert_eq!(order(&mut captures, now, 1, &by), CaptureState::Waiting);
    for of in 2..=50 {
        assert_eq!(order(&mut captures, now, of, &by), refused(CaptureRefusal::Busy));
        assert_eq!(order(&mut captures, now, of, &by), refused(CaptureRefusal::Busy), "again");
    }
    let changed = CaptureOrder { seconds: 11, ..by.clone() };
    assert_eq!(order(&mut captures, now, 1, &changed), refused(CaptureRefusal::Replayed));
    assert_eq!(order(&mut captures, now, 1, &by), CaptureState::Waiting);
    assert_eq!((captures.stats().ordered, captures.stats().active), (51, 1));

    for of in 51..=CAPTURE_ORDERS_MAX as u64 {
        order(&mut captures, now, of, &by);
    }
    assert_eq!(order(&mut captures, now, 99, &by), refused(CaptureRefusal::Full));
    assert_balanced(&captures);
}

#[test]
fn an_order_is_refused_before_its_time_and_expires_after_it() {
    let (mut captures, now) = (captures(), start());
    let early = CaptureOrder {
        start_at: now.wall.plus(2 * MINUTE),
        expires_at: now.wall.plus(3 * MINUTE),
        ..by_pid(now)
    };
    assert_eq!(order(&mut captures, now, 1, &early), refused(CaptureRefusal::Early));
    let late = now.after(MINUTE);
    assert_eq!(order(&mut captures, late, 2, &by_pid(now)), CaptureState::Expired);

    // The driver stood still.
    assert_eq!(order(&mut captures, now, 3, &by_pid(now)), CaptureState::Waiting);
    assert_eq!(captures.on_deadline(now.after(2 * MINUTE).mono), None);
    assert_eq!(order(&mut captures, now, 3, &by_pid(now)), CaptureState::Expired);
    assert_balanced(&captures);
}

#[test]
fn the_sender_of_a_series_is_found_before_the_instant_or_soon_after() {
    let (mut captures, now) = (captures(), start());
    let by = by_labels(now, &[("rank", "3"), ("rack", "r7"), ("node", "n")]);
    assert_eq!(order(&mut captures, now, 1, &by), CaptureState::Waiting);
    assert!(captures.is_searching());
    // The node adds the other labels.
    let rank = Labels::new([("rank", "3")]).unwrap();
    let sends = |of: &Series| of.operation.as_str() == "step" && of.labels == rank;
    captures.on_sender(sender(40), |of| !sends(of));
    captures.on_sender(sender(41), sends);
    for millis in [900, 1_100] {
        let alive_at = BootMillis(millis);
        captures.on_sender(SendingProcess { pid: 41, alive_at }, sends);
    }
    let started = captures.on_deadline(now.after(3 * SECOND).mono).unwrap();
    assert_eq!((started.order.pid, started.order.alive_at), (41, Some(BootMillis(900))));
    assert!(!captures.is_searching());
    captures.on_captured(now.after(9 * SECOND).mono, end(1, CaptureState::Torn, 1));

    let now = now.after(MINUTE);
    assert_eq!(order(&mut captures, now, 2, &by_labels(now, &[])), CaptureState::Waiting);
    assert_eq!(captures.on_deadline(now.after(4 * SECOND).mono), None);
    captures.on_sender(sender(42), |_| true);
    let started = captures.on_deadline(now.after(5 * SECOND).mono).unwrap();
    assert_eq!((started.order.pid, started.order.alive_at), (42, Some(BootMillis(1_000))));
}

#[test]
fn both_halves_of_an_alert_start_at_one_instant() {
    let (mut captures, now) = (captures(), start());
    let half = |rank: &'static str| CaptureOrder {
        rule: Some(RuleName::new("straggler").unwrap()),
        ..by_labels(now, &[("rank", rank)])
    };
    assert_eq!(order(&mut captures, now, 1, &half("2")), CaptureState::Waiting);
    let by_hand = order(&mut captures, now, 2, &by_pid(now));
    assert_eq!(by_hand, refused(CaptureRefusal::Busy), "no half of it");
    assert_eq!(order(&mut captures, now, 3, &half("1")), CaptureState::Waiting);
    assert_eq!(order(&mut captures, now, 4, &half("0")), refused(CaptureRefusal::Busy), "a third");

    for (pid, rank) in [(42, "2"), (41, "1")] {
        let sends = |of: &Series| of.labels.get("rank") == Some(rank);
        captures.on_sender(sender(pid), sends);
    }
    let at = now.after(3 * SECOND).mono;
    let mut started = [captures.on_deadline(at).unwrap(), captures.on_deadline(at).unwrap()];
    started.sort_by_key(|of| of.order.pid);
    assert_eq!(started.map(|of| (of.order.pid, of.id)), [(41, id(3)), (42, id(1))]);

    // The other aggregator of a pair chooses another instant.
    let again = CaptureOrder { start_at: now.wall.plus(4 * SECOND), ..half("2") };
    assert_eq!(order(&mut captures, now, 1, &again), CaptureState::Running);
    assert_eq!(order(&mut captures, now, 5, &half("0")), refused(CaptureRefusal::Busy), "they run");
    captures.on_captured(at, end(1, CaptureState::Kept, 1));
    captures.on_captured(at, end(3, CaptureState::Kept, 1));
    assert_balanced(&captures);
}

#[test]
fn no_sender_and_several_senders_are_refused_with_the_fix() {
    let (mut captures, now) = (captures(), start());
    let by = by_labels(now, &[]);
    assert_eq!(order(&mut captures, now, 1, &by), CaptureState::Waiting);
    let deadline = captures.next_deadline().unwrap();
    assert_eq!(deadline, now.after(8 * SECOND).mono);
    assert_eq!(captures.on_deadline(deadline), None);
    let response = send(&mut captures, now, &request(id(1), CaptureStep::Order(by.clone())));
    assert_eq!(response.state, refused(CaptureRefusal::ProcessNotFound));
    let start = "no process sends step over a Unix socket of the node: /metrics of the node";
    let fix = &response.facts.fix;
    assert!(fix.starts_with(start) && fix.contains("listen.unix"), "{fix}");

    assert_eq!(order(&mut captures, now, 2, &by), CaptureState::Waiting);
    (40..90).for_each(|pid| captures.on_sender(sender(pid), |_| true));
    assert_eq!(captures.on_deadline(now.after(3 * SECOND).mono), None);
    let response = send(&mut captures, now, &request(id(2), CaptureStep::Order(by)));
    assert_eq!(response.state, refused(CaptureRefusal::ProcessAmbiguous));
    assert!(response.facts.fix.starts_with("processes 40, 41, 42"), "{response:?}");
    assert_balanced(&captures);
}

#[test]
fn captures_are_limited_for_each_rule_for_all_and_for_operators_apart() {
    let (mut captures, mut now) = (captures(), start());
    run(&mut captures, now, 1, &by_rule(now, "a"));
    now = now.after(MINUTE);
    let again = by_rule(now, "a");
    assert_eq!(order(&mut captures, now, 2, &again), refused(CaptureRefusal::TooSoon));

    for of in 3..2 + CAPTURES_PER_WINDOW as u64 {
        now = now.after(MINUTE);
        run(&mut captures, now, of, &by_rule(now, &format!("b{of}")));
    }
    now = now.after(MINUTE);
    let more = by_rule(now, "c");
    assert_eq!(order(&mut captures, now, 20, &more), refused(CaptureRefusal::TooMany));
    for of in 30..30 + CAPTURES_PER_WINDOW as u64 {
        now = now.after(MINUTE);
        run(&mut captures, now, of, &by_pid(now));
    }
    let more = by_pid(now);
    assert_eq!(order(&mut captures, now, 40, &more), refused(CaptureRefusal::TooMany));

    now = now.after(60 * MINUTE);
    run(&mut captures, now, 50, &by_rule(now, "a"));
    now = now.after(MINUTE);
    run(&mut captures, now, 51, &by_pid(now));
    assert_balanced(&captures);
}

#[test]
fn a_profiler_that_never_responds_is_given_up() {
    let (mut captures, now) = (captures(), start());
    let by = by_pid(now);
    order(&mut captures, now, 1, &by);
    captures.on_deadline(now.after(3 * SECOND).mono).unwrap();
    let until = now.after(28 * SECOND).mono;
    assert_eq!(captures.next_deadline(), Some(until));
    assert_eq!(captures.on_deadline(until), None);
    let failed = CaptureState::Failed(CaptureFailure::ProfilerTimeout);
    assert_eq!(order(&mut captures, now, 1, &by), failed);

    captures.on_captured(until, end(1, CaptureState::Kept, 5));
    assert_eq!(order(&mut captures, now, 1, &by), failed, "a late response changes nothing");
    assert_eq!(outcome(&captures, failed), 1);
    assert_balanced(&captures);
}

proptest! {
    #[test]
    fn the_ledger_balances_whatever_happens(
        steps in prop::collection::vec((0_u8..6, 0_u64..8, 0_u64..90), 0..200),
    ) {
        let (mut captures, mut now) = (captures(), start());
        for (step, of, seconds) in steps {
            now = now.after(Duration::from_secs(seconds));
            match step {
                0 => drop(order(&mut captures, now, of, &by_pid(now))),
                1 => drop(order(&mut captures, now, of, &by_labels(now, &[]))),
                2 => drop(order(&mut captures, now, of, &by_rule(now, "a"))),
                3 => captures.on_sender(sender(u32::try_from(of).unwrap()), |_| true),
                4 => drop(captures.on_deadline(now.mono)),
                _ => captures.on_captured(now.mono, end(of, CaptureState::Kept, 1)),
            }
            assert_balanced(&captures);
            let kept: usize = captures.orders.values().map(|known| known.profile.len()).sum();
            prop_assert!(captures.orders.len() <= CAPTURE_ORDERS_MAX);
            prop_assert!(kept <= 2 * CAPTURES_PER_WINDOW);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut captures = captures();
        prop_assert_eq!(captures.on_request(start(), &bytes), None);
    }
}

fn of_past(now: Now) -> CaptureOrder {
    let range = PastRange { from: Wall(1), to: Wall(2) };
    let process = ProcessSelector::default();
    CaptureOrder { kind: CaptureKind::Past, past: Some(range), process, ..by_pid(now) }
}

#[test]
fn orders_of_the_past_start_at_once_one_by_one_and_beside_captures() {
    let (mut captures, now) = (captures(), start());
    assert_eq!(order(&mut captures, now, 1, &by_pid(now)), CaptureState::Waiting);
    assert!(captures.is_capturing(7));
    for of in 2..4 {
        assert_eq!(order(&mut captures, now, of, &of_past(now)), CaptureState::Waiting);
    }
    assert_eq!(captures.next_deadline(), Some(Mono(0)));
    let first = captures.on_deadline(now.mono).unwrap();
    assert_eq!((first.past, first.order.pid), (of_past(now).past, 0));
    assert_eq!(captures.on_deadline(now.mono), None, "one at a time");
    captures.on_captured(now.mono, CaptureEnd { id: first.id, ..end(0, CaptureState::Kept, 1) });
    assert_eq!(captures.on_deadline(now.mono), None, "two a second");
    let later = now.after(Duration::from_millis(500));
    assert_eq!(captures.next_deadline(), Some(later.mono));
    assert!(captures.on_deadline(later.mono).is_some_and(|start| start.past.is_some()));
    assert!(captures.on_deadline(now.after(3 * SECOND).mono).is_some_and(|of| of.past.is_none()));
    assert_balanced(&captures);
}

fn continuous(now: Now) -> CaptureOrder {
    let (kind, process) = (CaptureKind::Continuous, ProcessSelector::default());
    CaptureOrder { kind, process, seconds: 3_600, interval_seconds: Some(60), ..by_pid(now) }
}

#[test]
fn a_recording_lasts_its_time_beside_captures_and_is_then_read() {
    let (mut captures, now) = (captures(), start());
    let ordered = continuous(now);
    assert_eq!(order(&mut captures, now, 1, &ordered), CaptureState::Waiting);
    assert_eq!((captures.on_deadline(now.mono), captures.recording()), (None, None));
    let later = now.after(3 * SECOND);
    assert_eq!(captures.next_deadline(), Some(later.mono));
    assert_eq!(captures.on_deadline(later.mono), None, "nothing is asked of a profiler");
    assert_eq!(captures.recording(), Some(&ordered));
    assert_eq!(order(&mut captures, later, 1, &ordered), CaptureState::Running);
    assert_eq!(order(&mut captures, later, 2, &by_pid(later)), CaptureState::Waiting);
    assert_eq!(order(&mut captures, later, 3, &of_past(later)), CaptureState::Waiting);

    let over = later.after(3_600 * SECOND);
    while let Some(start) = captures.on_deadline(over.mono) {
        assert_ne!(start.id, id(1), "its last profiles are not stored yet");
        captures
            .on_captured(over.mono, CaptureEnd { id: start.id, ..end(0, CaptureState::Kept, 1) });
    }
    assert_eq!(captures.recording(), None);
    let over = over.after(RECORDED_READ_AFTER);
    let ended = std::iter::from_fn(|| captures.on_deadline(over.mono)).find(|of| of.id == id(1));
    let range = PastRange { from: ordered.start_at, to: ordered.start_at.plus(3_600 * SECOND) };
    assert_eq!(ended.and_then(|start| start.past), Some(range));
    captures.on_captured(over.mono, end(1, CaptureState::Kept, 1));
    assert_eq!(order(&mut captures, over, 1, &ordered), CaptureState::Kept);
    assert_balanced(&captures);
}

#[test]
fn a_recording_is_stopped_by_request_and_by_the_next_one() {
    let (mut captures, now) = (captures(), start());
    order(&mut captures, now, 1, &continuous(now));
    let later = now.after(13 * SECOND);
    assert_eq!(captures.on_deadline(later.mono), None);
    let stop = send(&mut captures, later, &request(id(1), CaptureStep::Stop)).state;
    assert_eq!(stop, CaptureState::Running, "until it is read");
    assert_eq!(captures.on_deadline(later.mono), None);
    let later = later.after(RECORDED_READ_AFTER);
    let read = captures.on_deadline(later.mono).unwrap();
    let from = continuous(now).start_at;
    assert_eq!(read.past, Some(PastRange { from, to: from.plus(10 * SECOND) }));
    captures.on_captured(later.mono, end(1, CaptureState::Kept, 1));

    order(&mut captures, later, 2, &continuous(later));
    let start = later.after(3 * SECOND);
    assert_eq!(captures.on_deadline(start.mono), None);
    let late = CaptureOrder { expires_at: now.wall.plus(4 * SECOND), ..continuous(now) };
    assert_eq!(order(&mut captures, start, 4, &late), CaptureState::Expired);
    assert!(captures.recording().is_some(), "one that is too late ends no other");
    let next = CaptureOrder { hz: 5, ..continuous(start) };
    order(&mut captures, start, 3, &next);
    assert_eq!(captures.on_deadline(start.after(3 * SECOND).mono), None);
    assert_eq!(captures.recording(), Some(&next));
    let read = captures.on_deadline(start.after(RECORDED_READ_AFTER).mono);
    assert!(read.is_some_and(|read| read.id == id(2)));
    assert_balanced(&captures);
}

#[test]
fn orders_of_the_past_are_not_limited_by_the_hour_and_keep_few_profiles() {
    let (mut captures, mut now) = (captures(), start());
    for of in 0..40 {
        now = now.after(SECOND);
        assert_eq!(order(&mut captures, now, of, &of_past(now)), CaptureState::Waiting);
        assert!(captures.on_deadline(now.mono).is_some());
        captures.on_captured(now.mono, end(of, CaptureState::Kept, 1));
    }
    assert_eq!(captures.orders.len(), PAST_ORDERS_MAX);
    let by_labels =
        CaptureOrder { past: of_past(now).past, kind: CaptureKind::Past, ..by_labels(now, &[]) };
    order(&mut captures, now, 50, &by_labels);
    assert_eq!(captures.on_deadline(now.after(SECOND).mono), None);
    let state = order(&mut captures, now, 50, &by_labels);
    assert_eq!(state, refused(CaptureRefusal::ProcessNotFound));
    assert_balanced(&captures);
}

#[test]
fn a_capture_is_stopped_before_it_starts_or_while_it_runs() {
    let (mut captures, now) = (captures(), start());
    let stop = |of| request(id(of), CaptureStep::Stop);
    assert_eq!(send(&mut captures, now, &stop(1)).state, CaptureState::Unknown);
    order(&mut captures, now, 1, &by_pid(now));
    let cancelled = CaptureState::Failed(CaptureFailure::Cancelled);
    assert_eq!(send(&mut captures, now, &stop(1)).state, cancelled);

    order(&mut captures, now, 2, &by_pid(now));
    assert_eq!(captures.on_deadline(now.after(3 * SECOND).mono).unwrap().id, id(2));
    assert_eq!(captures.take_stopped(), []);
    assert_eq!(send(&mut captures, now, &stop(2)).state, CaptureState::Running);
    assert_eq!((captures.take_stopped(), captures.take_stopped()), (vec![id(2)], vec![]));
    captures.on_captured(now.after(4 * SECOND).mono, end(2, CaptureState::Torn, 1));
    assert_eq!(send(&mut captures, now, &stop(2)).state, CaptureState::Torn);
    assert_balanced(&captures);
}
