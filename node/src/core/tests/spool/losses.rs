//! What a socket lost, through a crash: it stays in the account of the incarnation that noticed it.

use super::*;

fn lost(header: &Header) -> Vec<(&str, u64)> {
    header.totals.lost.iter().map(|(reason, n)| (reason.as_str(), *n)).collect()
}

/// 28 samples were lost before the second datagram, and 3 came.
fn feed(world: &mut World) {
    world.core.on_bus_event(world.now, &connected());
    world.core.on_datagram(world.now, b"_seq|c|1|0|2\na:1:2|ms");
    world.core.on_datagram(world.now, b"_seq|c|4|30|1\na:3|ms");
}

#[test]
fn a_loss_in_the_open_interval_is_reported_with_the_crash() {
    let mut world = World::new();
    world.pass(SECOND);
    world.spool(false);
    feed(&mut world);
    world.pass(SECOND / 2);
    world.spool(false);
    let former = world.core.sealer.incarnation;
    world.crash(false);
    assert_eq!(world.core.spool.stats().crashed, 31);
    world.settle();
    let (crash_report, _) = &world.arrived[&(former.0, Seq(1))];
    assert_eq!((crash_report.totals.recorded, lost(crash_report)), (31, vec![(CRASH, 31)]));
    assert_eq!(world.job_arrived, 0);
}

#[test]
fn a_loss_in_a_closed_interval_is_reported_by_name_and_recorded_samples_arrive() {
    let mut world = World::new();
    feed(&mut world);
    world.pass(SECOND);
    world.spool(false);
    let former = world.core.sealer.incarnation;
    world.crash(true);
    assert_eq!((world.core.spool.stats().crashed, world.core.spool.stats().recovered), (0, 3));
    world.settle();
    let (crash_report, _) = &world.arrived[&(former.0, Seq(1))];
    assert_eq!((crash_report.totals.recorded, lost(crash_report)), (28, vec![("socket", 28)]));
    assert_eq!(world.job_arrived, 3);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// However a node that loses datagrams crashes: of each incarnation, what arrived is what the
    /// incarnation reported as recorded and not lost.
    #[test]
    fn with_losses_too_every_incarnation_counts_what_arrived(
        steps in prop::collection::vec((0..8_u8, 1..20_u64), 0..80),
    ) {
        let mut world = World::new();
        let (mut number, mut before) = (0, 0);
        for (step, n) in steps {
            match step {
                0 | 1 => {
                    (number, before) = (number + 1, before + n);
                }
                2 | 3 => {
                    number += 1;
                    let text = format!("_seq|c|{number}|{before}|1\na:1|ms");
                    world.core.on_datagram(world.now, text.as_bytes());
                    before += 1;
                }
                4 => world.pass(SECOND * u32::try_from(n).unwrap() / 10),
                5 => world.spool(false),
                6 => world.core.on_bus_event(world.now, &connected()),
                _ if n < 3 => world.crash(n == 1),
                _ => {
                    world.send(true);
                    world.acknowledge();
                }
            }
        }
        world.settle();
        let mut incarnations: BTreeMap<u64, (u64, &Header)> = BTreeMap::new();
        for ((incarnation, _), (header, samples)) in &world.arrived {
            let incarnation = incarnations.entry(*incarnation).or_insert((0, header));
            *incarnation = (incarnation.0 + samples, header);
        }
        for (carried, header) in incarnations.values() {
            prop_assert!(header.last);
            prop_assert_eq!(*carried, header.totals.recorded - header.totals.lost_sum());
        }
    }
}
