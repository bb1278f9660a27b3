//! How complete windows are, counted over the nodes of a core.

use plimsoll_schemas::wire::Body;
use plimsoll_schemas::wire::Bus;

use super::*;

#[test]
fn a_node_that_sends_no_samples_is_overdue_and_a_silent_one_is_expected_only() {
    let mut core = core();
    let mut speakers = ["fine", "overdue", "mute", "left"].map(Speaker::new);
    for speaker in &mut speakers {
        deliver(&mut core, start(), &speaker.send(start(), MS, 5));
    }
    let [fine, overdue, _, left] = &mut speakers;
    deliver(&mut core, start(), &left.final_message(start()));
    let now = start().after(30 * SECOND);
    deliver(&mut core, now, &fine.send(now, MS, 5));
    deliver(&mut core, now, &overdue.message(now, Body::Bus(Bus::default()), false));
    let mut found = Completeness::default();
    for node in core.fleet.nodes().values() {
        let (_, windows) = node.operations.iter().next().unwrap();
        found.add(now.wall, &ReportingNode::new(now.wall, node), windows);
    }
    assert_eq!((found.expected, found.reporting), (3, 2));
    assert_eq!((found.nodes[0], found.overdue[0]), (1, 1), "in the last ten seconds");
    assert_eq!((found.nodes[1], found.overdue[1]), (4, 0), "in the last minute");
}
