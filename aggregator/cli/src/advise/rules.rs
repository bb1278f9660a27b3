//! Recommendations as `recommendations.toml` has them, and which of them bottlenecks call for.

use plimsoll_schemas::figure::percent;
use plimsoll_schemas::summary::{BottleneckRow, BottleneckState};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How urgent a recommendation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Priority {
    High,
    Medium,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recommendation {
    pub(super) name: String,
    /// Rules of bottlenecks.
    pub(super) on: Vec<String>,
    pub(super) priority: Priority,
    pub(super) title: String,
    /// Names of the setting that it changes.
    #[serde(default)]
    pub(super) keys: Vec<String>,
    pub(super) change: Option<Change>,
    effect: Option<String>,
    derived: Option<String>,
}

/// How the current value of a setting becomes the recommended one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    times: Option<f64>,
    least: Option<f64>,
    most: Option<f64>,
    #[serde(default)]
    next: Vec<String>,
    set: Option<bool>,
}

/// What to expect, and from what that follows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Effect {
    pub(super) expected: String,
    pub(super) derived: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    recommendation: Vec<Recommendation>,
}

/// All that ship, in the order of the file.
pub(super) fn shipped() -> Vec<Recommendation> {
    let file: File =
        toml::from_str(include_str!("recommendations.toml")).expect("a file that a test reads");
    file.recommendation
}

impl Recommendation {
    /// The bottleneck that calls for it, the most severe of those that were found.
    pub(super) fn cause<'r>(&self, rows: &'r [BottleneckRow]) -> Option<&'r BottleneckRow> {
        let found = rows.iter().filter(|row| row.state == BottleneckState::Found);
        let of_it = found.filter(|row| self.on.iter().any(|name| name == row.rule.as_str()));
        of_it.max_by_key(|row| row.severity)
    }

    /// What to expect of it. Nothing more is predicted: no run with another value was measured.
    pub(super) fn effect(&self, cause: &BottleneckRow) -> Effect {
        let of_share = || {
            let share = cause.value.map_or("the share found".to_owned(), percent);
            let cycle = cause.cycle.as_deref().unwrap_or("the range");
            Effect {
                expected: format!("at most {share} less time of {cycle}"),
                derived: format!("the whole share that was measured: {}", cause.evidence),
            }
        };
        let stated = |expected: &String| Effect {
            expected: expected.clone(),
            derived: self.derived.clone().unwrap_or_default(),
        };
        self.effect.as_ref().map_or_else(of_share, stated)
    }
}

impl Change {
    /// The recommended value; `None` if the current one is of another kind, or is at the end.
    pub(super) fn of(&self, current: &Value) -> Option<Value> {
        let next = match (self.times, self.set, current) {
            (Some(times), _, Value::Number(number)) => self.multiplied(number.as_f64()?, times)?,
            (None, Some(wanted), Value::Bool(_)) => Value::Bool(wanted),
            (None, None, Value::String(text)) => {
                let at = self.next.iter().position(|of| of.eq_ignore_ascii_case(text))?;
                Value::String(self.next.get(at + 1)?.clone())
            }
            _ => return None,
        };
        (next != *current).then_some(next)
    }

    fn multiplied(&self, current: f64, times: f64) -> Option<Value> {
        let wanted = (current * times)
            .max(self.least.unwrap_or(f64::MIN))
            .min(self.most.unwrap_or(f64::MAX));
        // A bound must not turn the advice around, as for a batch that is larger already.
        let is_onwards = if times > 1.0 { wanted > current } else { wanted < current };
        if !is_onwards {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "whole, and within the bounds of i64")]
        let whole = (current.fract() == 0.0 && wanted.abs() < 1e15).then(|| wanted.floor() as i64);
        Some(whole.map_or_else(|| Value::from(wanted), Value::from))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use plimsoll_schemas::rule::Bottlenecks;
    use serde_json::json;

    use super::*;

    fn row(rule: &str, state: &str) -> BottleneckRow {
        serde_json::from_value(json!({
            "rule": rule, "state": state, "severity": "high", "cycle": "train_step", "value": 0.58,
            "limit": 0.5, "evidence": "input 58 % of train_step", "summary": "s", "runbook": "r",
        }))
        .unwrap()
    }

    #[test]
    fn each_rule_of_bottlenecks_has_advice_and_no_advice_is_on_an_unknown_one() {
        let shipped = shipped();
        let rules: BTreeSet<String> =
            Bottlenecks::built_in().rules.iter().map(|rule| rule.name.to_string()).collect();
        let advised: BTreeSet<String> = shipped.iter().flat_map(|of| of.on.clone()).collect();
        assert_eq!(advised, rules);
        for of in &shipped {
            assert_eq!(of.change.is_some(), !of.keys.is_empty(), "{}", of.name);
            assert_eq!(of.effect.is_some(), of.derived.is_some(), "{}", of.name);
        }
    }

    #[test]
    fn each_recommendation_has_its_text_where_its_rule_was_found_and_is_silent_elsewhere() {
        for of in shipped() {
            let found = row(&of.on[0], "found");
            for silent in ["within", "not_measured"] {
                assert!(of.cause(&[row(&of.on[0], silent)]).is_none(), "{}", of.name);
            }
            let rows = [found];
            let effect = of.effect(of.cause(&rows).unwrap());
            assert!(!effect.expected.is_empty() && !effect.derived.is_empty(), "{effect:?}");
        }
        let loader = shipped().into_iter().find(|of| of.name == "loader_workers_up").unwrap();
        let effect = loader.effect(&row("input_wait", "found"));
        assert_eq!(effect.expected, "at most 58 % less time of train_step");
        assert!(effect.derived.ends_with("input 58 % of train_step"), "{effect:?}");
    }

    #[test]
    fn a_value_changes_within_its_bounds_and_never_the_wrong_way() {
        let change =
            |name: &str| shipped().into_iter().find(|of| of.name == name).unwrap().change.unwrap();
        for (name, current, wanted) in [
            ("loader_workers_up", json!(4), Some(json!(8))),
            ("loader_workers_up", json!(0), Some(json!(2))),
            ("loader_workers_up", json!(24), Some(json!(32))),
            ("loader_workers_up", json!(48), None),
            ("loader_workers_up", json!("four"), None),
            ("batch_size_down", json!(1), None),
            ("batch_size_down", json!(33), Some(json!(16))),
            ("ram_limit_down", json!(12.5), Some(json!(10.0))),
            ("context_window_down", json!(600), Some(json!(512))),
            ("quantisation", json!("F16"), Some(json!("q8_0"))),
            ("quantisation", json!("q4_k_m"), None),
            ("quantisation", json!("other"), None),
            ("database_batching", json!(false), Some(json!(true))),
            ("database_batching", json!(true), None),
            ("tokenizer_cache_up", json!(10_000), Some(json!(20_000))),
        ] {
            assert_eq!(change(name).of(&current), wanted, "{name} {current}");
        }
    }
}
