//! What keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use serde_json::json;

use super::mesh::{budget, large, names, press, press_key, read, shown, small, text};
use crate::top::state::{Effect, Event};

#[test]
fn nodes_are_sorted_by_each_order_in_turn_and_reversed() {
    let (mut summary, alerts) = small();
    summary["nodes"][1]["ledger"]["lost"] = json!({"crash": 3});
    let mut state = shown(&(summary, alerts));
    let nodes = |state: &_| names(&text(state), "NODE").join(" ");
    assert_eq!(nodes(&state), "node-2 node-1 node-3");
    for (order, expected) in [
        ("name", "node-1 node-2 node-3"),
        ("headroom", "node-2 node-1 node-3"),
        ("depth", "node-2 node-3 node-1"),
        ("held", "node-2 node-1 node-3"),
        ("lost", "node-1 node-2 node-3"),
        ("seen", "node-2 node-1 node-3"),
    ] {
        press(&mut state, "s");
        // The column of names has 15 characters here.
        let heading: String = format!("NODE by {order}").chars().take(14).collect();
        assert!(text(&state).contains(&heading), "{}", text(&state));
        assert_eq!(nodes(&state), expected, "{order}");
    }
    press(&mut state, "ssr");
    assert_eq!(nodes(&state), "node-3 node-2 node-1");
    assert!(text(&state).contains("NODE by name, …"), "{}", text(&state));
}

#[test]
fn a_filter_applies_to_every_list_and_is_cleared() {
    let mut state = shown(&small());
    press(&mut state, "/NODE-2");
    let frame = text(&state);
    assert_eq!(names(&frame, "BUDGET"), ["epoch_hook"]);
    assert_eq!(names(&frame, "NODE"), ["node-2"]);
    assert_eq!(names(&frame, "ALERT"), ["none"]);
    assert!(frame.contains("/NODE-2_"), "{frame}");
    press_key(&mut state, KeyCode::Enter, KeyModifiers::NONE);
    assert!(text(&state).contains("filter /NODE-2 "));
    press_key(&mut state, KeyCode::Esc, KeyModifiers::NONE);
    assert_eq!(names(&text(&state), "NODE").len(), 3);
    // q is a letter while the filter is written.
    assert_eq!(press(&mut state, "/q"), Effect::Draw);
    let now = state.now();
    state.on_event(Event::Paste("x\u{1b}[2J".repeat(100)), now);
    assert_eq!(state.panes().filter().chars().count(), 64);
    assert!(!state.panes().filter().contains('\u{1b}'));
}

#[test]
fn budgets_of_all_nodes_are_listed_on_request() {
    let mut state = shown(&small());
    assert_eq!(names(&text(&state), "BUDGET").len(), 3);
    press(&mut state, "a");
    assert_eq!(names(&text(&state), "BUDGET").len(), 4);
}

#[test]
fn the_cursor_moves_the_list_and_never_leaves_it() {
    let mut state = shown(&large(100));
    press_key(&mut state, KeyCode::End, KeyModifiers::NONE);
    assert_eq!(names(&text(&state), "NODE").last().unwrap(), "node-99");
    press_key(&mut state, KeyCode::PageDown, KeyModifiers::NONE);
    press_key(&mut state, KeyCode::Up, KeyModifiers::NONE);
    let now = state.now();
    assert_eq!(state.panes().cursor(super::super::pane::Pane::Nodes), Some(98));
    // Fewer rows than before.
    let page = read(&large(5)).unwrap();
    state.on_event(Event::Answer(Ok(Box::new(page)), now), now);
    assert_eq!(state.panes().cursor(super::super::pane::Pane::Nodes), Some(4));
}

#[test]
fn one_list_takes_the_whole_screen() {
    let mut state = shown(&large(100));
    press(&mut state, "z");
    let frame = text(&state);
    assert!(!frame.contains("BUDGET") && !frame.contains("ALERT"), "{frame}");
    assert_eq!(names(&frame, "NODE").len(), 19);
}

#[test]
fn help_is_shown_and_any_key_closes_it() {
    let mut state = shown(&small());
    press(&mut state, "?");
    assert!(text(&state).contains("filter by name, node, state"));
    assert_eq!(press(&mut state, "q"), Effect::Draw);
    assert!(!text(&state).contains("filter by name, node, state"));
}

#[test]
fn keys_end_it_and_their_release_means_nothing() {
    let mut state = shown(&small());
    let now = state.now();
    let released = KeyEvent {
        kind: KeyEventKind::Release,
        ..KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE)
    };
    assert_eq!(state.on_event(Event::Key(released), now), Effect::None);
    assert_eq!(press(&mut state, "q"), Effect::Quit);
    press(&mut state, "/");
    for (key, expected) in [('l', Effect::Repaint), ('x', Effect::None), ('c', Effect::Quit)] {
        assert_eq!(press_key(&mut state, KeyCode::Char(key), KeyModifiers::CONTROL), expected);
    }
}

#[test]
fn a_paused_screen_keeps_its_page() {
    let mut state = shown(&small());
    press(&mut state, "p");
    let now = state.now();
    let page = read(&large(5)).unwrap();
    state.on_event(Event::Answer(Ok(Box::new(page)), now), now);
    assert!(text(&state).contains("PAUSED"));
    assert_eq!(names(&text(&state), "NODE").len(), 3);
}

#[test]
fn of_budgets_alike_those_of_jobs_come_first() {
    let (mut summary, alerts) = small();
    let firing = ("breach", "firing");
    let publish = budget("publish", &json!("fleet"), (25_000_000, 250_000_000), firing);
    summary["budgets"].as_array_mut().unwrap().insert(0, publish);
    let of_node = json!({"node": "node-1"});
    let publish = budget("publish", &of_node, (25_000_000, 250_000_000), firing);
    summary["budgets"].as_array_mut().unwrap().push(publish);
    let answers = (summary, alerts);
    let expected = ["epoch_hook", "epoch_hook", "publish", "publish", "kernel_fetch"];
    assert_eq!(names(&text(&shown(&answers)), "BUDGET"), expected);
    let page = read(&answers).unwrap();
    let line = page.nodes.iter().find(|line| line.node == "node-1").unwrap();
    assert_eq!(line.headroom, Some(0.5), "a slow broker is no fault of a node");
}
