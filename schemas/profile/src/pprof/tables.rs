//! What the samples of a file refer to: texts, functions and locations, with bounds on each.

use std::collections::BTreeMap;
use std::sync::Arc;

use prost::Message;

use super::fields::{DecodeError, Field, Fields};
use super::messages::{Function, Location, ValueTypeMessage};
use crate::limits::{
    COMMENTS_MAX, FRAMES_MAX, LINES_MAX, LOCATIONS_MAX, MESSAGE_BYTES_MAX, NAME_BYTES_MAX,
    SAMPLE_TYPES_MAX, SAMPLES_MAX, STRINGS_MAX,
};
use crate::name::Name;
use crate::stack::Frame;

/// Bytes of a text that are looked at: a name, or a comment whose value is one.
const TEXT_BYTES_MAX: usize = 4 * NAME_BYTES_MAX;
/// Comments that are read: ours, and those that state the facts.
const COMMENTS_READ_MAX: usize = 2 * COMMENTS_MAX;

/// A file but for its samples.
#[derive(Default)]
pub(super) struct Tables<'a> {
    pub(super) sample_types: Vec<ValueTypeMessage>,
    pub(super) comments: Vec<i64>,
    pub(super) time_nanos: i64,
    pub(super) duration_nanos: i64,
    pub(super) period: i64,
    pub(super) default_sample_type: i64,
    samples: usize,
    texts: Vec<&'a [u8]>,
    names: BTreeMap<i64, Name>,
    functions: BTreeMap<u64, Function>,
    unresolved: Vec<Location>,
    lines: usize,
    /// The frames of each location, leaf first.
    locations: BTreeMap<u64, Vec<Arc<Frame>>>,
}

impl<'a> Tables<'a> {
    /// The entries of a file may be in any order, so samples are read in a second pass.
    pub(super) fn read(message: &'a [u8]) -> Result<Self, DecodeError> {
        let mut tables = Self::default();
        for field in Fields::new(message) {
            tables.on_field(field?)?;
        }
        if tables.texts.first().is_none_or(|first| !first.is_empty()) {
            let text = "the string table does not start with an empty text";
            return Err(DecodeError::Malformed(text.to_owned()));
        }
        for location in std::mem::take(&mut tables.unresolved) {
            tables.resolve(&location)?;
        }
        Ok(tables)
    }

    fn on_field(&mut self, field: (u64, Field<'a>)) -> Result<(), DecodeError> {
        match field {
            (1, Field::Bytes(bytes)) => {
                self.sample_types.push(message("a sample type", bytes)?);
                within("sample types", self.sample_types.len(), SAMPLE_TYPES_MAX)
            }
            (2, Field::Bytes(_)) => {
                self.samples += 1;
                within("samples", self.samples, SAMPLES_MAX)
            }
            (4, Field::Bytes(bytes)) => {
                let location: Location = message("a location", bytes)?;
                self.lines += location.line.len();
                self.unresolved.push(location);
                within("lines", self.lines, LINES_MAX)?;
                within("locations", self.unresolved.len(), LOCATIONS_MAX)
            }
            (5, Field::Bytes(bytes)) => self.on_function(message("a function", bytes)?),
            (6, Field::Bytes(text)) => {
                self.texts.push(text);
                within("strings", self.texts.len(), STRINGS_MAX)
            }
            (13, Field::Bytes(packed)) => self.on_comments(packed),
            (number, Field::Number(value)) => {
                self.on_number(number, value.cast_signed());
                Ok(())
            }
            // Mappings, and fields of a later version.
            _ => Ok(()),
        }
    }

    fn on_function(&mut self, function: Function) -> Result<(), DecodeError> {
        let id = function.id;
        let known = self.functions.insert(id, function);
        new_id("function", id, known.is_none())?;
        within("functions", self.functions.len(), LOCATIONS_MAX)
    }

    fn on_comments(&mut self, packed: &[u8]) -> Result<(), DecodeError> {
        let mut numbers = Fields::new(packed);
        while !numbers.is_empty() {
            let index = numbers.number().ok_or_else(|| DecodeError::malformed("a comment"))?;
            self.on_number(13, index.cast_signed());
        }
        Ok(())
    }

    fn on_number(&mut self, number: u64, value: i64) {
        match number {
            9 => self.time_nanos = value,
            10 => self.duration_nanos = value,
            12 => self.period = value,
            13 if self.comments.len() < COMMENTS_READ_MAX => self.comments.push(value),
            14 => self.default_sample_type = value,
            _ => {}
        }
    }

    fn resolve(&mut self, location: &Location) -> Result<(), DecodeError> {
        let mut frames = Vec::new();
        // One more than a stack keeps shows that it was longer.
        for line in location.line.iter().take(FRAMES_MAX + 1) {
            let id = line.function_id;
            let function = *self.functions.get(&id).ok_or_else(|| missing("function", id))?;
            let name = if function.name == 0 { function.system_name } else { function.name };
            let (function, file) = (self.name(name)?, self.name(function.filename)?);
            let line = u32::try_from(line.line.max(0)).unwrap_or(u32::MAX);
            frames.push(Arc::new(Frame { function, file, line }));
        }
        if frames.is_empty() {
            frames.push(Frame::marker(&format!("0x{:x}", location.address)));
        }
        let known = self.locations.insert(location.id, frames);
        new_id("location", location.id, known.is_none())
    }

    /// Leaf first.
    pub(super) fn location(&self, id: u64) -> Result<&[Arc<Frame>], DecodeError> {
        self.locations.get(&id).map(Vec::as_slice).ok_or_else(|| missing("location", id))
    }

    /// The start of a text, as far as it can matter.
    pub(super) fn text(&self, index: i64) -> Result<String, DecodeError> {
        let text = usize::try_from(index).ok().and_then(|at| self.texts.get(at));
        let text = text.ok_or_else(|| {
            let len = self.texts.len();
            DecodeError::Malformed(format!("text {index} is not in the string table of {len}"))
        })?;
        Ok(String::from_utf8_lossy(&text[..text.len().min(TEXT_BYTES_MAX)]).into_owned())
    }

    /// A text as a name; the same one is shared.
    pub(super) fn name(&mut self, index: i64) -> Result<Name, DecodeError> {
        if let Some(known) = self.names.get(&index) {
            return Ok(known.clone());
        }
        let name = Name::new(&self.text(index)?);
        self.names.insert(index, name.clone());
        Ok(name)
    }
}

/// One entry of a file.
pub(super) fn message<M: Message + Default>(what: &str, bytes: &[u8]) -> Result<M, DecodeError> {
    within("bytes of one entry", bytes.len(), MESSAGE_BYTES_MAX)?;
    M::decode(bytes).map_err(|_| DecodeError::malformed(what))
}

pub(super) fn within(what: &'static str, n: usize, max: usize) -> Result<(), DecodeError> {
    if n > max { Err(DecodeError::TooLarge { what, max }) } else { Ok(()) }
}

fn missing(what: &str, id: u64) -> DecodeError {
    DecodeError::Malformed(format!("no {what} has the id {id}"))
}

fn new_id(what: &str, id: u64, is_new: bool) -> Result<(), DecodeError> {
    match id {
        0 => Err(DecodeError::Malformed(format!("a {what} has the id 0"))),
        _ if is_new => Ok(()),
        _ => Err(DecodeError::Malformed(format!("two {what}s have the id {id}"))),
    }
}
