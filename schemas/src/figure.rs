//! Figures as people read them: alerts, commands and reports share one format. It has three
//! significant digits and a space before the unit. JSON has the exact values.

/// A count, such as `1,234`.
#[must_use]
pub fn count(n: u64) -> String {
    grouped(&n.to_string())
}

/// A count with its noun: `1 sample`, `1,234 samples`.
#[must_use]
pub fn counted(n: u64, noun: &str) -> String {
    let nouns = match noun.strip_suffix('y') {
        _ if n == 1 => noun.to_owned(),
        Some(stem) if !stem.ends_with(['a', 'e', 'o']) => format!("{stem}ies"),
        _ => format!("{noun}s"),
    };
    format!("{} {nouns}", count(n))
}

/// A number without zeros at its end. From 1e15 on it is written with its power of ten: a table has
/// no room for three hundred digits.
#[must_use]
pub fn number(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 1e15 => {
            let text = format!("{value:.2e}");
            let parts = text.split_once('e');
            return parts.map_or(text.clone(), |(of, power)| format!("{}e{power}", trimmed(of)));
        }
        size if size >= 999.5 => {
            let sign = if value < 0.0 { "-" } else { "" };
            return sign.to_owned() + &grouped(&format!("{size:.0}"));
        }
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.1 => 3,
        size if size >= 0.01 => 4,
        _ => 5,
    };
    trimmed(&format!("{value:.decimals$}"))
}

/// A time in the unit that fits it, such as `17.9 ms`.
#[must_use]
pub fn span(seconds: f64) -> String {
    // 999.6 ms is shown as 1 s.
    let (value, unit) = match seconds.abs() {
        size if size >= 0.9995 || size == 0.0 => (seconds, "s"),
        size if size >= 0.9995e-3 => (seconds * 1e3, "ms"),
        size if size >= 0.9995e-6 => (seconds * 1e6, "µs"),
        _ => (seconds * 1e9, "ns"),
    };
    format!("{} {unit}", number(value))
}

/// A share of 1, such as `97.3 %`. What is not none or all is not shown as such.
#[must_use]
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let text = match percent {
        of if (of - 100.0).abs() < 1e-9 => "100".to_owned(),
        of if of > 99.99 && of < 100.0 => "over 99.99".to_owned(),
        of if of > 99.0 && of < 100.0 => trimmed(&format!("{of:.2}")),
        of if of > 0.0 && of < 0.01 => "under 0.01".to_owned(),
        of => number(of),
    };
    text + " %"
}

/// A quantile's name, such as `p99.9`.
#[must_use]
pub fn quantile(share: f64) -> String {
    // Rounded, since 0.999 times 100 is not 99.9 in binary.
    format!("p{}", (share * 1e6).round() / 1e4)
}

/// Bytes in the unit that fits them, such as `1.5 GiB`.
#[must_use]
pub fn bytes(n: f64) -> String {
    let mut size = n;
    let mut unit = "B";
    for larger in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if size.abs() < 1024.0 {
            break;
        }
        size /= 1024.0;
        unit = larger;
    }
    format!("{} {unit}", number(size))
}

/// `1,234,567`
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn trimmed(text: &str) -> String {
    if !text.contains('.') {
        return text.to_owned();
    }
    match text.trim_end_matches('0').trim_end_matches('.') {
        "-0" => "0".to_owned(),
        text => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_and_have_plurals() {
        assert_eq!((count(999), count(1_234_567)), ("999".to_owned(), "1,234,567".to_owned()));
        for (n, wanted) in [(0, "0 samples"), (1, "1 sample"), (1_234, "1,234 samples")] {
            assert_eq!(counted(n, "sample"), wanted);
        }
        assert_eq!(
            (counted(2, "advisory"), counted(2, "day")),
            ("2 advisories".into(), "2 days".into())
        );
    }

    #[test]
    fn numbers_have_three_significant_digits() {
        for (value, wanted) in [
            (0.0, "0"),
            (-0.000_000_1, "0"),
            (0.012_34, "0.0123"),
            (0.9, "0.9"),
            (9.996, "10"),
            (14.44, "14.4"),
            (99.96, "100"),
            (400.0, "400"),
            (1_234.5, "1,234"),
            (-12_345.6, "-12,346"),
            (999_999_999_999_999.0, "999,999,999,999,999"),
            (1e308, "1e308"),
            (-1.234e20, "-1.23e20"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(number(value), wanted);
        }
    }

    #[test]
    fn quantiles_are_named_without_noise_of_binary() {
        for (share, wanted) in
            [(0.5, "p50"), (0.57, "p57"), (0.999, "p99.9"), (0.99999, "p99.999"), (1.0, "p100")]
        {
            assert_eq!(quantile(share), wanted);
        }
    }

    #[test]
    fn spans_have_the_unit_that_fits() {
        for (seconds, wanted) in [
            (0.0, "0 s"),
            (512e-9, "512 ns"),
            (1_536e-9, "1.54 µs"),
            (0.018, "18 ms"),
            (0.999_6, "1 s"),
            (1.5, "1.5 s"),
            (3_600.0, "3,600 s"),
        ] {
            assert_eq!(span(seconds), wanted);
        }
    }

    #[test]
    fn shares_differ_from_none_and_from_all() {
        for (share, wanted) in [
            (0.0, "0 %"),
            (0.000_001, "under 0.01 %"),
            (0.004, "0.4 %"),
            (0.0123, "1.23 %"),
            (0.5, "50 %"),
            (0.9987, "99.87 %"),
            (0.999_999, "over 99.99 %"),
            (1.0, "100 %"),
            (-0.7, "-70 %"),
        ] {
            assert_eq!(percent(share), wanted);
        }
    }

    #[test]
    fn bytes_have_the_unit_that_fits() {
        for (n, wanted) in [(512.0, "512 B"), (1_536.0, "1.5 KiB"), (1_610_612_736.0, "1.5 GiB")] {
            assert_eq!(bytes(n), wanted);
        }
    }
}
