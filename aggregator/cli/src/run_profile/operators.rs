//! The times of operators and kernels in traces of PyTorch, by name and device. What is kept does
//! not grow with a trace: names and threads are bounded, and what finds no room is counted.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::event::{Event, Raw};
use super::nesting::{Call, Finished, Nesting};
use crate::run_results::TopOperator;

/// Operators and kernels by name; a large model has some hundred.
const NAMES_MAX: usize = 4_096;
/// Bytes of a name: kernels differ in the arguments of templates, after some 300.
const NAME_BYTES_MAX: usize = 2_048;
const THREADS_MAX: usize = 256;
/// What stands for names without room.
const OTHER: &str = "(other)";
/// The latest time of a trace, in microseconds: until the year 2200.
const TIME_MAX_US: f64 = 7.3e15;

/// Where an operator runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Device {
    Cpu,
    Cuda,
}

impl Device {
    fn as_str(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }

    /// That of an event; others are no operators. Categories with a capital are those of PyTorch
    /// before 1.11; one that is built without Kineto, as Debian's, names a process instead.
    fn of(event: &Event) -> Option<Self> {
        match (json(&event.category), json(&event.process)) {
            (r#""cpu_op""# | r#""user_annotation""# | r#""Operator""#, _)
            | ("", r#""CPU functions""#) => Some(Self::Cpu),
            (r#""kernel""# | r#""gpu_memcpy""# | r#""gpu_memset""#, _)
            | (r#""Kernel""# | r#""Memcpy""# | r#""Memset""#, _) => Some(Self::Cuda),
            _ => None,
        }
    }
}

/// The sums of all traces.
#[derive(Debug, Default)]
pub(super) struct Operators {
    rows: Vec<Row>,
    by_name: HashMap<(Device, String), usize>,
    /// By process and thread, as the trace names them.
    threads: HashMap<String, Nesting>,
    /// Events of the trace that is read, of any kind.
    pub(super) events: u64,
    /// Operators without a time.
    malformed: u64,
    misplaced: u64,
}

#[derive(Debug)]
struct Row {
    name: String,
    device: Device,
    calls: u64,
    ns: i64,
    own_ns: i64,
}

impl Operators {
    pub(super) fn add(&mut self, event: Event) {
        self.events += 1;
        let Some(device) = Device::of(&event).filter(|_| json(&event.phase) == "\"X\"") else {
            return;
        };
        let Event { name, start, duration, process, thread, .. } = event;
        let name = serde_json::from_str::<String>(json(&name));
        let (Ok(name), Some(start), Some(duration)) = (name, ns(&start), ns(&duration)) else {
            self.malformed += 1;
            return;
        };

        // PyTorch prints the steps of its schedule as one row.
        let name = if name.starts_with("ProfilerStep#") { "ProfilerStep*".into() } else { name };
        let operator = self.row(device, bounded(name));
        let call = Call { start, end: Reverse(start + duration), operator };
        let thread = bounded(format!("{} {}", json(&process), json(&thread)));
        let (rows, misplaced) = (&mut self.rows, &mut self.misplaced);
        let mut finished = |of: Finished| rows[of.operator].add(&of, misplaced);
        if device == Device::Cuda {
            // What a device does holds nothing else; times that are rounded overlap.
            finished(Finished { is_misplaced: false, ..call.misplaced() });
        } else if self.threads.len() < THREADS_MAX || self.threads.contains_key(&thread) {
            self.threads.entry(thread).or_default().add(call, &mut finished);
        } else {
            finished(call.misplaced());
        }
    }

    /// The next trace is one of other processes.
    pub(super) fn next_trace(&mut self) {
        let (rows, misplaced) = (&mut self.rows, &mut self.misplaced);
        for thread in std::mem::take(&mut self.threads).into_values() {
            thread.end(&mut |of| rows[of.operator].add(&of, misplaced));
        }
        self.events = 0;
    }

    fn row(&mut self, device: Device, name: String) -> usize {
        let is_full = self.by_name.len() >= NAMES_MAX;
        let is_known = self.by_name.contains_key(&(device, name.clone()));
        let name = if is_full && !is_known { OTHER.to_owned() } else { name };
        let next = self.rows.len();
        let row = *self.by_name.entry((device, name.clone())).or_insert(next);
        if row == next {
            self.rows.push(Row { name, device, calls: 0, ns: 0, own_ns: 0 });
        }
        row
    }

    /// What the sums lack, in words.
    pub(super) fn faults(&self) -> Vec<String> {
        let faults = [
            (self.malformed, "operators without a name, a start or a duration were left out"),
            (self.misplaced, "operators are out of order or too many threads: theirs counts alone"),
        ];
        let faults = faults.into_iter().filter(|(count, _)| *count > 0);
        faults.map(|(count, words)| format!("{count} {words}")).collect()
    }

    /// Those that take most themselves first.
    pub(super) fn top(mut self) -> Vec<TopOperator> {
        self.rows.sort_by(|a, b| (b.own_ns, &a.name).cmp(&(a.own_ns, &b.name)));
        let row = |of: Row| TopOperator {
            name: of.name,
            self_ms: of.own_ns as f64 / 1e6,
            total_ms: of.ns as f64 / 1e6,
            calls: Some(of.calls),
            device: of.device.as_str().to_owned(),
        };
        self.rows.into_iter().map(row).collect()
    }
}

impl Row {
    fn add(&mut self, of: &Finished, misplaced: &mut u64) {
        self.calls += 1;
        self.own_ns = self.own_ns.saturating_add(of.own_ns);
        *misplaced += u64::from(of.is_misplaced);
        // One that is recursive counts once.
        if !of.is_within_itself {
            self.ns = self.ns.saturating_add(of.ns);
        }
    }
}

fn bounded(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
    name
}

fn json(raw: &Raw) -> &str {
    raw.as_ref().map_or("", |raw| raw.get())
}

/// Nanoseconds of a time of the trace, which has microseconds.
fn ns(time: &Raw) -> Option<i64> {
    let us: f64 = json(time).parse().ok()?;
    let us = Some(us).filter(|us| (0.0..=TIME_MAX_US / 2.0).contains(us))?;
    #[expect(clippy::cast_possible_truncation, reason = "within the bound above")]
    Some((us * 1e3).round() as i64)
}
