//! A job beside a node that comes late, goes, hangs up, or does not answer.

use std::os::unix::net::UnixListener;

use crate::node::{Manner, Node};
use crate::process::{Job, Place, poll_until};

/// Jobs that are killed, each at another moment between two flushes.
const KILLED: usize = 8;
/// Records of the first job before, and how many more each further job makes.
const TICKS: usize = 100;
const TICKS_MORE: usize = 5;
/// How many ticks a frame holds on average at most: three times what it is to hold. Flushes and
/// ticks are late together where a machine is busy, so their ratio needs no clock.
const TICKS_A_FRAME_MAX: u64 = 24;

#[test]
fn what_is_recorded_while_the_node_is_away_arrives_when_it_comes() {
    let place = Place::new();
    let job = place.start("waits");
    place.poll_for("recorded");
    let node = Node::listen(&place.socket(), Manner::Answer);
    job.ends_well();
    let recorded: u64 = std::fs::read_to_string(place.file("recorded")).unwrap().parse().unwrap();
    let seen = node.leave();
    assert_eq!(seen.samples(), recorded);
    assert_eq!(seen.frames, 3, "the first, one for all that followed, and the final one");
}

#[test]
fn a_frame_whose_answer_was_lost_counts_once() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::LoseAnswers(2));
    place.start("exit").ends_well();
    let seen = node.leave();
    assert_eq!((seen.samples(), seen.repeated), (2_000, 2));
}

#[test]
fn a_frame_that_the_node_disconnects_is_dropped_and_the_next_arrives() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::HangUp(3));
    place.start("refused").ends_well();
    let seen = node.leave();
    assert_eq!((seen.samples(), seen.connections), (7, 4));
}

/// The socket is there and takes bytes, but nobody reads: as beside a node that is stopped.
#[test]
fn a_node_that_does_not_answer_does_not_keep_a_job_from_ending() {
    let place = Place::new();
    let _never_read = UnixListener::bind(place.socket()).unwrap();
    place.start("exit").ends_well();
}

#[test]
fn a_job_without_a_node_ends_well() {
    Place::new().start("exit").ends_well();
}

#[test]
fn the_last_frame_of_a_job_says_so_only_if_it_ends_well() {
    for (status, finals) in [(0, 1), (1, 0)] {
        let place = Place::new();
        let node = Node::listen(&place.socket(), Manner::Answer);
        let mut job = place.start_with("status", &[("STATUS", &status.to_string())]);
        assert_eq!(job.poll_end().code(), Some(status));
        let seen = node.leave();
        assert_eq!((seen.samples(), seen.last.len(), seen.finals.len()), (10, 1, finals));
    }
}

#[test]
fn a_final_frame_whose_answer_was_lost_is_sent_again() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::LoseAnswers(2));
    place.start_with("status", &[("STATUS", "0")]).ends_well();
    assert_eq!(node.leave().finals.len(), 1);
}

#[test]
fn a_killed_job_loses_only_what_came_after_its_last_flush() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    let mut job = place.start("killed");
    place.poll_for("ready");
    job.kill();
    job.poll_end();
    let samples = node.leave().samples();
    assert!((1_000..=1_001).contains(&samples), "{samples}");
}

#[test]
fn a_job_that_is_killed_while_it_records_loses_its_last_moments_at_most() {
    let place = Place::new();
    let node = Node::listen(&place.socket(), Manner::Answer);
    // An empty value is the default.
    let start = |_| place.start_with("ticking", &[("PLIMSOLL_FLUSH_MS", "")]);
    let mut jobs: Vec<Job> = (0..KILLED).map(start).collect();
    let times = |pid: u32| -> Vec<u64> {
        let bytes = std::fs::read(place.file(&pid.to_string())).unwrap_or_default();
        let (times, _torn) = bytes.as_chunks();
        times.iter().map(|time| u64::from_be_bytes(*time)).collect()
    };

    for (number, job) in jobs.iter_mut().enumerate() {
        let ticks = TICKS + number * TICKS_MORE;
        poll_until("a job records", || times(job.pid()).len() >= ticks);
        job.kill();
        job.poll_end();
    }
    node.poll_until("all that was sent is read", |seen| seen.ended == KILLED as u64);
    let seen = node.leave();

    assert_eq!(seen.arrivals.len(), KILLED);
    let (samples, frames) = (seen.samples(), seen.frames);
    assert!(samples <= frames * TICKS_A_FRAME_MAX, "{samples} samples in {frames} frames");

    for (client, arrivals) in &seen.arrivals {
        let pid = client.split('-').next().unwrap().parse().unwrap();
        let arrived = seen.histograms[&format!("ticking{{pid={pid}}}")].count();
        // A frame is cut once the one before is answered, or once that answer is late: the last
        // holds all that was recorded before the last but two arrived.
        let cut = arrivals.iter().rev().nth(2).expect("three frames");
        let must_arrive = times(pid).iter().filter(|time| *time < cut).count() as u64;
        assert!(must_arrive > 0 && arrived >= must_arrive, "{arrived} of {must_arrive} arrived");
    }
}
