//! How a profile was taken, and the comments of a file that state it.

use serde::{Deserialize, Serialize};

use crate::name::Name;

/// What each of our comments starts with.
const PREFIX: &str = "plimsoll.";
const RUNG: &str = "rung";
/// The rung of a merged profile whose parts were taken in different ways.
const MIXED: &str = "mixed";

/// How a profile was taken. Zero and an empty name are unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureFacts {
    /// The way that was open, such as `memory` or `client`.
    pub rung: Name,
    /// Samples a second that were asked for, in thousandths.
    pub rate_asked_millihertz: u64,
    /// Samples a second that the sampler reached, in thousandths; of a merged profile the lowest.
    pub rate_reached_millihertz: u64,
    /// Samples that were asked for: `taken`, `torn` and `lost` together.
    pub samples_asked: u64,
    /// Samples in the profile.
    pub samples_taken: u64,
    /// Samples that the process changed while they were read.
    pub samples_torn: u64,
    /// Samples that came too late, or that no buffer had room for.
    pub samples_lost: u64,
}

impl CaptureFacts {
    /// The facts of both together; the order does not matter.
    pub(crate) fn join(&mut self, other: &Self) {
        let lowest = |a: u64, b: u64| if a == 0 || b == 0 { a.max(b) } else { a.min(b) };
        if self.rung.as_str().is_empty() {
            self.rung = other.rung.clone();
        } else if !other.rung.as_str().is_empty() && self.rung != other.rung {
            self.rung = Name::new(MIXED);
        }
        self.rate_asked_millihertz = self.rate_asked_millihertz.max(other.rate_asked_millihertz);
        self.rate_reached_millihertz =
            lowest(self.rate_reached_millihertz, other.rate_reached_millihertz);

        let counts = [
            (&mut self.samples_asked, other.samples_asked),
            (&mut self.samples_taken, other.samples_taken),
            (&mut self.samples_torn, other.samples_torn),
            (&mut self.samples_lost, other.samples_lost),
        ];
        for (sum, more) in counts {
            *sum = sum.saturating_add(more);
        }
    }

    /// One `key=value` for each fact, in a fixed order; none if nothing is known.
    pub(crate) fn comments(&self) -> Vec<String> {
        if *self == Self::default() {
            return Vec::new();
        }
        let rung = format!("{PREFIX}{RUNG}={}", self.rung);
        let mut copy = self.clone();
        let numbers = copy.numbers().map(|(key, value)| format!("{PREFIX}{key}={value}"));
        [rung].into_iter().chain(numbers).collect()
    }

    /// Takes the facts out of the comments of a file and leaves the others.
    pub(crate) fn take(comments: &mut Vec<String>) -> Self {
        let mut facts = Self::default();
        comments.retain(|comment| !facts.set(comment));
        facts
    }

    /// Whether a comment would be read as a fact.
    pub(crate) fn is_fact(comment: &str) -> bool {
        Self::default().set(comment)
    }

    /// Sets the fact that a comment states, if it states one.
    fn set(&mut self, comment: &str) -> bool {
        let Some((key, value)) = comment.strip_prefix(PREFIX).and_then(|c| c.split_once('='))
        else {
            return false;
        };
        if key == RUNG {
            self.rung = Name::new(value);
            return true;
        }
        let fact = self.numbers().into_iter().find(|(known, _)| *known == key);
        let (Some((_, fact)), Ok(value)) = (fact, value.parse()) else { return false };
        *fact = value;
        true
    }

    fn numbers(&mut self) -> [(&'static str, &mut u64); 6] {
        [
            ("rate_asked_millihertz", &mut self.rate_asked_millihertz),
            ("rate_reached_millihertz", &mut self.rate_reached_millihertz),
            ("samples_asked", &mut self.samples_asked),
            ("samples_taken", &mut self.samples_taken),
            ("samples_torn", &mut self.samples_torn),
            ("samples_lost", &mut self.samples_lost),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> CaptureFacts {
        CaptureFacts {
            rung: "memory".into(),
            rate_asked_millihertz: 100_000,
            rate_reached_millihertz: 98_700,
            samples_asked: 1_000,
            samples_taken: 987,
            samples_torn: 3,
            samples_lost: 10,
        }
    }

    #[test]
    fn facts_are_comments_in_a_fixed_order() {
        let wanted = [
            "plimsoll.rung=memory",
            "plimsoll.rate_asked_millihertz=100000",
            "plimsoll.rate_reached_millihertz=98700",
            "plimsoll.samples_asked=1000",
            "plimsoll.samples_taken=987",
            "plimsoll.samples_torn=3",
            "plimsoll.samples_lost=10",
        ];
        assert_eq!(facts().comments(), wanted);
    }

    #[test]
    fn comments_that_are_no_facts_are_left() {
        let mut comments = facts().comments();
        let others = ["plimsoll.samples_torn=-1", "plimsoll.b=1", "plimsoll.rung", "a=1", ""];
        comments.extend(others.map(str::to_owned));
        assert_eq!(CaptureFacts::take(&mut comments), facts());
        assert_eq!(comments, others);
        assert_eq!(CaptureFacts::default().comments(), [""; 0]);
    }

    #[test]
    fn joined_facts_keep_the_lowest_rate_and_all_samples() {
        let mut both = facts();
        both.join(&CaptureFacts::default());
        assert_eq!(both, facts());
        both.join(&CaptureFacts {
            rung: "client".into(),
            rate_reached_millihertz: 50_000,
            samples_taken: 13,
            samples_lost: u64::MAX,
            ..CaptureFacts::default()
        });
        assert_eq!(both.rung.as_str(), "mixed");
        assert_eq!(both.rate_reached_millihertz, 50_000);
        assert_eq!((both.samples_taken, both.samples_lost), (1_000, u64::MAX));
    }
}
