//! Single values of rules: read strictly, and refused with what to write instead.

use toml::de::DeValue;

use super::limit::{WrittenLimit, plain};
use crate::alert::NamePattern;
use crate::annotations::Severity;
use crate::budget::Window;
use crate::ids::{Labels, Operation, check_token};
use crate::limits::rules::{
    CLASSES_MAX, COHORT_LABELS_MAX, EVALUATIONS_MAX, ROUTES_MAX, RUNBOOK_BYTES_MAX,
    SUMMARY_BYTES_MAX,
};
use crate::limits::wire::COUNT_MAX;
use crate::metric::{Comparison, Metric};
use crate::scope::Scopes;
use crate::settings::suggestion::suggest;
use crate::straggler::StragglerMethod;
use crate::urgency::{DeclaredSubject, Urgency};

/// A value, or what is wrong with it.
pub(super) type Read<T> = Result<T, String>;

pub(super) fn text(value: &DeValue<'_>) -> Read<String> {
    match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(format!("must be text in quotes, not {}", kind(value))),
    }
}

/// What a value is, for people.
pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

#[expect(clippy::cast_precision_loss, reason = "limits and figures stay below 2^53")]
fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        // One that an i64 cannot hold is out of every range.
        DeValue::Integer(given) => {
            let large = || given.as_str().parse().unwrap_or(f64::INFINITY);
            Some(whole(value).map_or_else(large, |n| n as f64))
        }
        DeValue::Float(float) => float.as_str().parse().ok(),
        _ => None,
    }
}

