//! Names and labels that clients and nodes choose, made valid for Prometheus and kept apart from
//! our own.
//!
//! DESIGN A42.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::Labels;

/// Label keys that have a meaning of their own here or in Prometheus.
const RESERVED: [&str; 8] =
    ["node", "scope", "operation", "window", "job", "instance", "rollup", "le"];

/// An external name as the rest of a metric's name, after a prefix of ours.
#[must_use]
pub(super) fn valid_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// An external label key as Prometheus allows it; a reserved one gets the prefix `label_`.
#[must_use]
pub(super) fn valid_key(key: &str) -> String {
    let valid = valid_name(key);
    let bad_start = valid.starts_with("__") || valid.starts_with(|c: char| c.is_ascii_digit());
    if bad_start || RESERVED.contains(&valid.as_str()) {
        return format!("label_{valid}");
    }
    valid
}

/// External labels with valid keys. Of two keys that become equal the later one wins. A label with
/// an empty value is left out, since Prometheus treats it as absent.
#[must_use]
pub(super) fn valid_labels(labels: &Labels) -> BTreeMap<String, &str> {
    let present = labels.iter().filter(|(_, value)| !value.is_empty());
    present.map(|(key, value)| (valid_key(key), value)).collect()
}
