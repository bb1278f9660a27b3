//! Client sequence numbers, losses and events, in the node's ledger and messages.

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Labels, Series};
use plimsoll_schemas::time::BootMillis;
use plimsoll_schemas::wire::Latency;
use plimsoll_schemas::wire::capture::{
    CaptureId, CaptureKind, CaptureOrder, CaptureRequest, CaptureState, CaptureStep,
    ProcessSelector,
};

use super::*;
use crate::core::captures::SendingProcess;
use crate::core::continuous::{ContinuousBounds, Turns};

fn frame(seq: u64, samples: u64) -> Frame {
    let mut histogram = Histogram::default();
    histogram.record_n(5_000_000, samples);
    let series = Series::plain(Operation::new("a").unwrap());
    let latency = Latency { histograms: vec![(series, histogram)], ..Latency::default() };
    Frame { client: "job".to_owned(), seq: Seq(seq), clamped: 0, latency, last: false }
}

#[test]
fn what_a_socket_lost_is_recorded_and_lost_in_the_message_of_its_interval() {
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected());
    core.on_datagram(start(), b"_seq|c|1|0|2\na:1:2|ms");
    core.on_datagram(start(), b"_seq|c|5|42|1\na:3|ms");
    let now = start().after(SECOND);
    core.on_deadline(now);
    let snapshots = deliver(&mut core, now);
    let socket = LossReason::new("socket").unwrap();
    for snapshot in &snapshots {
        let totals = &snapshot.header.totals;
        assert_eq!((totals.recorded, &totals.lost), (43, &BTreeMap::from([(socket.clone(), 40)])));
    }
    assert_eq!(samples(&snapshots), 3);
    assert_eq!(core.status().totals, snapshots[0].header.totals);
}

#[test]
fn a_frame_is_answered_with_what_is_recorded_and_a_leaving_node_records_no_more() {
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected());
    assert_eq!(core.on_frame(start(), frame(1, 5)), Seq(1));
    assert_eq!(core.on_frame(start(), frame(1, 5)), Seq(1));
    core.on_frame_rejected("shape");
    let now = start().after(SECOND);
    core.on_leave(now);
    assert_eq!(core.on_frame(now, frame(2, 7)), Seq(1));
    let snapshots = deliver(&mut core, now);
    assert_eq!((samples(&snapshots), core.status().totals.recorded), (5, 5));
    assert_eq!(core.status().intake.frames_rejected, BTreeMap::from([("shape", 1)]));
}

#[test]
fn events_travel_with_their_interval() {
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected());
    core.on_datagram(start(), b"a:1|ms\n_e{5,2}:title|hi|t:warning|#k:v\n_sc|db|2|m:down");
    let now = start().after(SECOND);
    core.on_deadline(now);
    let snapshots = deliver(&mut core, now);
    let [events] = &snapshots[..] else { panic!("{snapshots:?}") };
    let Some(body) = events.body.event() else { panic!("{events:?}") };
    let titles: Vec<&str> = body.events.iter().map(|event| event.title.as_str()).collect();
    assert_eq!(titles, ["title", "db"]);
    assert_eq!(body.events[0].at, start().wall);
    let next = now.after(SECOND);
    core.on_deadline(next);
    let bodies: Vec<_> = deliver(&mut core, next).into_iter().map(|sent| sent.body).collect();
    assert!(!bodies.iter().any(|body| body.event().is_some()), "{bodies:?}");
}

#[test]
fn labels_of_the_node_stand_in_messages_with_samples_alone() {
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected());
    for (second, datagram, rack) in [(1, b"_sc|db|2", None), (2, b"a:1|ms\n_", Some("r7"))] {
        core.on_datagram(start(), datagram);
        let now = start().after(SECOND * second);
        core.on_deadline(now);
        let sent = deliver(&mut core, now);
        let racks: Vec<_> = sent.iter().map(|sent| sent.header.labels.get("rack")).collect();
        assert_eq!(racks, [rack]);
    }
}

