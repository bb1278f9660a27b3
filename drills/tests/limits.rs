//! A limit's way between the two real cores: the aggregator's budgets, its confirmation, the node's
//! series, the node's message, and what the aggregator reads there.

use std::time::Duration;

use plimsoll_aggregator::core::Core as Aggregator;
use plimsoll_node::core::Bounds;
use plimsoll_node::core::{Core as Node, Identity};
use plimsoll_node::limits::INTERVAL;
use plimsoll_schemas::histogram::{Over, Packed};
use plimsoll_schemas::ids::{Labels, MeshName, NodeName};
use plimsoll_schemas::rule;
use plimsoll_schemas::subject::{Lane, SnapshotSubject};
use plimsoll_schemas::time::{Mono, Now, Wall};
use plimsoll_schemas::transport::{BusEvent, Delivered, Delivery};
use plimsoll_schemas::wire::decode_packed;

/// Of the built-in budget of `epoch_hook`.
const LIMIT_NS: u64 = 18_000_000;
/// One line: one latency well below the limit, two at it, three a nanosecond above, one far above.
const LINE: &[u8] = b"epoch_hook:9:18:18:18.000001:18.000001:18.000001:40|ms";

struct Mesh {
    node: Node,
    aggregator: Aggregator,
    now: Now,
}

impl Mesh {
    fn new() -> Self {
        let now = Now { mono: Mono(1), wall: Wall(1_700_000_000_000_000_000) };
        let mesh = MeshName::new("m").unwrap();
        let budgets = rule::file::effective(&[]).unwrap();
        let aggregator = Aggregator::new(mesh.clone(), budgets, now);
        let identity = Identity { mesh, node: name(), labels: Labels::default() };
        let mut node = Node::new(identity, Bounds::default(), now);
        node.on_bus_event(
            now,
            &BusEvent::Connected {
                delivery: Delivery::JetStream,
                server_version: String::new(),
                payload_bytes_max: 0,
            },
        );
        Self { node, aggregator, now }
    }

    /// Ends an interval; what the aggregator reads of the operation.
    fn interval(&mut self) -> Packed {
        self.now = self.now.after(INTERVAL);
        self.node.on_deadline(self.now);
        let mut read = Packed::default();
        while let Some(publish) = self.node.next_publish(self.now) {
            let (subject, payload) = (publish.subject, publish.payload);
            let parsed: SnapshotSubject = subject.parse().unwrap();
            let (lane, at) = (Lane::Normal, Some(self.now.wall));
            let message =
                Delivered { lane, stream_seq: 0, pending: 0, at, sent: None, subject, payload };
            self.aggregator.on_message(self.now, &message).unwrap();
            let body = decode_packed(&parsed, &message.payload).unwrap().body;
            if let Some(latency) = body.into_parts().latency {
                let mut of_hook = latency.histograms.into_iter();
                let of_hook = of_hook.find(|(series, _)| series.operation.as_str() == "epoch_hook");
                read.merge(&of_hook.map(|(_, samples)| samples).unwrap_or_default());
            }
            self.node.on_bus_event(
                self.now,
                &BusEvent::Acknowledged { ticket: publish.ticket, duplicate: false },
            );
        }
        read
    }

    /// The aggregator confirms what it has merged, a short time later.
    fn confirm(&mut self) {
        self.now = self.now.after(Duration::from_millis(50));
        let got = self.aggregator.confirmation_from_memory(&name(), self.now.mono).unwrap();
        self.node
            .on_confirmation(self.now, &got.encode(self.now.mono, &self.aggregator.common_terms()))
            .unwrap();
    }
}

fn name() -> NodeName {
    NodeName::new("n1").unwrap()
}

#[test]
fn the_share_over_a_limit_is_uncertain_until_the_node_receives_it_and_then_exact() {
    let mut mesh = Mesh::new();
    mesh.node.on_datagram(mesh.now, LINE);
    assert_eq!(mesh.interval().over(LIMIT_NS), Over { over: 1, uncertain: 5 });
    mesh.node.on_datagram(mesh.now, LINE);
    mesh.confirm();
    mesh.node.on_datagram(mesh.now, LINE);
    let both = mesh.interval();
    assert_eq!((both.exact().count, both.over(LIMIT_NS)), (14, Over { over: 5, uncertain: 5 }));
    for _ in 0..3 {
        mesh.node.on_datagram(mesh.now, LINE);
        mesh.confirm();
        assert_eq!(mesh.interval().over(LIMIT_NS), Over { over: 4, uncertain: 0 });
    }
    assert_eq!(mesh.node.status().confirmations.accepted, 4);
}
