//! What is written is what is read, whatever became of the file.

use proptest::prelude::*;

use super::*;
use crate::merge::merge;
use crate::name::Name;
use crate::profile::{Profile, ValueType};
use crate::tests::{profile, profiles, stack};
use plimsoll_schemas::time::Wall;

const SECOND: u64 = 1_000_000_000;
const UNNAMED: &str = "";

fn segment(profiles: &[Profile]) -> Vec<u8> {
    let (mut writer, mut segment) = (Writer::default(), SEGMENT_BEGIN.to_vec());
    for (place, profile) in profiles.iter().enumerate() {
        let pid = u32::try_from(place % 3).unwrap();
        writer.append(pid, &UNNAMED.into(), profile, &mut segment).unwrap();
    }
    segment
}

fn all() -> PastQuery {
    query(0, 100)
}

fn query(from: u64, to: u64) -> PastQuery {
    let (from, to) = (Wall(from * SECOND), Wall(to * SECOND));
    PastQuery { from, to, pid: None, node: Name::default() }
}

fn past(query: PastQuery, segments: &[Vec<u8>]) -> Past {
    let mut sum = Sum::new(query);
    segments.iter().for_each(|segment| sum.add(segment));
    sum.finish()
}

/// Ten seconds of one function from this second on.
fn ten(second: u64, function: &str) -> Profile {
    let mut profile = profile(SECOND / 10, 10 * SECOND, &[(&["main", function], 100)]);
    profile.started_at = Wall(second * SECOND);
    profile
}

/// Samples, when and for how long: all but comments, which records do not have.
fn bare(of: &Profile) -> Profile {
    let mut bare = Profile::new(of.value_type().clone(), of.period());
    (bare.started_at, bare.duration_ns) = (of.started_at, of.duration_ns);
    of.samples().for_each(|of| bare.add(of.stack.clone(), of.labels.clone(), of.count));
    bare
}

proptest! {
    #[test]
    fn a_sum_equals_the_merge_of_all_profiles(
        mut parts in prop::collection::vec(profiles(), 1..8),
        split in 0_usize..8,
        pid in prop::option::of(0_u32..3),
    ) {
        for (place, part) in parts.iter_mut().enumerate() {
            part.started_at = Wall(place as u64 * SECOND);
            part.duration_ns = SECOND / 2;
        }
        let (left, right) = parts.split_at(split % parts.len());
        let segments = [segment(left), segment(right)];
        let past = past(PastQuery { pid, ..all() }, &segments);

        let places = |side: &[Profile]| (0..side.len()).collect::<Vec<_>>();
        let of_pid = |place: &usize| pid.is_none_or(|pid| place % 3 == pid as usize);
        let model: Vec<&Profile> = [left, right]
            .into_iter()
            .flat_map(|side| places(side).into_iter().filter(of_pid).map(|place| &side[place]))
            .collect();
        prop_assert_eq!(past.profiles, model.len() as u64);
        prop_assert_eq!(past.unread_segments, 0);
        if !model.is_empty() {
            prop_assert_eq!(bare(&past.profile), bare(&merge(&model).unwrap()));
        }
    }

    #[test]
    fn a_torn_segment_has_all_records_before_the_tear(cut in any::<prop::sample::Index>()) {
        let parts: Vec<Profile> = (0..8).map(|n| ten(10 * n, &format!("f{n}"))).collect();
        let whole = segment(&parts);
        let cut = SEGMENT_BEGIN.len() + cut.index(whole.len() - SEGMENT_BEGIN.len() + 1);
        let complete = (0..=8).filter(|n| segment(&parts[..*n]).len() <= cut).max().unwrap();
        let (found, valid) = heads(&whole[..cut]).unwrap();
        prop_assert_eq!(found.len(), complete);
        prop_assert_eq!(valid, segment(&parts[..complete]).len());
        let past = past(all(), &[whole[..cut].to_vec()]);
        prop_assert_eq!(past.profiles, complete as u64);
        prop_assert_eq!(past.unread_segments, u64::from(valid < cut));
    }

    #[test]
    fn damaged_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        at in any::<prop::sample::Index>(),
    ) {
        let _none = heads(&bytes);
        // With a right checksum, too: hostile numbers in every place of the tables.
        let mut hostile = SEGMENT_BEGIN.to_vec();
        let _small = record::append(&mut hostile, &bytes);
        let mut covered = segment(&[ten(0, "a"), ten(10, "b")])[SEGMENT_BEGIN.len() + 8..].to_vec();
        let at = at.index(covered.len());
        covered[at] = bytes.first().copied().unwrap_or(255);
        let _small = record::append(&mut hostile, &covered);
        let past = past(all(), &[hostile]);
        prop_assert!(past.profile.samples().count() < 400);
    }
}

