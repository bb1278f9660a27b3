//! Figures in the kernel's tables of words and numbers. Pure.

use plimsoll_schemas::hardware::MissingReading;

use super::scale::Raw;

pub(super) const NO_LIMIT: MissingReading = MissingReading::unsupported("no_limit");
/// Above any limit that an operator sets: kernels report "no limit" as a number this large.
const UNLIMITED: u64 = 1 << 60;

/// A whole number, blanks around it cut off.
pub(super) fn count(text: &str) -> Result<u64, MissingReading> {
    let text = text.trim();
    match text.parse() {
        Ok(number) => Ok(number),
        Err(_) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => {
            Err(MissingReading::failed("out_of_range"))
        }
        Err(_) => Err(MissingReading::failed("not_a_number")),
    }
}

/// A number with a sign or a fraction.
pub(super) fn number(text: &str) -> Result<f64, MissingReading> {
    let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or(MissingReading::failed("not_a_number"))
}

pub(super) fn limit(text: &str) -> Raw {
    let limit = count(text)?;
    if limit < UNLIMITED { Ok(limit as f64) } else { Err(NO_LIMIT) }
}

/// The first word behind `key` on the line that begins with it, a colon between them or not.
pub(super) fn word<'t>(table: &'t str, key: &str) -> Result<&'t str, MissingReading> {
    let behind = |line: &'t str| line.strip_prefix(key)?.strip_prefix([':', ' ', '\t']);
    let rest = table.lines().find_map(behind).ok_or(MissingReading::unsupported("not_found"))?;
    Ok(rest.split_ascii_whitespace().next().unwrap_or_default())
}

pub(super) fn figure(table: &str, key: &str) -> Result<u64, MissingReading> {
    word(table, key).and_then(count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_figure_is_found_by_its_whole_key() {
        let table = "pgpgin 5\nMemTotal:       16315044 kB\noom_kill 3\nSwap:\nodd 1x\n";
        for (key, want) in [
            ("pgpgin", Ok(5)),
            ("MemTotal", Ok(16_315_044)),
            ("oom", Err(MissingReading::unsupported("not_found"))),
            ("Swap", Err(MissingReading::failed("not_a_number"))),
            ("odd", Err(MissingReading::failed("not_a_number"))),
        ] {
            assert_eq!(figure(table, key), want, "{key}");
        }
    }

    #[test]
    fn an_invalid_number_is_named_too_large_or_text() {
        assert_eq!(count("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(count("18446744073709551616"), Err(MissingReading::failed("out_of_range")));
        for text in ["", "-1", "<unknown>", "1.5", "0x10"] {
            assert_eq!(count(text), Err(MissingReading::failed("not_a_number")), "{text}");
        }
        assert_eq!(number("-1.5"), Ok(-1.5));
        for text in ["", "nan", "inf", "1e999", "1,5"] {
            assert_eq!(number(text), Err(MissingReading::failed("not_a_number")), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(\\PC|[0-9: \t\n]|key: ){0,200}", key in "[a-z]{0,4}") {
            let _ = (figure(&text, &key), count(&text), number(&text));
        }
    }
}
