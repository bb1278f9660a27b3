//! A range of the past as one profile: counts by the numbers of stacks and labels, which become
//! texts once at the end of each segment.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use plimsoll_schemas::time::Wall;

use super::limits::{FRAMES_MAX, LABELS_MAX, RANGE_SECONDS_MAX, STACKS_MAX, STRINGS_MAX};
use super::record::{Fields, RecordHead, Records};
use crate::labels::{SampleLabels, ThreadState};
use crate::limits::FRAMES_MAX as STACK_FRAMES_MAX;
use crate::merge::merge;
use crate::name::Name;
use crate::pprof::{PprofError, encode};
use crate::profile::{Profile, ValueType};
use crate::stack::{Frame, Stack};

const SECOND: u64 = 1_000_000_000;

/// What to add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastQuery {
    /// Its first instant.
    pub from: Wall,
    /// Its end, which is excluded; at most 31 days later.
    pub to: Wall,
    /// One process; all without it.
    pub pid: Option<u32>,
    /// Label of samples that have none.
    pub node: Name,
}

/// A range of the past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// All of it, with comments that state what it is made of.
    pub profile: Profile,
    /// Profiles that were added up.
    pub profiles: u64,
    /// Seconds of the range in which there is a profile.
    pub covered_seconds: u64,
    /// Segments that are damaged, or of another version.
    pub unread_segments: u64,
}

/// Adds up the records of a range, segment by segment.
#[derive(Debug)]
pub struct Sum {
    query: PastQuery,
    /// `None` while nothing was added.
    profile: Option<Profile>,
    profiles: u64,
    unread_segments: u64,
    /// Whether each second of the range is covered.
    seconds: Vec<bool>,
}

impl Sum {
    /// Of nothing yet. A longer range is cut to its last 31 days.
    #[must_use]
    pub fn new(mut query: PastQuery) -> Self {
        query.from = query.from.max(Wall(query.to.0.saturating_sub(RANGE_SECONDS_MAX * SECOND)));
        let seconds = query.to.0.saturating_sub(query.from.0).div_ceil(SECOND);
        Self {
            query,
            profile: None,
            profiles: 0,
            unread_segments: 0,
            seconds: vec![false; usize::try_from(seconds).unwrap_or(0)],
        }
    }

    /// Adds the records of a segment whose middle is in the range. One whose counts are too large
    /// for a profile counts as unread.
    pub fn add(&mut self, segment: &[u8]) {
        let Some(mut records) = Records::of(segment) else {
            self.unread_segments += 1;
            return;
        };
        let (mut tables, mut parts) = (Tables::default(), BTreeMap::<u64, Part>::new());
        let read = records.by_ref().try_for_each(|record| {
            let mut fields = Fields(record);
            let head = fields.head()?;
            tables.read(&mut fields)?;
            if self.is_wanted(&head) {
                parts.entry(head.period).or_default().add(&head, &mut fields)?;
                self.profiles += 1;
                self.cover(&head);
            }
            Some(())
        });
        self.unread_segments += u64::from(read.is_none() || records.is_torn());

        for (period, part) in parts {
            let part = part.profile(period, &tables, &self.query.node);
            self.profile = Some(match &self.profile {
                None => part,
                Some(before) => match merge(&[before, &part]) {
                    Ok(both) => both,
                    // What was found before is worth more than an error.
                    Err(_) => {
                        self.unread_segments += 1;
                        before.clone()
                    }
                },
            });
        }
    }

    fn is_wanted(&self, head: &RecordHead) -> bool {
        let PastQuery { from, to, pid, .. } = &self.query;
        (*from..*to).contains(&head.middle()) && pid.is_none_or(|pid| pid == head.pid)
    }

    fn cover(&mut self, head: &RecordHead) {
        let second = |at: Wall| usize::try_from(at.0.saturating_sub(self.query.from.0) / SECOND);
        let (Ok(first), Ok(end)) = (second(head.from), second(head.to())) else { return };
        let end = end.min(self.seconds.len());
        self.seconds[first.min(end)..end].fill(true);
    }

    /// All that was added.
    #[must_use]
    pub fn finish(self) -> Past {
        let Self { query, profile, profiles, unread_segments, seconds } = self;
        let mut profile = profile.unwrap_or_else(|| Profile::new(ValueType::wall(), 1));
        let covered_seconds = seconds.iter().filter(|is_covered| **is_covered).count() as u64;
        for comment in [
            format!("plimsoll.past={}..{}", query.from.0 / SECOND, query.to.0 / SECOND),
            format!("plimsoll.past_profiles={profiles}"),
            format!("plimsoll.past_seconds={covered_seconds} of {}", seconds.len()),
        ] {
            profile.add_comment(comment.into());
        }
        Past { profile, profiles, covered_seconds, unread_segments }
    }
}