#[test]
fn a_range_has_the_profiles_whose_middle_is_in_it() {
    let parts: Vec<Profile> =
        (0..6).map(|n| ten(10 * n, if n == 3 { "planted" } else { "usual" })).collect();
    let segments = [segment(&parts)];
    for (from, to, profiles, planted, seconds) in [
        (0, 30, 3, false, 30),
        (30, 40, 1, true, 10),
        (35, 36, 1, true, 1),
        (36, 45, 0, false, 0),
        (40, 100, 2, false, 20),
        (0, 200, 6, true, 60),
    ] {
        let past = past(query(from, to), &segments);
        assert_eq!((past.profiles, past.covered_seconds), (profiles, seconds), "{from}..{to}");
        let is_in = past.profile.values(None).contains_key(&stack(&["main", "planted"]));
        assert_eq!(is_in, planted, "{from}..{to}");
        let comments: Vec<&str> = past.profile.comments().map(Name::as_str).collect();
        assert!(comments.contains(&format!("plimsoll.past_profiles={profiles}").as_str()));
    }
}

#[test]
fn names_of_process_and_node_are_labels_of_each_sample() {
    let (mut writer, mut segment) = (Writer::default(), SEGMENT_BEGIN.to_vec());
    writer.append(7, &"python3 (7)".into(), &ten(0, "a"), &mut segment).unwrap();
    let past = past(PastQuery { node: "n1".into(), ..all() }, &[segment]);
    let labels = past.profile.samples().next().unwrap().labels.clone();
    assert_eq!((labels.node.as_str(), labels.process.as_str()), ("n1", "python3 (7)"));
}

#[test]
fn a_segment_of_another_version_is_counted_and_not_read() {
    let mut later = segment(&[ten(0, "a")]);
    later[7] = 2;
    assert_eq!(heads(&later), None);
    let past = past(all(), &[later, segment(&[ten(0, "b")])]);
    assert_eq!((past.profiles, past.unread_segments), (1, 1));
}

#[test]
fn a_second_record_of_the_same_stacks_takes_a_few_bytes() {
    let (one, two) = (segment(&[ten(0, "a")]).len(), segment(&[ten(0, "a"), ten(10, "a")]).len());
    assert!(two - one < 40, "{one} {two}");
}

#[test]
fn a_profile_of_something_else_is_refused() {
    let (cpu, mut segment) = (Profile::new(ValueType::cpu(), 1), Vec::new());
    let refused = Writer::default().append(1, &UNNAMED.into(), &cpu, &mut segment);
    assert_eq!((refused, segment.len()), (Err(WriterError::OtherType), 0));
}

#[test]
fn a_result_that_is_too_large_keeps_its_heaviest_stacks() {
    let mut large = Profile::new(ValueType::wall(), 1);
    for n in 0..2_000_u64 {
        let name = format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        large.add(stack(&[&name]), crate::SampleLabels::default(), 2_000 - n);
    }
    let bytes = encode_within(&large, 20_000).unwrap();
    assert!(bytes.len() <= 20_000);
    let less = crate::pprof::decode(&bytes).unwrap();
    assert_eq!(less.value(), large.value());
    assert!(less.values(None).contains_key(&stack(&["0"])), "the heaviest is kept");
    assert!(less.comments().any(|of| of.as_str().starts_with("plimsoll.truncated=1")));
}
