//! What a frame shows, at any size and of any text.

use proptest::prelude::*;
use ratatui::buffer::Cell;
use ratatui::style::Color;
use serde_json::json;

use super::mesh::{cells, large, names, node, press, read, shown, small, text};

#[test]
fn a_frame_of_80_columns_shows_budgets_nodes_and_alerts() {
    let frame = text(&shown(&small()));
    let expected = "\
plimsoll top  mesh m  http://a:9900                             broker jetstream
nodes 2 up, 1 silent, 0 left   alerts 1 firing, 1 pending   depth 8
samples 30 recorded = 20 merged + 4 held + 4 lost + 2 unaccounted
BUDGET        SCOPE                  LIMIT      P50      P99 HEADROOM STATE
epoch_hook    node-2             p99 18 ms        -        -   -100 % FIRING
epoch_hook    fleet              p99 18 ms   410 µs    27 ms    -50 % FIRING
kernel_fetch  fleet              p99 10 ms   410 µs    27 ms     95 % within

NODE            STATE  SEEN HEADROOM DEPTH   MAX REROUTE DROPS  HELD  LOST UNACC
node-2          silent   1s   -100 %     7     8       0     0     1     0     1
node-1          up       1s     50 %     0     1       0     0     1     0     1
node-3          up       1s        -     1     2       0     0     1     0     1

ALERT            STATE      SEVERITY SCOPE           FOR SUMMARY
epoch_hook       firing     critical fleet           60s p99 is above its limit
node_silent      pending    critical fleet            2s p99 is above its limit";
    let (lists, status) = frame.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(lists.trim_end(), expected, "{frame}");
    assert_eq!(status, "? help  Tab list  s sort  / filter  q quit");
    assert_eq!(frame.lines().count(), 24);
}

#[test]
fn no_name_or_text_sends_anything_to_the_terminal() {
    let (mut summary, mut alerts) = small();
    let hostile = "\u{1b}]0;x\u{7}\u{1b}[2J\u{9b}31m\u{202e}\r\nevil";
    summary["nodes"][0]["node"] = json!(hostile);
    summary["mesh"] = json!(hostile);
    summary["budgets"][0]["budget"] = json!(hostile);
    summary["rules_error"] = json!(hostile);
    alerts["alerts"][0]["summary"] = json!(hostile);
    let state = shown(&(summary.clone(), alerts.clone()));
    let frame = text(&state);
    assert!(frame.contains('\u{FFFD}') && !frame.contains('\u{202e}'), "{frame:?}");
    assert!(!frame.chars().any(|c| c.is_control() && c != '\n'), "{frame:?}");
    assert_eq!(frame.lines().count(), 24, "{frame}");
    // Names that become scopes are checked ones.
    summary["budgets"][2]["scope"] = json!({"node": hostile});
    let error = read(&(summary, alerts)).unwrap_err().to_string();
    assert!(error.starts_with("/metrics/summary has an unexpected form"), "{error}");
}

#[test]
fn an_operation_of_256_characters_is_cut_and_marked() {
    let (mut summary, alerts) = small();
    summary["budgets"][0]["budget"] = json!("o".repeat(256));
    let frame = text(&shown(&(summary, alerts)));
    assert!(frame.contains(&format!("{}… fleet", "o".repeat(12))), "{frame}");
}

#[test]
fn of_ten_thousand_nodes_a_frame_has_those_that_fit() {
    let mut state = shown(&large(10_000));
    let frame = text(&state);
    assert_eq!(names(&frame, "NODE")[..2], ["node-0", "node-1"]);
    assert!(frame.contains("NODE (+9986)"), "{frame}");
    // Sorting and filtering reach all of them.
    press(&mut state, "/node-9999");
    assert_eq!(names(&text(&state), "NODE"), ["node-9999"]);
}

#[test]
fn nodes_that_are_not_listed_are_counted() {
    let (mut summary, alerts) = large(100);
    summary["presence"] = json!({"up": 1_000, "silent": 9_000});
    let frame = text(&shown(&(summary, alerts)));
    assert!(frame.contains("worst 100 of 10000 nodes"), "{frame}");
    assert!(frame.contains("nodes 1000 up, 9000 silent"), "{frame}");
}

#[test]
fn a_mesh_without_nodes_is_shown_and_no_answer_at_all_too() {
    let (mut summary, mut alerts) = small();
    for key in ["nodes", "budgets", "operations"] {
        summary[key] = json!([]);
    }
    summary["presence"] = json!({});
    alerts["alerts"] = json!([]);
    let frame = text(&shown(&(summary, alerts)));
    assert_eq!(names(&frame, "BUDGET"), ["none"]);
    let waiting = super::super::state::State::new(vec!["http://a:9900".to_owned()]);
    assert!(text(&waiting).contains("waiting for http://a:9900"));
}

