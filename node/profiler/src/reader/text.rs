//! Strings of CPython: where one's characters are, and what they are.

use crate::layout::{LENGTH, Layout, STATE_BEHIND_LENGTH};
use crate::limits::NAME_CHARS_MAX;
use crate::memory::{Address, Memory, ReadError, Span, half, word};

const KIND_SHIFT: u32 = 2;
const KIND_MASK: u32 = 7;
const COMPACT: u32 = 1 << 5;
const ASCII: u32 = 1 << 6;

/// A string whose length and form are known, from its field `length` to the last character kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextSpan {
    pub(super) span: Span,
    form: Form,
    /// In bytes, behind the start of the span.
    data: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    chars: u64,
    bytes_per_char: usize,
    state: u32,
}

impl TextSpan {
    /// Reads length and form of the string at `object`; `None` when it is none.
    pub(super) fn of(
        memory: &impl Memory,
        layout: &Layout,
        object: Address,
    ) -> Result<Option<Self>, ReadError> {
        let start = object.plus(LENGTH);
        let bytes = memory.read_span(Span { start, bytes: STATE_BEHIND_LENGTH + 4 })?;
        let Some(form) = form(&bytes) else { return Ok(None) };

        let data = if form.state & ASCII != 0 { layout.ascii_text } else { layout.other_text };
        let data = data.saturating_sub(LENGTH);
        let chars = usize::try_from(form.chars).map_or(NAME_CHARS_MAX, |n| n.min(NAME_CHARS_MAX));
        let span = Span { start, bytes: data + chars * form.bytes_per_char };
        Ok(Some(Self { span, form, data }))
    }

    /// The characters in `bytes`, read from the span; `None` when that is another string now.
    pub(super) fn text(&self, bytes: &[u8]) -> Option<String> {
        if form(bytes)? != self.form {
            return None;
        }
        let data = bytes.get(self.data..)?.chunks_exact(self.form.bytes_per_char);
        let chars = data.map(|unit| {
            let mut code = [0; 4];
            code[..unit.len()].copy_from_slice(unit);
            char::from_u32(u32::from_le_bytes(code)).unwrap_or(char::REPLACEMENT_CHARACTER)
        });
        Some(chars.collect())
    }
}

fn form(bytes: &[u8]) -> Option<Form> {
    let state = half(bytes, STATE_BEHIND_LENGTH) & (KIND_MASK << KIND_SHIFT | COMPACT | ASCII);
    let bytes_per_char = match (state >> KIND_SHIFT) & KIND_MASK {
        1 => 1,
        2 => 2,
        4 => 4,
        _ => return None,
    };
    // Names and files are always compact; what is not keeps its characters elsewhere.
    (state & COMPACT != 0).then(|| Form { chars: word(bytes, 0), bytes_per_char, state })
}