/// A profile as a pprof file of at most `bytes_max` bytes: the lightest stacks beyond them are
/// truncated, which a comment counts.
///
/// # Errors
/// When it cannot be written at all.
pub fn encode_within(profile: &Profile, bytes_max: usize) -> Result<Vec<u8>, PprofError> {
    let mut heaviest: Vec<_> = profile.samples().collect();
    heaviest.sort_by_key(|sample| Reverse(sample.count));
    let (mut kept, mut bytes) = (heaviest.len(), encode(profile)?);
    while bytes.len() > bytes_max && kept > 0 {
        kept /= 2;
        let mut less = Profile::new(profile.value_type().clone(), profile.period());
        (less.started_at, less.duration_ns) = (profile.started_at, profile.duration_ns);
        profile.comments().cloned().for_each(|comment| less.add_comment(comment));
        less.add_comment(format!("plimsoll.truncated={}", heaviest.len() - kept).into());
        for (place, sample) in heaviest.iter().enumerate() {
            let stack = if place < kept { sample.stack.clone() } else { Stack::truncated() };
            less.add(stack, sample.labels.clone(), sample.count);
        }
        bytes = encode(&less)?;
    }
    Ok(bytes)
}

/// Records of one segment and period.
#[derive(Default)]
struct Part {
    started_at: Option<Wall>,
    duration_ns: u64,
    /// By the numbers of labels and stack.
    counts: HashMap<(u32, u32), u64>,
}

impl Part {
    fn add(&mut self, head: &RecordHead, fields: &mut Fields<'_>) -> Option<()> {
        self.started_at = Some(self.started_at.map_or(head.from, |at| at.min(head.from)));
        self.duration_ns = self.duration_ns.saturating_add(head.duration_ns);
        for _ in 0..fields.number()? {
            let key = (fields.id()?, fields.id()?);
            let count = self.counts.entry(key).or_default();
            *count = count.saturating_add(fields.number()?);
        }
        Some(())
    }

    fn profile(self, period: u64, tables: &Tables<'_>, node: &Name) -> Profile {
        let mut profile = Profile::new(ValueType::wall(), period);
        profile.started_at = self.started_at.unwrap_or_default();
        profile.duration_ns = self.duration_ns;
        let mut heaviest: Vec<_> = self.counts.into_iter().collect();
        heaviest.sort_by_key(|(key, count)| (Reverse(*count), *key));
        // Each frame once: the profile shares it.
        let mut frames = HashMap::new();
        for ((labels, stack), count) in heaviest {
            let stack = tables.stack(stack, &mut frames);
            profile.add(stack, tables.labels(labels, node), count);
        }
        profile
    }
}

/// The tables of a segment up to some record. Texts are read when a stack needs them.
#[derive(Default)]
struct Tables<'a> {
    strings: Vec<&'a [u8]>,
    frames: Vec<[u32; 3]>,
    stacks: Vec<[u32; 2]>,
    labels: Vec<[u32; 5]>,
}

impl<'a> Tables<'a> {
    /// What a record adds to them; `None` if it is damaged.
    fn read(&mut self, fields: &mut Fields<'a>) -> Option<()> {
        for _ in 0..fields.number()? {
            self.strings.push(fields.text().filter(|_| self.strings.len() < STRINGS_MAX)?);
        }
        read_entries(fields, &mut self.frames, FRAMES_MAX)?;
        read_entries(fields, &mut self.stacks, STACKS_MAX)?;
        read_entries(fields, &mut self.labels, LABELS_MAX)
    }

    fn name(&self, number: u32) -> Name {
        let text = self.strings.get(number as usize).copied().unwrap_or_default();
        Name::new(&String::from_utf8_lossy(text))
    }

    /// From its leaf outwards. One that a hostile file makes endless ends at the bound of a stack.
    fn stack(&self, number: u32, frames: &mut HashMap<u32, Arc<Frame>>) -> Stack {
        let mut leaf_first = Vec::new();
        let mut next = Some(number);
        while let Some(&[outer, frame]) = next.and_then(|number| self.stacks.get(number as usize)) {
            leaf_first.push(frames.entry(frame).or_insert_with(|| self.frame(frame)).clone());
            next = outer.checked_sub(1).filter(|_| leaf_first.len() <= STACK_FRAMES_MAX);
        }
        leaf_first.reverse();
        Stack::new(leaf_first)
    }

    fn frame(&self, number: u32) -> Arc<Frame> {
        let [function, file, line] =
            self.frames.get(number as usize).copied().unwrap_or([u32::MAX, u32::MAX, 0]);
        Arc::new(Frame { function: self.name(function), file: self.name(file), line })
    }

    fn labels(&self, number: u32, node: &Name) -> SampleLabels {
        let Some(&[thread, state, of_node, rank, process]) = self.labels.get(number as usize)
        else {
            return SampleLabels { node: node.clone(), ..SampleLabels::default() };
        };
        let [thread, of_node, rank, process] =
            [thread, of_node, rank, process].map(|number| self.name(number));
        SampleLabels {
            thread,
            state: state.checked_sub(1).and_then(|n| ThreadState::ALL.get(n as usize).copied()),
            node: if of_node.as_str().is_empty() { node.clone() } else { of_node },
            rank,
            process,
        }
    }
}

fn read_entries<const N: usize>(
    fields: &mut Fields<'_>,
    table: &mut Vec<[u32; N]>,
    max: usize,
) -> Option<()> {
    for _ in 0..fields.number()? {
        let mut entry = [0; N];
        for number in &mut entry {
            *number = fields.id()?;
        }
        table.push(entry);
        if table.len() > max {
            return None;
        }
    }
    Some(())
}
