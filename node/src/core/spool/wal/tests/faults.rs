//! Files that are cut, damaged, forged, or from elsewhere.

use crate::limits::{SPOOL_AGE_MAX, SPOOL_ENTRIES_MAX};
use bytes::Bytes;
use plimsoll_schemas::time::Wall;
use proptest::test_runner::TestCaseError;

use super::*;
use crate::core::spool::frame;
use crate::core::spool::recovery::{ExpiredMessages, RecoveredMessages};
use crate::core::spool::wal::tests::model::NOW;

/// Checks a file that ends at `cut`: it holds its last whole batch, and the rest is torn.
pub(crate) fn check_cut(world: &World, cut: usize) -> Result<(), TestCaseError> {
    let recovered = recover(&world.file[..cut], &identity(), None, NOW).unwrap();
    let head = world.head().len();
    let begun = (if cut < head { 0 } else { head }, Found::default());
    let whole = world.points.iter().rev().find(|(length, _)| *length <= cut).unwrap_or(&begun);
    prop_assert_eq!(&Found::from(&recovered), &whole.1);
    prop_assert_eq!(recovered.torn_bytes, (cut - whole.0) as u64);
    prop_assert_eq!((recovered.damaged, recovered.uncertain_samples), (None, 0));
    Ok(())
}

/// Checks what recovery returns for a file in which one byte differs from what was written.
pub(crate) fn check_flip(world: &World, at: usize, mask: u8) -> Result<(), TestCaseError> {
    let mut bytes = world.file.clone();
    let Some(byte) = bytes.get_mut(at) else { return Ok(()) };
    *byte ^= mask;
    let Ok(recovered) = recover(&bytes, &identity(), None, NOW) else {
        prop_assert!(at < world.head().len());
        return Ok(());
    };
    let found = Found::from(&recovered);
    let last = world.points.len().checked_sub(2).map_or(0, |before| world.points[before].0);
    if at >= last {
        prop_assert!(recovered.torn_bytes > 0 && recovered.damaged.is_none());
        let before = world.points.iter().rev().nth(1).map(|(_, held)| held.clone());
        prop_assert_eq!(found, before.unwrap_or_default());
        return Ok(());
    }
    prop_assert!(recovered.damaged.is_some(), "byte {} of {}", at, world.file.len());
    let (_, end) = world.points.last().unwrap();
    // Every incarnation that recovery returns is written again behind the damage, so it is as at
    // the end.
    prop_assert!(
        recovered.incarnations.iter().all(|state| end.incarnations[0].newest == state.newest)
    );
    prop_assert!(found.drafts.iter().all(|draft| end.drafts.contains(draft)));
    prop_assert!(found.sealed.iter().all(|sealed| world.ever.sealed.contains(sealed)));
    let ever: u64 = world.ever.drafts.iter().map(|(_, body, ..)| body.samples()).sum();
    prop_assert!(recovered.uncertain_samples <= ever);
    Ok(())
}

/// A small file of several batches.
fn example() -> World {
    let mut world = World::new();
    let draft = |value| Op::Draft(0, vec![value]);
    for op in [draft(1), draft(2), Op::Seal(0), Op::Bus, Op::Seal(0), draft(3)] {
        world.step(&op);
    }
    world
}

#[test]
fn a_small_file_may_be_cut_at_every_byte() {
    let world = example();
    (0..=world.file.len()).for_each(|cut| check_cut(&world, cut).unwrap());
}

#[test]
fn a_small_file_may_be_damaged_in_every_byte() {
    let world = example();
    for at in 0..world.file.len() {
        [0x01, 0x80, 0xff].iter().for_each(|mask| check_flip(&world, at, *mask).unwrap());
    }
}

fn damaged_at(world: &World, at: usize) -> RecoveredMessages {
    let mut bytes = world.file.clone();
    bytes[at] ^= 0xff;
    recover(&bytes, &identity(), None, NOW).unwrap()
}

#[test]
fn behind_damage_a_draft_is_uncertain_until_its_removal_is_read() {
    let mut world = World::new();
    let draft = |values: &[u64]| Op::Draft(0, values.to_vec());
    [draft(&[1]), draft(&[2, 3]), Op::Seal(0)].iter().for_each(|op| world.step(op));
    let sealing = world.points[1].0;
    world.step(&draft(&[4]));
    let read = damaged_at(&world, sealing + 20);
    assert_eq!((read.drafts.len(), read.sealed.len(), read.uncertain_samples), (1, 0, 3));
    assert_eq!(read.damaged, Some(format!("the batch at byte {sealing} is damaged")));
    assert_eq!((read.incarnations.len(), read.uncertain_incarnations), (0, vec![Incarnation(9)]));
    // The second draft is sealed too: recovery finds its state again, and its ledger entry.
    world.step(&Op::Seal(0));
    let read = damaged_at(&world, sealing + 20);
    assert_eq!((read.sealed.len(), read.uncertain_samples), (1, 1));
    assert_eq!(
        (read.incarnations, read.uncertain_incarnations),
        (world.incarnations.clone(), vec![])
    );
}