#[test]
fn a_bus_message_of_every_reason_fits_its_draft_size() {
    let counts = |names: Vec<LossReason>| names.into_iter().map(|name| (name, u64::MAX)).collect();
    let bus = Bus {
        rejected: counts(Reject::ALL.map(Reject::reason).into()),
        attempted: u64::MAX,
        outbox_bytes: u64::MAX,
        round_trip_ns: Some(u64::MAX),
        ..core(Bounds::default()).status().bus
    };
    let lost = [
        "outbox_full",
        "refused",
        "max_payload",
        "expired",
        "crash",
        "socket",
        "samples_cap",
        "own",
    ];
    let header = wire::Header {
        node: NodeName::new("n".repeat(64)).unwrap(),
        incarnation: Incarnation(u64::MAX),
        seq: Seq(u64::MAX),
        start: start().wall,
        length_ns: u64::MAX,
        totals: Totals {
            recorded: u64::MAX,
            lost: counts(lost.map(|name| LossReason::new(name).unwrap()).into()),
        },
        last: true,
        successor: Some(Incarnation(u64::MAX)),
        labels: Labels::default(),
    };
    let draft = Draft::new(&Body::Bus(bus.clone()), start().wall, 1, start().mono);
    let message = wire::encode(&Snapshot { header, body: Body::Bus(bus) });
    assert!(message.len() <= draft.bytes(), "{} of {}", message.len(), draft.bytes());
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A numbered datagram of this many samples, which comes, or does not, or comes twice.
    Datagram(u64, u8),
    /// A frame of this many samples, which comes once or twice.
    Frame(u64, bool),
    Interval,
    Send,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..30_u64, 0..3_u8).prop_map(|(samples, fate)| Step::Datagram(samples, fate)),
        2 => (1..30_u64, any::<bool>()).prop_map(|(samples, twice)| Step::Frame(samples, twice)),
        2 => Just(Step::Interval),
        1 => Just(Step::Send),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    /// Invariant 1 from the client on: what it sent is in messages, held, or lost by name.
    #[test]
    fn what_clients_sent_is_merged_held_or_lost(steps in steps()) {
        let mut core = core(tight());
        let (mut now, mut number, mut before, mut seq) = (start(), 0, 0, 0);
        // Of datagrams, the node can count only those before the last one that came.
        let (mut received, mut frames, mut merged, mut first) = (0, 0, 0, None);
        core.on_bus_event(now, &connected());
        for step in steps.into_iter().chain([Step::Interval, Step::Send]) {
            match step {
                Step::Datagram(samples, fate) => {
                    number += 1;
                    let values = vec!["1"; usize::try_from(samples).unwrap()].join(":");
                    let line = if samples > 0 { format!("a:{values}|ms") } else { String::new() };
                    let text = format!("_seq|c|{number}|{before}|{samples}\n{line}");
                    (0..fate).for_each(|_| core.on_datagram(now, text.as_bytes()));
                    if fate > 0 {
                        received = before + samples - *first.get_or_insert(before);
                    }
                    before += samples;
                }
                Step::Frame(samples, twice) => {
                    seq += 1;
                    frames += samples;
                    for _ in 0..1 + u8::from(twice) {
                        prop_assert_eq!(core.on_frame(now, frame(seq, samples)), Seq(seq));
                    }
                }
                Step::Interval => {
                    now = now.after(SECOND);
                    core.on_deadline(now);
                }
                Step::Send => {
                    // Not acknowledged, so that the node has nothing of its own to record.
                    while let Some(publish) = core.next_publish(now) {
                        let subject = publish.subject.parse().unwrap();
                        let snapshot = wire::decode(&subject, &publish.payload).unwrap();
                        merged += snapshot.body.samples();
                        let Totals { recorded, .. } = snapshot.header.totals;
                        prop_assert_eq!(merged, recorded - snapshot.header.totals.lost_sum());
                        core.on_bus_event(now, &refused(publish.ticket, Refusal::TooLarge));
                        store_letters(&mut core, now);
                        merged -= snapshot.body.samples();
                    }
                }
            }
            let status = core.status();
            let open = core.intake.open_samples();
            prop_assert_eq!(status.totals.recorded + open, received + frames);
            prop_assert_eq!(status.totals.recorded, status.held_samples + status.totals.lost_sum());
        }
    }
}

#[test]
fn a_wall_clock_that_steps_while_lines_come_costs_no_sample_and_bends_no_length() {
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected());
    let hour = 3_600_000_000_000;
    let mut snapshots = Vec::new();
    for (second, wall) in (1..).zip([0, 2 * hour, hour, 1, u64::MAX / 2 - 1, start().wall.0]) {
        let line = format!("a:{second}|ms\ng:{second}|g\n_e{{1,0}}:t|");
        core.on_datagram(Now { wall: Wall(wall), ..start() }, line.as_bytes());
        let now = Now { mono: start().mono.plus(second * SECOND), wall: Wall(wall) };
        core.on_deadline(now);
        snapshots.extend(deliver(&mut core, now));
    }
    let own = |snapshot: &&Snapshot| snapshot.body.latency().is_some();
    let latencies: Vec<&Snapshot> = snapshots.iter().filter(own).collect();
    assert_eq!(latencies.len(), 6);
    assert!(latencies.iter().all(|snapshot| snapshot.header.length_ns == 1_000_000_000));
    assert_eq!(samples(&snapshots), core.status().totals.recorded);
    assert_eq!(core.status().intake.rejected, BTreeMap::new());
}

