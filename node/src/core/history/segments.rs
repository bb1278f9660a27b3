//! Which segments there are, which of them a request is answered from, and which are dropped.

use std::ops::Range;
use std::time::Duration;

use plimsoll_schemas::limits::wire::HISTORY_SLOTS_MAX;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::history::HistoryRequest;

use crate::limits::{HISTORY_READ_BYTES, HISTORY_READ_SEGMENTS_MAX};

const SUFFIX: &str = ".segment";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryBounds {
    /// Age of the oldest interval.
    pub age_max: Duration,
    /// Bytes on disk.
    pub bytes_max: u64,
}

/// Ends of the earliest and the latest interval of a segment. A clock that was set back makes those
/// of several segments overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalEnds {
    pub earliest: Wall,
    pub latest: Wall,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Segments are numbered in the order in which they were closed.
    pub number: u64,
    pub ends: IntervalEnds,
    /// Its bytes; not part of its name.
    pub bytes: u64,
}

/// All closed segments, in the order of their numbers.
#[derive(Debug, Default)]
pub struct Segments(Vec<Segment>);

/// What one response is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The part of the requested range that it covers: the newest.
    pub range: Range<Wall>,
    /// Places of the segments to read, newest first. The open one is read beside them.
    pub places: Vec<usize>,
}

impl IntervalEnds {
    /// These, which may be of no interval yet, with one more.
    pub fn with(ends: Option<Self>, end: Wall) -> Self {
        let Self { earliest, latest } = ends.unwrap_or(Self { earliest: end, latest: end });
        Self { earliest: earliest.min(end), latest: latest.max(end) }
    }

    /// Whether an interval between them may be in a range.
    pub fn overlap(&self, range: &Range<Wall>) -> bool {
        self.earliest < range.end && self.latest >= range.start
    }
}

impl Segment {
    pub fn file_name(&self) -> String {
        let IntervalEnds { earliest, latest } = self.ends;
        format!("{:010}-{:020}-{:020}{SUFFIX}", self.number, earliest.0, latest.0)
    }

    /// The segment that a file's name states; `None` for other files.
    pub fn of_file(name: &str, bytes: u64) -> Option<Self> {
        let mut parts = name.strip_suffix(SUFFIX)?.split('-').map(|part| part.parse().ok());
        let (number, earliest, latest) = (parts.next()??, parts.next()??, parts.next()??);
        let ends = IntervalEnds { earliest: Wall(earliest), latest: Wall(latest) };
        let segment = Self { number, ends, bytes };
        // A name that is written in another way would be another file when it is opened by its
        // segment.
        (segment.file_name() == name).then_some(segment)
    }
}

impl Segments {
    /// From what a directory lists.
    pub fn new(mut segments: Vec<Segment>) -> Self {
        segments.sort_by_key(|segment| segment.number);
        Self(segments)
    }

    pub fn get(&self, place: usize) -> Option<&Segment> {
        self.0.get(place)
    }

    pub fn next_number(&self) -> u64 {
        self.0.last().map_or(1, |last| last.number.saturating_add(1))
    }

