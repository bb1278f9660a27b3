//! How figures are written in a report for people.

use plimsoll_compare::svg::span;
use plimsoll_schemas::alert::Evidence;
use serde_json::Value;

/// A latency in the unit that fits it; a dash without one.
pub(super) fn milliseconds_or_so(seconds: Option<f64>) -> String {
    seconds.map_or("-".to_owned(), |of| span(of * 1e9))
}

/// A share in percent, with as many digits as distinguish it from none and from all.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let text = match percent {
        p if p == 0.0 || (p - 100.0).abs() < 1e-9 => format!("{p:.0}"),
        p if p < 0.01 => "under 0.01".to_owned(),
        p if p > 99.99 => "over 99.99".to_owned(),
        p if !(1.0..=99.0).contains(&p) => format!("{p:.2}"),
        p => format!("{p:.1}"),
    };
    text + "\u{a0}%"
}

/// A completeness; unknown where no aggregator ran.
pub(super) fn completeness(share: Option<f64>) -> String {
    share.map_or("unknown".to_owned(), percent)
}

/// A quantile's name, such as `p99.9`.
pub(super) fn quantile_name(quantile: f64) -> String {
    // Rounded, since 0.999 times 100 is not 99.9.
    format!("p{}", (quantile * 1e6).round() / 1e4)
}

/// `1 234 567`, with spaces that do not break.
pub(super) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Samples over a limit: those that are certain, and those that may be.
pub(super) fn over(certain: u64, uncertain: u64) -> String {
    match uncertain {
        0 => grouped(certain),
        more => format!("{} to {}", grouped(certain), grouped(certain.saturating_add(more))),
    }
}

/// What changed an alert's state.
pub(super) fn evidence(of: &Evidence) -> String {
    match of {
        Evidence::Latency(of) => {
            let (value, limit) = (of.value_seconds, of.limit_seconds);
            let (value, limit) = (milliseconds_or_so(Some(value)), milliseconds_or_so(Some(limit)));
            let (name, samples) = (quantile_name(of.quantile), grouped(of.samples));
            let (over, window) = (over(of.over, of.uncertain), of.window);
            format!(
                "{name} {value}, limit {limit}, {over} of {samples} samples over it in {window}"
            )
        }
        Evidence::Burn(of) => format!(
            "error budget spent {:.1} times too fast over {} and {:.1} times over {}, {} left",
            of.long_burn,
            of.long,
            of.short_burn,
            of.short,
            percent(of.remaining)
        ),
        Evidence::Gap(of) => format!("{} samples missing", grouped(of.gap_samples)),
        Evidence::Value(of) => {
            let labels = of.labels.iter().map(|(name, value)| format!(" {name}={value}"));
            let labels: String = labels.collect();
            let (metric, comparison) = (&of.metric, of.comparison);
            format!("{metric}{labels} is {:.3}, rule: {comparison} {:.3}", of.value, of.threshold)
        }
    }
}

/// A reading of a machine, with three digits that count.
pub(super) fn reading(name: &str, value: &Value) -> String {
    // Labels follow the sensor's name.
    let sensor = name.split(' ').next().unwrap_or(name);
    match value {
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(share) if sensor.ends_with("_ratio") => percent(share),
            Some(bytes) if sensor.ends_with("_bytes") => {
                format!("{:.2} GiB", bytes / f64::from(1 << 30))
            }
            Some(n) if n.fract() == 0.0 => format!("{n}"),
            Some(n) if n.abs() >= 100.0 => format!("{n:.0}"),
            Some(n) => format!("{n:.2}"),
            None => number.to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_differ_from_none_and_from_all() {
        for (share, wanted) in [
            (0.0, "0\u{a0}%"),
            (0.000_001, "under 0.01\u{a0}%"),
            (0.0123, "1.2\u{a0}%"),
            (0.004, "0.40\u{a0}%"),
            (0.999_999, "over 99.99\u{a0}%"),
            (0.9987, "99.87\u{a0}%"),
            (1.0, "100\u{a0}%"),
        ] {
            assert_eq!(percent(share), wanted);
        }
    }

    #[test]
    fn evidence_has_the_value_and_what_it_was_compared_with() {
        let of = |json: &str| evidence(&serde_json::from_str(json).unwrap());
        let latency = r#"{"quantile":0.99,"value_seconds":0.024,"lower_seconds":0.02,
            "limit_seconds":0.018,"window":"1m","samples":1234,"over":40,"uncertain":2}"#;
        let wanted = "p99 24 ms, limit 18 ms, 40 to 42 of 1\u{202f}234 samples over it in 1m";
        assert_eq!(of(latency), wanted);
        assert_eq!(of(r#"{"gap_samples":37}"#), "37 samples missing");
        let value = r#"{"metric":"memory_used_ratio","labels":{},"value":0.91,
            "comparison":"greater","threshold":0.85}"#;
        assert_eq!(of(value), "memory_used_ratio is 0.910, rule: > 0.850");
    }

    #[test]
    fn figures_are_readable() {
        assert_eq!(grouped(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!((over(3, 0), over(3, 2)), ("3".to_owned(), "3 to 5".to_owned()));
        assert_eq!(milliseconds_or_so(Some(0.018)), "18 ms");
        assert_eq!(quantile_name(0.999), "p99.9");
        assert_eq!(reading("memory_used_ratio", &0.5.into()), "50.0\u{a0}%");
        assert_eq!(reading("gpu_memory_used_bytes gpu=0", &1_610_612_736.into()), "1.50 GiB");
        assert_eq!(reading("gpu_throttled", &true.into()), "yes");
    }
}
