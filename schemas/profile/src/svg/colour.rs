//! Colours of a flame graph: the same name always has the same one, and black text is readable on
//! all of them.

/// First characters of names that are no functions: `<native>`, `(other)`, `[truncated]`.
const BRACKETS: [char; 3] = ['<', '(', '['];

/// Warm colours for functions, grey for what is none.
pub(super) fn of_name(name: &str) -> String {
    let hash = hash(name);
    if name.starts_with(BRACKETS) {
        return format!("hsl(220,8%,{}%)", 74 + hash % 10);
    }
    format!("hsl({},{}%,{}%)", hash % 50, 75 + hash / 50 % 20, 65 + hash / 1_000 % 12)
}

/// Red if the culprit has more, blue if it has less; the paler the smaller the difference.
pub(super) fn of_delta(delta: f64, delta_max: f64) -> String {
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
