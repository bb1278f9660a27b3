//! Names and labels that clients and nodes choose, made valid for Prometheus and kept apart from
//! our own.
//!
//! DESIGN A42.

use std::borrow::Cow;
use std::collections::BTreeMap;

use plimsoll_schemas::ids::Labels;

/// Label keys that have a meaning of their own here or in Prometheus.
const RESERVED: [&str; 8] =
    ["node", "scope", "operation", "window", "job", "instance", "rollup", "le"];

/// An external name as the rest of a metric's name, after a prefix of ours.
pub(super) fn valid_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// An external label key as Prometheus allows it; a reserved one gets the prefix `label_`. Most
/// are valid, and stay as they are.
pub(super) fn valid_key(key: &str) -> Cow<'_, str> {
    let is_valid = key.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
    let valid = if is_valid { Cow::Borrowed(key) } else { Cow::Owned(valid_name(key)) };
    // Prometheus drops labels that start with `__`, and under
    // a name of ours a series would have its label twice.
    let bad_start = valid.starts_with("__") || valid.starts_with(|c: char| c.is_ascii_digit());
    if bad_start || RESERVED.contains(&&*valid) {
        return Cow::Owned(format!("label_{valid}"));
    }
    valid
}

/// External labels with valid keys, which are all different, in their order.
pub(super) type ValidLabels<'l> = Vec<(Cow<'l, str>, &'l str)>;

/// External labels with valid keys. Of two keys that become equal the later one wins. A label with
/// an empty value is left out, since Prometheus treats it as absent.
pub(super) fn valid_labels(labels: &Labels) -> ValidLabels<'_> {
    let present = labels.iter().filter(|(_, value)| !value.is_empty());
    let mut valid: ValidLabels<'_> = present.map(|(key, value)| (valid_key(key), value)).collect();
    if valid.iter().any(|(key, _)| matches!(key, Cow::Owned(_))) {
        // Only where a key was changed can two have become equal; most sets take the short way.
        let by_key: BTreeMap<Cow<'_, str>, &str> = valid.into_iter().collect();
        valid = by_key.into_iter().collect();
    }
    valid
}
