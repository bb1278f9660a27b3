//! Flame graphs as trees: functions below their callers, with what is too small to see as one
//! node `(other)` of its caller.
//!
//! The tree is written as JSON and not read: it may be deeper than readers of JSON allow.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Add;
use std::sync::Arc;

use serde::Serialize;

use crate::difference::Difference;
use crate::labels::ThreadState;
use crate::limits::{FLAME_NODES_MAX, FLAME_SHARE_MIN, FLAME_WHOLE_NODES_MAX};
use crate::profile::{Profile, ValueType};
use crate::stack::Frame;

/// What stands above all roots.
const ALL: &str = "all";
/// What stands for nodes that are too small.
const OTHER: &str = "(other)";

/// A profile or a difference as a tree.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlameGraph {
    /// What is measured, such as `wall`.
    pub kind: String,
    /// The unit of all values, such as `nanoseconds`; per second in a difference.
    pub unit: String,
    /// The node `all`.
    pub root: FlameNode,
}

/// A function below its callers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FlameNode {
    /// The function.
    pub name: String,
    /// Its source file.
    pub file: String,
    /// Its hottest line in these stacks.
    pub line: u32,
    /// Of itself and all below it. In a difference the mean of both sides, so that neither hides
    /// the other: the culprit has half of `delta` more, its peer as much less.
    pub value: f64,
    /// What is not in its children.
    #[serde(rename = "self")]
    pub own: f64,
    /// In a difference, how much more the culprit has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<f64>,
    /// What it calls, in the order of names.
    pub children: Vec<FlameNode>,
}

/// Which nodes of a tree stand alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detail {
    share_min: f64,
    nodes_max: usize,
}

impl Detail {
    /// What a picture has room for.
    pub const PICTURE: Self = Self { share_min: FLAME_SHARE_MIN, nodes_max: FLAME_NODES_MAX };
    /// Every node, for what zooms in; only of too many the heaviest.
    pub const WHOLE: Self = Self { share_min: 0.0, nodes_max: FLAME_WHOLE_NODES_MAX };
}

/// The stacks of threads in one state, or of all, as a picture.
#[must_use]
pub fn of_profile(profile: &Profile, state: Option<ThreadState>) -> FlameGraph {
    detailed(profile, state, Detail::PICTURE)
}

/// The same in any detail.
#[must_use]
pub fn detailed(profile: &Profile, state: Option<ThreadState>, detail: Detail) -> FlameGraph {
    let values = profile.values(state).into_iter();
    let rows = values.map(|(stack, value)| Row::new(stack.frames(), value as f64, None));
    graph(profile.value_type(), rows.collect(), detail)
}

/// The whole tree, in which the threads are the children of the root.
#[must_use]
pub fn by_thread(profile: &Profile, state: Option<ThreadState>) -> FlameGraph {
    let chosen = profile.samples().filter(|s| state.is_none() || s.labels.state == state);
    let stacks: Vec<(Vec<Arc<Frame>>, u64)> = chosen
        .map(|sample| {
            let thread = Frame::marker(&sample.labels.thread_title());
            let frames = [thread].into_iter().chain(sample.stack.frames().iter().cloned());
            (frames.collect(), sample.count * profile.period())
        })
        .collect();
    let rows = stacks.iter().map(|(frames, value)| Row::new(frames, *value as f64, None));
    graph(profile.value_type(), rows.collect(), Detail::WHOLE)
}

/// Culprit and peer in one tree, as a picture.
#[must_use]
pub fn of_difference(difference: &Difference) -> FlameGraph {
    detailed_difference(difference, Detail::PICTURE)
}

/// The same in any detail.
#[must_use]
pub fn detailed_difference(difference: &Difference, detail: Detail) -> FlameGraph {
    let rows = difference
        .stacks
        .iter()
        .map(|(stack, sides)| Row::new(stack.frames(), sides.mean(), Some(sides.delta())));
    graph(&difference.value_type, rows.collect(), detail)
}

/// A stack with its value.
#[derive(Clone, Copy)]
struct Row<'a> {
    frames: &'a [Arc<Frame>],
    value: f64,
    delta: Option<f64>,
}