#[test]
fn sealed_messages_before_damage_are_kept_and_so_is_the_account_of_an_incarnation_that_has_left() {
    let mut world = World::new();
    [Op::Draft(0, vec![1]), Op::FinalMessage, Op::Seal(0)].iter().for_each(|op| world.step(op));
    world.incarnations[0].left = true;
    world.step(&Op::Seal(0));
    let left = world.file.len();
    [Op::Draft(0, vec![2]), Op::Draft(0, vec![3])].iter().for_each(|op| world.step(op));
    let read = damaged_at(&world, left + 20);
    assert_eq!((&read.sealed, &read.incarnations), (&world.sealed, &world.incarnations));
    assert!(read.unused_incarnation(Incarnation(9)) != Incarnation(9));
}

#[test]
fn an_unreadable_entry_costs_itself_alone() {
    let mut world = World::new();
    world.step(&Op::Draft(0, vec![5, 6]));
    world.change(&Op::Seal(0));
    world.sealed[0].payload = Bytes::from_static(b"nothing that anyone could read");
    world.step(&Op::Draft(0, vec![1]));
    let read = world.recover();
    assert_eq!((read.drafts.len(), read.sealed.len(), read.uncertain_samples), (1, 0, 2));
    assert!(read.damaged.is_some_and(|what| what.contains("not a snapshot")));
    assert_eq!(read.incarnations, world.incarnations, "where the account stands is known");
    world.step(&Op::Release(0));
    assert_eq!(world.recover().uncertain_samples, 0, "it is released, whatever it was");
}

#[test]
fn entries_that_contradict_their_bytes_are_rejected() {
    let original = example().sealed[0].clone();
    let other_mesh = original.subject.replace(".m.", ".other.");
    let other_node = original.subject.replace(".n.", ".other.");
    let forged = [
        (SealedMessage { samples: 1_000, ..original.clone() }, "differ from its snapshot"),
        (SealedMessage { seq: Seq(7), ..original.clone() }, "differ from its snapshot"),
        (
            SealedMessage { incarnation: Incarnation(8), ..original.clone() },
            "differ from its snapshot",
        ),
        (SealedMessage { subject: other_mesh, ..original.clone() }, "belongs to another node"),
        (SealedMessage { subject: other_node, ..original.clone() }, "belongs to another node"),
        (SealedMessage { subject: "x".to_owned(), ..original }, "subject is not"),
    ];
    for (sealed, why) in forged {
        let mut world = World::new();
        world.sealed = vec![sealed.clone()];
        world.write();
        let read = world.recover();
        assert_eq!((read.sealed, read.uncertain_samples), (vec![], sealed.samples));
        assert!(read.damaged.as_ref().unwrap().contains(why), "{:?}", read.damaged);
    }
}

#[test]
fn a_draft_under_another_name_or_count_is_rejected() {
    let mut world = World::new();
    [Op::Draft(0, vec![1]), Op::Draft(0, vec![2, 3])].iter().for_each(|op| world.step(op));
    let (one, two) = (&world.drafts[&DraftId(1)].1, &world.drafts[&DraftId(2)].1);
    let snapshot = record::encode(&identity(), DraftId(1), one);
    for (id, draft, accepted) in [(1, one, 1), (2, one, 0), (1, two, 0)] {
        let held = HeldDraft { id: DraftId(id), lane: Lane::Normal, draft };
        let drafts = vec![DraftRecord::new(&held, &snapshot)];
        let batch = frame::frame(&BatchRecord { drafts, ..BatchRecord::default() });
        let file = [world.head(), batch].concat();
        let read = recover(&file, &identity(), None, NOW).unwrap();
        assert_eq!((read.drafts.len(), read.damaged.is_none()), (accepted, accepted == 1));
        assert_eq!(read.samples() + read.uncertain_samples, draft.samples());
    }
}

#[test]
fn after_another_start_of_the_machine_a_file_that_was_not_synced_is_doubted() {
    let held = |world: &World| Found::from(&world.recover());
    let mut world = World::new();
    world.wal = Wal::new(identity(), Some("boot-1"));
    [Op::Draft(0, vec![1]), Op::Draft(0, vec![2]), Op::Seal(0)]
        .iter()
        .for_each(|op| world.step(op));
    assert_eq!(held(&world).drafts, [], "it is not known which boot of the machine this is");
    let same = recover(&world.file, &identity(), Some("boot-1"), NOW).unwrap();
    assert_eq!((Found::from(&same), same.damaged), (world.held(), None));
    let other = recover(&world.file, &identity(), Some("boot-2"), NOW).unwrap();
    assert_eq!((other.drafts.len(), other.sealed, other.uncertain_samples), (0, world.sealed, 1));
    assert_eq!(other.damaged.unwrap(), "the file was not synced before the machine rebooted");
}

