//! Colours of a flame graph: the same name or module always has the same one, and black text is
//! readable on all of them.

/// First characters of names that are no functions: `<native>`, `(other)`, `[truncated]`.
const BRACKETS: [char; 3] = ['<', '(', '['];

/// What the colours of functions show. Those of a difference show the difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColourBy {
    /// Which function it is, in warm colours.
    #[default]
    Name,
    /// How much of the whole it has, from yellow to red.
    Share,
    /// Which package, folder or library it is from.
    Module,
}

impl ColourBy {
    pub(crate) fn of(self, name: &str, file: &str, share: f64) -> String {
        match self {
            Self::Name => of_name(name),
            Self::Share => of_share(share),
            Self::Module => of_module(name, file),
        }
    }
}

/// From the pale yellow of what has next to nothing; the root spreads what has little. The page's
/// script has the same.
fn of_share(share: f64) -> String {
    let root = share.clamp(0.0, 1.0).sqrt();
    format!("hsl({:.0},90%,{:.0}%)", 52.0 - 44.0 * root, 84.0 - 18.0 * root)
}

/// One hue for a module; its functions differ in lightness.
fn of_module(name: &str, file: &str) -> String {
    let module = module(name, file);
    if module.starts_with(BRACKETS) {
        return of_name(module);
    }
    format!("hsl({},60%,{}%)", hash(module) % 360, 70 + hash(name) % 10)
}

/// The package of an installed module, the folder of another file, or the library.
fn module<'a>(name: &'a str, file: &'a str) -> &'a str {
    if file.is_empty() {
        return if name.starts_with(BRACKETS) { name } else { first_part(name) };
    }
    let parts: Vec<&str> = file.split(['/', '\\']).filter(|part| !part.is_empty()).collect();
    let is_root = |part: &&str| {
        ["site-packages", "dist-packages"].contains(part) || part.starts_with("python3.")
    };
    let installed = parts.iter().rposition(is_root).and_then(|at| parts.get(at + 1));
    let found = match (installed, parts.len()) {
        (Some(package), _) => package,
        // The first folder of a whole path names a disk or a user.
        (None, n) if n > 1 && file.starts_with('/') => parts[n - 2],
        _ => parts.first().copied().unwrap_or(file),
    };
    found.strip_suffix(".py").unwrap_or(found)
}

/// What is before `.` or `::` in a name.
fn first_part(name: &str) -> &str {
    name.split(['.', ':']).next().filter(|part| !part.is_empty()).unwrap_or(name)
}

/// Warm colours for functions, grey for what is none.
fn of_name(name: &str) -> String {
    let hash = hash(name);
    if name.starts_with(BRACKETS) {
        return format!("hsl(220,8%,{}%)", 74 + hash % 10);
    }
    format!("hsl({},{}%,{}%)", hash % 50, 75 + hash / 50 % 20, 65 + hash / 1_000 % 12)
}

/// Red if the culprit has more, blue if it has less; the paler the smaller the difference.
pub(crate) fn of_delta(delta: f64, delta_max: f64) -> String {
    let strength = if delta_max > 0.0 { (delta.abs() / delta_max).min(1.0) } else { 0.0 };
    let hue = if delta > 0.0 { 4 } else { 214 };
    // From nearly white. Half of the strongest is still coloured: the root of strong colours.
    format!("hsl({hue},85%,{:.0}%)", 96.0 - 34.0 * strength.sqrt())
}

/// FNV-1a: a name has its colour in every picture of every version.
fn hash(name: &str) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    name.bytes().fold(0x811c_9dc5, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_colours() {
        let table = [
            ("main", "hsl(42,86%,76%)"),
            ("load", "hsl(49,83%,70%)"),
            ("<native>", "hsl(220,8%,80%)"),
        ];
        for (name, colour) in table {
            assert_eq!(of_name(name), colour, "{name}");
        }
    }

    #[test]
    fn functions_of_a_module_have_one_hue() {
        let table = [
            ("forward", "/usr/lib/python3.11/site-packages/torch/nn/linear.py", "torch"),
            ("loads", "/usr/lib/python3.11/json/decoder.py", "json"),
            ("load", "/srv/ann/app/data/load.py", "data"),
            ("load", "data/load.py", "data"),
            ("main", "train.py", "train"),
            ("malloc", "/lib/libc.so.6", "lib"),
            ("std::sort", "", "std"),
            ("<GC>", "", "<GC>"),
            ("f", "//", "//"),
            ("::", "", "::"),
        ];
        for (name, file, wanted) in table {
            assert_eq!(module(name, file), wanted, "{file}");
        }
        assert_eq!(of_module("load", "data/a.py"), "hsl(301,60%,79%)");
        assert_eq!(of_module("fetch", "data/b.py"), "hsl(301,60%,77%)");
    }

    #[test]
    fn what_has_more_is_redder() {
        let colours = [0.0, 0.25, 1.0].map(of_share);
        assert_eq!(colours, ["hsl(52,90%,84%)", "hsl(30,90%,75%)", "hsl(8,90%,66%)"]);
    }

    #[test]
    fn larger_differences_are_stronger() {
        let table = [
            (8.0, "hsl(4,85%,62%)"),
            (2.0, "hsl(4,85%,79%)"),
            (0.0, "hsl(214,85%,96%)"),
            (-2.0, "hsl(214,85%,79%)"),
            (-8.0, "hsl(214,85%,62%)"),
        ];
        for (delta, colour) in table {
            assert_eq!(of_delta(delta, 8.0), colour, "{delta}");
        }
        assert_eq!(of_delta(0.0, 0.0), "hsl(214,85%,96%)");
    }
}
