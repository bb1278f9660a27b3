//! Label values in quotes: nothing that comes from outside can break out of them.

pub(super) fn escape_into(out: &mut Vec<u8>, value: &str) {
    let mut rest = value.as_bytes();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\\' | b'"' | b'\n')) {
        out.extend_from_slice(&rest[..at]);
        out.push(b'\\');
        out.push(if rest[at] == b'\n' { b'n' } else { rest[at] });
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}
