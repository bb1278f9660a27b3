//! When pages are requested, and what an operator sees while no aggregator answers.

use std::time::Duration;

use super::mesh::{read, shown, small, text};
use crate::top::state::{Effect, Event, State};

const S: Duration = Duration::from_secs(1);

fn failure() -> Event {
    Event::Answer(Err("Connection refused\u{1b}[2J".to_owned()), Duration::ZERO)
}

/// The seconds at which requests were sent until `end`, all of which fail.
fn requests(state: &mut State, from: u32, end: u32) -> Vec<u32> {
    let mut sent = Vec::new();
    for second in from..end {
        if matches!(state.on_event(Event::Tick, S * second), Effect::Request(_)) {
            sent.push(second);
            state.on_event(failure(), S * second);
        }
    }
    sent
}

#[test]
fn failed_requests_are_repeated_with_growing_pauses() {
    let mut state = State::new(vec!["http://a:9900".to_owned()]);
    assert_eq!(requests(&mut state, 0, 125), [0, 1, 3, 7, 15, 31, 61, 91, 121]);
}

#[test]
fn a_lost_connection_is_shown_over_the_last_page_until_the_next_answer() {
    let mut state = shown(&small());
    state.on_event(failure(), S * 5);
    assert_eq!(state.on_event(Event::Tick, S * 5), Effect::Draw);
    requests(&mut state, 6, 20);
    let frame = text(&state);
    assert!(frame.contains("no answer for 14s, next attempt in 1s: Connection refused"), "{frame}");
    assert!(frame.contains("node-2") && !frame.contains('\u{1b}'), "{frame:?}");
    let page = read(&small()).unwrap();
    state.on_event(Event::Answer(Ok(Box::new(page)), S), S * 21);
    assert!(!text(&state).contains("no answer"));
    // After an answer the first pause is short again.
    state.on_event(failure(), S * 30);
    assert_eq!(requests(&mut state, 30, 34), [31, 33]);
}

#[test]
fn a_page_that_is_old_looks_old_until_the_next_answer() {
    let mut state = shown(&small());
    state.on_event(failure(), S * 5);
    state.on_event(Event::Tick, S * 14);
    assert!(text(&state).contains(" within"), "a restart takes some seconds");
    state.on_event(Event::Tick, S * 15);
    let frame = text(&state);
    assert!(frame.contains("10s ago: nodes 2 up, 1 silent"), "{frame}");
    let row = frame.lines().find(|line| line.starts_with("kernel_fetch")).unwrap();
    assert!(row.ends_with("p99 10 ms        -        -        - stale 10s"), "{frame}");
    assert!(!frame.contains(" within"), "{frame}");
    let page = read(&small()).unwrap();
    state.on_event(Event::Answer(Ok(Box::new(page)), S), S * 21);
    assert!(text(&state).contains(" within"));
}

#[test]
fn of_a_pair_the_one_that_answers_is_read() {
    let mut state = State::new(vec!["http://a:9900".to_owned(), "http://b:9900".to_owned()]);
    assert_eq!(state.on_event(Event::Tick, S), Effect::Request(0));
    state.on_event(failure(), S);
    assert_eq!(state.on_event(Event::Tick, S * 2), Effect::Request(1));
    let page = read(&small()).unwrap();
    state.on_event(Event::Answer(Ok(Box::new(page)), Duration::ZERO), S * 2);
    assert!(text(&state).contains("http://b:9900"));
    assert_eq!(state.on_event(Event::Tick, S * 3), Effect::Request(1));
}

#[test]
fn a_slow_page_is_requested_less_often_and_one_at_a_time() {
    let mut state = shown(&small());
    assert_eq!(state.on_event(Event::Tick, S), Effect::Request(0));
    assert_eq!(state.on_event(Event::Tick, S * 2), Effect::None);
    let page = read(&small()).unwrap();
    state.on_event(Event::Answer(Ok(Box::new(page)), S * 2), S * 3);
    assert_eq!(state.on_event(Event::Tick, S * 10), Effect::None);
    assert_eq!(state.on_event(Event::Tick, S * 11), Effect::Request(0));
}

#[test]
fn a_change_of_size_is_drawn() {
    assert_eq!(shown(&small()).on_event(Event::Resize, S), Effect::Draw);
}
