//! The progress that a lane reports, compared with the stream that it reads.

use proptest::prelude::*;

use super::*;

fn second(n: u64) -> Mono {
    Mono(n * 1_000_000_000)
}

#[test]
fn a_backlog_lasts_from_its_thousandth_message_until_none_is_pending() {
    let mut lane = Progress::default();
    // Each: second, pending.
    for (at, pending) in [(1, 999), (2, 0), (3, 1_000), (5, 4_000), (8, 7), (9, 0), (10, 0)] {
        lane.on_read(second(at), at, pending);
    }
    let six = Duration::from_secs(6);
    assert_eq!(lane.recoveries, Recoveries { count: 1, sum: six, max: six, last: six });
    lane.on_read(second(20), 20, BACKLOG_MESSAGES);
    lane.on_read(second(22), 21, 0);
    let (two, eight) = (Duration::from_secs(2), Duration::from_secs(8));
    assert_eq!(lane.recoveries, Recoveries { count: 2, sum: eight, max: six, last: two });
}

#[test]
fn messages_that_a_stream_dropped_are_not_pending_for_ever() {
    let mut lane = Progress::default();
    lane.on_positioned(1, 500);
    lane.on_read(second(1), 1, 499);
    assert!(!lane.has_read_all());
    lane.on_positioned(501, 500);
    assert!(lane.has_read_all());
    assert_eq!(lane.recoveries, Recoveries::default());
}

#[test]
fn what_arrives_while_disconnected_is_unread() {
    let mut lane = Progress::default();
    lane.on_positioned(1, 2);
    lane.on_read(second(1), 2, 0);
    assert!(lane.has_read_all());
    lane.on_positioned(1, 5);
    assert_eq!((lane.has_read_all(), lane.pending), (false, 3));
    lane.on_read(second(2), 5, 0);
    assert!(lane.has_read_all());
}

#[test]
fn of_what_was_pending_only_what_the_stream_still_holds_is_waited_for() {
    let mut lane = Progress::default();
    lane.on_positioned(1, 5_000);
    lane.on_read(second(1), 1, 4_999);
    lane.on_positioned(4_999, 5_000);
    assert_eq!(lane.pending, 2);
    lane.on_read(second(2), 5_000, 0);
    assert_eq!((lane.has_read_all(), lane.recoveries.count), (true, 1));
}

#[test]
fn a_stream_made_anew_ends_no_backlog() {
    let mut lane = Progress::default();
    lane.on_read(second(1), 1, 5_000);
    lane.reset(3);
    lane.on_read(second(2), 3, 0);
    assert_eq!(lane.recoveries, Recoveries::default());
    assert!(lane.has_read_all());
}

#[test]
fn where_messages_come_without_pause_all_up_to_a_mark_is_known_to_be_read() {
    let mut lane = Progress::default();
    lane.on_positioned(1, 10);
    assert_eq!(lane.read_up_to(), ReadUpTo::Never);
    // Each: second, number read, pending behind it, up to when all has been read.
    let never = None;
    let reads = [
        (1, 1, 10, never),
        (2, 10, 11, never),
        (3, 11, 12, Some(1)),
        (4, 22, 13, Some(1)),
        (5, 23, 14, Some(3)),
        (6, 37, 0, Some(6)),
        (60, 38, 1, Some(6)),
        (61, 39, 0, Some(61)),
    ];
    for (at, read, pending, up_to) in reads {
        lane.on_read(second(at), read, pending);
        let known = lane.read_up_to().as_of(second(at));
        assert_eq!(known, up_to.map(second), "second {at}");
    }
    assert_eq!(lane.read_up_to().as_of(second(99)), Some(second(99)), "nothing came since");
}

/// A broker without power lost what had come last, while it was being read.
#[test]
fn a_stream_that_lost_its_end_is_read_once_its_new_end_is() {
    let mut lane = Progress::default();
    lane.on_positioned(1, 9);
    lane.on_read(second(1), 3, 6);
    lane.on_positioned(1, 4);
    assert!(!lane.has_read_the_past());
    lane.on_read(second(2), 4, 0);
    assert!(lane.has_read_the_past());
    lane.on_positioned(1, 20);
    assert!(lane.has_read_the_past(), "what came since is no past");
}

#[test]
fn a_mark_in_a_stream_that_ends_before_it_is_not_waited_for() {
    let mut lane = Progress::default();
    lane.on_positioned(1, 1);
    lane.on_read(second(1), 1, 900);
    lane.on_positioned(1, 5);
    lane.on_read(second(2), 2, 3);
    lane.on_read(second(3), 5, 1);
    assert_eq!(lane.read_up_to(), ReadUpTo::Then(second(2)));
}

proptest! {
    /// For any order of stores and reads: what was stored by the time that a lane reports has been
    /// read.
    #[test]
    fn nothing_stored_by_then_is_unread(
        steps in prop::collection::vec((0..4_u64, 0..4_u64), 1..200), held in 0..5_u64,
    ) {
        let mut stored_at: Vec<u64> = (0..held).map(|_| 0).collect();
        let (mut lane, mut read) = (Progress::default(), 0);
        lane.on_positioned(1, held);
        for (now, (stores, reads)) in (1..).zip(steps) {
            // A reader that has read everything receives the next message at once.
            let reads = reads.max(u64::from(lane.pending == 0));
            for _ in 0..reads.min(stored_at.len() as u64 - read) {
                read += 1;
                lane.on_read(second(now), read, stored_at.len() as u64 - read);
            }
            if let Some(up_to) = lane.read_up_to().as_of(second(now)) {
                let before = stored_at.iter().filter(|at| second(**at) <= up_to).count();
                prop_assert!(before as u64 <= read, "{before} stored by {up_to:?}, {read} read");
            }
            // The next message that the lane reads carries these in its pending count.
            stored_at.extend((0..stores).map(|_| now + 1));
        }
    }
}
