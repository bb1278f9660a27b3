//! A profile as JSON: how long it was taken, and the functions that have most of it.

use serde_json::{Map, Value, json};

use crate::difference::{Difference, Sides};
use crate::functions::{FunctionTotal, functions};
use crate::labels::ThreadState;
use crate::profile::Profile;
use crate::shown::per_second;

/// Comments of a memory profile, and the fields that they become.
const MEMORY: [(&str, &str, f64); 3] = [
    ("plimsoll.allocations=", "allocations", 1.0),
    ("plimsoll.peak_bytes=", "peak_mb", 1e6),
    ("plimsoll.leaked_bytes=", "leaked_mb", 1e6),
];

/// The `top` functions with most in total, of threads in one state or of all. Values are seconds
/// of time profiles, else in the profile's unit: `self_bytes`.
#[must_use]
pub fn of_profile(id: &str, profile: &Profile, state: Option<ThreadState>, top: usize) -> Value {
    let unit = profile.value_type().unit.as_str();
    let (unit, scale) = per_second(unit).map_or((unit, 1.0), |of| ("seconds", of));
    let all = functions(profile, state);
    let whole: u64 = all.iter().map(|function| function.own).sum();
    let rows = all.iter().take(top).map(|of| row(of, whole, unit, scale));

    let mut summary = json!({
        "profile_id": id,
        "kind": profile.value_type().kind.as_str(),
        "state": state.map_or("all", ThreadState::as_str),
        "duration_seconds": profile.duration_ns as f64 / 1e9,
        "top_functions": rows.collect::<Vec<_>>(),
    });
    summary[format!("total_{unit}")] = (whole as f64 / scale).into();
    for (start, field, scale) in MEMORY {
        let value = profile.comments().find_map(|of| of.as_str().strip_prefix(start)?.parse().ok());
        let value: Option<u64> = value;
        if let Some(value) = value {
            let is_count = scale == 1.0;
            summary[field] = if is_count { value.into() } else { (value as f64 / scale).into() };
        }
    }
    summary
}

/// The `top` functions that differ most. Values are per second of each side: `a` of the peer, `b`
/// of the culprit.
#[must_use]
pub fn of_difference(difference: &Difference, top: usize) -> Value {
    let unit = difference.value_type.unit.as_str();
    let (unit, scale) = per_second(unit).map_or((unit, 1.0), |of| ("seconds", of));
    let sides = |of: Sides| {
        let [a, b] = [of.peer, of.culprit].map(|side| side / scale);
        json!({"a": a, "b": b, "difference": b - a})
    };
    let rows = difference.rank(top).into_iter().map(|of| {
        json!({"name": of.frame.function.as_str(), "file": of.frame.file.as_str(),
               "line": of.frame.line, "self": sides(of.own), "cumulative": sides(of.total)})
    });
    json!({"unit": unit, "top_functions": rows.collect::<Vec<_>>()})
}

fn row(of: &FunctionTotal, whole: u64, unit: &str, scale: f64) -> Value {
    let percent = |value: u64| 100.0 * value as f64 / whole.max(1) as f64;
    let mut row = Map::new();
    let mut put = |key: String, value: Value| row.insert(key, value);
    put("name".to_owned(), of.frame.function.as_str().into());
    put("file".to_owned(), of.frame.file.as_str().into());
    put("line".to_owned(), of.frame.line.into());
    for (word, value) in [("self", of.own), ("cumulative", of.total)] {
        put(format!("{word}_{unit}"), (value as f64 / scale).into());
        put(format!("{word}_percent"), percent(value).into());
    }
    row.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ValueType;
    use crate::tests::{profile, stack};

    #[test]
    fn functions_have_seconds_and_shares() {
        let counts: [(&[&str], u64); 2] =
            [(&["main:3", "load:5", "load:6"], 30), (&["main:4"], 10)];
        let found = of_profile("p7", &profile(10_000_000, 2_000_000_000, &counts), None, 9);
        let load = json!({"name": "load", "file": "a.py", "line": 6, "self_seconds": 0.3,
            "self_percent": 75.0, "cumulative_seconds": 0.3, "cumulative_percent": 75.0});
        let main = json!({"name": "main", "file": "a.py", "line": 3, "self_seconds": 0.1,
            "self_percent": 25.0, "cumulative_seconds": 0.4, "cumulative_percent": 100.0});
        let wanted = json!({"profile_id": "p7", "kind": "wall", "state": "all",
            "duration_seconds": 2.0, "total_seconds": 0.4, "top_functions": [main, load]});
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_difference_has_seconds_of_each_side() {
        let slow: [(&[&str], u64); 1] = [(&["main:3", "load:5"], 30)];
        let fast: [(&[&str], u64); 1] = [(&["main:3", "load:5"], 5)];
        let [slow, fast] = [slow, fast].map(|of| profile(10_000_000, 1_000_000_000, &of));
        let found = of_difference(&crate::subtract(&slow, &fast, None).unwrap(), 1);
        let sides = json!({"a": 0.05, "b": 0.3, "difference": 0.25});
        let load = json!({"name": "load", "file": "a.py", "line": 5, "self": sides,
            "cumulative": sides});
        assert_eq!(found, json!({"unit": "seconds", "top_functions": [load]}));
    }

    #[test]
    fn a_memory_profile_has_bytes_and_its_peak() {
        let kind = ValueType { kind: "alloc_space".into(), unit: "bytes".into() };
        let mut memory = Profile::new(kind, 1);
        memory.add(stack(&["f"]), Default::default(), 4_096);
        for comment in
            ["plimsoll.allocations=12", "plimsoll.peak_bytes=2500000", "plimsoll.leaked_bytes=many"]
        {
            memory.add_comment(comment.into());
        }
        let found = of_profile("", &memory, None, 1);
        let first = &found["top_functions"][0];
        assert_eq!((&first["self_bytes"], &found["total_bytes"]), (&json!(4096.0), &json!(4096.0)));
        assert_eq!((&found["allocations"], &found["peak_mb"]), (&json!(12), &json!(2.5)));
        assert_eq!(found.get("leaked_mb"), None);
        assert_eq!(of_profile("", &memory, None, 0)["top_functions"], json!([]));
    }
}
