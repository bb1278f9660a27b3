//! Random histories of several nodes through one decoding thread and through many: the answers of
//! the core are the same. `PROPTEST_CASES=10000` runs as many.

use std::time::Duration;

use bytes::Bytes;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Now;
use plimsoll_schemas::transport::Delivered;
use proptest::prelude::*;

use super::*;
use crate::core::Core;
use crate::core::tests::{MS, Speaker, core, start};

const NODES: [&str; 4] = ["a", "b", "c", "d"];

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    /// A node sends samples of three operations around this many milliseconds.
    Send { node: usize, ms: u64 },
    /// An earlier message arrives again.
    Again(prop::sample::Index),
    /// One arrives with another byte in it.
    Damaged(prop::sample::Index, prop::sample::Index, u8),
    /// This many milliseconds pass, and rules are judged.
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = any::<prop::sample::Index>;
    let step = prop_oneof![
        12 => (0..NODES.len(), 1..60_u64).prop_map(|(node, ms)| Step::Send { node, ms }),
        2 => index().prop_map(Step::Again),
        1 => (index(), index(), any::<u8>()).prop_map(|(of, at, to)| Step::Damaged(of, at, to)),
        2 => (0..5_000_u64).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..300)
}

/// A message, and when it is taken.
type Taken = (Now, Delivered);

fn history(steps: &[Step]) -> Vec<Taken> {
    let mut speakers = NODES.map(Speaker::new);
    let (mut now, mut taken): (Now, Vec<Taken>) = (start(), Vec::new());
    let take = |now: Now, (subject, payload): (String, Bytes), taken: &mut Vec<Taken>| {
        let (at, sent, stream_seq) = (Some(now.wall), Some(now.wall), taken.len() as u64 + 1);
        let (lane, pending) = (Lane::Normal, 0);
        taken.push((now, Delivered { lane, stream_seq, pending, at, sent, subject, payload }));
    };
    let former = |of: &prop::sample::Index, taken: &[Taken]| {
        let message = &of.get(taken).1;
        (message.subject.clone(), message.payload.clone())
    };
    for step in steps {
        match step {
            Step::Send { node, ms } => {
                let values = (1..20).map(|n| n * ms * MS / 10);
                let (subject, payload) = speakers[*node].send_all(now, values);
                take(now, (subject, payload.into()), &mut taken);
            }
            Step::Pass(ms) => now = now.after(Duration::from_millis(*ms)),
            _ if taken.is_empty() => {}
            Step::Again(of) => take(now, former(of, &taken), &mut taken),
            Step::Damaged(of, at, to) => {
                let (subject, payload) = former(of, &taken);
                let mut payload = payload.to_vec();
                let at = at.index(payload.len());
                payload[at] = *to;
                take(now, (subject, payload.into()), &mut taken);
            }
        }
    }
    taken
}

impl Source for mpsc::UnboundedReceiver<CursorEvent> {
    async fn next(&mut self) -> Option<CursorEvent> {
        self.recv().await
    }

    fn ready(&mut self) -> Option<CursorEvent> {
        self.try_recv().ok()
    }
}

/// A core that took the history from a lane with this many threads.
async fn read_by(threads: usize, history: &[Taken]) -> Core {
    let (sender, source) = mpsc::unbounded_channel();
    for (_, message) in history {
        sender.send(CursorEvent::Message(message.clone())).unwrap();
    }
    drop(sender);
    let mut lane = DecodedLane::start(source, &Decoders::new(Some(threads)));
    let (mut core, mut times) = (core(), history.iter().map(|(now, _)| *now));
    while let Some(event) = lane.next().await {
        let LaneEvent::Message(decoded) = event else { panic!("only messages were sent") };
        let now = times.next().unwrap();
        core.on_deadline(now);
        // What cannot be decoded is counted, and the counts are compared.
        let _counted = core.on_decoded(now, *decoded);
    }
    assert!(times.next().is_none(), "every message came");
    core
}

/// The same without a lane: each message decoded when it is taken.
fn read_one_by_one(history: &[Taken]) -> Core {
    let mut core = core();
    for (now, message) in history {
        core.on_deadline(*now);
        let _counted = core.on_message(*now, message);
    }
    core
}

/// All that the core answers, with every window and every ledger entry.
fn answers(core: &Core, history: &[Taken]) -> String {
    let end = history.last().map_or(start(), |(now, _)| *now).wall;
    let position = core.position(Lane::Normal);
    format!("{:?} {:?} {position:?}", core.view(end, "jetstream"), core.statement(end))
}

proptest! {
    #[test]
    fn one_thread_and_many_give_the_same_answers(steps in steps(), threads in 2..9_usize) {
        let history = history(&steps);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let expected = answers(&read_one_by_one(&history), &history);
        for threads in [1, threads] {
            let core = runtime.block_on(read_by(threads, &history));
            prop_assert_eq!(&answers(&core, &history), &expected, "{} threads", threads);
        }
    }
}

#[tokio::test]
async fn a_lane_ends_with_its_source_and_brings_what_is_no_message_in_its_place() {
    let (sender, source) = mpsc::unbounded_channel();
    let message = history(&[Step::Send { node: 0, ms: 1 }]).remove(0).1;
    for _ in 0..3 {
        for _ in 0..DECODED_APART_MIN {
            sender.send(CursorEvent::Message(message.clone())).unwrap();
        }
        sender.send(CursorEvent::Used { ratio: 0.5 }).unwrap();
    }
    drop(sender);
    let mut lane = DecodedLane::start(source, &Decoders::new(Some(2)));
    assert!(lane.ready().is_none(), "nothing was read yet");
    let mut places = Vec::new();
    let mut place = 0;
    while let Some(event) = lane.next().await {
        if let LaneEvent::Cursor(CursorEvent::Used { .. }) = event {
            places.push(place);
        }
        place += 1;
    }
    let turn = DECODED_APART_MIN + 1;
    assert_eq!((places, place), (vec![turn - 1, 2 * turn - 1, 3 * turn - 1], 3 * turn));
    assert!(lane.ready().is_none(), "it has ended");
}

#[tokio::test]
async fn a_batch_that_panics_ends_its_lane_however_it_is_read() {
    for by_ready in [true, false] {
        let (sender, batches) = mpsc::channel(2);
        let panics = spawn_blocking(|| -> Vec<LaneEvent> { panic!("planted") });
        let behind = vec![LaneEvent::Cursor(CursorEvent::Used { ratio: 0.5 })];
        sender.send(Batch::InWork(panics)).await.unwrap();
        sender.send(Batch::Decoded(behind)).await.unwrap();
        let task = tokio::spawn(async {});
        let events = VecDeque::new();
        let mut lane = DecodedLane { batches, in_work: None, events, has_failed: false, task };
        while by_ready && !lane.has_failed {
            assert!(lane.ready().is_none());
            tokio::task::yield_now().await;
        }
        assert!(lane.next().await.is_none() && lane.ready().is_none());
    }
}
