//! Texts and values of profiles as pictures and pages show them.

use plimsoll_schemas::figure;
use plimsoll_schemas::remote_text::is_harmful;

/// XML has no control characters, not even escaped; the last two are no characters of any text.
pub(crate) fn shown(text: &str) -> String {
    let is_shown = |c: char| !is_harmful(c) && !matches!(c, '\u{fffe}' | '\u{ffff}');
    text.chars().map(|c| if is_shown(c) { c } else { '\u{fffd}' }).collect()
}

/// A value in its unit.
pub(crate) fn units(value: f64, unit: &str) -> String {
    match (per_second(unit), unit) {
        (Some(per_second), _) => figure::span(value / per_second),
        (None, "bytes") => figure::bytes(value),
        (None, _) => format!("{} {}", figure::number(value), shown(unit)),
    }
}

/// Units in a second, if the unit is one of time.
pub(crate) fn per_second(unit: &str) -> Option<f64> {
    match unit {
        "nanoseconds" => Some(1e9),
        "microseconds" => Some(1e6),
        "milliseconds" => Some(1e3),
        "seconds" => Some(1.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_unit_that_fits_them() {
        let table = [
            (2.5e9, "nanoseconds", "2.5 s"),
            (3e3, "microseconds", "3 ms"),
            (3e3, "milliseconds", "3 s"),
            (3.0 * 1024.0, "bytes", "3 KiB"),
            (7.0, "<b>\n", "7 <b>\u{fffd}"),
        ];
        for (value, unit, text) in table {
            assert_eq!(units(value, unit), text);
        }
    }
}
