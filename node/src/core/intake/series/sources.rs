//! Who brought the samples of one series in one interval: mostly a single client, so that a sample
//! of the same one as before costs a comparison.

use crate::core::intake::jobs::Source;
use crate::limits::SERIES_SOURCES_MAX;

#[derive(Debug, Default)]
pub(crate) struct Sources {
    latest: Option<Source>,
    others: Vec<Source>,
}

impl Sources {
    /// Adds a source. One beyond the bound counts as a sender without a number.
    #[inline]
    pub(crate) fn add(&mut self, source: Source) {
        if self.latest != Some(source) {
            self.add_other(source);
        }
    }

    #[cold]
    fn add_other(&mut self, source: Source) {
        let Some(before) = self.latest.replace(source) else { return };
        self.others.retain(|other| *other != source);
        let before = if self.others.len() < SERIES_SOURCES_MAX { before } else { None };
        if !self.others.contains(&before) {
            self.others.push(before);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Source> {
        self.latest.into_iter().chain(self.others.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::intake::clients::ClientId;

    fn all(sources: &Sources) -> Vec<Source> {
        let mut all: Vec<Source> = sources.iter().collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn each_source_is_there_once() {
        let [a, b] = [1, 2].map(|id| Some(ClientId::from_number(id)));
        let mut sources = Sources::default();
        assert_eq!(all(&sources), []);
        for source in [a, a, b, a, None, a, b, b, None] {
            sources.add(source);
        }
        assert_eq!(all(&sources), [None, a, b]);
    }

    #[test]
    fn one_beyond_the_bound_counts_as_a_sender_without_a_number() {
        let mut sources = Sources::default();
        for id in 1..=3 * SERIES_SOURCES_MAX as u64 {
            sources.add(Some(ClientId::from_number(id)));
        }
        let all = all(&sources);
        assert_eq!(all.len(), SERIES_SOURCES_MAX + 2);
        assert_eq!(all[0], None);
    }
}
