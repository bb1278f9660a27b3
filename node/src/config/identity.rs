//! Settings of the node's labels, by which fleet metrics are grouped.

use crate::limits::IDENTITY_LABELS_MAX;
use plimsoll_schemas::ids::Labels;
use serde::Deserialize;

use super::section::few;

/// The reserved key: metrics contain the name of the node under it.
const NAME: &str = "node";

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct IdentitySettings {
    pub labels: Vec<String>,
}

impl IdentitySettings {
    pub fn labels(&self) -> Result<Labels, String> {
        few("identity.labels", self.labels.len(), IDENTITY_LABELS_MAX, "labels")?;
        let mut pairs = Vec::new();
        for text in &self.labels {
            let pair = label(text).map_err(|wrong| format!("identity.labels: {text:?}{wrong}"))?;
            pairs.push(pair);
        }
        Labels::new(pairs).map_err(|error| format!("identity.labels: {error}"))
    }
}

/// One label; the error continues the text of the label.
fn label(text: &str) -> Result<(&str, &str), String> {
    let pair = text.split_once('=').filter(|(_, value)| !value.is_empty());
    let Some((key, value)) = pair else {
        return Err(" must be key=value, such as \"rack=r7\"".to_owned());
    };
    if key == NAME {
        return Err(" is the name, not a label; use name or --name".to_owned());
    }
    Labels::new([(key, value)]).map_err(|error| format!(": {error}"))?;
    Ok((key, value))
}
