//! Names and figures in few columns.

use plimsoll_schemas::figure::number;
use ratatui::text::Span;

/// At most `width` columns of a text; `…` marks what is cut.
pub(super) fn fit(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    let (mut cut, mut used) = (String::new(), 0);

    for c in text.chars() {
        let wide = Span::raw(c.to_string()).width();
        // Room for the mark; a character may be two columns wide.
        if used + wide + 1 > width {
            break;
        }
        cut.push(c);
        used += wide;
    }

    if width > 0 {
        cut.push('…');
    }
    cut
}

/// A headroom: the share of a limit that is left, in at most eight columns.
pub(super) fn headroom(share: f64) -> String {
    format!("{} %", number((share.max(-9.99) * 1e4).round() / 1e2))
}

/// A count in at most five columns.
pub(super) fn count(n: u64) -> String {
    match n {
        0..100_000 => n.to_string(),
        100_000..10_000_000 => format!("{}k", n / 1_000),
        10_000_000..10_000_000_000 => format!("{}M", n / 1_000_000),
        10_000_000_000..10_000_000_000_000 => format!("{}G", n / 1_000_000_000),
        _ => "huge".to_owned(),
    }
}

/// An age in at most four columns.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
pub(super) fn age(seconds: f64) -> String {
    if !(0.0..1e10).contains(&seconds) {
        return "-".to_owned();
    }
    match seconds as u64 {
        of @ 0..100 => format!("{of}s"),
        of @ 100..6_000 => format!("{}m", of / 60),
        of @ 6_000..360_000 => format!("{}h", of / 3_600),
        of => format!("{}d", of / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn figures_have_few_columns() {
        for (shown, expected) in [
            (headroom(0.954), "95.4 %"),
            (headroom(0.998_76), "99.9 %"),
            (headroom(0.000_123_4), "0.01 %"),
            (headroom(-70.0), "-999 %"),
            (count(99_999), "99999"),
            (count(123_456), "123k"),
            (count(9_999_999), "9999k"),
            (count(u64::MAX), "huge"),
            (age(99.9), "99s"),
            (age(600.0), "10m"),
            (age(7_200.0), "2h"),
            (age(864_000.0), "10d"),
            (age(-1.0), "-"),
            (age(f64::NAN), "-"),
        ] {
            assert_eq!(shown, expected);
        }
    }

    proptest! {
        #[test]
        fn what_fits_is_never_wider(text in "\\PC{0,40}", width in 0_u16..20) {
            let shown = fit(&text, width);
            prop_assert!(Span::raw(&shown).width() <= usize::from(width), "{shown:?}");
        }
    }
}
