//! Labels as text, and labels from outside made fit for Prometheus: nothing in a value can break
//! out of its quotes, and no key takes a meaning that is ours.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::Labels;

pub(super) fn push_label(out: &mut Vec<u8>, key: &str, value: &str) {
    if !out.is_empty() {
        out.push(b',');
    }
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"=\"");
    escape_into(out, value);
    out.push(b'"');
}

fn escape_into(out: &mut Vec<u8>, value: &str) {
    let mut rest = value.as_bytes();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\\' | b'"' | b'\n')) {
        out.extend_from_slice(&rest[..at]);
        out.push(b'\\');
        out.push(if rest[at] == b'\n' { b'n' } else { rest[at] });
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Label keys with a meaning of their own here or in Prometheus.
const RESERVED: [&str; 10] =
    ["node", "counter", "gauge", "scope", "operation", "window", "job", "instance", "rollup", "le"];

/// A label's key from outside as Prometheus allows it, kept apart from the mesh's own keys.
#[must_use]
pub(super) fn label_key(key: &str) -> String {
    let mended: String =
        key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let begins_badly = mended.starts_with("__") || mended.starts_with(|c: char| c.is_ascii_digit());
    if begins_badly || RESERVED.contains(&mended.as_str()) {
        return format!("label_{mended}");
    }
    mended
}

/// Labels from outside as Prometheus can hold them: keys mended, of two that become equal the
/// later one, and none without a value, since to Prometheus that is a label that is not there.
#[must_use]
pub(super) fn mended(labels: &Labels) -> BTreeMap<String, &str> {
    let told = labels.iter().filter(|(_, value)| !value.is_empty());
    told.map(|(key, value)| (label_key(key), value)).collect()
}
