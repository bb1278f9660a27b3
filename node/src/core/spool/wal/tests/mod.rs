//! The write-ahead log against a naive model: after any batches, cut anywhere, damaged anywhere.

mod faults;
mod model;

use crate::limits::{SPOOL_BYTES_MAX, SPOOL_GARBAGE_BYTES, SPOOL_INCARNATIONS_MAX};
use proptest::prelude::*;

use super::*;
use crate::core::outbox::Draft;
use crate::core::spool::recovery::{UnusableFile, recover};
use crate::core::spool::{Notes, RecoveredMessages};
use model::{Found, Op, World, identity, op};
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::wire::NotedIncarnation;
use plimsoll_schemas::wire::Totals;

#[test]
fn nothing_is_written_while_nothing_changes() {
    let mut world = World::new();
    world.step(&Op::Draft(0, vec![1_000]));
    assert_eq!(world.batch(), None);
    world.step(&Op::Seal(0));
    world.step(&Op::Release(0));
    assert_eq!(world.batch(), None);
}

#[test]
fn what_stands_in_another_order_is_the_same() {
    let mut world = World::new();
    (1..4).for_each(|n| world.step(&Op::Draft(0, vec![n])));
    (0..2).for_each(|_| world.step(&Op::Seal(0)));
    let bytes = world.wal.bytes();
    world.sealed.reverse();
    assert_eq!((world.batch(), world.wal.bytes()), (None, bytes));
    world.step(&Op::Release(0));
    assert_eq!(Found::of(&world.file), world.held());
}

#[test]
fn an_empty_file_has_no_values() {
    let mut world = World::new();
    world.incarnations.clear();
    let batch = world.batch().unwrap();
    assert_eq!((batch.replaces, &batch.bytes), (true, &world.head()));
    assert_eq!(Found::of(&batch.bytes), Found::default());
}

#[test]
fn the_first_batch_is_the_whole_file_and_so_is_the_one_after_a_failure() {
    let mut world = World::new();
    world.change(&Op::Draft(0, vec![1_000]));
    let first = world.batch().unwrap();
    assert!(first.replaces && first.sync);
    world.change(&Op::Draft(1, vec![2_000]));
    let second = world.batch().unwrap();
    assert!(!second.replaces && second.sync);
    world.wal.on_failed();
    assert_eq!(world.wal.bytes(), 0);
    let third = world.batch().expect("though nothing has changed");
    assert!(third.replaces && third.sync);
    assert_eq!(third.bytes.len(), world.wal.bytes());
    assert_eq!(Found::of(&third.bytes), world.held());
}

#[test]
fn only_what_is_released_waits_for_no_disk() {
    let mut world = World::new();
    [Op::Draft(0, vec![7]), Op::Draft(0, vec![8])].iter().for_each(|op| world.step(op));
    let mut sync_after = |op| {
        world.change(&op);
        world.batch().unwrap().sync
    };
    let ops = [Op::Interval, Op::Bus, Op::Merge(0), Op::Seal(0), Op::Release(0)];
    assert_eq!(ops.map(&mut sync_after), [true, true, true, true, false]);
    // A crash report is sealed without ever having been a draft.
    world.change(&Op::FinalMessage);
    let (lane, final_message) = world.drafts.pop_last().unwrap().1;
    world.step(&Op::Interval);
    let former = IncarnationState { incarnation: Incarnation(1), ..world.incarnations[0].clone() };
    world.sealed.push(model::sealed(lane, &final_message, &former));
    assert!(world.batch().unwrap().sync);
}

#[test]
fn a_file_that_would_grow_too_large_is_begun_anew() {
    let mut world = World::new();
    world.step(&Op::Draft(0, vec![1]));
    let file = world.wal.file.as_mut().unwrap();
    file.drafts.insert(DraftId(99), SPOOL_BYTES_MAX / 2);
    file.bytes = SPOOL_BYTES_MAX - 10;
    world.change(&Op::Interval);
    assert!(world.batch().unwrap().replaces);
    assert!(world.wal.bytes() < 1_000);
}

#[test]
fn what_a_note_has_and_the_file_has_not_is_lost_by_a_crash() {
    let mut world = World::new();
    [Op::Draft(0, vec![1, 2, 3]), Op::Draft(0, vec![4]), Op::Seal(1)]
        .iter()
        .for_each(|op| world.step(op));
    // Ten of a former time, one sealed and three in a draft.
    let [incarnation, other] = [9, 8].map(Incarnation);
    for (note, crashed) in [
        (NotedIncarnation { incarnation, recorded: 19 }, 5),
        (NotedIncarnation { incarnation, recorded: 14 }, 0),
        (NotedIncarnation { incarnation, recorded: 3 }, 0),
        (NotedIncarnation { incarnation: other, recorded: 19 }, 0),
    ] {
        let mut read = world.recover();
        let notes = Notes { own: note, orphans: Vec::new() };
        let orphans = RecoveredMessages::take_notes(Some(&mut read), notes);
        assert_eq!(orphans.is_empty(), note.incarnation == incarnation);
        assert_eq!((read.crashed, read.incarnations[0].totals.recorded), (crashed, 11 + crashed));
        let lost = read.incarnations[0].totals.lost.get("crash").copied();
        assert_eq!(lost, (crashed > 0).then_some(crashed), "{note:?}");
    }
    world.incarnations[0].left = true;
    world.step(&Op::Interval);
    let mut left = world.recover();
    let own = NotedIncarnation { incarnation, recorded: 99 };
    let notes = Notes { own, orphans: Vec::new() };
    assert_eq!(RecoveredMessages::take_notes(Some(&mut left), notes), []);
    assert_eq!(
        (left.crashed, &left.incarnations),
        (0, &world.incarnations),
        "its final message has all"
    );
}

