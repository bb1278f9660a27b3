//! Patterns of names in which `*` matches any text. No other character is special. Matching reads
//! each name once, however many stars the pattern has.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    pub fn new(pattern: &str) -> Self {
        Self(pattern.to_owned())
    }

    /// Whether the whole of `name` fits. The text between two stars is matched where it is found
    /// first: if the rest fits behind a later place, it fits behind this one too.
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
            return false;
        };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the pattern means, tried in every way.
    fn naive(pattern: &[u8], name: &[u8]) -> bool {
        match pattern {
            [] => name.is_empty(),
            [b'*', rest @ ..] => (0..=name.len()).any(|at| naive(rest, &name[at..])),
            [byte, rest @ ..] => name.first() == Some(byte) && naive(rest, &name[1..]),
        }
    }

    #[test]
    fn a_star_stands_for_any_text_and_none() {
        for (pattern, name, fits) in [
            ("GET /users", "GET /users", true),
            ("GET /users", "GET /users/7", false),
            ("GET *", "GET /users", true),
            ("GET *", "POST /users", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*a", "a", false),
            ("*.py*", "load.py", true),
            ("gr*ße", "größe", true),
        ] {
            assert_eq!(Glob::new(pattern).matches(name), fits, "{pattern} {name}");
        }
    }

    proptest! {
        #[test]
        fn a_pattern_equals_exhaustive_matching(
            pattern in "[ab*]{0,8}",
            name in "[ab]{0,10}",
        ) {
            let expected = naive(pattern.as_bytes(), name.as_bytes());
            prop_assert_eq!(Glob::new(&pattern).matches(&name), expected);
        }
    }
}
