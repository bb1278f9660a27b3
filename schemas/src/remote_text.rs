//! Text of another program, as logs, pages and terminals may show it.

use std::error::Error;

/// Characters that are kept of it.
pub const CHARS_MAX: usize = 240;

/// The first line that is not blank, without characters that act on a terminal or hide others,
/// and cut at [`CHARS_MAX`].
#[must_use]
pub fn first_line(text: &str) -> String {
    let lines = text.split(['\n', '\r']).map(one_line);
    lines.into_iter().find(|line| !line.is_empty()).unwrap_or_default()
}

/// The whole text as one line, under the same rules; blanks at its ends are left out.
#[must_use]
pub fn one_line(text: &str) -> String {
    let shown = text.trim().chars().filter(|c| !is_harmful(*c)).take(CHARS_MAX);
    shown.collect::<String>().trim_end().to_owned()
}

/// The text of the innermost error, which names the cause.
#[must_use]
pub fn innermost(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    one_line(&innermost.to_string())
}

/// Whether a character could move a cursor or send keys, or reverse or hide what follows it.
#[must_use]
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{AD}' | '\u{61C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}'
            | '\u{E0000}'..='\u{E007F}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_is_one_short_line() {
        assert_eq!(one_line(&"é\n".repeat(1_000)), "é".repeat(CHARS_MAX));
        assert_eq!(one_line(" a\u{1b}[31m\u{202e}b\r\n"), "a[31mb");
        assert_eq!(first_line("\r\n \u{7}\ninvalid_token\nmore"), "invalid_token");
        assert_eq!(first_line("\n \n"), "");
    }

    proptest! {
        #[test]
        fn any_text_is_bounded_and_harmless(text in any::<String>()) {
            for shown in [one_line(&text), first_line(&text)] {
                prop_assert!(shown.chars().count() <= CHARS_MAX);
                prop_assert!(!shown.chars().any(is_harmful));
            }
        }
    }
}
