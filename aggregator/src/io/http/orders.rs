//! Parses requests about alerts, silences and acknowledgements, and fills in defaults. The core
//! checks whether a change is possible.

use std::time::Duration;

use plimsoll_schemas::alert::{
    Acknowledgement, AlertKey, AlertState, NamePattern, Scope, Silence, SilenceMatch,
};
use plimsoll_schemas::rule::Severity;
use plimsoll_schemas::time::Wall;
use serde::Deserialize;

use super::parameters::{
    BadRequest, bad, name, one_of, optional_name, pick, read, required, value,
};
use crate::core::alerting::AlertsQuery;

/// A silence; it lasts at most 30 days, and has not ended yet.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "SilenceRequest"))]
#[serde(deny_unknown_fields)]
pub(super) struct SilenceBody {
    /// The alerts.
    #[serde(rename = "match")]
    matches: MatchBody,
    /// Who asks for it.
    by: String,
    /// The reason.
    #[serde(default)]
    comment: String,
    /// How long it lasts, instead of `until_seconds`.
    #[serde(rename = "for")]
    lasts: Option<String>,
    /// Begin, by default now.
    from_seconds: Option<f64>,
    /// End, instead of `for`.
    until_seconds: Option<f64>,
}

/// Alerts that match every pattern given, at least one; not all alerts.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "MatchRequest"))]
#[serde(deny_unknown_fields)]
pub(super) struct MatchBody {
    /// Pattern of the rule's name.
    rule: Option<String>,
    /// Pattern of the node's name; fleet alerts then never match.
    node: Option<String>,
    /// Pattern of the operation's name.
    operation: Option<String>,
    /// Severity.
    severity: Option<Severity>,
}

/// An acknowledgement; it lasts at most 30 days, and has not ended yet.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "AcknowledgementRequest"))]
#[serde(deny_unknown_fields)]
pub(super) struct AcknowledgementBody {
    /// The alert's rule.
    rule: String,
    /// Its node; without it, or empty, the alert is about the fleet.
    node: Option<String>,
    /// Its operation, or its metric where the rule is a threshold.
    operation: String,
    /// Who acknowledges it.
    by: String,
    /// A comment for others.
    #[serde(default)]
    comment: String,
    /// How long it lasts, instead of `until_seconds`.
    #[serde(rename = "for")]
    lasts: Option<String>,
    /// When it expires, instead of `for`.
    until_seconds: Option<f64>,
}

pub(super) fn silence(now: Wall, body: &[u8]) -> Result<Silence, BadRequest> {
    let body: SilenceBody = read(body)?;
    let from = body.from_seconds.map_or(Ok(now), |seconds| wall("from_seconds", seconds))?;
    let until = until(from, body.lasts.as_deref(), body.until_seconds)?;

    let pattern = |key, text: Option<String>| {
        let checked =
            |text: String| NamePattern::new(text.clone()).map_err(|e| bad(key, &text, &e));
        text.map(checked).transpose()
    };

    let matches = SilenceMatch {
        rule: pattern("match.rule", body.matches.rule)?,
        node: pattern("match.node", body.matches.node)?,
        operation: pattern("match.operation", body.matches.operation)?,
        severity: body.matches.severity,
    };

    Ok(Silence { matches, by: body.by, comment: body.comment, from, until })
}

pub(super) fn acknowledgement(
    now: Wall,
    body: &[u8],
) -> Result<(AlertKey, Acknowledgement), BadRequest> {
    let body: AcknowledgementBody = read(body)?;
    let until = until(now, body.lasts.as_deref(), body.until_seconds)?;
    let key = alert_key(&body.rule, body.node.as_deref(), &body.operation)?;
    Ok((key, Acknowledgement { by: body.by, comment: body.comment, until }))
}

/// The alert that the parameters of a request name.
pub(super) fn key(parameters: &[(String, String)]) -> Result<AlertKey, BadRequest> {
    const KNOWN: [&str; 3] = ["rule", "node", "operation"];
    let [rule, node, operation] = pick(parameters, KNOWN, "rule, node and operation")?;
    alert_key(required("rule", rule)?, node, required("operation", operation)?)
}

/// The filter that the parameters of a request describe.
pub(super) fn wanted(parameters: &[(String, String)]) -> Result<AlertsQuery, BadRequest> {
    const KNOWN: [&str; 4] = ["state", "rule", "node", "severity"];
    let [state, rule, node, severity] = pick(parameters, KNOWN, "state, rule, node and severity")?;
    let states = [AlertState::Firing, AlertState::Pending, AlertState::Resolved];
    Ok(AlertsQuery {
        state: one_of("state", state, states, AlertState::as_str)?,
        rule: optional_name("rule", rule)?,
        node: optional_name("node", node)?,
        severity: one_of("severity", severity, Severity::ALL, Severity::as_str)?,
    })
}

pub(super) fn id(text: &str) -> Result<u64, BadRequest> {
    text.parse().map_err(|_| value("id", text, "the number of a silence"))
}

