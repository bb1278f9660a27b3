//! Notifications and states in a case's notation, and how those differ from what it expects.

use std::fmt::Write;

use plimsoll_schemas::alert::{AlertState, Notification, Scope};
use plimsoll_schemas::ids::RuleName;

/// An event that was notified or shown in a step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CaseEvent {
    pub(crate) step: u64,
    /// `rule who state` and what else matters.
    pub(crate) what: String,
}

impl CaseEvent {
    /// A notification; `step` is the step of its event time.
    pub(crate) fn notification(step: u64, notification: &Notification) -> Self {
        let mut what = words(&notification.key.rule, &notification.key.scope, notification.state);
        if notification.late_seconds > 0.0 {
            write!(what, " late {}", notification.late_seconds).unwrap();
        }
        if notification.silenced {
            what += " silenced";
        }
        if let Some(by) = &notification.acknowledged_by {
            write!(what, " by {by}").unwrap();
        }
        if let Some(ended) = &notification.ended {
            write!(what, " ended {ended:?}").unwrap();
        }
        Self { step, what }
    }
}

fn words(rule: &RuleName, scope: &Scope, state: AlertState) -> String {
    let who = if *scope == Scope::Fleet { "fleet" } else { scope.node() };
    format!("{rule} {who} {}", state.as_str())
}

/// What a case expects: first and last step, and what.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    first: u64,
    last: u64,
    what: String,
}

impl Expected {
    /// `6 read fleet firing` or `6..8 read fleet firing`.
    pub(crate) fn parse(line: &str) -> Self {
        let (when, what) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?}"));
        let (first, last) = when.split_once("..").unwrap_or((when, when));
        let step = |text: &str| text.parse().unwrap_or_else(|_| panic!("{line:?}: no step"));
        Self { first: step(first), last: step(last), what: what.to_owned() }
    }

    fn fits(&self, sent: &CaseEvent) -> bool {
        (self.first..=self.last).contains(&sent.step) && self.what == sent.what
    }
}

/// Every line that is in one and not in the other, in the order of time; empty where none is.
pub(crate) fn difference(expected: &[String], found: &[CaseEvent]) -> String {
    let mut rest: Vec<CaseEvent> = found.to_vec();
    rest.sort();
    let mut lines: Vec<(u64, String)> = Vec::new();
    for line in expected {
        let wanted = Expected::parse(line);
        let place = rest.iter().position(|sent| wanted.fits(sent));
        let mark = if place.is_some() { ' ' } else { '-' };
        lines.push((wanted.first, format!("  {mark} {line}")));
        place.map(|place| rest.remove(place));
    }
    let unexpected =
        rest.iter().map(|sent| (sent.step, format!("  + {} {}", sent.step, sent.what)));
    lines.extend(unexpected);
    lines.sort_by_key(|(step, _)| *step);
    if lines.iter().all(|(_, line)| line.starts_with("    ")) {
        return String::new();
    }
    let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    format!("(- expected and not there, + there and not expected)\n{}\n", lines.join("\n"))
}
