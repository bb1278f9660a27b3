//! What is kept of a node's events: how many there were, and where its service checks stand.
//! The events themselves are the fleet's ([`crate::core::fleet::events`]).

use std::collections::BTreeMap;

use crate::limits::SERVICE_CHECKS_MAX;
use plimsoll_schemas::ids::{Incarnation, Seq};
use plimsoll_schemas::wire::{AlertType, Event, EventSource};

use super::{Node, bounded_entry};

impl Node {
    /// Counts the events of one message and takes the last status of each check in it; tells how
    /// many checks found no room.
    pub fn take_events(&mut self, from: (Incarnation, Seq), events: &[Event]) -> u64 {
        let mut statuses = BTreeMap::new();
        for event in events {
            *self.events.make_mut().entry((event.source, event.alert_type)).or_default() += 1;
            if event.source == EventSource::ServiceCheck {
                statuses.insert(&event.title, event.alert_type);
            }
        }
        let mut without_room = 0;
        for (name, status) in statuses {
            match bounded_entry(self.checks.make_mut(), name, SERVICE_CHECKS_MAX) {
                Some(check) => check.offer((&self.account, self.last_heard), from, status),
                None => without_room += 1,
            }
        }
        without_room
    }

    /// Where each service check stands.
    #[must_use]
    pub fn check_statuses(&self) -> BTreeMap<String, AlertType> {
        self.checks.iter().map(|(name, check)| (name.clone(), check.value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::time::Wall;

    use super::*;
    use crate::core::fleet::events::tests::{check, event};

    fn statuses(node: &Node) -> Vec<(String, AlertType)> {
        node.check_statuses().into_iter().collect()
    }

    #[test]
    fn the_last_status_in_the_newest_message_counts_whatever_the_order_of_arrival() {
        let mut node = Node::default();
        let run = Incarnation(1);
        let newer = [check("db", AlertType::Error), check("db", AlertType::Warning)];
        assert_eq!(node.take_events((run, Seq(5)), &newer), 0);
        assert_eq!(node.take_events((run, Seq(4)), &[check("db", AlertType::Success)]), 0);
        assert_eq!(statuses(&node), [("db".to_owned(), AlertType::Warning)]);
        node.take_events((run, Seq(6)), &[check("db", AlertType::Success), event("db", 1)]);
        assert_eq!(statuses(&node), [("db".to_owned(), AlertType::Success)]);
        let counted: Vec<_> = node.events.values().copied().collect();
        assert_eq!(counted, [1, 2, 1, 1]);
    }

    #[test]
    fn a_flood_of_checks_is_bounded_and_counted_and_known_ones_go_on() {
        let mut node = Node { last_heard: Wall(1), ..Node::default() };
        let flood: Vec<Event> = (0..SERVICE_CHECKS_MAX + 7)
            .map(|n| check(&format!("c{n:03}"), AlertType::Info))
            .collect();
        assert_eq!(node.take_events((Incarnation(1), Seq(1)), &flood), 7);
        assert_eq!(node.checks.len(), SERVICE_CHECKS_MAX);
        node.take_events((Incarnation(1), Seq(2)), &[check("c000", AlertType::Error)]);
        assert_eq!(statuses(&node)[0], ("c000".to_owned(), AlertType::Error));
    }
}
