//! Names of functions by their addresses, as a file states them.

use plimsoll_profile::limits::NAME_BYTES_MAX;

/// The functions of one file, in the order of their addresses.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    functions: Vec<Function>,
    /// Each ends with a zero byte.
    names: Vec<u8>,
}

/// Addresses as the file states them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Function {
    pub(super) start: u64,
    /// 0 when unknown: then it reaches to the next one.
    pub(super) bytes: u64,
    pub(super) name_at: u32,
}

/// Functions that may lie inside another one's range; assembly has some.
const NESTED_MAX: usize = 8;

impl Symbols {
    pub(super) fn new(mut functions: Vec<Function>, names: Vec<u8>) -> Self {
        functions.sort_unstable();
        functions.shrink_to_fit();
        Self { functions, names }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.functions.len()
    }

    /// What it takes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.functions.len() * size_of::<Function>() + self.names.len()
    }

    /// The innermost function at an address, under its name in the source.
    pub(super) fn name(&self, at: u64) -> Option<String> {
        let after = self.functions.partition_point(|function| function.start <= at);
        let before = self.functions[..after].iter().rev().take(NESTED_MAX);
        let is_last = |function: &Function| self.functions[after - 1].start == function.start;
        let holds = |function: &&Function| match function.bytes {
            0 => is_last(function),
            bytes => at - function.start < bytes,
        };

        let function = before.into_iter().find(holds)?;
        let name = self.names.get(usize::try_from(function.name_at).ok()?..)?;
        let name = name.split(|byte| *byte == 0).next().filter(|name| !name.is_empty())?;
        Some(plain_name(&String::from_utf8_lossy(name)))
    }
}

/// A text that ends where a name of a profile does: what a hostile symbol stands for has no bound.
#[derive(Default)]
struct Bounded(String);

impl std::fmt::Write for Bounded {
    fn write_str(&mut self, part: &str) -> std::fmt::Result {
        self.0.push_str(part);
        // One byte more is cut, and shows that it was.
        if self.0.len() > NAME_BYTES_MAX { Err(std::fmt::Error) } else { Ok(()) }
    }
}

/// The name in the source: of Rust without its hash, of C++ without its parameters.
pub(super) fn plain_name(symbol: &str) -> String {
    use std::fmt::Write;
    let mut plain = Bounded::default();
    if let Ok(name) = rustc_demangle::try_demangle(symbol) {
        let _cut = write!(plain, "{name:#}");
    } else if symbol.starts_with("_Z")
        // Without the prefix it reads a type: the function `c` would be `char`.
        && let Ok(name) = cpp_demangle::Symbol::new(symbol)
    {
        let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
        let _cut = name.structured_demangle(&mut plain, &options);
    }
    if !plain.0.is_empty() {
        return plain.0;
    }
    // A linker writes the version of a library's function behind its name.
    let name = symbol.split_once('@').map_or(symbol, |(name, _)| name);
    if name.is_empty() { symbol.to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_address_has_the_innermost_function_that_holds_it() {
        let function = |start, bytes, name_at| Function { start, bytes, name_at };
        let functions = vec![
            function(100, 50, 0),
            function(110, 10, 6),
            function(200, 0, 12),
            function(300, 4, 17),
        ];
        let symbols = Symbols::new(functions, b"outer\0inner\0open\0last\0".to_vec());
        let table = [
            (99, None),
            (100, Some("outer")),
            (110, Some("inner")),
            (119, Some("inner")),
            (120, Some("outer")),
            (150, None),
            (299, Some("open")),
            (303, Some("last")),
            (304, None),
        ];
        for (at, name) in table {
            assert_eq!(symbols.name(at).as_deref(), name, "{at}");
        }
    }

    #[test]
    fn a_symbol_has_its_name_in_the_source() {
        let table = [
            ("main", "main"),
            ("c", "c"),
            ("write@@GLIBC_2.2.5", "write"),
            ("@", "@"),
            ("_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_ZN5outer5innerEib", "outer::inner"),
            ("_ZSt4sortIPiEvT_S1_", "std::sort<int*>"),
            ("_Znot", "_Znot"),
            ("<b>\n&", "<b>\n&"),
        ];
        for (symbol, name) in table {
            assert_eq!(plain_name(symbol), name);
        }
    }

    proptest! {
        #[test]
        fn any_symbol_has_a_short_name(symbol in "(_Z|_R)?[A-Za-z0-9_]{0,400}") {
            let name = plain_name(&symbol);
            prop_assert!(name == symbol || name.len() <= 2 * NAME_BYTES_MAX);
        }

        #[test]
        fn any_table_is_searched(
            functions in prop::collection::vec((0_u64..50, 0_u64..20, 0_u32..9), 0..20),
            at in 0_u64..90,
        ) {
            let function = |(start, bytes, name_at)| Function { start, bytes, name_at };
            let functions = functions.into_iter().map(function).collect();
            let found = Symbols::new(functions, b"a\0bc\0".to_vec()).name(at);
            prop_assert!(found.is_none_or(|name| ["a", "bc", "c"].contains(&name.as_str())));
        }
    }
}
