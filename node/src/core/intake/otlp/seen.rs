//! Spans that were taken, by one number each: a producer that heard no answer sends them again.
//! Remembers a bounded number of them, the latest.

use std::collections::VecDeque;

use crate::limits::OTLP_SPANS_REMEMBERED_MAX;
use hashbrown::HashTable;

/// What is remembered.
#[derive(Default)]
pub(super) struct Seen {
    table: HashTable<u64>,
    /// The same in the order in which they came.
    order: VecDeque<u64>,
}

impl Seen {
    /// Whether it was among the latest.
    pub(super) fn holds(&self, span: u64) -> bool {
        self.table.find(span, |known| *known == span).is_some()
    }

    /// Remembers one that is not there.
    pub(super) fn remember(&mut self, span: u64) {
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
        let (mut seen, max) = (Seen::default(), OTLP_SPANS_REMEMBERED_MAX as u64);
        for span in 0..max + 10 {
            assert!(!seen.holds(span));
            seen.remember(span);
        }
        assert_eq!((seen.holds(9), seen.holds(10), seen.holds(max + 9)), (false, true, true));
        assert_eq!(
            (seen.table.len(), seen.order.len()),
            (seen.order.len(), OTLP_SPANS_REMEMBERED_MAX)
        );
    }
}