    /// Adds the segment that was just closed.
    pub fn push(&mut self, segment: Segment) {
        self.0.push(segment);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn bytes(&self) -> u64 {
        self.0.iter().fold(0, |sum, segment| sum.saturating_add(segment.bytes))
    }

    /// End of the earliest interval.
    pub fn earliest(&self) -> Option<Wall> {
        self.0.iter().map(|segment| segment.ends.earliest).min()
    }

    /// Removes and returns the segments that are too old, and the oldest beyond `bytes_max`.
    pub fn expire(&mut self, now: Wall, bounds: HistoryBounds) -> Vec<Segment> {
        let HistoryBounds { age_max, bytes_max } = bounds;
        let is_old = |segment: &Segment| now.since(segment.ends.latest) > age_max;
        let mut gone: Vec<Segment> = self.0.extract_if(.., |segment| is_old(segment)).collect();
        let mut bytes = self.bytes();
        // The lowest numbers first: a file that was closed last stays, also if its clock was set
        // back.
        let beyond = self.0.iter().take_while(|segment| {
            let is_beyond = bytes > bytes_max;
            bytes = bytes.saturating_sub(segment.bytes);
            is_beyond
        });
        let beyond = beyond.count();
        gone.extend(self.0.drain(..beyond));
        gone
    }

    /// What to read for the newest part of a request that one response may cover, given the ends of
    /// the intervals in the open segment. `None` when more segments reach its last slot than may be
    /// read.
    pub fn plan(&self, request: &HistoryRequest, open: Option<IntervalEnds>) -> Option<Plan> {
        let HistoryRequest { range, step_ns, .. } = request;
        let slots = step_ns.saturating_mul(HISTORY_SLOTS_MAX as u64);
        let earliest = Wall(range.end.0.saturating_sub(slots)).max(range.start);
        let wanted = earliest..range.end;
        let mut places: Vec<usize> =
            (0..self.0.len()).filter(|place| self.0[*place].ends.overlap(&wanted)).collect();
        // The newest first, so that each response covers the end of what is left of the range.
        places.sort_by_key(|place| std::cmp::Reverse(self.0[*place].ends.latest));

        // The open segment is read beside them, and has the bytes of a closed one at most.
        let is_open_read = open.is_some_and(|ends| ends.overlap(&wanted));
        let mut bytes = if is_open_read { HISTORY_READ_BYTES / 2 } else { 0 };

        for taken in 0..places.len() {
            let segment = &self.0[places[taken]];
            // Everything that ended since then is in the segments taken so far.
            let from = after(segment.ends.latest, *step_ns).max(earliest);
            let is_full = bytes >= HISTORY_READ_BYTES || taken == HISTORY_READ_SEGMENTS_MAX;

            if is_full && from < range.end {
                places.truncate(taken);
                return Some(Plan { range: from..range.end, places });
            }

            if taken == HISTORY_READ_SEGMENTS_MAX {
                return None;
            }
            bytes = bytes.saturating_add(segment.bytes);
        }

        Some(Plan { range: earliest..range.end, places })
    }
}

/// The begin of the first slot in which no interval ended that ended by then.
fn after(at: Wall, step_ns: u64) -> Wall {
    Wall((at.0 / step_ns).saturating_add(1).saturating_mul(step_ns))
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::wire::history::HistoryOf;
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn segment(number: u64, first: u64, last: u64) -> Segment {
        let ends = IntervalEnds { earliest: Wall(first * SECOND), latest: Wall(last * SECOND) };
        Segment { number, ends, bytes: HISTORY_READ_BYTES / 2 }
    }

    fn request(from: u64, to: u64, step: u64) -> HistoryRequest {
        HistoryRequest {
            number: 1,
            asker: "a".to_owned(),
            of: HistoryOf::Hardware { sensor: None },
            range: Wall(from * SECOND)..Wall(to * SECOND),
            step_ns: step * SECOND,
        }
    }

    #[test]
    fn a_name_states_a_segment_and_other_files_are_none() {
        let segment = segment(3, 5, 900);
        let name = segment.file_name();
        assert_eq!(Segment::of_file(&name, segment.bytes), Some(segment));
        for other in ["open.segment", "lock", "1-2-3.segment", &name[1..], "x", ".segment"] {
            assert_eq!(Segment::of_file(other, 1), None, "{other}");
        }
    }

    #[test]
    fn the_oldest_segments_go_first_by_age_and_by_bytes() {
        let of = |n: u64| segment(n, n * 100, n * 100 + 99);
        let mut segments = Segments::new((1..=6).rev().map(of).collect());
        let numbers = |gone: Vec<Segment>| gone.iter().map(|s| s.number).collect::<Vec<_>>();
        let now = Wall(1_000 * SECOND);
        let room = 3 * HISTORY_READ_BYTES / 2;
        let of_age = |seconds| Duration::from_secs(seconds);
        let bounds = |age_max, bytes_max| HistoryBounds { age_max, bytes_max };
        assert_eq!(numbers(segments.expire(now, bounds(of_age(750), u64::MAX))), [1]);
        assert_eq!(numbers(segments.expire(now, bounds(Duration::MAX, room))), [2, 3]);
        assert_eq!((segments.len(), segments.next_number()), (3, 7));
        assert_eq!(segments.earliest(), Some(Wall(400 * SECOND)));
    }

    #[test]
    fn small_segments_that_overlap_in_part_are_read_in_turns() {
        // Each reaches back to the begin and ends later than the one before.
        let of = |n: u64| Segment { bytes: 1, ..segment(n, 1, 100 * n) };
        let segments = Segments::new((1..=2 * HISTORY_READ_SEGMENTS_MAX as u64).map(of).collect());
        let mut request = request(0, 4_000, 10);
        request.range.start = Wall(2_000 * SECOND);
        let first = segments.plan(&request, None).unwrap();
        assert_eq!(first.range, Wall(2_000 * SECOND)..request.range.end);
        request.range.start = Wall(0);
        let first = segments.plan(&request, None).unwrap();
        assert_eq!(first.range, Wall(1_610 * SECOND)..request.range.end);
        assert_eq!(first.places.len(), HISTORY_READ_SEGMENTS_MAX);
    }

    #[test]
    fn more_overlapping_segments_than_may_be_read_are_refused() {
        let of = |n: u64| segment(n, 1, 1_000);
        let count = HISTORY_READ_SEGMENTS_MAX as u64;
        let within = Segments::new((1..=count).map(of).collect());
        assert!(within.plan(&request(0, 2_000, 10), None).is_some());
        let beyond = Segments::new((1..=count + 1).map(of).collect());
        assert_eq!(beyond.plan(&request(0, 1_000, 10), None), None);
    }

    proptest! {
        /// Requests that follow each other cover the range, and each reads every segment that has
        /// something of its part.
        #[test]
        fn plans_cover_a_range_and_leave_nothing_out(
            spans in prop::collection::vec((0_u64..5_000, 0_u64..1_000), 0..8),
            from in 0_u64..5_000, length in 1_u64..3_000, step in 1_u64..20,
        ) {
            let of = |(n, (first, length)): (usize, &(u64, u64))| {
                segment(n as u64 + 1, *first, first + length)
            };
            let segments = Segments::new(spans.iter().enumerate().map(of).collect());
            let mut request = request(from / step * step, (from / step + length) * step, step);
            let begin = request.range.start;
            let mut turns = 0;
            while request.range.start < request.range.end {
                let plan = segments.plan(&request, None).unwrap();
                prop_assert_eq!(plan.range.end, request.range.end);
                prop_assert!(plan.range.start < plan.range.end, "it makes progress");
                prop_assert!(plan.range.start >= begin);
                prop_assert_eq!(plan.range.start.0 % request.step_ns, 0);
                for place in 0..segments.len() {
                    let ends = segments.get(place).unwrap().ends;
                    let overlaps =
                        ends.earliest < plan.range.end && ends.latest >= plan.range.start;
                    prop_assert!(!overlaps || plan.places.contains(&place), "{plan:?} {place}");
                }
                request.range.end = plan.range.start;
                turns += 1;
                prop_assert!(turns < 2_000);
            }
        }
    }
}
