//! A job that sends frames: it keeps one until it is answered and sends it again to the node's next
//! life, as the Rust client does.

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Operation, Seq, Series};
use plimsoll_schemas::time::Now;
use plimsoll_schemas::wire::Latency;
use plimsoll_schemas::wire::frame::Frame;

use crate::sim::cores::aggregator::REPORTED;
use crate::sim::cores::node::{NodeCore, NoteNumber};
use crate::sim::rooms::NodeRooms;

/// See the module.
#[derive(Default)]
pub(super) struct Job {
    newest: u64,
    unanswered: Option<Unanswered>,
    /// Answers of the present life that wait for their note.
    waiting: Vec<WaitingAnswer>,
}

struct Unanswered {
    frame: Frame,
    samples: Vec<usize>,
    /// Whether the present life of the node has it.
    is_sent: bool,
}

struct WaitingAnswer {
    seq: Seq,
    note: NoteNumber,
    /// The life's name, and what it had recorded when the frame came.
    incarnation: u64,
    recorded: u64,
}

impl Job {
    /// What the former life did not answer is sent again.
    pub(super) fn on_node_started(&mut self) {
        self.waiting.clear();
        if let Some(unanswered) = &mut self.unanswered {
            unanswered.is_sent = false;
        }
    }

    /// Sends what a former life has not answered; true if there was anything.
    pub(super) fn resend(
        &mut self,
        rooms: &mut NodeRooms<'_>,
        core: &mut NodeCore,
        now: Now,
    ) -> bool {
        let Some(unanswered) = self.unanswered.as_ref().filter(|frame| !frame.is_sent) else {
            return false;
        };
        rooms.k.reach("frame sent again to a successor");
        for sample in &unanswered.samples {
            rooms.oracle.incarnation_mut().record(*sample);
        }
        self.hand_over(core, now);
        true
    }

    /// Sends this many new samples; false while a frame is unanswered, or frames are left unread.
    pub(super) fn send(
        &mut self,
        rooms: &mut NodeRooms<'_>,
        core: &mut NodeCore,
        now: Now,
        samples: u64,
    ) -> bool {
        if core.are_answers_overdue(now) {
            rooms.k.reach("frame left unread");
            return false;
        }

        if self.unanswered.is_some() {
            return false;
        }
        let (mut histogram, mut buckets) = (Histogram::default(), Vec::new());

        for (bucket, ns) in (0..samples).map_while(|_| rooms.oracle.next_sample()) {
            histogram.record(ns);
            buckets.push(bucket);
        }

        self.newest += 1;
        let series = Series::plain(Operation::new(REPORTED).expect("a constant of plain letters"));
        let latency = Latency { histograms: vec![(series, histogram)], ..Latency::default() };
        let seq = Seq(self.newest);
        let frame = Frame { client: "job".to_owned(), seq, clamped: 0, latency, last: false };
        self.unanswered = Some(Unanswered { frame, samples: buckets, is_sent: false });
        self.hand_over(core, now);
        true
    }

    fn hand_over(&mut self, core: &mut NodeCore, now: Now) {
        let Some(unanswered) = &mut self.unanswered else { return };
        unanswered.is_sent = true;
        let (seq, note) = core.on_frame(now, unanswered.frame.clone());
        let (incarnation, recorded) = core.recorded();
        self.waiting.push(WaitingAnswer { seq, note, incarnation, recorded });
    }

    /// Takes the answers that may leave, as the driver sends them before anything else.
    pub(super) fn answer(&mut self, rooms: &mut NodeRooms<'_>, core: &NodeCore) {
        let noted = core.noted();
        for answer in self.waiting.extract_if(.., |answer| answer.note <= noted) {
            rooms.k.reach_n("frame answered after its note", u64::from(noted != NoteNumber::ALL));
            self.unanswered.take_if(|unanswered| unanswered.frame.seq <= answer.seq);
            rooms.oracle.incarnation_mut().on_answer(answer.incarnation, answer.recorded);
        }
    }
}
