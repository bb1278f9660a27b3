//! Tables of the rows in Markdown.

use crate::rows::{Figures, Row};
use crate::simulation::{Calm, Delays, LASTS};

const WEEK_HOURS: f64 = 168.0;

/// Both tables.
pub(crate) fn tables(rows: &[Row]) -> String {
    let mut text = String::from(
        "| no culprit | rule | weeks | false names | a week | evidence for 10, 100, 1 000 a week: passed, a week |\n\
         |---|---|---|---|---|---|\n",
    );
    for (label, contender, calm) in calm(rows) {
        if is_apart(&label, &contender) {
            continue;
        }
        let weeks = calm.hours / WEEK_HOURS;
        let passed: Vec<String> =
            calm.passed.iter().skip(1).map(|passed| rounded(*passed as f64 / weeks)).collect();
        text += &format!(
            "| {label} | {contender} | {} | {} | {} | {} |\n",
            rounded(weeks),
            calm.names,
            per_week(&calm),
            passed.join(", "),
        );
    }

    text += "\n| 20 % slower | rule | culprits | named within 30 s | median s | p95 s | never | others named | class found | interval holds the excess |\n\
             |---|---|---|---|---|---|---|---|---|---|\n";
    for (label, contender, delays) in slow(rows) {
        if is_apart(label, contender) {
            continue;
        }
        let Delays { seconds, wrong, explained, covered } = &delays;
        let of_named = |count: &u64| {
            let named = seconds.len() as u64 - never(&delays);
            if contender == "Plimsoll" { percent(*count, named) } else { String::new() }
        };
        text += &format!(
            "| {label} | {contender} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
            seconds.len(),
            percent(within(&delays, 30), seconds.len() as u64),
            shown(at(&delays, 0.5)),
            shown(at(&delays, 0.95)),
            never(&delays),
            if contender == "Plimsoll" { wrong.to_string() } else { String::new() },
            of_named(explained),
            of_named(covered),
        );
    }
    text
}

/// Whether a rule of waiting is beside operations that wait for none.
fn is_apart(label: &str, contender: &str) -> bool {
    label.starts_with("slowest") && contender.starts_with("TraceML")
}

/// Names without a culprit, where cases of one label are one.
pub(crate) fn calm(rows: &[Row]) -> Vec<(String, String, Calm)> {
    let mut found: Vec<(String, String, Calm)> = Vec::new();
    for row in rows {
        let Figures::Calm(calm) = &row.figures else { continue };
        let same = found
            .iter_mut()
            .find(|(label, contender, _)| *label == row.label && *contender == row.contender);
        let Some((_, _, sum)) = same else {
            found.push((row.label.clone(), row.contender.clone(), calm.clone()));
            continue;
        };
        sum.hours += calm.hours;
        sum.names += calm.names;
        sum.passed.iter_mut().zip(&calm.passed).for_each(|(sum, passed)| *sum += passed);
    }
    found
}

pub(crate) fn slow(rows: &[Row]) -> impl Iterator<Item = (&str, &str, Delays)> {
    rows.iter().filter_map(|row| match &row.figures {
        Figures::Calm(_) => None,
        Figures::Slow(delays) => Some((&*row.label, &*row.contender, delays.clone())),
    })
}

/// Names a week; an upper bound of 95 % if there was none.
pub(crate) fn per_week(calm: &Calm) -> String {
    let weeks = calm.hours / WEEK_HOURS;
    match calm.names {
        // Of none in this time: the rate that shows none in one of twenty such times.
        0 => format!("below {}", rounded(20_f64.ln() / weeks)),
        names => rounded(names as f64 / weeks),
    }
}

/// How many were named within these seconds.
pub(crate) fn within(delays: &Delays, seconds: u64) -> u64 {
    delays.seconds.iter().filter(|delay| **delay <= seconds).count() as u64
}

fn never(delays: &Delays) -> u64 {
    delays.seconds.len() as u64 - within(delays, LASTS)
}

/// The delay that this share of culprits do not exceed.
fn at(delays: &Delays, share: f64) -> u64 {
    let place = (delays.seconds.len() as f64 * share).ceil() as usize;
    delays.seconds.get(place.saturating_sub(1)).copied().unwrap_or(LASTS + 1)
}

fn shown(seconds: u64) -> String {
    if seconds > LASTS { "-".to_owned() } else { seconds.to_string() }
}

fn percent(count: u64, of: u64) -> String {
    format!("{:.0} %", 100.0 * count as f64 / of.max(1) as f64)
}

/// Two significant digits.
fn rounded(value: f64) -> String {
    match value {
        value if value >= 10.0 || value == 0.0 => format!("{value:.0}"),
        value if value >= 1.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
