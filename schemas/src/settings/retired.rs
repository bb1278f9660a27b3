//! Keys that the previous version had: its settings files still start, with a warning for each.

use super::setting::{Setting, Tree};

/// Each key with the value that holds instead. A row is removed with the next version.
pub const RETIRED: [(&str, &str); 8] = [
    ("breaker.failures", "3"),
    ("dead_letter.refusals", "5"),
    ("emergency.burst", "20"),
    ("emergency.reserved", "5"),
    ("outbox.coalesce_messages", "512"),
    ("outbox.conservative_seconds", "60"),
    ("outbox.leave_messages", "1000, or a quarter of outbox.messages_max if that is less"),
    ("outbox.reroute_messages", "4000, or outbox.messages_max if that is less"),
];

/// Removes a dotted key; whether it was there. Its section stays, so that a section that the
/// program does not know is still an error.
pub(crate) fn remove(tree: &mut Tree, key: &str) -> bool {
    let Some((section, rest)) = key.split_once('.') else { return tree.remove(key).is_some() };
    match tree.get_mut(section) {
        Some(Setting::Section(inner)) => remove(inner, rest),
        _ => false,
    }
}
