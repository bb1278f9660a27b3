//! A job beside a node that comes late, goes, hangs up, or does not answer.

use std::os::unix::net::UnixListener;

use crate::node::{Manner, Node};
use crate::process::Place;

#[test]
fn what_is_recorded_while_the_node_is_away_arrives_when_it_comes() {
    let place = Place::new();
    let job = place.start("waits");
    place.signal("go_on");
    place.poll_for("recorded");
    let node = Node::listen(&place.socket(), Manner::Answer);
    job.ends_well();
    let recorded: u64 = std::fs::read_to_string(place.file("recorded")).unwrap().parse().unwrap();
    let seen = node.leave();
    assert_eq!(seen.samples(), recorded);
    assert!(seen.frames <= 2, "{} frames for one series", seen.frames);
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
