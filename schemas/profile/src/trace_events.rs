//! A profile as a Chrome trace, which Perfetto and chrome://tracing show. Samples have no order, so
//! a thread is drawn left-heavy: what it has most of comes first, from time 0 on. Times of the
//! picture are sums and no instants, as the file states itself.

use serde_json::{Value, json};

use crate::flame::{FlameNode, by_thread};
use crate::labels::ThreadState;
use crate::profile::Profile;
use crate::shown::per_second;

const LAYOUT: &str = "left-heavy: samples have no order; widths are sums, positions no instants";

/// The file, of threads in one state or of all.
#[must_use]
pub fn write(title: &str, profile: &Profile, state: Option<ThreadState>) -> String {
    let graph = by_thread(profile, state);
    // Microseconds of the trace for each unit; those of no time are shown as such.
    let scale = per_second(&graph.unit).map_or(1.0, |per_second| 1e6 / per_second);
    let mut events = vec![json!({
        "ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": {"name": title},
    })];

    for (thread, tid) in graph.root.children.iter().zip(1..) {
        events.push(json!({
            "ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": {"name": thread.name},
        }));
        Lane { tid, scale }.place_below(thread, 0.0, &mut events);
    }
    json!({
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"kind": graph.kind, "unit": graph.unit, "layout": LAYOUT,
                      "microseconds_per_unit": scale},
    })
    .to_string()
}

/// One thread of the trace.
struct Lane {
    tid: u64,
    scale: f64,
}

impl Lane {
    /// What a node calls, the heaviest first; what it does itself is what is left.
    fn place_below(&self, node: &FlameNode, start: f64, events: &mut Vec<Value>) {
        let mut heaviest_first: Vec<&FlameNode> = node.children.iter().collect();
        heaviest_first.sort_by(|a, b| b.value.total_cmp(&a.value));

        let mut start = start;
        for child in heaviest_first {
            events.push(json!({
                "ph": "X", "pid": 1, "tid": self.tid, "name": child.name, "cat": "sampled",
                "ts": start * self.scale, "dur": child.value * self.scale,
                "args": {"file": child.file, "line": child.line},
            }));
            self.place_below(child, start, events);
            start += child.value;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::FRAMES_MAX;
    use crate::tests::{profile, profiles};

    fn complete(text: &str) -> Vec<Value> {
        let file: Value = serde_json::from_str(text).unwrap();
        let all = file["traceEvents"].as_array().unwrap().iter();
        all.filter(|event| event["ph"] == "X").cloned().collect()
    }

    #[test]
    fn the_heaviest_call_comes_first_within_its_caller() {
        let counts: [(&[&str], u64); 3] =
            [(&["main", "a"], 2), (&["main", "b"], 5), (&["main"], 1)];
        let text = write("t", &profile(10_000_000, 1, &counts), None);
        let found: Vec<_> = complete(&text)
            .iter()
            .map(|of| (of["name"].clone(), of["ts"].as_f64(), of["dur"].as_f64()))
            .collect();
        let wanted = [("main", 0.0, 80_000.0), ("b", 0.0, 50_000.0), ("a", 50_000.0, 20_000.0)];
        assert_eq!(found, wanted.map(|(name, ts, dur)| (json!(name), Some(ts), Some(dur))));
        assert!(text.contains("positions no instants"));
    }

    proptest! {
        #[test]
        fn calls_nest_to_the_nanosecond(profile in profiles()) {
            // As Perfetto reads times; it moves or drops what does not nest, or is 512 deep.
            let ns = |us: &Value| (us.as_f64().unwrap() * 1e3).round();
            let mut open: Vec<(u64, f64)> = Vec::new();
            for event in complete(&write("t", &profile, None)) {
                let (tid, start) = (event["tid"].as_u64().unwrap(), ns(&event["ts"]));
                let end = start + ns(&event["dur"]);
                open.retain(|(of, until)| *of == tid && *until > start);
                prop_assert!(open.last().is_none_or(|(_, until)| end <= *until));
                open.push((tid, end));
                prop_assert!(open.len() <= FRAMES_MAX);
            }
        }
    }
}
