//! A line's tags as labels of a series. Refuses nothing: what a label cannot hold is mended.

use std::collections::BTreeMap;

use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::limits::wire::{LABEL_KEY_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX};

use super::dogstatsd;

/// Tags as labels. What a label cannot hold is mended rather than refused: a sample is worth
/// more than the spelling of its tag. The first of two equal keys wins.
pub(super) fn labels(tags: &str) -> Labels {
    let mut kept: BTreeMap<String, String> = BTreeMap::new();
    for (key, value) in dogstatsd::tags(tags).take(LABELS_MAX) {
        let key =
            mend(key, LABEL_KEY_BYTES_MAX, |c| c.is_ascii_alphanumeric() || "_.-".contains(c));
        let value = mend(value, LABEL_VALUE_BYTES_MAX, |c| !c.is_control());
        if !key.is_empty() {
            kept.entry(key).or_insert(value);
        }
    }
    Labels::new(kept).unwrap_or_default()
}

fn mend(text: &str, max: usize, fits: impl Fn(char) -> bool) -> String {
    let mut mended = String::with_capacity(text.len().min(max));
    for c in text.chars().map(|c| if fits(c) { c } else { '_' }) {
        if mended.len() + c.len_utf8() > max {
            break;
        }
        mended.push(c);
    }
    mended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_that_no_label_can_hold_are_mended() {
        let long = "v".repeat(LABEL_VALUE_BYTES_MAX + 9);
        let labels = labels(&format!("a b:1,a_b:2,x:{long},:v"));
        assert_eq!(labels.get("a_b"), Some("1"));
        assert_eq!(labels.get("x").map(str::len), Some(LABEL_VALUE_BYTES_MAX));
        assert_eq!(labels.iter().count(), 2);
    }
}
