//! Settings of ingest: tags that become labels, and units of values.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::{LABEL_RULES_MAX, UNIT_PATTERNS_MAX, UNIT_SUFFIXES_MAX};
use plimsoll_schemas::ids::Labels;
use serde::{Deserialize, Deserializer};

use super::section::{few, section};
use crate::core::intake::Rules;
use crate::core::intake::glob::Glob;
use crate::core::intake::lines::{DEFAULT_SUFFIXES, Unit, Units, name_pattern, pattern, suffix};
use crate::core::intake::otlp::OtlpRules;
use crate::core::intake::series::LabelRules;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LabelSettings {
    pub allow: Vec<String>,
    pub drop: Vec<String>,
    pub container: bool,
}

section! {
    pub struct UnitSettings {
        #[serde(deserialize_with = "unit")]
        pub ms: Unit = Units::default().ms,
        #[serde(deserialize_with = "unit")]
        pub h: Unit = Units::default().h,
        #[serde(deserialize_with = "unit")]
        pub d: Unit = Units::default().d,
        pub suffixes: Vec<String> = DEFAULT_SUFFIXES.map(str::to_owned).into(),
        pub patterns: Vec<String> = Vec::new(),
        pub sub_microsecond: Vec<String> = Vec::new(),
    }
}

pub(super) fn unit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Unit, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

/// The rules that both sections make, with those of OTLP.
pub(super) fn rules(
    labels: &LabelSettings,
    units: &UnitSettings,
    otlp: OtlpRules,
) -> Result<Rules, String> {
    let allow = keys("labels.allow", &labels.allow)?;
    let drop = keys("labels.drop", &labels.drop)?;

    if let Some(both) = allow.intersection(&drop).next() {
        return Err(format!(
            "labels.drop: {both:?} is in labels.allow too; remove it from one of them"
        ));
    }

    let (suffixes, patterns) = (suffixes(&units.suffixes)?, patterns(&units.patterns)?);
    let sub_microsecond = sub_microsecond(&units.sub_microsecond)?;

    Ok(Rules {
        labels: LabelRules { allow, drop, container: labels.container },
        units: Units { ms: units.ms, h: units.h, d: units.d, suffixes, patterns, sub_microsecond },
        otlp,
        targets: Vec::new(),
    })
}

fn keys(setting: &str, keys: &[String]) -> Result<BTreeSet<String>, String> {
    few(setting, keys.len(), LABEL_RULES_MAX, "keys")?;
    for key in keys {
        Labels::new([(key, "")]).map_err(|error| format!("{setting}: {key:?}: {error}"))?;
    }
    Ok(keys.iter().cloned().collect())
}

fn suffixes(texts: &[String]) -> Result<BTreeMap<String, Unit>, String> {
    few("units.suffixes", texts.len(), UNIT_SUFFIXES_MAX, "suffixes")?;
    let mut suffixes = BTreeMap::new();
    for text in texts {
        let (part, unit) = suffix(text).map_err(|error| format!("units.suffixes: {error}"))?;
        if suffixes.insert(part, unit).is_some_and(|before| before != unit) {
            return Err(format!("units.suffixes: {text:?} contradicts another entry; remove one"));
        }
    }
    Ok(suffixes)
}

fn patterns(texts: &[String]) -> Result<Vec<(Glob, Unit)>, String> {
    few("units.patterns", texts.len(), UNIT_PATTERNS_MAX, "patterns")?;
    let mut patterns: Vec<(Glob, Unit)> = Vec::new();
    for text in texts {
        let (name, unit) = pattern(text).map_err(|error| format!("units.patterns: {error}"))?;
        if patterns.iter().any(|(before, _)| *before == name) {
            return Err(format!(
                "units.patterns: {text:?} never applies, since an earlier entry matches the same \
                 names; remove one"
            ));
        }
        patterns.push((name, unit));
    }
    Ok(patterns)
}

fn sub_microsecond(texts: &[String]) -> Result<Vec<Glob>, String> {
    few("units.sub_microsecond", texts.len(), UNIT_PATTERNS_MAX, "patterns")?;
    let parsed = texts.iter().map(|text| {
        name_pattern(text).ok_or_else(|| {
            format!("units.sub_microsecond: {text:?} must be a name in which `*` matches any text")
        })
    });
    parsed.collect()
}
