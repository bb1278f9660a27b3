//! Profiles as speedscope reads them: one for each thread, in the profile's own unit, and the
//! heaviest of them is shown first.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use crate::functions::functions;
use crate::labels::ThreadState;
use crate::profile::Profile;

/// Units that speedscope knows.
const UNITS: [&str; 5] = ["nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"];

/// The file, of threads in one state or of all.
#[must_use]
pub fn write(title: &str, profile: &Profile, state: Option<ThreadState>) -> String {
    // A function has one frame, at its hottest line: each line as a frame would split its sums.
    let all = functions(profile, state);
    let indexes: HashMap<_, _> =
        all.iter().enumerate().map(|(at, of)| ((&of.frame.function, &of.frame.file), at)).collect();
    let frames: Vec<Value> = all.iter().map(|of| frame(&of.frame)).collect();

    let mut threads: BTreeMap<String, Thread> = BTreeMap::new();
    for sample in profile.samples().filter(|s| state.is_none() || s.labels.state == state) {
        let thread = threads.entry(sample.labels.thread_title()).or_default();
        let frames = sample.stack.frames().iter();
        thread.samples.push(frames.map(|f| indexes[&(&f.function, &f.file)]).collect());
        thread.weights.push(sample.count * profile.period());
    }

    let kind = profile.value_type();
    let unit = UNITS.into_iter().find(|unit| *unit == kind.unit.as_str()).unwrap_or("none");
    let heaviest = threads.values().enumerate().max_by_key(|(_, thread)| thread.value());
    let profiles = threads.iter().map(|(name, thread)| thread.profile(name, unit));
    json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "plimsoll",
        "name": title,
        "activeProfileIndex": heaviest.map_or(0, |(at, _)| at),
        "shared": {"frames": frames},
        "profiles": profiles.collect::<Vec<_>>(),
    })
    .to_string()
}

#[derive(Default)]
struct Thread {
    /// Indexes of frames, root first.
    samples: Vec<Vec<usize>>,
    weights: Vec<u64>,
}

impl Thread {
    fn value(&self) -> u64 {
        self.weights.iter().sum()
    }

    fn profile(&self, name: &str, unit: &str) -> Value {
        json!({
            "type": "sampled", "name": name, "unit": unit, "startValue": 0,
            "endValue": self.value(), "samples": self.samples, "weights": self.weights,
        })
    }
}

fn frame(of: &crate::stack::Frame) -> Value {
    let mut frame = json!({"name": of.function.as_str()});
    if !of.file.as_str().is_empty() {
        frame["file"] = of.file.as_str().into();
    }
    if of.line > 0 {
        frame["line"] = of.line.into();
    }
    frame
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::labels::SampleLabels;
    use crate::tests::{profile, profiles, stack};

    #[test]
    fn each_thread_is_a_profile_with_its_weights() {
        let mut both = profile(10, 1, &[(&["main:3", "load:5"], 4), (&["main:7"], 1)]);
        let labels = SampleLabels { thread: "loader".into(), ..SampleLabels::default() };
        both.add(stack(&["main:7"]), labels, 9);
        let file: Value = serde_json::from_str(&write("t", &both, None)).unwrap();
        let frames = json!([{"name": "main", "file": "a.py", "line": 7},
                            {"name": "load", "file": "a.py", "line": 5}]);
        assert_eq!(file["shared"]["frames"], frames);
        assert_eq!(file["activeProfileIndex"], 0);
        let profiles = &file["profiles"];
        assert_eq!(
            (&profiles[0]["name"], &profiles[1]["name"]),
            (&json!("loader"), &json!("thread"))
        );
        assert_eq!(profiles[1]["samples"], json!([[0, 1], [0]]));
        assert_eq!(profiles[1]["weights"], json!([40, 10]));
        assert_eq!(
            (&profiles[1]["endValue"], &profiles[1]["unit"]),
            (&json!(50), &json!("nanoseconds"))
        );
    }

    proptest! {
        #[test]
        fn the_weights_are_the_whole(profile in profiles()) {
            let file: Value = serde_json::from_str(&write("t", &profile, None)).unwrap();
            let frames = file["shared"]["frames"].as_array().unwrap().len() as u64;
            let mut total = 0;
            for thread in file["profiles"].as_array().unwrap() {
                total += thread["endValue"].as_u64().unwrap();
                let samples = thread["samples"].as_array().unwrap();
                prop_assert_eq!(samples.len(), thread["weights"].as_array().unwrap().len());
                let indexes = samples.iter().flat_map(|of| of.as_array().unwrap());
                prop_assert!(indexes.into_iter().all(|at| at.as_u64().unwrap() < frames));
            }
            prop_assert_eq!(total, profile.value());
        }
    }
}
