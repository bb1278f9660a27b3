//! Alerts that stand, and what people have said about them, as `/api/v1/alerts` and
//! `/api/v1/silences` tell it. What is asked for by a request is checked by the aggregator.

use serde::{Deserialize, Serialize};

use super::{AlertKey, AlertState, Context, Data, Evidence};
use crate::ids::IdError;
use crate::limits::rules::PATTERN_BYTES_MAX;
use crate::rule::Severity;
use crate::time::Wall;

/// All alerts that are not inactive, as far as they were asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlertsPage {
    /// The mesh.
    pub mesh: String,
    /// The moment, in seconds since 1970.
    pub at_seconds: f64,
    /// False while the stream's past is still being read.
    pub ready: bool,
    /// Firing first, then pending, then resolved; the worst severity first.
    pub alerts: Vec<AlertRow>,
}

/// One alert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlertRow {
    /// What it is about.
    #[serde(flatten)]
    pub key: AlertKey,
    /// Where it stands.
    pub state: AlertState,
    /// Since when, in seconds since 1970.
    pub since_seconds: f64,
    /// Since when it fires or, of one that does not, since when it did.
    pub firing_since_seconds: Option<f64>,
    /// How bad it is.
    pub severity: Severity,
    /// What it means, in one line.
    pub summary: String,
    /// Where it stands what to do.
    pub runbook: Option<String>,
    /// Whether there was enough to judge when it was last judged.
    pub data: Data,
    /// How often it has fired again soon after it resolved.
    pub flaps: u32,
    /// Who looks after it.
    pub acknowledged: Option<Acknowledgement>,
    /// The silences that hold for it, by number.
    pub silenced_by: Vec<u64>,
    /// The figures that last moved it.
    pub evidence: Option<Evidence>,
    /// What stood beside them when it fired, unless that was long ago.
    pub context: Option<Context>,
}

/// Somebody looks after an alert: until then nobody is told of it again, but for its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledgement {
    /// Who.
    pub by: String,
    /// What they say to it.
    #[serde(default)]
    pub comment: String,
    /// Up to when.
    #[serde(rename = "until_seconds", with = "in_seconds")]
    pub until: Wall,
}

/// Which alerts a silence is about: those that fit all patterns; one at least is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SilenceMatch {
    /// Of the rule's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Pattern>,
    /// Of the node's name; then no alert about the fleet fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Pattern>,
    /// Of the operation's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Pattern>,
    /// How bad it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
}

/// A name or, with a `*` at its end, the begin of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(String);

/// A span of time in which nobody is told of certain alerts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    /// Which.
    #[serde(rename = "match")]
    pub matches: SilenceMatch,
    /// Who asked for it.
    pub by: String,
    /// Why.
    #[serde(default)]
    pub comment: String,
    /// From when.
    #[serde(rename = "from_seconds", with = "in_seconds")]
    pub from: Wall,
    /// Up to when, excluded.
    #[serde(rename = "until_seconds", with = "in_seconds")]
    pub until: Wall,
}

/// A silence and its number, which is this aggregator's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SilenceRow {
    /// Its number.
    pub id: u64,
    /// The silence.
    #[serde(flatten)]
    pub silence: Silence,
}

/// All silences that hold or are yet to begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SilencesPage {
    /// By number.
    pub silences: Vec<SilenceRow>,
}

impl SilenceMatch {
    /// Whether an alert of this severity is meant.
    #[must_use]
    pub fn fits(&self, key: &AlertKey, severity: Severity) -> bool {
        let fits = |pattern: &Option<Pattern>, name: &str| {
            pattern.as_ref().is_none_or(|pattern| pattern.fits(name))
        };
        let node = key.scope.node();
        fits(&self.rule, key.rule.as_str())
            && fits(&self.operation, key.operation.as_str())
            && (self.node.is_none() || !node.is_empty() && fits(&self.node, node))
            && self.severity.is_none_or(|wanted| wanted == severity)
    }

    /// True where everything would fit.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        let is_any = |pattern: &Option<Pattern>| pattern.as_ref().is_none_or(|of| of.0 == "*");
        // With a node, none about the fleet fits.
        is_any(&self.rule)
            && is_any(&self.operation)
            && self.node.is_none()
            && self.severity.is_none()
    }
}

