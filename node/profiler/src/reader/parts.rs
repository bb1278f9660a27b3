//! What is read of a code object, and where it is.

use super::text::TextSpan;
use crate::layout::{BYTES_BEHIND_LENGTH, Instructions, LENGTH, Layout};
use crate::limits::LINE_TABLE_BYTES_MAX;
use crate::memory::{Address, Memory, ReadError, Span, address, word};

/// The parts of a code object that stay the same while it lives; counters and caches lie in
/// between.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) name: TextSpan,
    pub(super) file: TextSpan,
    /// How many units it has, its first line and where its objects are; its name, file and table
    /// of lines.
    pub(super) spans: [Span; 5],
}

impl Parts {
    /// Where the parts of the object at `at` are; `None` when its names are no strings.
    pub(super) fn find(
        memory: &impl Memory,
        layout: &Layout,
        at: Address,
    ) -> Result<Option<Self>, ReadError> {
        let places = layout.code;
        let fields = memory.read_span(Span { start: at, bytes: places.lines + 8 })?;
        let name = TextSpan::of(memory, layout, address(&fields, places.name))?;
        let file = TextSpan::of(memory, layout, address(&fields, places.file))?;
        let (Some(name), Some(file)) = (name, file) else { return Ok(None) };

        let start = address(&fields, places.lines).plus(LENGTH);
        let length = memory.read_address(start)?.0;
        // A table that is too long is left out: its instructions have no line.
        let length = usize::try_from(length).ok().filter(|bytes| *bytes <= LINE_TABLE_BYTES_MAX);
        let table = Span { start, bytes: BYTES_BEHIND_LENGTH + length.unwrap_or(0) };

        let first = first_field(layout);
        let objects = Span { start: at.plus(first), bytes: places.lines + 8 - first };
        let object = match layout.instructions {
            Instructions::Inside(_) => at,
            Instructions::Bytes(field) => address(&fields, field),
        };
        let units = Span { start: object.plus(LENGTH), bytes: 8 };
        let spans = [units, objects, name.span, file.span, table];
        Ok(Some(Self { name, file, spans }))
    }

    pub(super) fn split<'a>(&self, bytes: &'a [u8]) -> [&'a [u8]; 5] {
        let mut rest = bytes;
        self.spans.map(|span| {
            let (part, behind) = rest.split_at(span.bytes.min(rest.len()));
            rest = behind;
            part
        })
    }

    /// Whether `bytes` lead to these parts: otherwise they were found in another object.
    pub(super) fn are_of(&self, layout: &Layout, bytes: &[u8]) -> bool {
        let [_, objects, _, _, table] = self.split(bytes);
        let first = first_field(layout);
        let leads =
            |field: usize, part: Span| address(objects, field - first).plus(LENGTH) == part.start;

        let length = usize::try_from(word(table, 0)).unwrap_or(usize::MAX);
        let is_table = BYTES_BEHIND_LENGTH.saturating_add(length) == self.spans[4].bytes;
        let has_instructions = match layout.instructions {
            Instructions::Inside(_) => true,
            Instructions::Bytes(field) => leads(field, self.spans[0]),
        };
        leads(layout.code.name, self.name.span)
            && leads(layout.code.file, self.file.span)
            && leads(layout.code.lines, self.spans[4])
            && has_instructions
            && (is_table || length > LINE_TABLE_BYTES_MAX)
    }
}

/// Where the fields start that lead to the parts; the first line stands right before them.
pub(super) fn first_field(layout: &Layout) -> usize {
    let object = match layout.instructions {
        Instructions::Inside(_) => layout.code.file,
        Instructions::Bytes(field) => field,
    };
    object.min(layout.first_line)
}
