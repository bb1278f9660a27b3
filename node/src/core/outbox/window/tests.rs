//! The send window rule by rule.

use std::collections::VecDeque;

use super::*;

const BYTES: usize = 8 * 1024;

fn at(milliseconds: u64) -> Mono {
    Mono(milliseconds * 1_000_000)
}

fn span(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Keeps the window full for `rounds` round trips over a link that begins empty; returns the time.
fn fills(window: &mut SendWindow, now: u64, link: (u64, u64), rounds: u64) -> u64 {
    let (delay, bytes_per_ms) = link;
    let (mut time, mut free_at, mut on_the_way) = (now, now, VecDeque::new());
    while time < now + rounds * delay {
        while (on_the_way.len() + 1) * BYTES <= window.bytes().max(BYTES) {
            free_at = time.max(free_at) + BYTES as u64 / bytes_per_ms;
            on_the_way.push_back((free_at + delay, window.depart(at(time))));
        }
        let Some((arrives, departure)) = on_the_way.pop_front() else { break };
        time = arrives;
        window.on_acknowledged(at(time), departure, BYTES, true);
    }
    time
}

/// Without a bound of its rate.
const AMPLE: u64 = 1 << 30;

#[test]
fn it_opens_twofold_in_each_round_trip_of_any_length_while_it_is_full() {
    for delay in [20, 600, 3_000] {
        let mut window = SendWindow::new();
        let sent = window.depart(at(0));
        window.on_acknowledged(at(delay), sent, BYTES, false);
        assert_eq!(window.bytes(), WINDOW_BYTES_START, "no message had to wait");

        let now = fills(&mut window, delay, (delay, AMPLE), 6);
        assert!(window.bytes() >= 32 * WINDOW_BYTES_START, "{delay} ms: {}", window.bytes());
        fills(&mut window, now, (delay, AMPLE), 9);
        assert_eq!(window.bytes(), WINDOW_BYTES_MAX);
    }
}

#[test]
fn on_a_filled_link_it_is_what_the_delay_and_the_margin_hold() {
    for delay in [300, 600, 3_000_u64] {
        let mut window = SendWindow::new();
        window.on_round_trip(at(delay), span(delay));
        fills(&mut window, delay, (delay, 64), 30);
        let held = 64 * (delay + 300);
        let bytes = window.bytes() as u64;
        assert!((held..=held * 3 / 2).contains(&bytes), "{delay} ms: {bytes} of {held}");
    }
}

#[test]
fn slow_acknowledgements_shrink_it_once_for_all_that_was_sent_before() {
    let mut window = SendWindow::new();
    let now = fills(&mut window, 0, (20, AMPLE), 9);
    let before = window.bytes();

    let sent = [now, now + 10].map(|sent| window.depart(at(sent)));
    window.on_acknowledged(at(now + 1_030), sent[0], BYTES, true);
    assert_eq!(window.bytes(), before, "not slow: a second and two round trips");
    window.on_acknowledged(at(now + 1_100), sent[1], BYTES, true);
    assert!(window.bytes() <= before / 2 && window.body_bytes() < MESSAGE_BYTES_MAX);

    let shrunk = window.bytes();
    window.on_overdue(at(now + 6_000), sent[1]);
    assert_eq!(window.bytes(), shrunk);
    for n in 1..40 {
        let sent = window.depart(at(now + n * 10_000));
        window.on_overdue(at(now + n * 10_000 + 5_000), sent);
    }
    assert_eq!((window.bytes(), window.body_bytes()), (WINDOW_BYTES_MIN, WINDOW_BYTES_MIN));
}

#[test]
fn a_slow_acknowledgement_empties_the_link_and_measures_it() {
    let mut window = SendWindow::new();
    window.on_round_trip(at(20), span(20));
    let sent = window.depart(at(20));
    window.on_acknowledged(at(1_520), sent, BYTES, true);
    assert!(window.is_measuring());

    window.on_round_trip(at(2_000), span(1_500));
    assert!(window.is_measuring(), "sent while a message was on its way");
    window.on_load(at(2_100), true);
    window.on_round_trip(at(3_599), span(1_500));
    assert!(window.is_measuring());
    window.on_round_trip(at(3_600), span(1_500));
    assert!(!window.is_measuring());
    assert_eq!(window.acknowledgement_wait(), span(8_000), "5 s and two round trips");

    let before = window.bytes();
    fills(&mut window, 4_000, (1_500, AMPLE), 3);
    assert!(window.bytes() >= 2 * before, "the link is longer, so it opens twofold again");
}

#[test]
fn a_measurement_without_an_answer_ends() {
    let mut window = SendWindow::new();
    window.on_round_trip(at(20), span(20));
    let sent = window.depart(at(0));
    window.on_acknowledged(at(4_000), sent, BYTES, true);
    assert_eq!(window.next_deadline(), Some(at(14_000)));
    window.on_deadline(at(13_999));
    assert!(window.is_measuring());
    window.on_deadline(at(14_000));
    assert!(!window.is_measuring() && window.next_deadline().is_none());
}

#[test]
fn a_lost_connection_forgets_the_link() {
    let mut window = SendWindow::new();
    let now = fills(&mut window, 0, (20, AMPLE), 9);
    window.on_lost();
    assert_eq!((window.bytes(), window.body_bytes()), (WINDOW_BYTES_MIN, WINDOW_BYTES_MIN));
    assert_eq!(window.acknowledgement_wait(), ACK_WAIT);
    fills(&mut window, now, (20, AMPLE), 20);
    assert_eq!(window.body_bytes(), usize::MAX, "it is fast");
}
