//! How complete the windows of one operation are: from how many nodes there are samples in them,
//! how many are overdue, and how many there should be. Compares times alone and merges nothing.

use std::time::Duration;

use plimsoll_schemas::budget::Window;
use plimsoll_schemas::summary::Presence;
use plimsoll_schemas::time::Wall;

use super::node::Node;
use super::window::Windows;

const WINDOWS: usize = Window::ALL.len();

/// Counts of nodes for one operation, or for what a budget selects of it, by window where they
/// differ, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completeness {
    /// Nodes that have not left and ever had a sample of it.
    pub expected: u64,
    /// Of these, nodes that send messages.
    pub reporting: u64,
    pub nodes: [u64; WINDOWS],
    /// Expected nodes that were seen within the window's span and whose newest sample is older.
    pub overdue: [u64; WINDOWS],
}

/// What counts here of a node, whatever the operation.
#[derive(Clone, Copy, Debug)]
pub struct ReportingNode {
    presence: Presence,
    silence: Duration,
}

impl ReportingNode {
    pub fn new(now: Wall, node: &Node) -> Self {
        Self { presence: node.presence(now), silence: now.since(node.last_seen) }
    }

    /// That of what this node alone has.
    pub fn completeness(&self, now: Wall, windows: &Windows) -> Completeness {
        let mut completeness = Completeness::default();
        completeness.add(now, self, windows);
        completeness
    }

    fn is_expected(&self) -> bool {
        self.presence != Presence::Left
    }
}

impl Completeness {
    /// Counts one node, which has had samples of the operation.
    pub fn add(&mut self, now: Wall, node: &ReportingNode, windows: &Windows) {
        self.expected += u64::from(node.is_expected());
        self.reporting += u64::from(node.presence == Presence::Up);
        for (place, window) in Window::ALL.into_iter().enumerate() {
            if windows.newest_is_in(now, window) {
                // A longer window shows all that a shorter one does.
                return self.nodes[place..].iter_mut().for_each(|nodes| *nodes += 1);
            }
            self.overdue[place] += u64::from(node.is_expected() && node.silence <= window.span());
        }
    }

    /// Whether nodes are expected and none of them sends messages.
    pub fn is_silent(&self) -> bool {
        self.expected > 0 && self.reporting == 0
    }
}
