//! How complete the windows of one operation are: from how many nodes there are samples in them,
//! how many are late, and how many there should be. Looks at times alone and merges nothing.

use std::time::Duration;

use plimsoll_schemas::budget::Window;
use plimsoll_schemas::summary::Presence;
use plimsoll_schemas::time::Wall;

use crate::core::fleet::node::Node;
use crate::core::fleet::window::Windows;

const WINDOWS: usize = Window::ALL.len();

/// Counts of nodes for one operation, or for what a budget selects of it, by window where they
/// differ, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completeness {
    /// Nodes that have not left and ever had a sample of it.
    pub expected: u64,
    /// Nodes whose newest sample the window shows.
    pub nodes: [u64; WINDOWS],
    /// Expected nodes that were heard within the window's span and whose newest sample is older.
    pub late: [u64; WINDOWS],
}

/// What matters here of a node, whatever the operation.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    expected: bool,
    silence: Duration,
}

impl Seen {
    /// How a node is seen now.
    #[must_use]
    pub fn new(now: Wall, node: &Node) -> Self {
        let expected = node.presence(now) != Presence::Left;
        Self { expected, silence: now.since(node.last_heard) }
    }
}

impl Completeness {
    /// Counts one node, which has had samples of the operation.
    pub fn add(&mut self, now: Wall, node: &Seen, windows: &Windows) {
        self.expected += u64::from(node.expected);
        for (place, window) in Window::ALL.into_iter().enumerate() {
            if windows.newest_is_in(now, window) {
                // A longer window shows all that a shorter one does.
                return self.nodes[place..].iter_mut().for_each(|nodes| *nodes += 1);
            }
            self.late[place] += u64::from(node.expected && node.silence <= window.span());
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::wire::{Body, Bus};

    use super::*;
    use crate::core::tests::{MS, SECOND, Speaker, core, deliver, start};

    #[test]
    fn a_node_that_speaks_without_samples_is_late_and_one_that_is_silent_is_expected_only() {
        let mut core = core();
        let mut speakers = ["fine", "late", "mute", "left"].map(Speaker::new);
        for speaker in &mut speakers {
            deliver(&mut core, start(), &speaker.say(start(), MS, 5));
        }
        let [fine, late, _, left] = &mut speakers;
        deliver(&mut core, start(), &left.farewell(start()));
        let now = start().after(30 * SECOND);
        deliver(&mut core, now, &fine.say(now, MS, 5));
        deliver(&mut core, now, &late.message(now, Body::Bus(Bus::default()), false));
        let mut found = Completeness::default();
        for node in core.nodes.values() {
            let (_, windows) = node.operations.iter().next().unwrap();
            found.add(now.wall, &Seen::new(now.wall, node), windows);
        }
        assert_eq!(found.expected, 3);
        assert_eq!((found.nodes[0], found.late[0]), (1, 1), "in the last ten seconds");
        assert_eq!((found.nodes[1], found.late[1]), (4, 0), "in the last minute");
    }
}
