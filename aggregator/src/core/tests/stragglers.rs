//! From messages to the alert about a straggler: it fires with its sentence, stays over a restart,
//! and ends with evidence.

use plimsoll_schemas::alert::{AlertEndReason, DataStatus, Evidence};
use plimsoll_schemas::random::SplitMix64;
use plimsoll_schemas::summary::CohortState;
use plimsoll_schemas::wire::Bus;

use super::checkpoint::restarted;
use super::*;

const NODES: [&str; 4] = ["a", "b", "c", "d"];
const SLOW: usize = 2;
/// Of four ranks noise is known after 200 blocks of five seconds, less those of the first bins.
const LEARNING: u64 = 340;
const NAMING: u64 = 60;

struct Job {
    core: Core,
    now: Now,
    speakers: Vec<Speaker>,
    random: SplitMix64,
}

fn positioned(mut core: Core) -> Core {
    Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
    core
}

impl Job {
    fn new() -> Self {
        let rules = Rules { stragglers: shipped().stragglers, time_scale: 1, ..Rules::default() };
        let core = positioned(Core::new(MeshName::new("m").unwrap(), rules, start()));
        let speakers = NODES.map(Speaker::new).into();
        Self { core, now: start(), speakers, random: SplitMix64(1) }
    }

    /// Seconds pass in each of which all ranks make a step of 100 ms, and one computes longer.
    fn run(&mut self, seconds: u64, longer_ms: u64) {
        for _ in 0..seconds {
            let compute = [0; NODES.len()].map(|_| 80 * MS + self.random.bits() % (8 * MS));
            let wall = compute.iter().max().unwrap() + longer_ms * MS;
            for (number, (speaker, mut compute)) in
                self.speakers.iter_mut().zip(compute).enumerate()
            {
                compute += if number == SLOW { longer_ms * MS } else { 0 };
                let rank = number.to_string();
                let phase = |name: &str, class: Option<&str>, ns: u64| {
                    let class = class.map(|class| ("class", class));
                    let labels = Labels::new([("rank", rank.as_str())].into_iter().chain(class));
                    let operation = Operation::new(name).unwrap();
                    let mut sample = Histogram::default();
                    sample.record(ns);
                    (Series { operation, labels: labels.unwrap() }, sample)
                };
                let histograms = vec![
                    phase("train_step", None, wall),
                    phase("train_step.compute", Some("compute"), compute),
                    phase("train_step.sync", Some("sync"), wall - compute.min(wall)),
                ];
                speaker.record(3);
                let latency = Latency { histograms, ..Latency::default() };
                let message = speaker.message(self.now, Body::Latency(latency), false);
                deliver(&mut self.core, self.now.after(SECOND), &message);
            }
            self.now = self.now.after(SECOND);
            self.core.on_deadline(self.now);
        }
    }

    /// Seconds pass in which nodes report, and no rank makes a step.
    fn pause(&mut self, seconds: u64) {
        for _ in 0..seconds {
            for speaker in &mut self.speakers {
                let message = speaker.message(self.now, Body::Bus(Bus::default()), false);
                deliver(&mut self.core, self.now.after(SECOND), &message);
            }
            self.now = self.now.after(SECOND);
            self.core.on_deadline(self.now);
        }
    }

    /// Why the latest change ended an alert.
    fn ended(&self) -> Option<AlertEndReason> {
        self.core.alerting.changes().last()?.ended
    }

    /// What fires, as the page has it.
    fn firing(&self) -> Vec<(String, DataStatus)> {
        let view = self.core.read_view(self.now.wall, "test");
        let rows = view.blame.alerts.iter();
        rows.map(|row| (row.node.to_string(), row.data)).collect()
    }
}

#[test]
fn a_straggler_fires_once_and_ends_when_it_is_over() {
    let mut job = Job::new();
    job.run(LEARNING, 0);
    let view = job.core.read_view(job.now.wall, "test");
    let cohorts: Vec<_> = view.blame.cohorts.iter().map(|row| (row.state, row.peers)).collect();
    assert_eq!((cohorts, job.firing()), (vec![(CohortState::Judged, 4)], vec![]));

    job.run(NAMING, 20);
    assert_eq!(job.firing(), [("c".to_owned(), DataStatus::Enough)]);
    let sent: Vec<_> = job.core.alerting.changes().iter().map(|of| of.state).collect();
    assert_eq!(sent, [AlertState::Firing], "once, although it is found each second");
    let sent = job.core.alerting.changes()[0].clone();
    let Evidence::Straggler(evidence) = &sent.evidence else { panic!("{sent:?}") };
    assert_eq!((evidence.peer.as_str(), evidence.class.as_deref()), ("2", Some("compute")));
    let figures = "A rank is slower than the others, which wait for it at each step: rank 2 on c \
                   holds up 3 ranks: +";
    assert!(sent.summary.starts_with(figures), "{}", sent.summary);

    job.run(3 * NAMING, 0);
    assert_eq!(job.firing(), []);
    assert_eq!(job.core.alerting.changes().last().unwrap().state, AlertState::Resolved);
}

#[test]
fn a_restart_ends_no_alert_about_a_straggler() {
    let mut job = Job::new();
    job.run(LEARNING, 0);
    job.run(NAMING, 20);
    assert_eq!(job.firing(), [("c".to_owned(), DataStatus::Enough)]);
    // The ranks have to be learned anew.
    job.core = positioned(restarted(&mut job.core, job.now));
    job.run(30, 20);
    assert_eq!(job.firing(), [("c".to_owned(), DataStatus::Insufficient)]);
    job.run(LEARNING + NAMING, 20);
    assert_eq!(job.firing(), [("c".to_owned(), DataStatus::Enough)]);
    assert_eq!(job.core.alerting.changes().len(), 1, "nothing was sent again");
}

#[test]
fn an_end_that_came_while_no_aggregator_ran_ends_the_alert() {
    let mut job = Job::new();
    job.run(LEARNING, 0);
    job.run(NAMING, 20);
    let ended_operations = Box::new([Operation::new("train_step").unwrap()]);
    let bus = Bus { ended_operations, ..Bus::default() };
    let (subject, payload) = job.speakers[SLOW].message(job.now, Body::Bus(bus), false);

    job.core = restarted(&mut job.core, job.now);
    job.now = job.now.after(5 * SECOND);
    for lane in Lane::ALL {
        job.core.on_positioned(lane, 1, if lane == Lane::Normal { 2 } else { 0 }, "s1");
    }
    assert!(job.core.ingest.is_catching_up() && !job.core.ingest.is_ready());
    let (lane, payload) = (Lane::Normal, Bytes::from(payload));
    let (at, sent, pending) = (None, None, 0);
    let end = Delivered { lane, stream_seq: 2, pending, at, sent, subject, payload };
    job.core.on_message(job.now, &end).unwrap();
    job.pause(5);
    assert_eq!((job.firing(), job.ended()), (vec![], Some(AlertEndReason::JobEnded)));
}

#[test]
fn an_alert_whose_node_is_up_without_steps_ends_after_ten_minutes() {
    let mut job = Job::new();
    job.run(LEARNING, 0);
    job.run(NAMING, 20);
    job.pause(590);
    assert_eq!(job.firing(), [("c".to_owned(), DataStatus::NoData)]);
    job.pause(20);
    assert_eq!((job.firing(), job.ended()), (vec![], Some(AlertEndReason::NoSteps)));
    let summary = &job.core.alerting.changes().last().unwrap().summary;
    assert!(summary.ends_with("; ended: no step for ten minutes"), "{summary}");
}
