//! How figures are written in a report for people.

use plimsoll_schemas::alert::Evidence;
use plimsoll_schemas::figure::{bytes, count, counted, number, percent, quantile};
use plimsoll_schemas::unit::Unit;
use serde_json::Value;

/// A value of an operation in the unit that fits it; a dash without one.
pub(super) fn value(operation: &str, shown: Option<f64>) -> String {
    shown.map_or("-".to_owned(), |shown| Unit::of(operation).text(shown))
}

/// A completeness; unknown where no aggregator ran.
pub(super) fn completeness(share: Option<f64>) -> String {
    share.map_or("unknown".to_owned(), percent)
}

/// Samples over a limit: those that are certain, and those that may be.
pub(super) fn over(certain: u64, uncertain: u64) -> String {
    match uncertain {
        0 => count(certain),
        more => format!("{} to {}", count(certain), count(certain.saturating_add(more))),
    }
}

/// What changed the state of an alert about an operation.
pub(super) fn evidence(operation: &str, of: &Evidence) -> String {
    match of {
        Evidence::Latency(of) => {
            let [value, limit] =
                [of.value_seconds, of.limit_seconds].map(|shown| value(operation, Some(shown)));
            let (name, samples) = (quantile(of.quantile), counted(of.samples, "sample"));
            let (over, window) = (over(of.over, of.uncertain), of.window);
            format!("{name} {value}, limit {limit}, {over} of {samples} over it in {window}")
        }
        Evidence::Burn(of) => format!(
            "error budget spent {} times too fast over {} and {} times over {}, {} left",
            number(of.long_burn),
            of.long,
            number(of.short_burn),
            of.short,
            percent(of.remaining)
        ),
        Evidence::Gap(of) => format!("{} missing", counted(of.gap_samples, "sample")),
        Evidence::Straggler(of) => {
            let [excess, lower, upper] =
                [of.excess_ratio, of.lower_ratio, of.upper_ratio].map(percent);
            let peer = format!("{} {} of {}", of.by, of.peer, counted(of.peers, &of.by));
            format!("{peer} is {excess} slower than the median, {lower} to {upper}")
        }
        Evidence::Value(of) => {
            let labels = of.labels.iter().map(|(name, value)| format!(" {name}={value}"));
            let labels: String = labels.collect();
            let (metric, comparison) = (&of.metric, of.comparison);
            let (value, threshold) = (number(of.value), number(of.threshold));
            format!("{metric}{labels} is {value}, rule: {comparison} {threshold}")
        }
    }
}

/// A reading of a machine.
pub(super) fn reading(name: &str, value: &Value) -> String {
    // Labels follow the sensor's name.
    let sensor = name.split(' ').next().unwrap_or(name);
    match value {
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(value) => match value.as_f64() {
            Some(share) if sensor.ends_with("_ratio") => percent(share),
            Some(n) if sensor.ends_with("_bytes") => bytes(n),
            Some(n) => number(n),
            None => value.to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_has_the_value_and_what_it_was_compared_with() {
        let of = |json: &str| evidence("fetch", &serde_json::from_str(json).unwrap());
        let latency = r#"{"quantile":0.99,"value_seconds":0.024,"lower_seconds":0.02,
            "limit_seconds":0.018,"window":"1m","samples":1234,"over":40,"uncertain":2}"#;
        let wanted = "p99 24 ms, limit 18 ms, 40 to 42 of 1,234 samples over it in 1m";
        assert_eq!(of(latency), wanted);
        assert_eq!(of(r#"{"gap_samples":37}"#), "37 samples missing");
        let value = r#"{"metric":"memory_used_ratio","labels":{},"value":0.91,
            "comparison":"greater","threshold":0.85}"#;
        assert_eq!(of(value), "memory_used_ratio is 0.91, rule: > 0.85");
    }

    #[test]
    fn figures_are_readable() {
        assert_eq!((over(3, 0), over(3, 2)), ("3".to_owned(), "3 to 5".to_owned()));
        assert_eq!(value("fetch", Some(0.018)), "18 ms");
        assert_eq!(value("fetch:bytes", Some(1_536.0)), "1.5 KiB");
        assert_eq!(reading("memory_used_ratio", &0.5.into()), "50 %");
        assert_eq!(reading("gpu_memory_used_bytes gpu=0", &1_610_612_736.into()), "1.5 GiB");
        assert_eq!(reading("gpu_throttled", &true.into()), "yes");
    }
}
