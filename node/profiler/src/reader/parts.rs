//! What is read of a code object, where it is, and whether two readings show the same one.

use super::text::TextSpan;
use crate::layout::Layout;
use crate::limits::LINE_TABLE_BYTES_MAX;
use crate::memory::{Address, Memory, ReadError, Span, address, half, word};

/// What is read of a code object: some of its fields, its names, its table of lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts {
    fields: Span,
    pub(super) name: TextSpan,
    pub(super) file: TextSpan,
    table: Span,
}

impl Parts {
    /// Where the parts of the object at `at` are; `None` when its names are no strings.
    pub(super) fn find(
        memory: &impl Memory,
        layout: &Layout,
        at: Address,
    ) -> Result<Option<Self>, ReadError> {
        let code = &layout.code;
        let span = Span { start: at, bytes: code.instructions };
        let fields = memory.read_span(span)?;
        let name = TextSpan::of(memory, &layout.text, address(&fields, code.name))?;
        let file = TextSpan::of(memory, &layout.text, address(&fields, code.file))?;
        let (Some(name), Some(file)) = (name, file) else { return Ok(None) };

        let start = address(&fields, code.line_table).plus(code.table_length);
        let length = memory.read_address(start)?.0;
        // A table that is too long is left out: its instructions have no line.
        let length = usize::try_from(length).ok().filter(|bytes| *bytes <= LINE_TABLE_BYTES_MAX);
        let head = code.table_data.saturating_sub(code.table_length);
        let table = Span { start, bytes: head + length.unwrap_or(0) };
        Ok(Some(Self { fields: span, name, file, table }))
    }

    pub(super) fn spans(&self) -> [Span; 4] {
        [self.fields, self.name.span, self.file.span, self.table]
    }

    pub(super) fn bytes(&self) -> usize {
        self.spans().iter().map(|span| span.bytes).sum()
    }

    pub(super) fn split<'a>(&self, bytes: &'a [u8]) -> [&'a [u8]; 4] {
        let mut rest = bytes;
        self.spans().map(|span| {
            let (part, behind) = rest.split_at(span.bytes.min(rest.len()));
            rest = behind;
            part
        })
    }

    /// Whether `bytes` lead to these parts: otherwise they were found in another object.
    pub(super) fn are_of(&self, layout: &Layout, bytes: &[u8]) -> bool {
        let [fields, _, _, table] = self.split(bytes);
        let code = &layout.code;
        let leads = |field: usize, offset: usize, part: Span| {
            address(fields, field).plus(offset) == part.start
        };

        let head = code.table_data.saturating_sub(code.table_length);
        let length = usize::try_from(word(table, 0)).unwrap_or(usize::MAX);
        let is_table = head.saturating_add(length) == self.table.bytes;
        leads(code.name, layout.text.length, self.name.span)
            && leads(code.file, layout.text.length, self.file.span)
            && leads(code.line_table, code.table_length, self.table)
            && (is_table || length > LINE_TABLE_BYTES_MAX)
    }

    /// Whether two readings show the same code object. Counters and caches in it may differ.
    pub(super) fn is_unchanged(&self, layout: &Layout, old: &[u8], new: &[u8]) -> bool {
        let [old_fields, old_name, old_file, old_table] = self.split(old);
        let [fields, name, file, table] = self.split(new);
        let code = &layout.code;
        let words = [code.units, code.name, code.file, code.line_table];
        let data = code.table_data.saturating_sub(code.table_length);

        words.iter().all(|at| word(old_fields, *at) == word(fields, *at))
            && half(old_fields, code.first_line) == half(fields, code.first_line)
            && self.name.is_unchanged(&layout.text, old_name, name)
            && self.file.is_unchanged(&layout.text, old_file, file)
            && word(old_table, 0) == word(table, 0)
            && old_table.get(data..) == table.get(data..)
    }
}
