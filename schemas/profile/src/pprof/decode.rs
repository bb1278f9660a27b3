//! Reads a pprof file of any tool, as hostile: its entries are counted before they are decoded, and
//! samples are added one by one and never held together.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use flate2::read::GzDecoder;
use plimsoll_schemas::time::Wall;
use prost::{DecodeError, Message, decode_length_delimiter};

use super::error::{PprofError, within};
use super::messages::{
    Function, Label, Location, NODE, PROCESS, ProfileMessage, RANK, STATE, SampleMessage, THREAD,
};
use crate::labels::{SampleLabels, ThreadState};
use crate::limits::{
    COMMENT_ENTRIES_MAX, DECODED_BYTES_MAX, ENCODED_BYTES_MAX, FRAMES_MAX, LINES_MAX,
    LOCATIONS_BYTES_MAX, LOCATIONS_MAX, MESSAGE_BYTES_MAX, NAME_BYTES_MAX, SAMPLE_TYPES_MAX,
    SAMPLES_MAX, STRINGS_MAX,
};
use crate::name::Name;
use crate::profile::{Profile, ValueType};
use crate::stack::{Frame, Stack};

/// The bytes that gzip starts with.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The field that has samples.
const SAMPLE: usize = 2;
/// Fields with entries: their number, what they are, how many are read, and how many bytes of all:
/// two bytes of an entry become up to 72 in memory.
const ENTRIES: [(usize, &str, usize, usize); 6] = [
    (1, "sample types", SAMPLE_TYPES_MAX, MESSAGE_BYTES_MAX),
    (SAMPLE, "samples", SAMPLES_MAX, DECODED_BYTES_MAX),
    (4, "locations", LOCATIONS_MAX, LOCATIONS_BYTES_MAX),
    (5, "functions", LOCATIONS_MAX, DECODED_BYTES_MAX),
    (6, "strings", STRINGS_MAX, DECODED_BYTES_MAX),
    (13, "comments", COMMENT_ENTRIES_MAX, MESSAGE_BYTES_MAX),
];
/// Fields with one number each: times, period, preferred type.
const NUMBERS: [usize; 4] = [9, 10, 12, 14];

/// A profile of the file's preferred value, compressed or not. Its counts are the file's if
/// each value is a multiple of the period; else a count is one unit.
///
/// # Errors
/// When the file is malformed or too large.
pub fn decode(bytes: &[u8]) -> Result<Profile, PprofError> {
    within("bytes", bytes.len(), ENCODED_BYTES_MAX)?;
    let inflated;
    let file = if bytes.starts_with(&GZIP) {
        inflated = inflate(bytes)?;
        &inflated
    } else {
        bytes
    };

    let head = ProfileMessage::decode(&*without_samples(file)?)?;
    let tables = Tables::new(&head)?;
    let value_at = tables.preferred(&head)?;
    let value_type = head.sample_type[value_at];
    let (kind, unit) = (tables.name(value_type.kind)?, tables.name(value_type.unit)?);

    let mut profile = Profile::new(ValueType { kind, unit }, 1);
    for field in Fields(file) {
        let Field { number, body, .. } = field?;
        if number == SAMPLE {
            within("bytes of one sample", body.len(), MESSAGE_BYTES_MAX)?;
            let sample = SampleMessage::decode(body)?;
            tables.add(&mut profile, &sample, value_at, head.sample_type.len())?;
        }
    }

    profile = profile.in_periods(unsigned(head.period));
    profile.started_at = Wall(unsigned(head.time_nanos));
    profile.duration_ns = unsigned(head.duration_nanos);
    for comment in head.comment {
        profile.add_comment(tables.name(comment)?);
    }
    Ok(profile)
}

fn inflate(bytes: &[u8]) -> Result<Vec<u8>, PprofError> {
    let mut message = Vec::new();
    // One byte more shows that there are more.
    let mut gzip = GzDecoder::new(bytes).take(DECODED_BYTES_MAX as u64 + 1);
    gzip.read_to_end(&mut message).map_err(|error| PprofError::Gzip(error.to_string()))?;
    within("bytes once inflated", message.len(), DECODED_BYTES_MAX)?;
    Ok(message)
}

/// The fields of a file that are read, but for samples, if they are not too many.
fn without_samples(file: &[u8]) -> Result<Vec<u8>, PprofError> {
    let mut counted = [(0, 0); ENTRIES.len()];
    let mut head = Vec::new();
    for field in Fields(file) {
        let Field { number, whole, body } = field?;
        let entry = ENTRIES.iter().zip(&mut counted).find(|((of, ..), _)| *of == number);
        if entry.is_none() && !NUMBERS.contains(&number) {
            continue;
        }
        if let Some(((_, what, entries_max, bytes_max), (entries, bytes))) = entry {
            (*entries, *bytes) = (*entries + 1, *bytes + body.len());
            within(what, *entries, *entries_max)?;
            within("bytes in a table", *bytes, *bytes_max)?;
        }
        if number != SAMPLE {
            head.extend_from_slice(whole);
        }
    }
    Ok(head)
}

/// What samples refer to.
struct Tables {
    names: Vec<Name>,
    /// The frames of each location, leaf first.
    locations: BTreeMap<u64, Vec<Arc<Frame>>>,
}

