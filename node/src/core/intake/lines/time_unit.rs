//! Units of time in which senders write latencies.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
}

/// How people and libraries write each unit, in settings, names and OTLP. A longer word may be in
/// capitals.
const SPELLINGS: [(TimeUnit, &[&str]); 4] = [
    (TimeUnit::Seconds, &["s", "sec", "secs", "second", "seconds"]),
    (TimeUnit::Milliseconds, &["ms", "msec", "msecs", "millis", "millisecond", "milliseconds"]),
    (
        TimeUnit::Microseconds,
        &["us", "\u{b5}s", "\u{3bc}s", "usec", "usecs", "micros", "microsecond", "microseconds"],
    ),
    (TimeUnit::Nanoseconds, &["ns", "nsec", "nsecs", "nanos", "nanosecond", "nanoseconds"]),
];

impl TimeUnit {
    /// The unit that a word is.
    pub fn spelled(word: &str) -> Option<Self> {
        // `S` is siemens, and `MS` is none.
        let is_spelled = |of: &&str| {
            if of.len() > 2 { of.eq_ignore_ascii_case(word) } else { *of == word }
        };
        SPELLINGS.iter().find(|(_, words)| words.iter().any(is_spelled)).map(|(unit, _)| *unit)
    }

    /// Decimal places down to a nanosecond.
    pub(crate) const fn decimals(self) -> usize {
        match self {
            Self::Seconds => 9,
            Self::Milliseconds => 6,
            Self::Microseconds => 3,
            Self::Nanoseconds => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_read_however_it_is_spelled() {
        for (word, unit) in [
            ("s", TimeUnit::Seconds),
            ("Seconds", TimeUnit::Seconds),
            ("msec", TimeUnit::Milliseconds),
            ("MILLISECONDS", TimeUnit::Milliseconds),
            ("\u{b5}s", TimeUnit::Microseconds),
            ("\u{3bc}s", TimeUnit::Microseconds),
            ("nanos", TimeUnit::Nanoseconds),
        ] {
            assert_eq!(TimeUnit::spelled(word), Some(unit), "{word}");
        }
        for none in ["", "S", "MS", "bytes", "m", "min", "sses"] {
            assert_eq!(TimeUnit::spelled(none), None, "{none}");
        }
        for (unit, words) in SPELLINGS {
            assert!(words.iter().all(|word| TimeUnit::spelled(word) == Some(unit)), "{unit:?}");
        }
    }
}
