//! An aggregator's real core in simulated time, and one node that sends readings of its machine.

use std::time::Duration;

use plimsoll_aggregator::core::Core;
use plimsoll_aggregator::core::alerting::AlertsQuery;
use plimsoll_schemas::alert::AlertState;
use plimsoll_schemas::hardware::Reading;
use plimsoll_schemas::ids::{Incarnation, Labels, MeshName, NodeName, Seq};
use plimsoll_schemas::rule::file::shipped;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Mono, Now, Wall, nanos};
use plimsoll_schemas::transport::Delivered;
use plimsoll_schemas::wire::{self, Body, Hardware, Header, Snapshot, Totals};

const NODE: &str = "machine";

/// The aggregator with the shipped rules.
pub(crate) struct Fleet {
    core: Core,
    now: Now,
    seq: u64,
}

impl Fleet {
    pub(crate) fn new() -> Self {
        let now = Now { mono: Mono(0), wall: Wall(1_699_920_000 * 1_000_000_000) };
        let mut core = Core::new(MeshName::new("m").unwrap(), shipped(), now);
        Lane::ALL.into_iter().for_each(|lane| core.on_positioned(lane, 0, 0, "s1"));
        Self { core, now, seq: 0 }
    }

    /// An interval of this length, after which the node sends these readings and the rules are
    /// evaluated.
    pub(crate) fn receive(&mut self, length: Duration, readings: &[Reading]) {
        self.now = Now { mono: self.now.mono.plus(length), wall: self.now.wall.plus(length) };
        self.seq += 1;
        let body = Body::Hardware(Hardware::all(readings.to_vec()));
        let header = Header {
            node: NodeName::new(NODE).unwrap(),
            incarnation: Incarnation(1),
            seq: Seq(self.seq),
            start: self.now.wall.minus(length),
            length_ns: nanos(length),
            totals: Totals::default(),
            last: false,
            successor: None,
            labels: Labels::default(),
        };
        let payload = wire::encode(&Snapshot { header, body });
        let message = Delivered {
            lane: Lane::Normal,
            stream_seq: self.seq,
            pending: 0,
            at: Some(self.now.wall),
            sent: Some(self.now.wall),
            subject: format!("plimsoll.v1.m.normal.{NODE}.hardware"),
            payload: payload.into(),
        };
        self.core.on_message(self.now, &message).expect("a node's message is readable");
        self.core.on_deadline(self.now);
        while let Some(due) = self.core.notifications().next_due(self.now.mono) {
            self.core.notifications().on_delivered(due.token);
        }
    }

    /// The state of the alert of a rule about the node.
    pub(crate) fn state(&self, rule: &str) -> AlertState {
        let page = self.core.alerts_page(self.now.wall, &AlertsQuery::default());
        let row = page.alerts.into_iter().find(|row| row.key.rule.as_str() == rule);
        row.map_or(AlertState::Inactive, |row| row.state)
    }
}