fn whole(value: &DeValue<'_>) -> Option<i64> {
    let integer = value.as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

pub(super) fn flag(value: &DeValue<'_>) -> Read<bool> {
    value.as_bool().ok_or_else(|| format!("must be true or false, not {}", kind(value)))
}

pub(super) fn operation(value: &DeValue<'_>) -> Read<Operation> {
    Operation::new(text(value)?).map_err(|error| error.to_string())
}

pub(super) fn metric(value: &DeValue<'_>) -> Read<Metric> {
    text(value)?.parse().map_err(|error: crate::metric::UnknownMetric| error.to_string())
}

/// A share between 0 and 1; the error for a percentage names the share to write.
fn share(value: &DeValue<'_>, from: f64) -> Read<f64> {
    let given = value.as_str().and_then(|text| {
        let digits = text.trim_start_matches('p').trim_end_matches('%');
        digits.parse::<f64>().ok().filter(|_| digits.len() <= 8)
    });

    let number = number(value).or(given);
    let Some(number) = number else {
        return Err(format!("must be a number such as 0.99, not {}", kind(value)));
    };
    let fits = |share: f64| share < 1.0 && share > 0.0 && share >= from;

    if fits(number) {
        return match value {
            DeValue::String(_) => Err(format!("must be a number, not text; write {number}")),
            _ => Ok(number),
        };
    }

    let percent = number / 100.0;
    // Between 1 and 10 it is more likely a slip than a percentage: 1.01 is not 0.0101.
    if number >= 10.0 && fits(percent) {
        // Rounded, since 99.9 / 100 has a long tail.
        return Err(format!(
            "{number} is a percentage; a share lies between 0 and 1, write {}",
            (percent * 1e9).round() / 1e9
        ));
    }

    let number = plain(number);
    Err(match from > 0.0 {
        true => format!("{number} must be at least {from} and below 1; write for example 0.95"),
        false => {
            format!("{number} must lie between 0 and 1, both excluded; write for example 0.99")
        }
    })
}

pub(super) fn quantile(value: &DeValue<'_>) -> Read<f64> {
    share(value, 0.0)
}

/// `false` removes the value that a lower file sets.
pub(super) fn objective(value: &DeValue<'_>) -> Read<Option<f64>> {
    match value.as_bool() {
        Some(false) => Ok(None),
        _ => quantile(value).map(Some),
    }
}

pub(super) fn confidence(value: &DeValue<'_>) -> Read<f64> {
    share(value, 0.5)
}

/// A limit in any unit; which one it must have depends on the operation.
pub(super) fn limit(value: &DeValue<'_>) -> Read<WrittenLimit> {
    match number(value) {
        Some(number) => Ok(WrittenLimit::number(number)),
        None => Ok(WrittenLimit::of(&text(value)?)),
    }
}

pub(super) fn window(value: &DeValue<'_>) -> Read<Window> {
    let text = text(value)?;
    let found = Window::ALL.into_iter().find(|window| window.as_str() == text);
    found.ok_or_else(|| {
        let all = Window::ALL.map(Window::as_str).join(", ");
        format!("unknown window {text:?}; use one of {all}")
    })
}

/// Shorter windows have too few slots of 10 s to be compared, longer ones too many to read often.
pub(super) fn regression_window(value: &DeValue<'_>) -> Read<Window> {
    let found = window(value)?;
    if (Window::FiveMinutes..=Window::OneDay).contains(&found) {
        return Ok(found);
    }
    Err(format!("must be 5m to 1d for a regression, not {found}"))
}

pub(super) fn path(value: &DeValue<'_>) -> Read<String> {
    let path = text(value)?;
    if path.is_empty() { Err("must be the path of a file".to_owned()) } else { Ok(path) }
}

pub(super) fn samples(value: &DeValue<'_>) -> Read<u64> {
    let n = whole(value).and_then(|n| u64::try_from(n).ok());
    let n = n.filter(|n| (1..=COUNT_MAX).contains(n));
    n.ok_or_else(|| format!("must be a whole number from 1 to {COUNT_MAX}"))
}

/// Evaluations in a row.
pub(super) fn evaluations(value: &DeValue<'_>) -> Read<u32> {
    let n = whole(value).and_then(|n| u32::try_from(n).ok());
    let n = n.filter(|n| (1..=EVALUATIONS_MAX).contains(n));
    let range = format!("from 1 to {EVALUATIONS_MAX}");
    n.ok_or_else(|| format!("must be a whole number of evaluations, one a second, {range}"))
}

fn threshold(value: &DeValue<'_>, comparison: Comparison) -> Read<(Comparison, f64)> {
    match number(value) {
        Some(number) if number.is_finite() => Ok((comparison, number)),
        Some(number) => Err(format!("{number} cannot be compared; write a finite number")),
        None => Err(format!("must be a number in the metric's unit, not {}", kind(value))),
    }
}

pub(super) fn greater(value: &DeValue<'_>) -> Read<(Comparison, f64)> {
    threshold(value, Comparison::Greater)
}

pub(super) fn less(value: &DeValue<'_>) -> Read<(Comparison, f64)> {
    threshold(value, Comparison::Less)
}

pub(super) fn equal(value: &DeValue<'_>) -> Read<(Comparison, f64)> {
    threshold(value, Comparison::Equal)
}

pub(super) fn labels(value: &DeValue<'_>) -> Read<Labels> {
    let Some(table) = value.as_table() else {
        return Err(format!(
            "must be a table such as {{ outcome = \"miss\" }}, not {}",
            kind(value)
        ));
    };
    let pairs = table.iter().map(|(key, value)| {
        let wrong = |problem| format!("label {:?} {problem}", key.get_ref());
        Ok((key.get_ref().as_ref(), text(value.get_ref()).map_err(wrong)?))
    });
    let pairs: Vec<(&str, String)> = pairs.collect::<Read<_>>()?;
    Labels::new(pairs).map_err(|error| error.to_string())
}

/// A list of text.
pub(super) fn list(value: &DeValue<'_>) -> Read<Vec<String>> {
    let Some(items) = value.as_array() else {
        return Err(format!("must be a list such as [\"..\"], not {}", kind(value)));
    };
    items.iter().map(|item| text(item.get_ref())).collect()
}

pub(super) fn straggler_method(value: &DeValue<'_>) -> Read<StragglerMethod> {
    let given = text(value)?;
    let found = StragglerMethod::ALL.into_iter().find(|method| method.as_str() == given);
    found.ok_or_else(|| unknown("rule", &given, &StragglerMethod::ALL.map(StragglerMethod::as_str)))
}

pub(super) fn label_key(value: &DeValue<'_>) -> Read<String> {
    let key = text(value)?;
    Labels::new([(&key, "")]).map(|_| key).map_err(|error| error.to_string())
}

/// Keys of labels, in order.
pub(super) fn label_keys(value: &DeValue<'_>) -> Read<Vec<String>> {
    let keys = distinct(value, COHORT_LABELS_MAX, "labels")?;
    let checked = Labels::new(keys.iter().map(|key| (key, "")));
    checked.map(|_| keys).map_err(|error| error.to_string())
}

/// Classes of time, in the order in which they are listed.
pub(super) fn classes(value: &DeValue<'_>) -> Read<Vec<String>> {
    let classes = distinct(value, CLASSES_MAX, "classes")?;
    let checked = classes.iter().try_for_each(|class| check_token("class", class));
    checked.map(|()| classes).map_err(|error| error.to_string())
}

fn distinct(value: &DeValue<'_>, max: usize, what: &str) -> Read<Vec<String>> {
    let items = list(value)?;
    if items.len() > max {
        return Err(format!("{} {what}, more than {max}", items.len()));
    }
    let twice = items.iter().enumerate().find(|(at, item)| items[..*at].contains(item));
    twice.map_or(Ok(()), |(_, item)| Err(format!("{item:?} is given twice")))?;
    Ok(items)
}

pub(super) fn scopes(value: &DeValue<'_>) -> Read<Scopes> {
    let mut scopes = Scopes { fleet: false, nodes: false };
    for scope in list(value)? {
        match scope.as_str() {
            "fleet" => scopes.fleet = true,
            "nodes" => scopes.nodes = true,
            other => return Err(unknown("scope", other, &["fleet", "nodes"])),
        }
    }
    match scopes.fleet || scopes.nodes {
        true => Ok(scopes),
        false => Err("selects no scope; write [\"fleet\"], [\"nodes\"] or both".to_owned()),
    }
}

pub(super) fn severity(value: &DeValue<'_>) -> Read<Severity> {
    match text(value)?.as_str() {
        "info" => Ok(Severity::Info),
        "warning" => Ok(Severity::Warning),
        "critical" => Ok(Severity::Critical),
        other => Err(unknown("severity", other, &["info", "warning", "critical"])),
    }
}

fn pattern(value: &DeValue<'_>) -> Read<NamePattern> {
    NamePattern::new(text(value)?).map_err(|error| error.to_string())
}

pub(super) fn declared_operation(value: &DeValue<'_>) -> Read<DeclaredSubject> {
    pattern(value).map(DeclaredSubject::Operation)
}

pub(super) fn declared_event(value: &DeValue<'_>) -> Read<DeclaredSubject> {
    pattern(value).map(DeclaredSubject::Event)
}

pub(super) fn declared_check(value: &DeValue<'_>) -> Read<DeclaredSubject> {
    pattern(value).map(DeclaredSubject::ServiceCheck)
}

pub(super) fn urgency(value: &DeValue<'_>) -> Read<Urgency> {
    match text(value)?.as_str() {
        "high" => Ok(Urgency::High),
        "critical" => Ok(Urgency::Critical),
        other => Err(unknown("level", other, &["high", "critical"])),
    }
}

fn unknown(what: &str, given: &str, known: &[&str]) -> String {
    let suggestion = suggest(given, known.iter().map(|&name| name.to_owned()));
    let hint = suggestion.map_or_else(String::new, |name| format!(", did you mean {name:?}?"));
    format!("unknown {what} {given:?}{hint}; use one of {}", known.join(", "))
}

pub(super) fn routes(value: &DeValue<'_>) -> Read<Vec<String>> {
    let mut routes = list(value)?;
    if routes.len() > ROUTES_MAX {
        return Err(format!("{} receivers, more than {ROUTES_MAX}", routes.len()));
    }
    for route in &routes {
        check_token("receiver", route).map_err(|error| error.to_string())?;
    }
    routes.sort();
    routes.dedup();
    Ok(routes)
}

pub(super) fn runbook(value: &DeValue<'_>) -> Read<String> {
    line(value, RUNBOOK_BYTES_MAX)
}

pub(super) fn summary(value: &DeValue<'_>) -> Read<String> {
    line(value, SUMMARY_BYTES_MAX)
}

fn line(value: &DeValue<'_>, bytes_max: usize) -> Read<String> {
    let text = text(value)?;
    if text.is_empty() || text.len() > bytes_max || text.chars().any(char::is_control) {
        return Err(format!("must be one line of 1 to {bytes_max} bytes"));
    }
    Ok(text)
}
