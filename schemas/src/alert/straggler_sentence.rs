//! A straggler in one sentence: which peer, on which node, by how much, since when and why.

use std::time::{Duration, UNIX_EPOCH};

use super::evidence::StragglerEvidence;
use super::state::AlertState;
use crate::figure::{counted, number};
use crate::straggler::StragglerMethod;

/// Seconds since 1970 up to which a time of day is written: the year 9999.
const WRITTEN_UNTIL: f64 = 253_402_300_799.0;

impl StragglerEvidence {
    /// The sentence about an alert of this node in this state, with the function in which the peer
    /// is longer than a healthy one, if that is known.
    ///
    /// `rank 2 on box-c holds up 3 ranks: +20.1 ms a step (19.8 to 20.4) in train_step since
    /// 00:41:58; it computes longer, in augment (data.py:41); 7.9 peer-hours an hour`
    #[must_use]
    pub fn sentence(&self, node: &str, state: AlertState, function: Option<&str>) -> String {
        let is_slow = matches!(state, AlertState::Pending | AlertState::Firing);
        let Self { by, peer, operation, .. } = self;

        let (verb, others) = match (self.method, is_slow) {
            (StragglerMethod::WaitsLeast, true) => ("holds up", by.clone()),
            (StragglerMethod::WaitsLeast, false) => ("held up", by.clone()),
            (StragglerMethod::Slowest, true) => ("is slower than", format!("other {by}")),
            (StragglerMethod::Slowest, false) => ("was slower than", format!("other {by}")),
        };
        let others = counted(self.peers.saturating_sub(1), &others);

        // All three in the unit of the excess.
        let (unit, in_unit) = match self.excess_seconds.abs() {
            size if size >= 0.9995 => ("s", 1.0),
            size if size >= 0.9995e-3 => ("ms", 1e3),
            _ => ("µs", 1e6),
        };
        let [excess, lower, upper] = [self.excess_seconds, self.lower_seconds, self.upper_seconds]
            .map(|seconds| number(seconds * in_unit));

        let more = match self.others_of_node {
            0 => String::new(),
            more => format!("; {} more of its node too", counted(more, by)),
        };
        let function = function.map(|name| format!(", in {name}")).unwrap_or_default();

        format!(
            "{by} {peer} on {node} {verb} {others}: +{excess} {unit} a step ({lower} to {upper}) \
             in {operation} since {}; {}{function}; {} peer-hours an hour{more}",
            time_of_day(self.slow_since_seconds),
            cause(self, is_slow),
            number(self.peer_hours_per_hour)
        )
    }
}

/// What takes longer, or why that is not known.
fn cause(of: &StragglerEvidence, is_slow: bool) -> String {
    let Some(class) = &of.class else {
        return match of.unmeasured.as_slice() {
            [] => "no class of time covers most of it".to_owned(),
            classes => format!("cause not measured: {}", classes.join(", ")),
        };
    };
    match (class.as_str(), is_slow) {
        ("compute", true) => "it computes longer".to_owned(),
        ("compute", false) => "it computed longer".to_owned(),
        ("input", true) => "it waits longer for input".to_owned(),
        ("input", false) => "it waited longer for input".to_owned(),
        ("checkpoint", true) => "it writes checkpoints longer".to_owned(),
        ("checkpoint", false) => "it wrote checkpoints longer".to_owned(),
        (class, true) => format!("its {class} takes longer"),
        (class, false) => format!("its {class} took longer"),
    }
}

/// Hours, minutes and seconds in UTC.
fn time_of_day(at_seconds: f64) -> String {
    let since = Duration::try_from_secs_f64(at_seconds.min(WRITTEN_UNTIL)).unwrap_or_default();
    let written = humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string();
    written.get(11..19).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Labels, Operation};

    fn evidence() -> StragglerEvidence {
        StragglerEvidence {
            method: StragglerMethod::WaitsLeast,
            operation: Operation::new("train_step").unwrap(),
            cohort: Labels::default(),
            by: "rank".to_owned(),
            peer: "2".to_owned(),
            peers: 4,
            others_of_node: 0,
            excess_seconds: 0.0201,
            lower_seconds: 0.0198,
            upper_seconds: 0.0204,
            excess_ratio: 0.2,
            lower_ratio: 0.198,
            upper_ratio: 0.204,
            allowed_ratio: 0.03,
            class: Some("compute".to_owned()),
            unmeasured: vec!["input".to_owned(), "checkpoint".to_owned()],
            slow_since_seconds: 1_700_009_718.0,
            peer_hours_per_hour: 0.482,
            chance_of_error: 1e-4,
        }
    }

    #[test]
    fn a_straggler_is_one_sentence() {
        assert_eq!(
            evidence().sentence("box-c", AlertState::Firing, Some("augment (data.py:41)")),
            "rank 2 on box-c holds up 3 ranks: +20.1 ms a step (19.8 to 20.4) in train_step since \
             00:55:18; it computes longer, in augment (data.py:41); 0.482 peer-hours an hour"
        );
        let slowest =
            StragglerEvidence { method: StragglerMethod::Slowest, others_of_node: 1, ..evidence() };
        assert_eq!(
            slowest.sentence("box-c", AlertState::Resolved, None),
            "rank 2 on box-c was slower than 3 other ranks: +20.1 ms a step (19.8 to 20.4) in \
             train_step since 00:55:18; it computed longer; 0.482 peer-hours an hour; 1 rank more \
             of its node too"
        );
    }

    #[test]
    fn each_class_has_its_words() {
        for (class, words) in [
            (Some("input"), "it waits longer for input"),
            (Some("checkpoint"), "it writes checkpoints longer"),
            (Some("eval"), "its eval takes longer"),
            (None, "cause not measured: input, checkpoint"),
        ] {
            let of = StragglerEvidence { class: class.map(str::to_owned), ..evidence() };
            assert_eq!(cause(&of, true), words);
        }
        let spread = StragglerEvidence { class: None, unmeasured: Vec::new(), ..evidence() };
        assert_eq!(cause(&spread, true), "no class of time covers most of it");
    }

    #[test]
    fn any_figures_make_a_sentence() {
        for value in [f64::NAN, f64::INFINITY, -1.0, f64::MAX, 0.0] {
            let of_value = StragglerEvidence {
                excess_seconds: value,
                slow_since_seconds: value,
                peer_hours_per_hour: value,
                ..evidence()
            };
            let text = of_value.sentence("n", AlertState::Firing, None);
            assert!(text.starts_with("rank 2 on n holds up 3 ranks: +"), "{text}");
        }
    }
}
