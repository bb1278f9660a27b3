//! Text from outside as a terminal may show it.

use plimsoll_schemas::remote_text::is_harmful;

/// Characters of a name or a text: more than any valid name has.
const CHARS_MAX: usize = 300;
/// What stands for a character that a terminal must not receive.
const REPLACED: char = '\u{FFFD}';

/// A text from outside. Control characters could move the cursor or send keys, and format
/// characters reverse or hide what follows; each becomes U+FFFD.
pub(crate) fn safe(text: &str) -> String {
    let shown = |c: char| if is_harmful(c) { REPLACED } else { c };
    text.chars().take(CHARS_MAX).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_character_that_acts_on_a_terminal_is_left() {
        let hostile = "a\u{1b}[31mred\u{7}\u{9b}2J\u{202e}gpj\r\n\u{200b}";
        let shown = safe(hostile);
        assert_eq!(shown, "a\u{FFFD}[31mred\u{FFFD}\u{FFFD}2J\u{FFFD}gpj\u{FFFD}\u{FFFD}\u{FFFD}");
        assert_eq!(safe("é 日 node-1"), "é 日 node-1");
        assert_eq!(safe(&"x".repeat(1_000)).len(), CHARS_MAX);
    }

    proptest! {
        #[test]
        fn any_text_is_safe(text in any::<String>()) {
            prop_assert!(!safe(&text).chars().any(is_harmful));
        }
    }
}
