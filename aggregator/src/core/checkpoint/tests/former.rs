//! Records as a former program wrote them are read for as long as their version is.

use serde_bytes::ByteBuf;

use super::*;

/// Two nodes, by a program that knew no events: nodes with their records, fleet, rest.
const BEFORE_EVENTS: &[u8] = include_bytes!("version_1.checkpoint");

fn stored(bytes: &[u8]) -> StoredRecords {
    let (nodes, fleet, rest): (Vec<(String, ByteBuf)>, ByteBuf, ByteBuf) =
        rmp_serde::from_slice(bytes).unwrap();
    let nodes = nodes.into_iter().map(|(name, record)| (name, record.into_vec())).collect();
    StoredRecords { nodes, fleet: fleet.into_vec(), rest: rest.into_vec() }
}

#[test]
fn what_was_stored_before_there_were_events_is_taken_up_and_gone_on_with() {
    let mut world = World::new();
    world.stored = Some(stored(BEFORE_EVENTS));
    assert_eq!(world.restart(), 7);
    let view = world.view();
    let ledgers: Vec<_> = view.summary.nodes.iter().map(|row| row.ledger.merged).collect();
    assert_eq!(ledgers, [90, 10]);
    assert_eq!(view.summary.operations[0].total.count, 100);
    let a = &view.nodes[0].node;
    assert_eq!(
        (a.bus.value.outbox_bytes, a.bus.value.kernel_dropped, a.readings.value.len()),
        (77, 0, 1)
    );
    assert_eq!((a.counters.len(), a.events.len(), a.checks.len()), (1, 0, 0));
    assert_eq!(view.counts.undecodable["subject"], 1);
    // The next run of node a brings the first events.
    let message = Speaker::new("a").of(2).message(world.now, events(2), false);
    let steps: Vec<_> =
        std::iter::repeat_n(Step::Tick, 7).chain([Step::Message(message)]).collect();
    world.live(&steps, 7..8);
    world.checkpoint();
    world.restart();
    assert_eq!(world.view().nodes[0].node.events.values().sum::<u64>(), 2);
}