#[test]
fn drafts_of_every_kind_come_back_as_they_were() {
    let mut world = World::new();
    for op in [Op::Draft(0, vec![1, 1 << 41, 9_000_123]), Op::Hardware, Op::Bus, Op::FinalMessage] {
        world.step(&op);
    }
    let read = world.recover();
    assert_eq!(Found::from(&read), world.held());
    assert!(read.drafts.iter().all(|(_, draft)| draft.enqueued == model::NOW));
    let sizes = |drafts: Vec<&Draft>| drafts.iter().map(|d| (d.samples(), d.bytes())).collect();
    let read: Vec<(u64, usize)> = sizes(read.drafts.iter().map(|(_, draft)| draft).collect());
    assert_eq!(read, sizes(world.drafts.values().map(|(_, draft)| draft).collect()) as Vec<_>);
}

#[test]
fn the_file_stays_small_over_thousands_of_intervals() {
    let mut world = World::new();
    let (mut largest, mut anew) = (0, 0);
    for n in 0..4_000_u64 {
        world.change(&Op::Draft(0, vec![n, 2 * n, 1_000_000]));
        world.change(&Op::Interval);
        if world.drafts.len() > 20 {
            (0..20).for_each(|_| world.change(&Op::Seal(0)));
            (0..20).for_each(|_| world.change(&Op::Release(0)));
        }
        anew += u32::from(world.write());
        largest = largest.max(world.file.len());
        assert_eq!(world.file.len(), world.wal.bytes());
    }
    assert!(largest < 2 * SPOOL_GARBAGE_BYTES, "{largest} bytes");
    assert!((2..40).contains(&anew), "{anew} times");
    assert_eq!(Found::of(&world.file), world.held());
}

#[test]
fn of_too_many_incarnations_the_latest_are_known() {
    let mut world = World::new();
    let own = world.incarnations[0].clone();
    world.incarnations = (1..=SPOOL_INCARNATIONS_MAX as u64 + 3)
        .map(|n| IncarnationState { incarnation: Incarnation(n), ..own.clone() })
        .collect();
    world.write();
    assert_eq!(world.recover().incarnations, world.incarnations[3..]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn reading_after_any_batch_yields_its_state(
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let mut world = World::new();
        for op in &ops {
            world.step(op);
            prop_assert_eq!(world.file.len(), world.wal.bytes());
        }
        for (length, held) in &world.points {
            prop_assert_eq!(&Found::of(&world.file[..*length]), held);
        }
    }

    #[test]
    fn a_file_cut_anywhere_yields_the_last_batch(
        ops in prop::collection::vec(op(), 1..40), cuts in prop::collection::vec(0.0..1.0_f64, 20),
    ) {
        let mut world = World::new();
        ops.iter().for_each(|op| world.step(op));
        for cut in cuts.iter().map(|cut| world.place(*cut)) {
            faults::check_cut(&world, cut)?;
        }
    }

    #[test]
    fn a_byte_that_flips_anywhere_is_reported_and_adds_nothing(
        ops in prop::collection::vec(op(), 1..40),
        flips in prop::collection::vec((0.0..1.0_f64, 1..=255_u8), 20),
    ) {
        let mut world = World::new();
        ops.iter().for_each(|op| world.step(op));
        for (at, mask) in flips {
            faults::check_flip(&world, world.place(at), mask)?;
        }
    }

    #[test]
    fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300), good: bool) {
        if good {
            bytes.splice(0..0, World::new().head());
        }
        let read = recover(&bytes, &identity(), None, model::NOW);
        prop_assert!(read.map_or(0, |read| read.samples() + read.uncertain_samples) == 0);
    }
}

#[test]
fn a_file_of_another_node_or_version_is_named() {
    let mut world = World::new();
    world.step(&Op::Interval);
    let mut own = identity();
    own.node = plimsoll_schemas::ids::NodeName::new("other").unwrap();
    let found = recover(&world.file, &own, None, model::NOW).unwrap_err();
    let Identity { mesh, node, .. } = identity();
    assert_eq!(found, UnusableFile::Other { mesh, node });
    assert_eq!(found.to_string(), "file belongs to node n of mesh m");
}