#[test]
fn a_later_version_is_recognised_and_not_read() {
    let mut world = example();
    let numbers = [3_u16.to_be_bytes(), [world.file[6], world.file[7]]].concat();
    world.file[4..8].copy_from_slice(&numbers);
    let end = world.head().len();
    let crc = crc32fast::hash(&[&world.file[..8], &world.file[12..end]].concat());
    world.file[8..12].copy_from_slice(&crc.to_be_bytes());
    let found = recover(&world.file, &identity(), None, NOW).unwrap_err();
    assert_eq!(found, UnusableFile::Newer(3));
}

#[test]
fn files_of_each_version_are_read_for_ever() {
    let world = example();
    // The first version had the open interval in it, which a note replaces.
    assert_eq!(Found::of(include_bytes!("version_1.spool")), world.held());
    let golden = include_bytes!("version_2.spool");
    assert_eq!(Found::of(golden), world.held());
    assert_eq!(world.file, golden, "another form needs another version");
}

#[test]
fn what_never_was_a_spool_is_not_taken_for_a_torn_one() {
    let what = |bytes: &[u8]| recover(bytes, &identity(), None, NOW).unwrap_err().to_string();
    assert_eq!(what(b"#!"), "not a spool file");
    let mut file = example().file;
    file[6] = 0xff;
    assert_eq!(what(&file), "the length of the head is out of bounds");
    let mut file = example().file;
    file[7] = file[7].wrapping_add(0x01);
    assert_eq!(what(&file), "the checksum of the head is wrong");
    assert_eq!(recover(b"", &identity(), None, NOW).unwrap().torn_bytes, 0);
}

#[test]
fn lengths_and_lists_that_are_forged_cost_no_memory() {
    let head = World::new().head();
    let huge = [&head[..], &[0xf5, b'P', b'B', 0xf6], &u32::MAX.to_be_bytes(), &[0; 9]].concat();
    assert_eq!(recover(&huge, &identity(), None, NOW).unwrap().torn_bytes, 17);
    let batch = BatchRecord { drafts_gone: vec![1; SPOOL_ENTRIES_MAX + 1], ..Default::default() };
    let file = [&head[..], &frame::frame(&batch)].concat();
    let why = recover(&file, &identity(), None, NOW).unwrap().damaged.unwrap();
    assert!(why.ends_with("more than 16000"), "{why}");
    // A list that claims more entries than there are bytes.
    let forged = [&[0x81, 0xab][..], b"drafts_gone", &[0xdd, 0xff, 0xff, 0xff, 0xff]].concat();
    let file = [&head[..], &framed(&forged)].concat();
    assert!(recover(&file, &identity(), None, NOW).unwrap().damaged.is_some());
}

fn framed(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let crc = crc32fast::hash(&[&length, body].concat()).to_be_bytes();
    [&[0xf5, b'P', b'B', 0xf6], &length[..], &crc, body].concat()
}

#[test]
fn batches_within_batches_are_not_searched_without_end() {
    // Every eighth byte begins a batch that claims all that follows, and a good one follows.
    let mut world = example();
    let mut file = world.file.clone();
    let all = file.len() + 80_000;
    while file.len() < all {
        let left = u32::try_from(all - file.len()).unwrap();
        file.extend([0xf5, b'P', b'B', 0xf6]);
        file.extend(left.saturating_sub(12).to_be_bytes());
    }
    world.change(&Op::Interval);
    file.extend(world.batch().unwrap().bytes);
    let read = recover(&file, &identity(), None, NOW).unwrap();
    assert_eq!(read.damaged.unwrap(), "searching for batches after byte 2504 takes too long");
    assert_eq!((read.drafts.len(), read.sealed.len(), read.torn_bytes), (0, 2, 0));
}

#[test]
fn an_account_that_contradicts_itself_allows_no_crash_report() {
    let mut world = World::new();
    world.incarnations[0].totals.recorded = 2;
    world.write();
    let read = world.recover();
    assert_eq!((read.incarnations, read.uncertain_incarnations), (vec![], vec![Incarnation(9)]));
}

#[test]
fn expired_messages_are_counted() {
    let mut world = World::new();
    let draft = |n: usize| Op::Draft(0, vec![1; n]);
    [draft(1), draft(2), draft(4), draft(8)].iter().for_each(|op| world.step(op));
    [Op::Seal(0), Op::Seal(0)].iter().for_each(|op| world.step(op));
    // The drafts begin at 1 000 times their number and take 500; sealing stamps the beginning.
    let mut read = world.recover();
    let now = Wall(3_500).plus(SPOOL_AGE_MAX);
    let expired = read.expire(now, SPOOL_AGE_MAX);
    let all =
        ExpiredMessages { sealed_messages: 2, sealed_samples: 3, ..ExpiredMessages::default() };
    assert_eq!((expired, read.drafts.len(), read.sealed.len()), (all, 2, 0));
    let later = read.expire(now.plus(std::time::Duration::from_nanos(1)), SPOOL_AGE_MAX);
    assert_eq!((later.drafts, later.draft_samples, read.samples()), (1, 4, 8));
    assert_eq!(read.incarnations, world.incarnations);
    let mut jumped_back = world.recover();
    assert_eq!(jumped_back.expire(Wall(0), SPOOL_AGE_MAX), ExpiredMessages::default());
}
