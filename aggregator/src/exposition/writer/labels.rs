//! One label in the text formats. A value cannot break out of its quotes.

pub(super) fn push_label(out: &mut Vec<u8>, key: &str, value: &str) {
    if !out.is_empty() {
        out.push(b',');
    }
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"=\"");
    escape_into(out, value);
    out.push(b'"');
}

fn escape_into(out: &mut Vec<u8>, value: &str) {
    let mut rest = value.as_bytes();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\\' | b'"' | b'\n')) {
        out.extend_from_slice(&rest[..at]);
        out.push(b'\\');
        out.push(if rest[at] == b'\n' { b'n' } else { rest[at] });
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}
