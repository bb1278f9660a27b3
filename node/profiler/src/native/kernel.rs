//! Functions of the kernel, from `/proc/kallsyms`, which shows addresses to who may see them.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use plimsoll_profile::Frame;

use super::symbols::{Function, Symbols};
use crate::limits::KALLSYMS_BYTES_MAX;

const FILE: &str = "[kernel]";

/// Nothing of them where the addresses are hidden: then the kernel is one frame.
pub(super) fn functions() -> Symbols {
    File::open("/proc/kallsyms").map(parse).unwrap_or_default()
}

/// Root first.
pub(super) fn frames(functions: &Symbols, leaf_first: &[u64]) -> Vec<Arc<Frame>> {
    if functions.is_empty() {
        return leaf_first.iter().take(1).map(|_| Frame::marker(FILE)).collect();
    }
    let name = |at: &u64| functions.name(*at).unwrap_or_else(|| FILE.to_owned());
    leaf_first.iter().rev().map(|at| Frame::new(&name(at), FILE, 0)).collect()
}

fn parse(text: impl Read) -> Symbols {
    let lines = BufReader::new(text.take(KALLSYMS_BYTES_MAX)).lines().map_while(Result::ok);
    let (mut functions, mut names) = (Vec::new(), Vec::new());
    for line in lines {
        // address type name [module]
        let mut fields = line.split_ascii_whitespace();
        let [at, kind, name] = std::array::from_fn(|_| fields.next().unwrap_or_default());
        let start = u64::from_str_radix(at, 16).unwrap_or(0);
        if start == 0 || !matches!(kind, "t" | "T" | "w" | "W") {
            continue;
        }
        let Ok(name_at) = u32::try_from(names.len()) else { break };
        functions.push(Function { start, bytes: 0, name_at });
        names.extend_from_slice(name.as_bytes());
        names.push(0);
    }
    Symbols::new(functions, names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_kernel_are_named_unless_they_are_hidden() {
        let shown = parse("ff10 T vfs_read\nff20 D jiffies\nff30 t ext4_read\t[ext4]\n".as_bytes());
        let names = |functions: &Symbols| {
            let frames = frames(functions, &[0xff31, 0xff1f, 0xfe]);
            frames.iter().map(|frame| frame.function.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(&shown), ["[kernel]", "vfs_read", "ext4_read"]);
        assert_eq!(names(&parse("0000 T vfs_read\n".as_bytes())), ["[kernel]"]);
        assert!(frames(&shown, &[]).is_empty());
    }
}
