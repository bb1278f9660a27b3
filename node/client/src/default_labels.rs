//! Labels of every series of a process, and what becomes of them where a series has its own.

use plimsoll_schemas::ids::{Labels, Series};
use plimsoll_schemas::limits::wire::LABELS_MAX;

/// Pairs with distinct keys, those first that have their place in a series first: what the program
/// and the operator set, then what the launcher of the job states.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DefaultLabels(Vec<(String, String)>);

impl DefaultLabels {
    pub(crate) fn new(set: &Labels, ranks: Vec<(String, String)>) -> Self {
        let others = ranks.into_iter().filter(|(key, _)| set.get(key).is_none());
        let set = set.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        Self(set.chain(others).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// A series with the default labels whose keys it does not have, as far as a series holds
    /// labels.
    pub(crate) fn added_to(&self, series: Series) -> Series {
        let own = &series.labels;
        let others = self.iter().filter(|(key, _)| own.get(key).is_none());
        let labels = Labels::new(own.iter().chain(others).take(LABELS_MAX));
        // Cannot fail: valid labels with distinct keys, no more than fit.
        Series { labels: labels.unwrap_or_default(), ..series }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::ids::Operation;

    use super::*;

    fn series(labels: impl IntoIterator<Item = (String, &'static str)>) -> Series {
        let operation = Operation::new("epoch_hook").unwrap();
        Series { operation, labels: Labels::new(labels).unwrap() }
    }

    #[test]
    fn a_series_keeps_its_own_then_those_set_then_those_of_the_rank() {
        let set = Labels::new([("run", "r7"), ("zone", "z")]).unwrap();
        let rank = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let defaults = DefaultLabels::new(&set, vec![rank("rank", "3"), rank("zone", "9")]);
        let named = |key: &str| (key.to_owned(), "own");

        let of_own = defaults.added_to(series([named("run"), named("x")]));
        assert_eq!(of_own.to_string(), "epoch_hook{rank=3,run=own,x=own,zone=z}");

        // Room for two of the three.
        let full = (0..LABELS_MAX - 2).map(|n| (format!("k{n}"), "own"));
        let labels = defaults.added_to(series(full)).labels;
        let found = ["run", "zone", "rank"].map(|key| labels.get(key));
        assert_eq!((labels.iter().count(), found), (LABELS_MAX, [Some("r7"), Some("z"), None]));
    }
}
