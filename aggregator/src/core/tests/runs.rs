//! Runs from the messages of nodes, through a restart.

use plimsoll_schemas::ids::RunName;
use plimsoll_schemas::summary::{RunOrigin, RunRow, RunState};
use plimsoll_schemas::wire::{Event, Events};

use super::checkpoint::restarted;
use super::events::event;
use super::*;
use crate::core::runs::{RunCommand, RunsQuery};

/// A message with a report of a run, which happened so long after the message's interval began.
fn report(
    speaker: &mut Speaker,
    now: Now,
    labels: &[(&str, &str)],
    at_ms: u64,
) -> (String, Vec<u8>) {
    let labels = Labels::new([("run", "v42")].iter().chain(labels).copied()).unwrap();
    let at = now.wall.plus(Duration::from_millis(at_ms)).0;
    let events = vec![Event { labels, ..event("run v42", at) }];
    speaker.message(now, Body::Event(Events { events }), false)
}

fn runs(core: &Core, now: Now) -> Vec<RunRow> {
    core.runs_page(now.wall, &RunsQuery::default()).runs
}

#[test]
fn a_run_that_nodes_report_is_the_same_after_a_restart() {
    let (mut core, mut a, mut b) = (core(), Speaker::new("a"), Speaker::new("b"));
    let begun = report(&mut a, start(), &[("run_report", "begun"), ("rank", "0")], 400);
    deliver(&mut core, start().after(SECOND), &begun);
    let later = start().after(7 * SECOND);
    let of_run = Labels::new([("run", "v42")]).unwrap();
    b = b.called(of_run);
    deliver(&mut core, later, &b.send(later, MS, 5));
    let other = RunName::new("by-hand").unwrap();
    let begin = RunCommand::Begin { name: other, labels: Labels::default(), by: None };
    core.on_run_command(later.wall, begin).unwrap();
    let running = runs(&core, later);
    assert_eq!((running.len(), running[1].state), (2, RunState::Running));
    assert_eq!(
        (running[1].begun_seconds, running[1].origin),
        (1_700_000_000.4, RunOrigin::Command)
    );
    assert_eq!(running[1].labels, Labels::new([("rank", "0")]).unwrap());

    let mut restored = restarted(&mut core, later);
    assert_eq!(runs(&restored, later), running);
    let ended = [("run_report", "ended"), ("exit_code", "3")];
    let ended = report(&mut a, later, &ended, 500);
    for core in [&mut core, &mut restored] {
        // The second and the third are repetitions.
        for message in [&ended, &ended, &begun] {
            deliver(core, later.after(SECOND), message);
        }
        let rows = runs(core, later);
        let run = rows.iter().find(|run| run.name.as_str() == "v42").unwrap();
        assert_eq!((run.state, run.exit_code, run.commands), (RunState::Ended, Some(3), 1));
        assert_eq!(run.ended_seconds, Some(1_700_000_007.5));
        let nodes: Vec<&str> = run.nodes.iter().map(NodeName::as_str).collect();
        assert_eq!(nodes, ["a", "b"]);
    }
}

#[test]
fn an_event_of_another_time_happened_in_the_interval_that_brought_it() {
    let (mut core, mut a) = (core(), Speaker::new("a"));
    let mut message = |core: &mut Core, run: &str, at: u64| {
        let labels = Labels::new([("run", run), ("run_report", "begun")]).unwrap();
        let events = vec![Event { labels, ..event("run", at) }];
        let message = a.message(start(), Body::Event(Events { events }), false);
        deliver(core, start().after(SECOND), &message);
    };
    message(&mut core, "long-ago", 1);
    message(&mut core, "later", start().wall.plus(3_600 * SECOND).0);
    let begun =
        runs(&core, start()).into_iter().map(|run| (run.name.to_string(), run.begun_seconds));
    let expected =
        [("later".to_owned(), 1_700_000_001.0), ("long-ago".to_owned(), 1_700_000_000.0)];
    assert_eq!(begun.collect::<Vec<_>>(), expected);
}
