//! Bytes of Protocol Buffers as fields, without a copy: each length is checked before it is used,
//! groups and unknown fields are skipped, nothing is allocated.
//!
//! The alternative is a tree of generated messages (`opentelemetry-proto`, prost). There an empty
//! message of two bytes takes up to 264 in memory, so a body of 4 MiB takes 528 (DESIGN N25).

use crate::limits::OTLP_DEPTH_MAX;

use super::schema::{FieldKind, Message};

/// What is wrong with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Of which message they should be.
    pub(super) of: &'static str,
    pub(super) what: &'static str,
}

/// A field's value by its wire type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    /// Text, bytes, a message, or numbers one after the other.
    Bytes(&'a [u8]),
    /// A group, which OTLP does not have.
    Group,
}

/// The fields of one message; ends after a fault.
#[derive(Clone)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

/// The fields of a message, of bytes that [`check`] has passed.
pub(super) fn fields(message: &[u8]) -> impl Iterator<Item = (u32, Wire<'_>)> {
    Fields { rest: message }.map_while(Result::ok)
}

/// The messages in one field of a message that [`check`] has passed.
pub(super) fn messages(message: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    fields(message).filter_map(move |field| match field {
        (found, Wire::Bytes(bytes)) if found == number => Some(bytes),
        _ => None,
    })
}

/// Takes a number of up to ten bytes off the front. Most have one byte.
#[inline]
pub(super) fn take_varint(rest: &mut &[u8]) -> Result<u64, &'static str> {
    match *rest {
        [byte @ ..0x80, after @ ..] => {
            *rest = after;
            Ok(u64::from(*byte))
        }
        _ => take_long_varint(rest),
    }
}

fn take_long_varint(rest: &mut &[u8]) -> Result<u64, &'static str> {
    let mut number = 0;
    for shift in (0..70).step_by(7) {
        let (byte, after) = rest.split_first().ok_or("ends within a number")?;
        *rest = after;
        // Of the tenth byte one bit is left.
        number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or_default();
        if *byte < 0x80 {
            return Ok(number);
        }
    }
    Err("has a number of more than ten bytes")
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], &'static str> {
    let (taken, after) = rest.split_at_checked(len).ok_or("ends within a field")?;
    *rest = after;
    Ok(taken)
}

fn take_array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], &'static str> {
    let (taken, after) = rest.split_first_chunk().ok_or("ends within a field")?;
    *rest = after;
    Ok(*taken)
}

/// The number and the wire type before a value.
fn take_tag(rest: &mut &[u8]) -> Result<(u32, u64), &'static str> {
    let tag = take_varint(rest)?;
    match u32::try_from(tag >> 3) {
        Ok(number) if number > 0 && number < 1 << 29 => Ok((number, tag & 7)),
        _ => Err("has a field of an impossible number"),
    }
}

fn take_field<'a>(rest: &mut &'a [u8]) -> Result<(u32, Wire<'a>), &'static str> {
    let (number, wire) = take_tag(rest)?;
    Ok((number, take_value(rest, number, wire)?))
}

fn take_value<'a>(rest: &mut &'a [u8], number: u32, wire: u64) -> Result<Wire<'a>, &'static str> {
    match wire {
        0 => take_varint(rest).map(Wire::Varint),
        1 => take_array(rest).map(|bytes| Wire::Fixed64(u64::from_le_bytes(bytes))),
        2 => {
            let len = take_varint(rest)?;
            let len = usize::try_from(len).map_err(|_| "has a length beyond its end")?;
            take(rest, len).map(Wire::Bytes)
        }
        3 => skip_group(rest, number).map(|()| Wire::Group),
        5 => take_array(rest).map(|bytes| Wire::Fixed32(u32::from_le_bytes(bytes))),
        _ => Err("has a field of an unknown wire type"),
    }
}

/// Goes on behind the end of a group that has begun, and of those within it.
fn skip_group(rest: &mut &[u8], number: u32) -> Result<(), &'static str> {
    // A list of a fixed size instead of recursion, which hostile bytes could drive to the end of
    // the stack.
    let mut open = [0_u32; OTLP_DEPTH_MAX];
    open[0] = number;
    let mut depth = 1;

    while depth > 0 {
        match take_tag(rest)? {
            (number, 3) => {
                *open.get_mut(depth).ok_or("is nested too deeply")? = number;
                depth += 1;
            }
            (number, 4) if number == open[depth - 1] => depth -= 1,
            (number, wire) => drop(take_value(rest, number, wire)?),
        }
    }

    Ok(())
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Wire<'a>), &'static str>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = take_field(&mut self.rest);
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Walks a whole message and those within it, and counts its points or spans. [`fields`] can read
/// a message that passes to its end, and its texts are UTF-8.
///
/// # Errors
/// Reports what is wrong with which message.
pub(super) fn check(message: &'static Message, bytes: &[u8]) -> Result<usize, Fault> {
    check_within(message, bytes, OTLP_DEPTH_MAX)
}

fn check_within(message: &'static Message, bytes: &[u8], depth: usize) -> Result<usize, Fault> {
    let fault = |what| Fault { of: message.name, what };
    // Each level of messages is one of the stack.
    let depth = depth.checked_sub(1).ok_or(fault("is nested too deeply"))?;
    let mut items = usize::from(message.is_item);

    for field in (Fields { rest: bytes }) {
        let (number, wire) = field.map_err(fault)?;
        let (Some(field), Wire::Bytes(inner)) = (message.field(number), wire) else { continue };

        match field.kind {
            FieldKind::Message(of) => items += check_within(of, inner, depth)?,
            FieldKind::Text if str::from_utf8(inner).is_err() => {
                return Err(fault("has a text that is not UTF-8"));
            }
            FieldKind::Uint => check_varints(inner).map_err(fault)?,
            FieldKind::Double | FieldKind::Fixed64 if inner.len() % 8 != 0 => {
                return Err(fault("has a list that ends within a number"));
            }
            _ => {}
        }
    }

    Ok(items)
}

fn check_varints(mut packed: &[u8]) -> Result<(), &'static str> {
    while !packed.is_empty() {
        take_varint(&mut packed)?;
    }
    Ok(())
}

/// Appends a number of up to ten bytes.
pub(crate) fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(low_bits(number) | 0x80);
        number >>= 7;
    }
    out.push(low_bits(number));
}

/// The last seven bits.
pub(super) fn low_bits(number: u64) -> u8 {
    number.to_le_bytes()[0] & 0x7f
}

/// A `sint32` as the number that it encodes.
#[expect(clippy::cast_possible_truncation, reason = "as every reader: a sint32 has 32 bits")]
pub(super) fn zigzag(number: u64) -> i32 {
    let number = number as u32;
    (number >> 1).cast_signed() ^ -((number & 1).cast_signed())
}

#[cfg(test)]
mod tests;