impl<'a> Row<'a> {
    fn new(frames: &'a [Arc<Frame>], value: f64, delta: Option<f64>) -> Self {
        Self { frames, value, delta }
    }

    /// By functions; a stack comes before those that go on from it.
    fn compare(&self, other: &Self) -> Ordering {
        let mut pairs = self.frames.iter().zip(other.frames);
        let first = pairs.find_map(|(a, b)| Some(a.compare_function(b)).filter(|o| o.is_ne()));
        first.unwrap_or_else(|| self.frames.len().cmp(&other.frames.len()))
    }
}

fn graph(value_type: &ValueType, mut rows: Vec<Row<'_>>, detail: Detail) -> FlameGraph {
    rows.sort_by(Row::compare);
    let total: f64 = rows.iter().map(|row| row.value).sum();

    let mut root = node(&rows, 0, total * detail.share_min);
    let mut values = Vec::new();
    collect_values(&root, &mut values);
    if values.len() > detail.nodes_max {
        // No node is heavier than its caller, so the heaviest form a tree.
        values.sort_by(|a, b| b.total_cmp(a));
        root = node(&rows, 0, values[detail.nodes_max]);
    }
    root.name = ALL.to_owned();
    FlameGraph { kind: value_type.kind.to_string(), unit: value_type.unit.to_string(), root }
}