impl Pattern {
    /// A pattern.
    ///
    /// # Errors
    /// When it is empty, too long, or has a `*` that does not end it.
    pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
        const WHAT: &str = "pattern";
        let (text, max) = (text.into(), PATTERN_BYTES_MAX);
        let name = text.strip_suffix('*').unwrap_or(&text);
        if text.is_empty() {
            return Err(IdError::Empty { what: WHAT });
        }
        if text.len() > max {
            return Err(IdError::TooLong { what: WHAT, len: text.len(), max });
        }
        match name.chars().find(|found| *found == '*' || found.is_control()) {
            Some(found) => Err(IdError::Character {
                what: WHAT,
                found,
                allowed: "a name, or its begin and one '*' at the end",
            }),
            None => Ok(Self(text)),
        }
    }

    fn fits(&self, name: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(begin) => name.starts_with(begin),
            None => name == self.0,
        }
    }
}

impl TryFrom<String> for Pattern {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        Self::new(text)
    }
}

impl From<Pattern> for String {
    fn from(Pattern(text): Pattern) -> Self {
        text
    }
}

/// A point in time as all pages have it: seconds since 1970.
mod in_seconds {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::time::{Wall, nanos, seconds};

    pub(super) fn serialize<S: Serializer>(at: &Wall, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(seconds(at.0))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Wall, D::Error> {
        let since = Duration::try_from_secs_f64(f64::deserialize(from)?);
        since.map(|since| Wall(nanos(since))).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::Scope;
    use crate::ids::{NodeName, Operation, RuleName};

    fn key(node: Option<&str>) -> AlertKey {
        let scope = node.map_or(Scope::Fleet, |name| Scope::Node(NodeName::new(name).unwrap()));
        let operation = Operation::new("db.read").unwrap();
        AlertKey { rule: RuleName::new("slow_reads").unwrap(), scope, operation }
    }

    #[test]
    fn a_match_is_about_the_alerts_that_fit_all_of_it() {
        let (fleet, n1) = (key(None), key(Some("rack1-n1")));
        let table: [(&str, bool, bool); 10] = [
            (r#"{"rule":"slow_reads"}"#, true, true),
            (r#"{"rule":"slow_*"}"#, true, true),
            (r#"{"rule":"slow"}"#, false, false),
            (r#"{"rule":"*"}"#, true, true),
            (r#"{"node":"rack1-*"}"#, false, true),
            (r#"{"node":"*"}"#, false, true),
            (r#"{"rule":"slow_reads","node":"rack2-*"}"#, false, false),
            (r#"{"operation":"db.*","severity":"warning"}"#, true, true),
            (r#"{"operation":"db.*","severity":"critical"}"#, false, false),
            ("{}", true, true),
        ];
        for (text, wanted_fleet, wanted_node) in table {
            let of: SilenceMatch = serde_json::from_str(text).unwrap();
            assert_eq!(of.fits(&fleet, Severity::Warning), wanted_fleet, "{text}");
            assert_eq!(of.fits(&n1, Severity::Warning), wanted_node, "{text}");
            assert_eq!(of.is_everything(), ["{}", r#"{"rule":"*"}"#].contains(&text));
        }
    }

    #[test]
    fn a_silence_is_told_in_seconds_since_1970() {
        let text = r#"{"match":{"rule":"r"},"by":"a","comment":"","from_seconds":2.0,"#.to_owned()
            + r#""until_seconds":2.5}"#;
        let silence: Silence = serde_json::from_str(&text).unwrap();
        assert_eq!((silence.from, silence.until), (Wall(2_000_000_000), Wall(2_500_000_000)));
        assert_eq!(serde_json::to_string(&silence).unwrap(), text);
        assert!(serde_json::from_str::<Silence>(&text.replace("2.5", "-2.5")).is_err());
    }

    #[test]
    fn a_pattern_is_a_name_or_the_begin_of_one() {
        for good in ["a", "a*", "*", "db.read"] {
            assert_eq!(String::from(Pattern::new(good).unwrap()), good);
        }
        for bad in ["", "a*b", "**", "a\nb", &"x".repeat(PATTERN_BYTES_MAX + 1)] {
            assert!(Pattern::new(bad).is_err(), "{bad}");
        }
    }
}
