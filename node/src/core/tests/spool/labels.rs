//! Labels of a node that is called otherwise after it has crashed.

use super::*;

#[test]
fn what_a_former_incarnation_recorded_keeps_the_labels_of_that_incarnation() {
    let role = |role| Labels::new([("role", role)]).unwrap();
    let mut world = World::new();
    world.labels = role("trainer");
    world.start();
    world.core.on_datagram(world.now, b"a:1:2:3|ms");
    world.pass(SECOND);
    world.spool(false);
    world.labels = role("server");
    world.crash(false);
    for _ in 0..20 {
        world.core.on_datagram(world.now, b"a:4:5|ms");
        world.pass(SECOND);
    }
    assert!(world.core.outbox.stats().coalesced > 0);
    world.settle();
    let mut samples = BTreeMap::<String, u64>::new();
    for (header, n) in world.arrived.values() {
        *samples.entry(header.labels.get("role").unwrap_or("none").to_owned()).or_default() += n;
    }
    // The node adds samples of its own, one for each acknowledgement.
    assert_eq!((samples["none"], samples["trainer"]), (0, 3), "{samples:?}");
    assert!(samples["server"] >= 40, "{samples:?}");
}
