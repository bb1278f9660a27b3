//! Pages of meshes of any size, as the API answers, and a screen that reads them.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Size;
use serde_json::{Value, json};

use crate::top::draw::{Theme, draw};
use crate::top::page::Page;
use crate::top::screen::plain;
use crate::top::state::{Effect, Event, State};

/// Three nodes with two budgets: `epoch_hook` fires on the fleet and on `node-2`, which is silent.
pub(super) fn small() -> (Value, Value) {
    let nodes = [node("node-2", "silent", 7), node("node-1", "up", 0), node("node-3", "up", 1)];
    let summary = json!({
        "mesh": "m", "version": "0.1.0", "at_seconds": 100.0, "ready": true,
        "broker": "jetstream", "presence": {"up": 2, "silent": 1},
        "ledger": {"recorded": 30, "merged": 20, "held": 4, "unaccounted": 2, "unread": 0,
            "lost": {"crash": 4}},
        "nodes": nodes,
        "operations": [operation("epoch_hook"), operation("kernel_fetch")],
        "budgets": [
            budget("kernel_fetch", &json!("fleet"), (10_000_000, 500_000), ("within", "inactive")),
            budget("epoch_hook", &json!("fleet"), (18_000_000, 27_000_000), ("breach", "firing")),
            budget("epoch_hook", &json!({"node": "node-2"}), (18_000_000, 36_000_000),
                ("breach", "firing")),
            budget("epoch_hook", &json!({"node": "node-1"}), (18_000_000, 9_000_000),
                ("within", "inactive")),
        ],
        "changes": [],
    });
    let alerts = json!({"mesh": "m", "at_seconds": 100.0, "ready": true, "alerts": [
        alert("epoch_hook", "firing", 40.0), alert("node_silent", "pending", 98.0)]});
    (summary, alerts)
}

/// This many nodes, each with a budget, none of which is in trouble.
pub(super) fn large(nodes: usize) -> (Value, Value) {
    let names: Vec<String> = (0..nodes).map(|n| format!("node-{n}")).collect();
    let (mut summary, alerts) = small();
    summary["presence"] = json!({"up": nodes});
    summary["nodes"] = names.iter().map(|name| node(name, "up", 0)).collect();
    summary["budgets"] = names
        .iter()
        .map(|name| {
            let scope = json!({"node": name});
            budget("epoch_hook", &scope, (18_000_000, 9_000_000), ("within", "inactive"))
        })
        .collect();
    (summary, alerts)
}

pub(super) fn node(name: &str, presence: &str, depth: u64) -> Value {
    json!({"node": name, "presence": presence, "last_seen_seconds": 98.5,
        "ledger": {"recorded": 9, "merged": 7, "held": 1, "unaccounted": 1, "lost": {}},
        "outbox_depth": depth, "outbox_depth_max": depth.saturating_add(1), "dropped": 0})
}

fn operation(name: &str) -> Value {
    let figures = json!({"count": 100, "mean_ns": 1, "min_ns": 1, "max_ns": 30_000_000,
        "p50_ns": 410_000, "p99_ns": 27_000_000});
    let mut window = figures.clone();
    window["nodes"] = json!(3);
    window["nodes_expected"] = json!(3);
    json!({"scope": "fleet", "operation": name, "total": figures, "windows": {"1m": window}})
}

pub(super) fn budget(
    name: &str,
    scope: &Value,
    (limit_ns, value_ns): (u64, u64),
    (verdict, alert): (&str, &str),
) -> Value {
    json!({"budget": name, "operation": name, "scope": scope, "quantile": 0.99,
        "limit_ns": limit_ns, "window": "1m", "samples": 100, "value_ns": value_ns,
        "lower_ns": null, "verdict": verdict, "alert": alert})
}

pub(super) fn alert(rule: &str, state: &str, since: f64) -> Value {
    json!({"rule": rule, "scope": "fleet", "operation": rule, "state": state,
        "since_seconds": since, "firing_since_seconds": null, "severity": "critical",
        "summary": "p99 is above its limit", "runbook": null, "data": "enough", "flaps": 0,
        "acknowledged": null, "silenced_by": [], "evidence": null, "context": null})
}

/// Reads both answers as the screen does.
pub(super) fn read((summary, alerts): &(Value, Value)) -> anyhow::Result<Page> {
    Page::read(&summary.to_string(), &alerts.to_string())
}

/// A screen of one aggregator that has answered.
pub(super) fn shown(answers: &(Value, Value)) -> State {
    let mut state = State::new(vec!["http://a:9900".to_owned()]);
    let page = read(answers).unwrap();
    let answer = Event::Answer(Ok(Box::new(page)), Duration::ZERO);
    assert_eq!(state.on_event(answer, Duration::ZERO), Effect::Draw);
    state
}

/// Presses keys: characters, or one named key.
pub(super) fn press(state: &mut State, keys: &str) -> Effect {
    let code = |key| Event::Key(KeyEvent::new(key, KeyModifiers::NONE));
    let now = state.now();
    keys.chars().fold(Effect::None, |_, c| state.on_event(code(KeyCode::Char(c)), now))
}

pub(super) fn press_key(state: &mut State, key: KeyCode, modifiers: KeyModifiers) -> Effect {
    let now = state.now();
    state.on_event(Event::Key(KeyEvent::new(key, modifiers)), now)
}

/// The frame of 80 columns and 24 lines.
pub(super) fn text(state: &State) -> String {
    plain(state, Size::new(80, 24)).unwrap()
}

/// The first words of the rows of a list, from its headings on.
pub(super) fn names(text: &str, heading: &str) -> Vec<String> {
    let first = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
    let mut lines = text.lines().skip_while(|line| !line.starts_with(heading)).skip(1);
    let is_row = |line: &&str| {
        !line.is_empty() && !["NODE", "ALERT", "? help"].iter().any(|end| line.starts_with(end))
    };
    lines.by_ref().take_while(is_row).map(first).collect()
}

/// The cells of a frame.
pub(super) fn cells(state: &State, has_colour: bool, (width, height): (u16, u16)) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state, Theme { has_colour })).unwrap();
    terminal.backend().buffer().clone()
}
