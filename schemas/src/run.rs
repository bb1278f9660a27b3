//! Runs: the label that their samples carry, and the events by which `plimsoll run` reports their
//! begin and end.

use crate::ids::{Labels, RunName};
use crate::limits::api::OVERFLOW;
use crate::wire::{Event, EventSource};

/// The label of a run's samples, which is also the name of its roll-up.
pub const RUN_LABEL: &str = "run";
/// The label of an event that reports a run: [`BEGUN`] or [`ENDED`].
pub const REPORT_LABEL: &str = "run_report";
/// The label of the exit code in a report of the end.
pub const EXIT_CODE_LABEL: &str = "exit_code";
/// The value of [`REPORT_LABEL`] when a command of the run has begun.
pub const BEGUN: &str = "begun";
/// The value of [`REPORT_LABEL`] when it has ended.
pub const ENDED: &str = "ended";

/// Parts of the API's paths, and the group that has the samples of runs without room of their own;
/// no run has such a name.
const RESERVED: [&str; 3] = ["last", "compare", OVERFLOW];

/// The name of a run, checked.
///
/// # Errors
/// When it holds a character that is not allowed, is too long, or stands for something else.
pub fn run_name(text: &str) -> Result<RunName, String> {
    if RESERVED.contains(&text) {
        return Err(format!("{text:?} is reserved; choose another name"));
    }
    RunName::new(text).map_err(|error| error.to_string())
}

/// What an event reports of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReport {
    /// The run.
    pub run: RunName,
    /// Its further labels, such as `rank`.
    pub labels: Labels,
    /// What has happened.
    pub change: RunChange,
}

/// What has happened to a command of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunChange {
    /// It has begun.
    Begun,
    /// It has ended.
    Ended {
        /// With this exit code, if that is known.
        exit_code: Option<u8>,
    },
}

impl RunReport {
    /// The report in an event; `None` in any other event.
    #[must_use]
    pub fn of(event: &Event) -> Option<Self> {
        let labels = &event.labels;
        let report = labels.get(REPORT_LABEL).filter(|_| event.source == EventSource::Event)?;
        let exit_code = || labels.get(EXIT_CODE_LABEL).and_then(|code| code.parse().ok());
        let change = match report {
            BEGUN => RunChange::Begun,
            ENDED => RunChange::Ended { exit_code: exit_code() },
            _ => return None,
        };
        let run = run_name(labels.get(RUN_LABEL)?).ok()?;
        let own = [RUN_LABEL, REPORT_LABEL, EXIT_CODE_LABEL];
        let further = labels.iter().filter(|(key, _)| !own.contains(key));
        Some(Self { run, labels: Labels::new(further).ok()?, change })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Wall;
    use crate::wire::AlertType;

    fn event(labels: &[(&str, &str)]) -> Event {
        Event {
            source: EventSource::Event,
            title: "run v42 ended".to_owned(),
            text: String::new(),
            alert_type: AlertType::Info,
            low_priority: false,
            at: Wall(1),
            host: String::new(),
            aggregation_key: String::new(),
            labels: Labels::new(labels.iter().copied()).unwrap(),
        }
    }

    #[test]
    fn an_event_with_the_labels_of_a_report_is_one() {
        let all = [("run", "v42"), ("run_report", "ended"), ("exit_code", "3"), ("rank", "1")];
        let report = RunReport::of(&event(&all)).unwrap();
        assert_eq!(report.run.as_str(), "v42");
        assert_eq!(report.labels, Labels::new([("rank", "1")]).unwrap());
        assert_eq!(report.change, RunChange::Ended { exit_code: Some(3) });
        let begun = RunReport::of(&event(&[("run", "v42"), ("run_report", "begun")])).unwrap();
        assert_eq!(begun.change, RunChange::Begun);
    }

    #[test]
    fn other_events_and_names_that_no_run_has_are_none() {
        for labels in [
            &[("run", "v42")][..],
            &[("run_report", "begun")],
            &[("run", "v42"), ("run_report", "paused")],
            &[("run", "last"), ("run_report", "begun")],
            &[("run", "other"), ("run_report", "begun")],
            &[("run", "a b"), ("run_report", "begun")],
        ] {
            assert_eq!(RunReport::of(&event(labels)), None, "{labels:?}");
        }
        let unknown = event(&[("run", "v"), ("run_report", "ended"), ("exit_code", "many")]);
        let change = RunReport::of(&unknown).unwrap().change;
        assert_eq!(change, RunChange::Ended { exit_code: None });
        let check = Event { source: EventSource::ServiceCheck, ..unknown };
        assert_eq!(RunReport::of(&check), None);
    }
}
