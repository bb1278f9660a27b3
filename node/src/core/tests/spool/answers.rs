//! Answers wait for their note, through every fault of the disk.

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::Series;
use plimsoll_schemas::wire::Latency;
use plimsoll_schemas::wire::frame::Frame;

use super::*;
use crate::limits::ANSWER_WAIT_MAX;

/// A client that keeps one frame until it is answered, and sends it again to a successor.
#[derive(Default)]
pub(super) struct Client {
    newest: u64,
    /// The node has not written its first batch.
    pub(super) is_new_node: bool,
    unanswered: Option<Frame>,
    /// Answers that wait: their notes, numbers, and what was recorded until then.
    pub(super) waiting: Vec<(NoteNumber, Seq, u64)>,
    /// What was recorded when a frame came that was answered, by incarnation.
    pub(super) answered: BTreeMap<u64, u64>,
    /// What the next incarnation took over in drafts, which it states as its own.
    pub(super) adopted: BTreeMap<u64, u64>,
    /// What was noted, by incarnation whose file was gone at its end.
    pub(super) orphans: BTreeMap<u64, u64>,
}

impl World {
    /// The client sends a frame with this many samples, or again the one that is unanswered.
    pub(super) fn frame(&mut self, samples: u64) {
        if self.client.unanswered.is_none() {
            self.client.newest += 1;
            self.recorded += samples;
            let mut histogram = Histogram::default();
            histogram.record_n(5_000, samples);
            let series = Series::plain(Operation::new("a").unwrap());
            let latency = Latency { histograms: vec![(series, histogram)], ..Latency::default() };
            let (client, seq) = ("job".to_owned(), Seq(self.client.newest));
            self.client.unanswered = Some(Frame { client, seq, clamped: 0, latency, last: false });
        }
        self.resend();
    }

    pub(super) fn resend(&mut self) {
        let Some(frame) = self.client.unanswered.clone() else { return };
        if std::mem::take(&mut self.client.is_new_node) {
            // The driver begins it before it reads anything.
            self.spool(false);
        }
        let seq = self.core.on_frame(self.now, frame);
        let note = self.core.wait_for_note(self.now);
        self.client.waiting.push((note, seq, self.core.note().recorded));
        self.answer();
    }

    /// As the driver does in each turn before it sends or writes anything.
    pub(super) fn answer(&mut self) {
        let noted = self.core.noted();
        let incarnation = self.core.sealer.incarnation.0;
        for (_, seq, recorded) in self.client.waiting.extract_if(.., |(note, ..)| *note <= noted) {
            self.client.unanswered.take_if(|frame| frame.seq <= seq);
            let answered = self.client.answered.entry(incarnation).or_default();
            *answered = recorded.max(*answered);
        }
    }

    fn is_answered(&self) -> bool {
        self.client.unanswered.is_none()
    }
}

#[test]
fn an_answer_waits_for_its_note_and_one_note_serves_all_that_wait() {
    let mut world = World::new();
    assert!(world.core.wait_for_note(world.now) > world.core.noted());
    assert!(world.core.next_note(world.now).is_none(), "no batch states this run yet");
    world.frame(5);
    assert!(!world.is_answered());
    let numbers: Vec<NoteNumber> = (0..3).map(|_| world.core.wait_for_note(world.now)).collect();
    let note = world.core.next_note(world.now).unwrap();
    assert_eq!(note.own.recorded, 5);
    let later = world.core.wait_for_note(world.now);
    assert!(world.core.next_note(world.now).is_none(), "one at a time");
    assert!(numbers.iter().all(|number| *number > world.core.noted()));
    world.core.on_noted(world.now);
    assert!(numbers.iter().all(|number| *number <= world.core.noted()));
    assert!(later > world.core.noted(), "what came after the note was made is not in it");
    assert!(world.core.next_note(world.now).is_some());
    world.core.on_noted(world.now);
    assert!(later <= world.core.noted());
    assert!(world.core.next_note(world.now).is_none(), "no answer waits");
}

#[test]
fn without_a_spool_answers_leave_at_once() {
    let mut core = Core::new(identity(), bounds(), World::new().now);
    let now = World::new().now;
    assert!(core.wait_for_note(now) <= core.noted());
    assert!(core.next_note(now).is_none() && !core.are_answers_overdue(now));
}

#[test]
fn what_was_answered_is_lost_by_name_after_a_kill() {
    let mut world = World::new();
    world.spool(false);
    world.frame(5);
    world.note();
    assert!(world.is_answered());
    let former = world.core.sealer.incarnation;
    world.crash(false);
    world.settle();
    let totals = &world.arrived[&(former.0, Seq(1))].0.totals;
    assert_eq!((totals.recorded, totals.lost.get("crash")), (5, Some(&5)));
}

#[test]
fn what_was_noted_and_not_answered_is_sent_again_and_merged_once() {
    let mut world = World::new();
    world.spool(false);
    world.frame(5);
    world.take(&Step::NoteThenCrash);
    assert_eq!((world.is_answered(), world.core.spool.stats().crashed), (false, 5));
    world.settle();
    assert_eq!((world.is_answered(), world.job_arrived), (true, 5));
}

