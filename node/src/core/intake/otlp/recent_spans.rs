//! The ids of the latest recorded spans, to detect a repetition: a producer that gets no answer
//! sends its spans again.

use std::collections::VecDeque;

use crate::limits::OTLP_SPANS_REMEMBERED_MAX;
use hashbrown::HashTable;

/// A bounded number of span ids.
#[derive(Default)]
pub(super) struct RecentSpans {
    table: HashTable<u64>,
    /// The same ids in order of arrival.
    order: VecDeque<u64>,
}

impl RecentSpans {
    /// Whether a span is among the latest.
    pub(super) fn contains(&self, span: u64) -> bool {
        self.table.find(span, |known| *known == span).is_some()
    }

    /// Adds a span that is not contained.
    pub(super) fn insert(&mut self, span: u64) {
        if self.order.len() >= OTLP_SPANS_REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
            && let Ok(entry) = self.table.find_entry(oldest, |known| *known == oldest)
        {
            entry.remove();
        }
        self.order.push_back(span);
        self.table.insert_unique(span, span, |known| *known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_known_and_no_more_than_are_bounded() {
        let (mut seen, max) = (RecentSpans::default(), OTLP_SPANS_REMEMBERED_MAX as u64);
        for span in 0..max + 10 {
            assert!(!seen.contains(span));
            seen.insert(span);
        }
        assert_eq!(
            (seen.contains(9), seen.contains(10), seen.contains(max + 9)),
            (false, true, true)
        );
        assert_eq!(
            (seen.table.len(), seen.order.len()),
            (seen.order.len(), OTLP_SPANS_REMEMBERED_MAX)
        );
    }
}