impl Tables {
    fn new(head: &ProfileMessage) -> Result<Self, PprofError> {
        let lines = head.location.iter().map(|location| location.line.len()).sum();
        within("lines", lines, LINES_MAX)?;
        if head.string_table.first().is_none_or(|first| !first.is_empty()) {
            return Err(malformed("the string table does not start with an empty text"));
        }

        // One byte more than a name has shows that it is longer.
        let start = |text: &Vec<u8>| text.len().min(4 * NAME_BYTES_MAX);
        let texts = head.string_table.iter();
        let names = texts.map(|text| Name::new(&String::from_utf8_lossy(&text[..start(text)])));
        let mut tables = Self { names: names.collect(), locations: BTreeMap::new() };

        let mut functions = BTreeMap::new();
        for function in &head.function {
            let known = functions.insert(function.id, *function);
            check_id("function", function.id, known.is_none())?;
        }
        for location in &head.location {
            let frames = tables.frames(location, &functions)?;
            let known = tables.locations.insert(location.id, frames);
            check_id("location", location.id, known.is_none())?;
        }
        Ok(tables)
    }

    fn frames(
        &self,
        location: &Location,
        functions: &BTreeMap<u64, Function>,
    ) -> Result<Vec<Arc<Frame>>, PprofError> {
        if location.line.is_empty() {
            return Ok(vec![Frame::marker(&format!("0x{:x}", location.address))]);
        }
        // One more than a stack keeps shows that it was longer.
        let lines = location.line.iter().take(FRAMES_MAX + 1);
        let frames = lines.map(|line| {
            let id = line.function_id;
            let function = functions.get(&id).ok_or_else(|| missing("function", id))?;
            let name = if function.name == 0 { function.system_name } else { function.name };
            let (function, file) = (self.name(name)?, self.name(function.filename)?);
            let line = u32::try_from(line.line.max(0)).unwrap_or(u32::MAX);
            Ok(Arc::new(Frame { function, file, line }))
        });
        frames.collect()
    }

    fn name(&self, index: i64) -> Result<Name, PprofError> {
        let name = usize::try_from(index).ok().and_then(|at| self.names.get(at));
        name.cloned().ok_or_else(|| {
            malformed(format!("text {index} is not in the string table of {}", self.names.len()))
        })
    }

    /// Which value of each sample is read: the one that the file prefers, or the last as in pprof.
    fn preferred(&self, head: &ProfileMessage) -> Result<usize, PprofError> {
        let last = head.sample_type.len().checked_sub(1);
        let last = last.ok_or_else(|| malformed("no sample type"))?;
        let wanted = self.name(head.default_sample_type)?;
        // Of two that have the name, ours is the last.
        let is_wanted =
            |kind| wanted.as_str() != "" && self.name(kind).is_ok_and(|of| of == wanted);
        Ok(head.sample_type.iter().rposition(|of| is_wanted(of.kind)).unwrap_or(last))
    }

    fn add(
        &self,
        profile: &mut Profile,
        sample: &SampleMessage,
        value_at: usize,
        types: usize,
    ) -> Result<(), PprofError> {
        let values = sample.value.len();
        if values != types {
            return Err(malformed(format!("a sample has {values} values of {types} sample types")));
        }
        let value = sample.value[value_at];
        let value = u64::try_from(value).map_err(|_| PprofError::Negative(value))?;
        if i64::try_from(profile.value() + value).is_err() {
            return Err(malformed("the sum of all values exceeds 2^63"));
        }

        let mut frames = Vec::new();
        for id in &sample.location_id {
            let found = self.locations.get(id).ok_or_else(|| missing("location", *id))?;
            frames.extend_from_slice(found);
            if frames.len() > FRAMES_MAX {
                break;
            }
        }
        frames.reverse();
        profile.add(Stack::new(frames), self.labels(&sample.label)?, value);
        Ok(())
    }

    /// Our labels among those of a sample.
    fn labels(&self, all: &[Label]) -> Result<SampleLabels, PprofError> {
        let mut labels = SampleLabels::default();
        for label in all {
            let (key, text) = (self.name(label.key)?, self.name(label.str)?);
            match key.as_str() {
                THREAD => labels.thread = text,
                STATE => labels.state = ThreadState::parse(text.as_str()),
                NODE => labels.node = text,
                RANK => labels.rank = text,
                PROCESS => labels.process = text,
                _ => {}
            }
        }
        Ok(labels)
    }
}

/// The outermost fields of a file, one by one, without a copy of any.
struct Fields<'a>(&'a [u8]);

struct Field<'a> {
    number: usize,
    /// With its key.
    whole: &'a [u8],
    /// Empty if it is a number.
    body: &'a [u8],
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<Field<'a>> {
        let start = self.0;
        let key = self.number()?;
        let bytes = match key & 7 {
            0 => self.number().map(|_| 0)?,
            1 => 8,
            2 => self.number()?,
            5 => 4,
            _ => return None,
        };
        let (body, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(Field { number: key >> 3, whole: &start[..start.len() - rest.len()], body })
    }

    fn number(&mut self) -> Option<usize> {
        decode_length_delimiter(&mut self.0).ok()
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, PprofError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or_else(|| malformed("the file is malformed")))
    }
}

impl From<DecodeError> for PprofError {
    fn from(_: DecodeError) -> Self {
        malformed("an entry of the file is malformed")
    }
}

fn malformed(text: impl Into<String>) -> PprofError {
    PprofError::Malformed(text.into())
}

fn missing(what: &str, id: u64) -> PprofError {
    malformed(format!("no {what} has the id {id}"))
}

fn check_id(what: &str, id: u64, is_new: bool) -> Result<(), PprofError> {
    match id {
        0 => Err(malformed(format!("a {what} has the id 0"))),
        _ if is_new => Ok(()),
        _ => Err(malformed(format!("two {what}s have the id {id}"))),
    }
}

/// A number that must not be below zero, where a file states none.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
