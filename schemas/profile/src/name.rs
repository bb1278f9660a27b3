//! Names in profiles: text of other programs, shared between frames and bounded in length.

use std::fmt;
use std::sync::Arc;

use crate::limits::NAME_BYTES_MAX;

/// The end of a name that was too long.
const ELLIPSIS: char = '…';

/// Any text of at most [`NAME_BYTES_MAX`] bytes, control characters included. Clones share it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// A longer text is cut and ends in `…`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        if text.len() <= NAME_BYTES_MAX {
            return Self(text.into());
        }
        let mut cut =
            text[..text.floor_char_boundary(NAME_BYTES_MAX - ELLIPSIS.len_utf8())].to_owned();
        cut.push(ELLIPSIS);
        Self(cut.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let cut = Name::new(&"é".repeat(200));
        assert_eq!(cut.as_str(), "é".repeat(126) + "…");
        assert_eq!(Name::new(&"a".repeat(256)).as_str(), "a".repeat(256));
    }

    proptest! {
        #[test]
        fn a_name_is_bounded_and_stays_the_same(text in "\\PC{0,300}") {
            let name = Name::new(&text);
            prop_assert!(name.as_str().len() <= NAME_BYTES_MAX);
            prop_assert_eq!(Name::new(name.as_str()), name);
        }
    }
}
