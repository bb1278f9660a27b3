//! Warnings about rejected lines, for an operator who has not yet looked at a counter.
//!
//! Owns how many were rejected for each reason, and an example of what is due to be logged: the
//! first of a reason, then each time their number has doubled.

use std::collections::BTreeMap;

use crate::limits::REJECTED_EXAMPLE_BYTES;

/// The warnings that are due, and the counts that decide when the next one is.
#[derive(Default)]
pub(super) struct LineWarnings {
    counts: BTreeMap<&'static str, u64>,
    due: BTreeMap<&'static str, RejectedInput>,
}

/// Input that was rejected, as it is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedInput {
    /// Why, as the label of the counter.
    pub reason: &'static str,
    /// How much was rejected for this reason so far.
    pub count: u64,
    /// The newest example, cut, with escapes for all that is no printable ASCII.
    pub example: String,
}

impl LineWarnings {
    pub(super) fn on_rejected(&mut self, reason: &'static str, input: &[u8]) {
        let count = self.counts.entry(reason).or_default();
        *count += 1;
        if count.is_power_of_two() {
            let input = &input[..input.len().min(REJECTED_EXAMPLE_BYTES)];
            let example = input.escape_ascii().to_string();
            self.due.insert(reason, RejectedInput { reason, count: *count, example });
        }
    }

    /// The warnings that are due, at most one for each reason.
    pub(super) fn take(&mut self) -> impl Iterator<Item = RejectedInput> + use<> {
        std::mem::take(&mut self.due).into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_of_each_reason_is_logged_at_doubling_counts() {
        let mut warnings = LineWarnings::default();
        let logged: Vec<_> = (0..450)
            .flat_map(|_| {
                warnings.on_rejected("shape", b"no value");
                warnings.take().map(|warning| warning.count).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(logged, [1, 2, 4, 8, 16, 32, 64, 128, 256]);
        warnings.on_rejected("encoding", &[b"\xff\n".repeat(REJECTED_EXAMPLE_BYTES)].concat());
        warnings.on_rejected("name", b"a b:1|ms");
        let examples: Vec<_> = warnings.take().map(|warning| warning.example).collect();
        assert_eq!(examples[0].len(), REJECTED_EXAMPLE_BYTES / 2 * r"\xff\n".len());
        assert_eq!(examples[1], "a b:1|ms");
    }

    #[test]
    fn two_of_one_reason_between_two_looks_are_one_warning() {
        let mut warnings = LineWarnings::default();
        warnings.on_rejected("shape", b"first");
        warnings.on_rejected("shape", b"second");
        let due: Vec<_> = warnings.take().collect();
        let example = "second".to_owned();
        assert_eq!(due, [RejectedInput { reason: "shape", count: 2, example }]);
        assert_eq!(warnings.take().count(), 0);
    }
}