/// The node that all of these sorted rows have at `depth - 1`. Of its children, those of more than
/// `pruned` stand alone.
fn node(rows: &[Row<'_>], depth: usize, pruned: f64) -> FlameNode {
    let ending = rows.partition_point(|row| row.frames.len() == depth);
    let (ending, calling) = rows.split_at(ending);
    let mut found = sum(rows);
    found.own = ending.iter().map(|row| row.value).sum();

    let mut others = Vec::new();
    for called in calling.chunk_by(|a, b| a.frames[depth].is_same_function(&b.frames[depth])) {
        let value: f64 = called.iter().map(|row| row.value).sum();
        if value > pruned {
            found.children.push(named(called, depth, pruned));
        } else {
            others.extend_from_slice(called);
        }
    }
    if !others.is_empty() {
        let other = sum(&others);
        found.children.push(FlameNode { name: OTHER.to_owned(), own: other.value, ..other });
    }
    found
}

/// The node of the function that all of these rows have at `depth`.
fn named(rows: &[Row<'_>], depth: usize, pruned: f64) -> FlameNode {
    let mut lines: BTreeMap<u32, f64> = BTreeMap::new();
    for row in rows {
        *lines.entry(row.frames[depth].line).or_default() += row.value;
    }
    let hottest = lines.iter().rev().max_by(|(_, a), (_, b)| a.total_cmp(b));
    let frame = &rows[0].frames[depth];
    FlameNode {
        name: frame.function.to_string(),
        file: frame.file.to_string(),
        line: hottest.map_or(0, |(line, _)| *line),
        ..node(rows, depth + 1, pruned)
    }
}

fn sum(rows: &[Row<'_>]) -> FlameNode {
    FlameNode {
        value: rows.iter().map(|row| row.value).sum(),
        delta: rows.iter().filter_map(|row| row.delta).reduce(Add::add),
        ..FlameNode::default()
    }
}

fn collect_values(of: &FlameNode, values: &mut Vec<f64>) {
    for child in &of.children {
        values.push(child.value);
        collect_values(child, values);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::difference::subtract;
    use crate::stack::Stack;
    use crate::tests::{profile, profiles};

    const SECOND: u64 = 1_000_000_000;

    fn leaf(name: &str, line: u32, value: f64) -> serde_json::Value {
        json!({"name": name, "file": "a.py", "line": line, "value": value, "self": value,
               "children": []})
    }

    #[test]
    fn callers_are_above_what_they_call() {
        let counts: [(&[&str], u64); 5] = [
            (&["main:3", "load:5"], 2),
            (&["main:4", "load:6"], 5),
            (&["main:4", "load:6", "read:9"], 1),
            (&["main:4"], 1),
            (&["other:1"], 3),
        ];
        let graph = of_profile(&profile(10, SECOND, &counts), None);
        let load = json!({"name": "load", "file": "a.py", "line": 6, "value": 80.0, "self": 70.0,
                          "children": [leaf("read", 9, 10.0)]});
        let main = json!({"name": "main", "file": "a.py", "line": 4, "value": 90.0, "self": 10.0,
                          "children": [load]});
        let all = json!({"name": "all", "file": "", "line": 0, "value": 120.0, "self": 0.0,
                         "children": [main, leaf("other", 1, 30.0)]});
        let wanted = json!({"kind": "wall", "unit": "nanoseconds", "root": all});
        assert_eq!(serde_json::to_value(&graph).unwrap(), wanted);
    }

    #[test]
    fn a_difference_has_both_sides_in_one_tree() {
        let culprit = profile(1, SECOND, &[(&["a", "b"], 60), (&["a", "c"], 20)]);
        let peer = profile(1, SECOND, &[(&["a", "b"], 10), (&["a", "d"], 30)]);
        let graph = of_difference(&subtract(&culprit, &peer, None).unwrap());
        let a = &graph.root.children[0];
        let found = a.children.iter().map(|node| (node.name.as_str(), node.value, node.delta));
        let wanted = [("b", 35.0, Some(50.0)), ("c", 10.0, Some(20.0)), ("d", 15.0, Some(-30.0))];
        assert_eq!(found.collect::<Vec<_>>(), wanted);
        assert_eq!((a.value, a.own, a.delta), (60.0, 0.0, Some(40.0)));
    }

    #[test]
    fn small_nodes_become_one() {
        let counts: [(&[&str], u64); 4] =
            [(&["a"], 9_990), (&["b", "x"], 6), (&["c"], 3), (&["b", "y"], 1)];
        let root = of_profile(&profile(1, SECOND, &counts), None).root;
        let found = root.children.iter().map(|node| (node.name.as_str(), node.value, node.own));
        assert_eq!(found.collect::<Vec<_>>(), [("a", 9_990.0, 9_990.0), ("(other)", 10.0, 10.0)]);
        assert_eq!(of_profile(&profile(1, SECOND, &[]), None).root.children, []);
    }

    #[test]
    fn nodes_are_bounded_and_the_heaviest_stay() {
        let mut wide = Profile::new(ValueType::wall(), 1);
        // 900 stacks of 12 frames in which no two are of one function.
        for n in 0..900_u32 {
            let frames = (0..12).map(|depth| Frame::new(&format!("f{n}.{depth}"), "(other)", 1));
            wide.add(Stack::new(frames.collect()), Default::default(), 1_000 + u64::from(n));
        }
        let graph = of_profile(&wide, None);
        let mut values = Vec::new();
        collect_values(&graph.root, &mut values);
        assert!((4_000..=FLAME_NODES_MAX + 1).contains(&values.len()), "{}", values.len());
        assert_eq!(graph.root.children.last().unwrap().name.as_str(), "(other)");
        assert!(graph.root.children.iter().any(|node| node.name.as_str() == "f899.0"));
    }

    /// A node is what it does itself and what it calls.
    fn check(node: &FlameNode) {
        let below: f64 = node.children.iter().map(|child| child.value).sum();
        assert!((node.value - node.own - below).abs() <= 1e-6 * node.value, "{node:?}");
        let deltas = node.children.iter().filter_map(|child| child.delta);
        let (own, delta) = (node.own, node.delta.unwrap_or_default());
        // What a node does itself differs by at most twice the mean of it.
        assert!((delta - deltas.sum::<f64>()).abs() <= 2.0 * own + 1e-6 * node.value, "{node:?}");
        node.children.iter().for_each(check);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_in_a_tree(a in profiles(), b in profiles()) {
            let graph = of_profile(&a, None);
            prop_assert_eq!(graph.root.value, a.value() as f64);
            check(&graph.root);

            let difference = subtract(&a, &b, None).unwrap();
            let both = of_difference(&difference);
            check(&both.root);
            let total = difference.total();
            let delta = both.root.delta.unwrap_or_default();
            prop_assert!((delta - total.delta()).abs() <= 1e-6 * (total.culprit + total.peer));
        }
    }
}