fn alert_key(rule: &str, node: Option<&str>, operation: &str) -> Result<AlertKey, BadRequest> {
    let scope = match node {
        // An empty node is how the API writes the scope of the
        // fleet, and clients send back what they have read.
        None | Some("") => Scope::Fleet,
        Some(node) => Scope::Node(name("node", node)?),
    };
    Ok(AlertKey { rule: name("rule", rule)?, scope, operation: name("operation", operation)? })
}

fn until(from: Wall, lasts: Option<&str>, until: Option<f64>) -> Result<Wall, BadRequest> {
    match (lasts, until) {
        (Some(text), None) => {
            let span = humantime::parse_duration(text);
            let span =
                span.map_err(|_| value("for", text, "a duration with a unit, such as \"2h\""))?;
            Ok(from.plus(span))
        }
        (None, Some(seconds)) => wall("until_seconds", seconds),
        _ => Err(BadRequest::Until),
    }
}

/// Seconds since 1970, with or without a fraction.
fn wall(key: &'static str, seconds: f64) -> Result<Wall, BadRequest> {
    let nanos = Duration::try_from_secs_f64(seconds).ok();
    let nanos = nanos.and_then(|since| u64::try_from(since.as_nanos()).ok());
    nanos.map(Wall).ok_or_else(|| value(key, &seconds.to_string(), "seconds since 1970"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Wall = Wall(1_000_000_000_000);

    #[test]
    fn missing_fields_get_their_defaults() {
        let requested =
            r#"{"match":{"rule":"epoch_*","severity":"critical"},"by":"ann","for":"2h"}"#;
        let of = silence(NOW, requested.as_bytes()).unwrap();
        assert_eq!((of.from, of.until), (NOW, NOW.plus(Duration::from_secs(7_200))));
        assert_eq!(of.matches.severity, Some(Severity::Critical));
        let requested =
            r#"{"match":{"node":"n1"},"by":"ann","from_seconds":2000,"until_seconds":2500.5}"#;
        let of = silence(NOW, requested.as_bytes()).unwrap();
        assert_eq!((of.from, of.until), (Wall(2_000_000_000_000), Wall(2_500_500_000_000)));
        let requested = r#"{"rule":"r","operation":"o","by":"bob","for":"1m"}"#;
        let (key, _) = acknowledgement(NOW, requested.as_bytes()).unwrap();
        assert_eq!(key.to_string(), "r (fleet, o)");
    }

    #[test]
    fn invalid_requests_name_the_key_and_the_fix() {
        let table = [
            ("", "the body is invalid: EOF"),
            ("[]", "the body is invalid: "),
            (r#"{"match":{"rule":"r"},"for":"2h"}"#, "missing field `by`"),
            (
                r#"{"match":{"rul":"r"},"by":"a","for":"2h"}"#,
                "unknown field `rul`, expected one of",
            ),
            (
                r#"{"match":{"rule":"a*b"},"by":"a","for":"2h"}"#,
                "match.rule is \"a*b\"; it must be a name: pattern contains '*'",
            ),
            (r#"{"match":{"severity":"bad"},"by":"a","for":"2h"}"#, "unknown variant `bad`"),
            (
                r#"{"match":{"rule":"r"},"by":"a","for":"18"}"#,
                "for is \"18\"; it must be a duration with a unit, such as \"2h\"",
            ),
            (r#"{"match":{"rule":"r"},"by":"a"}"#, "give either for or until_seconds"),
            (
                r#"{"match":{"rule":"r"},"by":"a","for":"1h","until_seconds":5}"#,
                "give either for or until_seconds",
            ),
            (
                r#"{"match":{"rule":"r"},"by":"a","until_seconds":-5}"#,
                "until_seconds is \"-5\"; it must be seconds since 1970",
            ),
            (
                r#"{"match":{"rule":"r"},"by":"a","until_seconds":1e300}"#,
                "it must be seconds since 1970",
            ),
        ];
        for (body, part) in table {
            let error = silence(NOW, body.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(part), "{body}: {error}");
        }
        let requested = r#"{"rule":"r","node":"a b","operation":"o","by":"bob","for":"1m"}"#;
        let error = acknowledgement(NOW, requested.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("node is \"a b\"; it must be a name: "), "{error}");
        let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
        };
        let table: [(&[(&str, &str)], &str); 4] = [
            (&[("state", "inactive")], "it must be one of firing, pending, resolved"),
            (
                &[("severity", "urgent")],
                "severity is \"urgent\"; it must be one of info, warning, critical",
            ),
            (
                &[("nodes", "a")],
                "unknown parameter \"nodes\"; the parameters are state, rule, node and severity",
            ),
            (&[("node", "a"), ("node", "b")], "node is given twice; give it once"),
        ];
        for (pairs, part) in table {
            let error = wanted(&owned(pairs)).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(key(&owned(&[("rule", "r")])), Err(BadRequest::Missing("operation")));
        assert_eq!(
            id("-1").unwrap_err().to_string(),
            "id is \"-1\"; it must be the number of a silence"
        );
    }
}
