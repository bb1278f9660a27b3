//! Silences, and the silences page of the API, `/api/v1/silences`: receivers are not notified of
//! the alerts that a silence matches until it ends. The aggregator validates requests.

use serde::{Deserialize, Serialize};

use super::timestamp;
use crate::annotations::Severity;
use crate::ids::{AggregatorName, IdError};
use crate::limits::rules::PATTERN_BYTES_MAX;
use crate::scope::AlertKey;
use crate::time::Wall;

/// Which alerts a silence matches: those that match every pattern that is set; at least one is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SilenceMatch {
    /// Pattern of the rule's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<NamePattern>,
    /// Pattern of the node's name; fleet alerts then never match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NamePattern>,
    /// Pattern of the operation's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<NamePattern>,
    /// Severity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
}

/// What a [`NamePattern`] may be, as a regular expression.
#[cfg(feature = "openapi")]
const PATTERN: &str = r"^[^*\u0000-\u001f\u007f-\u009f]*[^\u0000-\u001f\u007f-\u009f]$";

/// A name, or a prefix of names with a `*` at its end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(
    feature = "openapi",
    derive(schemars::JsonSchema),
    schemars(rename = "Pattern", extend("pattern" = PATTERN, "maxLength" = PATTERN_BYTES_MAX))
)]
#[serde(try_from = "String", into = "String")]
pub struct NamePattern(String);

/// A span of time in which receivers are not notified of the alerts that match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Silence {
    /// The alerts.
    #[serde(rename = "match")]
    pub matches: SilenceMatch,
    /// The operator who created it.
    pub by: String,
    /// The reason.
    #[serde(default)]
    pub comment: String,
    /// Begin.
    #[serde(rename = "from_seconds", with = "timestamp")]
    #[cfg_attr(feature = "openapi", schemars(with = "f64"))]
    pub from: Wall,
    /// End, excluded.
    #[serde(rename = "until_seconds", with = "timestamp")]
    #[cfg_attr(feature = "openapi", schemars(with = "f64"))]
    pub until: Wall,
}

/// Which silence it is, for all aggregators of a mesh.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SilenceOrigin {
    /// The aggregator that was asked for it.
    pub aggregator: AggregatorName,
    /// Its number there.
    pub id: u64,
    /// When it was created there: an aggregator that kept nothing begins its numbers again.
    #[serde(rename = "created_ns")]
    pub created: Wall,
}

/// A silence and its number, which is this aggregator's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(rename = "Silence"))]
pub struct SilenceRow {
    /// Its number.
    pub id: u64,
    /// The silence.
    #[serde(flatten)]
    pub silence: Silence,
}

/// All active and future silences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SilencesPage {
    /// By number.
    pub silences: Vec<SilenceRow>,
}

impl SilenceMatch {
    /// Whether an alert of this severity matches.
    #[must_use]
    pub fn fits(&self, key: &AlertKey, severity: Severity) -> bool {
        let fits = |pattern: &Option<NamePattern>, name: &str| {
            pattern.as_ref().is_none_or(|pattern| pattern.fits(name))
        };
        let node = key.scope.node();
        fits(&self.rule, key.rule.as_str())
            && fits(&self.operation, key.operation.as_str())
            && (self.node.is_none() || !node.is_empty() && fits(&self.node, node))
            && self.severity.is_none_or(|wanted| wanted == severity)
    }

    /// Whether every alert would match.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        let is_any = |pattern: &Option<NamePattern>| pattern.as_ref().is_none_or(|of| of.0 == "*");
        // With a node, none about the fleet fits.
        is_any(&self.rule)
            && is_any(&self.operation)
            && self.node.is_none()
            && self.severity.is_none()
    }
}

impl NamePattern {
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
                allowed: "a name, or a prefix of one with '*' at its end",
            }),
            None => Ok(Self(text)),
        }
    }

    /// Whether a name is meant.
    #[must_use]
    pub fn fits(&self, name: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(begin) => name.starts_with(begin),
            None => name == self.0,
        }
    }
}

impl TryFrom<String> for NamePattern {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        Self::new(text)
    }
}

impl From<NamePattern> for String {
    fn from(NamePattern(text): NamePattern) -> Self {
        text
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
    fn a_silence_is_in_seconds_since_1970() {
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
            assert_eq!(String::from(NamePattern::new(good).unwrap()), good);
        }
        for bad in ["", "a*b", "**", "a\nb", &"x".repeat(PATTERN_BYTES_MAX + 1)] {
            assert!(NamePattern::new(bad).is_err(), "{bad}");
        }
    }
}