#[test]
fn a_clock_set_forward_puts_no_interval_into_the_past() {
    let hour = Duration::from_secs(3_600);
    let ahead = |now: Now, by: Duration| Now { wall: now.wall.plus(by), ..now };
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected());
    let ends = |snapshots: Vec<Snapshot>| -> Vec<Wall> {
        assert!(samples(&snapshots) > 0, "{snapshots:?}");
        let headers = snapshots.into_iter().map(|snapshot| snapshot.header);
        headers.map(|header| header.start.plus(Duration::from_nanos(header.length_ns))).collect()
    };
    // Set while the interval is open.
    core.on_datagram(start(), b"a:1|ms");
    let now = ahead(start().after(SECOND), hour);
    core.on_deadline(now);
    assert_eq!(ends(deliver(&mut core, now)), [now.wall]);
    // Set while what was closed waits for the broker, in which an interval more is closed.
    core.on_bus_event(now, &BusEvent::Disconnected);
    for second in 2..=3 {
        let now = ahead(start().after(SECOND * second), hour * second.min(2));
        core.on_datagram(now, b"a:1|ms");
        core.on_deadline(now);
    }
    let now = ahead(start().after(SECOND * 5), hour * 3);
    core.on_bus_event(now, &connected());
    let ends = ends(deliver(&mut core, now));
    let oldest = now.wall.minus(SECOND * 3);
    assert!(ends.iter().all(|end| (oldest..=now.wall).contains(end)), "{ends:?} {now:?}");
}

/// A core that searches the sender of the operation `a` with the label `rank=3`.
fn searching() -> Core {
    let key = ConfirmKey::from_hex(&"5a".repeat(32)).unwrap();
    let mut core = core(Bounds::default());
    let identity = Identity {
        mesh: MeshName::new("m").unwrap(),
        node: NodeName::new("n").unwrap(),
        labels: Labels::new([("rack", "r7")]).unwrap(),
    };
    core.enable_captures(identity.clone(), Ok(key.clone()));
    let process = ProcessSelector {
        pid: None,
        operation: Some(Operation::new("a").unwrap()),
        labels: Labels::new([("rank", "3"), ("rack", "r7")]).unwrap(),
    };
    let order = CaptureOrder {
        kind: CaptureKind::Cpu,
        native: false,
        past: None,
        process,
        seconds: 1,
        interval_seconds: None,
        hz: 1,
        start_at: start().wall.plus(SECOND),
        expires_at: start().wall.plus(2 * SECOND),
        rule: None,
    };
    let request = CaptureRequest {
        number: 1,
        asker: "a".to_owned(),
        node: identity.node,
        id: CaptureId::derived(&[]),
        step: CaptureStep::Order(order),
    };
    let request = request.encode(&identity.mesh, &key);
    let answer = core.captures().on_request(start(), &request).unwrap();
    assert_eq!(answer.response.state, CaptureState::Waiting);
    core
}

fn sender(pid: u32) -> SendingProcess {
    SendingProcess { pid, alive_at: BootMillis(5) }
}

/// The process that is captured at the instant of the order.
fn found(core: &mut Core) -> Option<u32> {
    core.captures().on_deadline(start().after(SECOND).mono).map(|start| start.order.pid)
}

#[test]
fn the_sender_of_a_matching_line_is_found_and_no_other_one() {
    let mut core = searching();
    assert!(core.captures().is_searching());
    for (pid, bytes) in [
        (41, &b"a:1|ms|#rank:4"[..]),
        (42, b"b:1|ms|#rank:3"),
        (43, b"a:1|ms"),
        (44, b"ab:1|ms|#rank:3\n\xff\n|||\na"),
        (45, b"b:1|ms\na:1:2|h|@0.5|#phase:train,rank:3\r\n"),
    ] {
        let sender = Some(sender(pid));
        core.on_socket_event(start(), SocketEvent::Datagram { bytes, sender });
        core.on_socket_event(start(), SocketEvent::Datagram { bytes, sender: None });
    }
    assert_eq!(found(&mut core), Some(45));
    assert!(!core.captures().is_searching());
    assert_eq!(core.status().intake.values, 2 * (1 + 1 + 1 + 1 + 1 + 2), "all are recorded");
}

#[test]
fn who_sends_events_alone_is_not_watched() {
    let mut core = searching();
    let turns = Turns { hz: 19, native: false, every: 10 * SECOND };
    core.enable_continuous(ContinuousBounds { by_name: false, senders: true, turns: Some(turns) });
    let watched = |core: &mut Core, pid, bytes: &'static [u8]| {
        let sender = Some(sender(pid));
        core.on_socket_event(start(), SocketEvent::Datagram { bytes, sender });
        core.continuous().stats().unwrap().watched
    };
    assert_eq!(watched(&mut core, 41, b"_e{9,4}:run v1 up|text|t:info|#run:v1"), 0);
    assert_eq!(watched(&mut core, 42, b"a:1|ms"), 1);
}

#[test]
fn the_sender_of_a_matching_frame_is_found_and_no_other_one() {
    let mut core = searching();
    core.on_frame_sender(Mono(0), &frame(1, 5), sender(41));
    let mut matching = frame(1, 5);
    matching.latency.histograms[0].0.labels = Labels::new([("rank", "3"), ("x", "y")]).unwrap();
    core.on_frame_sender(Mono(0), &matching, sender(42));
    assert_eq!(found(&mut core), Some(42));
}