#[test]
fn no_draft_is_written_before_the_answers_to_its_samples_have_left() {
    let mut world = World::new();
    world.spool(false);
    world.frame(5);
    world.pass(SECOND);
    assert_eq!(world.core.next_spool_batch(world.now), None);
    world.crash(false);
    assert_eq!(world.core.spool.stats().recovered, 0, "the client sends them again");
    world.spool(false);
    world.frame(0);
    world.pass(SECOND);
    world.note();
    assert!(world.is_answered());
    world.spool(false);
    world.crash(false);
    assert_eq!(world.core.spool.stats().recovered, 5);
}

#[test]
fn a_note_does_not_wait_for_a_batch_that_is_being_synced() {
    let mut world = World::new();
    world.spool(false);
    world.core.on_datagram(world.now, b"a:1|ms");
    world.pass(SECOND);
    assert!(world.core.next_spool_batch(world.now).is_some());
    world.frame(5);
    world.note();
    assert!(world.is_answered());
}

#[test]
fn on_a_full_disk_answers_wait_for_their_notes_and_the_next_incarnation_reports_the_last() {
    let mut world = World::new();
    world.core.on_bus_event(world.now, &connected());
    world.spool(false);
    world.frame(5);
    world.pass(SECOND);
    world.note();
    world.frame(6);
    let batch = world.core.next_spool_batch(world.now);
    assert!(batch.is_some());
    world.file.clear();
    world.core.on_spool_failed(world.now);
    world.pass(SECOND);
    world.send(true);
    world.answer();
    assert_eq!(
        (world.job_arrived, world.is_answered()),
        (0, false),
        "its client may send it again"
    );
    world.note();
    assert!(world.is_answered() && !world.core.status().spool.durable);
    world.send(true);
    assert_eq!(world.job_arrived, 11, "an answer is owed no more");
    world.frame(7);
    world.note();
    let former = world.core.sealer.incarnation;
    let noted = world.core.note().recorded;
    assert!(noted >= 5 + 6 + 7);
    world.crash(false);
    let reported = NotedIncarnation { incarnation: former, recorded: noted };
    assert_eq!(*world.core.status().bus.former, [reported]);

    // The disk stays full, and the next incarnation ends before anything of it was confirmed.
    world.spool(true);
    world.frame(8);
    world.note();
    let second = world.core.sealer.incarnation;
    world.crash(false);
    let names: Vec<_> =
        world.core.status().bus.former.iter().map(|noted| noted.incarnation).collect();
    assert_eq!(names, [second, former], "the latest first");
    world.pass(SECOND);
    world.core.on_bus_event(world.now, &connected());
    world.spool(false);
    world.send(true);
    world.spool(false);
    world.send(true);
    world.acknowledge();
    let own = world.core.sealer.incarnation;
    let reported = world.core.orphans_reported.expect("a bus message is sealed");
    assert_eq!(world.core.status().bus.former.len(), 2, "none is confirmed yet");
    let spans = vec![(Seq(1), reported)];
    let confirmation = Confirmation {
        incarnations: vec![ConfirmedIncarnation { incarnation: own, spans }],
        ..Confirmation::of(identity().node)
    };
    world.core.on_confirmation(world.now, &confirmation::encode(&confirmation)).unwrap();
    assert_eq!(*world.core.status().bus.former, [], "an aggregator has them");
}

#[test]
fn a_note_that_fails_lets_answers_leave_and_is_tried_again() {
    let mut world = World::new();
    world.spool(false);
    world.frame(5);
    assert!(world.core.next_note(world.now).is_some());
    world.core.on_note_failed(world.now);
    world.answer();
    assert!(world.is_answered());
    let spool = world.core.status().spool;
    assert_eq!((spool.durable, spool.failures), (false, 1));
    assert!(world.core.next_note(world.now).is_none(), "a pause runs");
    world.pass(SPOOL_RETRY_PAUSE);
    world.note();
    assert!(world.core.status().spool.durable);
    world.frame(6);
    assert!(!world.is_answered());
}

#[test]
fn while_a_note_takes_long_nothing_more_that_is_answered_is_recorded() {
    let mut world = World::new();
    world.spool(false);
    world.frame(5);
    assert!(world.core.next_note(world.now).is_some());
    world.pass(ANSWER_WAIT_MAX - Duration::from_millis(1));
    assert!(!world.core.are_answers_overdue(world.now));
    world.pass(Duration::from_millis(1));
    assert!(world.core.are_answers_overdue(world.now));
    world.core.on_noted(world.now);
    world.answer();
    assert!(world.is_answered() && !world.core.are_answers_overdue(world.now));
}

#[test]
fn a_leaving_node_answers_before_its_last_interval_is_written() {
    let mut world = World::new();
    world.spool(false);
    world.core.on_bus_event(world.now, &connected());
    world.frame(5);
    world.core.on_leave(world.now);
    assert_eq!(world.core.next_spool_batch(world.now), None);
    world.note();
    assert!(world.is_answered());
    world.settle();
    assert_eq!((world.job_arrived, world.core.is_drained(world.now)), (5, true));
}