#[test]
fn a_hint_is_above_the_status_line_and_takes_one_line_of_the_lists() {
    let mut state = shown(&small());
    state.set_hint(Some("a sample, in bash: echo 'o:1|ms' > /dev/udp/127.0.0.1/8125".to_owned()));
    let frame = text(&state);
    let lines: Vec<&str> = frame.lines().collect();
    assert_eq!(lines.len(), 24, "{frame}");
    assert!(lines[22].starts_with("a sample, in bash: echo 'o:1|ms' > /dev/udp"), "{frame}");
    assert!(lines[23].starts_with("? help"), "{frame}");
    assert!(frame.contains("node_silent"), "the last list is whole: {frame}");
}

#[test]
fn what_an_operator_must_know_first_takes_the_status_line() {
    let (mut summary, alerts) = small();
    summary["unmatched"] = json!(["checkpoint"]);
    let frame = text(&shown(&(summary.clone(), alerts.clone())));
    assert!(frame.contains("budget checkpoint matches no samples"), "{frame}");
    summary["ready"] = json!(false);
    let frame = text(&shown(&(summary.clone(), alerts.clone())));
    assert!(frame.contains("still reads the streams' backlog"), "{frame}");
    summary["rules_error"] = json!("rules.toml: limit is missing");
    let frame = text(&shown(&(summary, alerts)));
    assert!(frame.contains("rules: rules.toml: limit is missing"), "{frame}");
}

#[test]
fn what_is_stale_has_its_age_and_no_figure() {
    let (mut summary, mut alerts) = small();
    summary["broker"] = json!("disconnected");
    summary["presence"] = json!({"silent": 3});
    for row in summary["budgets"].as_array_mut().unwrap().iter_mut() {
        row["as_of_seconds"] = json!(71.0);
        row["stale"] = json!(true);
    }
    for (n, verdict) in [(0, "no_data"), (3, "no_data")] {
        summary["budgets"][n]["verdict"] = json!(verdict);
    }
    summary["as_of_seconds"] = json!(71.5);
    summary["stale"] = json!(true);
    alerts["alerts"] = json!([]);
    let frame = text(&shown(&(summary.clone(), alerts.clone())));
    let row = |name: &str, scope: &str| {
        let mut rows = frame.lines().filter(|line| line.starts_with(name));
        let row = rows.find(|line| line.contains(scope)).unwrap();
        row.split_whitespace().skip(2).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("kernel_fetch", "fleet"), ["p99", "10", "ms", "-", "-", "-", "stale", "29s"]);
    assert_eq!(row("epoch_hook", "fleet"), ["p99", "18", "ms", "-", "-", "-", "FIRING"]);
    assert!(!frame.contains("within") && frame.contains("nodes 0 up, 3 silent"), "{frame}");
    let status = "no data for 28s, since 1970-01-01 00:01:11+00:00: broker disconnected";
    assert_eq!(frame.trim_end().lines().last(), Some(status));

    summary["broker"] = json!("jetstream");
    let frame = text(&shown(&(summary.clone(), alerts.clone())));
    assert!(frame.contains("+00:00: no node sends messages"), "{frame}");
    summary["as_of_seconds"] = json!(null);
    let frame = text(&shown(&(summary, alerts)));
    assert!(frame.contains("no data yet: no node sends messages"), "{frame}");
}

#[test]
fn colours_of_alerts_follow_their_severity() {
    let fires = |severity: &str| {
        let (summary, mut alerts) = small();
        alerts["alerts"][0]["severity"] = json!(severity);
        let buffer = cells(&shown(&(summary, alerts)), true, (80, 24));
        let row = buffer.content.chunks(80).find(|row| {
            let text: String = row.iter().map(Cell::symbol).collect();
            text.starts_with("epoch_hook") && text.contains("firing")
        });
        row.unwrap().iter().map(|cell| cell.fg).find(|colour| *colour != Color::Reset)
    };
    assert_eq!(fires("info"), None);
    assert_eq!(fires("warning"), Some(Color::Yellow));
    assert_eq!(fires("critical"), Some(Color::Red));
}

#[test]
fn colours_are_an_addition_to_words() {
    let state = shown(&small());
    let of = |has_colour| {
        let buffer = cells(&state, has_colour, (80, 24));
        let coloured = buffer.content.iter().filter(|cell| cell.fg != Color::Reset);
        coloured.map(|cell| cell.symbol().to_owned()).collect::<String>()
    };
    assert_eq!(of(false), "");
    assert!(of(true).contains("FIRINGFIRINGwithin"), "{}", of(true));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any size, also one that changes between two frames, and any keys.
    #[test]
    fn no_size_and_no_keys_are_too_much(
        sizes in prop::collection::vec((1_u16..200, 1_u16..60), 1..4),
        keys in "[a-zA-Z/?+ ]{0,20}",
        nodes in 0_usize..40,
    ) {
        let (mut summary, alerts) = large(nodes);
        summary["nodes"].as_array_mut().unwrap().push(node("日本語のノード", "left", u64::MAX));
        let mut state = shown(&(summary, alerts));
        press(&mut state, &keys);
        for size in sizes {
            let buffer = cells(&state, true, size);
            prop_assert_eq!(buffer.area.width, size.0);
        }
    }
}
