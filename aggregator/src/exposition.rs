//! A view as Prometheus text.
//!
//! A writer of our own: fleet series are many, share a few label sets, and need no registry.
//! Families come one after another, each with its help and type, as the format demands.
//! Every label value is escaped, since operation names and labels come from outside.

mod accounts;
mod events;
mod families;
mod own;

use std::fmt::Write;

pub use families::fleet;
pub use own::own;

/// Text under construction.
#[derive(Default)]
pub struct Exposition {
    text: String,
}

/// What kind of number a family holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyType {
    /// Goes up and down.
    Gauge,
    /// Only grows.
    Counter,
}

impl Exposition {
    /// Begins a family and writes its rows; writes nothing when there is no row.
    pub fn family<'a, L>(
        &mut self,
        name: &str,
        family_type: FamilyType,
        help: &str,
        rows: impl IntoIterator<Item = (L, f64)>,
    ) where
        L: IntoIterator<Item = (&'a str, &'a str)>,
    {
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() {
            return;
        }
        let family_type = match family_type {
            FamilyType::Gauge => "gauge",
            FamilyType::Counter => "counter",
        };
        self.text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {family_type}\n"));
        for (labels, value) in rows {
            self.row(name, labels, value);
        }
    }

    fn row<'a>(
        &mut self,
        name: &str,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        value: f64,
    ) {
        self.text.push_str(name);
        let mut separator = '{';
        for (key, value) in labels {
            self.text.push(separator);
            self.text.push_str(key);
            self.text.push_str("=\"");
            escape_into(&mut self.text, value);
            self.text.push('"');
            separator = ',';
        }
        if separator == ',' {
            self.text.push('}');
        }
        // Writing to a string cannot fail.
        let _written = writeln!(self.text, " {value}");
    }

    /// The finished text.
    #[must_use]
    pub fn finish(self) -> String {
        self.text
    }
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn float(n: u64) -> f64 {
    n as f64
}

fn escape_into(text: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
}

/// Label keys with a meaning of their own here or in Prometheus.
const RESERVED: [&str; 8] =
    ["node", "counter", "gauge", "scope", "operation", "window", "job", "instance"];

/// A label's key from outside as Prometheus allows it, kept apart from the mesh's own keys.
#[must_use]
pub fn label_key(key: &str) -> String {
    let mended: String =
        key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let begins_badly = mended.starts_with("__") || mended.starts_with(|c: char| c.is_ascii_digit());
    if begins_badly || RESERVED.contains(&mended.as_str()) {
        return format!("label_{mended}");
    }
    mended
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_family_is_written_once_with_help_and_type() {
        let mut exposition = Exposition::default();
        let rows = [(vec![("node", "a")], 1.5), (vec![("node", "b"), ("x", "y")], 2.0)];
        exposition.family("m_seconds", FamilyType::Gauge, "Some time", rows);
        exposition.family("n_total", FamilyType::Counter, "A count", [(vec![], 3.0)]);
        let nobody: [(Vec<(&str, &str)>, f64); 0] = [];
        exposition.family("o_total", FamilyType::Counter, "Nothing", nobody);
        assert_eq!(
            exposition.finish(),
            "# HELP m_seconds Some time\n# TYPE m_seconds gauge\nm_seconds{node=\"a\"} 1.5\n\
             m_seconds{node=\"b\",x=\"y\"} 2\n# HELP n_total A count\n# TYPE n_total counter\n\
             n_total 3\n"
        );
    }

    proptest! {
        #[test]
        fn no_label_value_can_break_out_of_its_quotes(value in "\\PC{0,20}|[\"\\\\\n}]{0,10}") {
            let mut exposition = Exposition::default();
            exposition.family("m", FamilyType::Gauge, "h", [(vec![("k", value.as_str())], 1.0)]);
            let text = exposition.finish();
            prop_assert_eq!(text.lines().count(), 3);
            let row = text.lines().last().unwrap();
            let quoted = row.strip_prefix("m{k=\"").and_then(|r| r.strip_suffix("\"} 1")).unwrap();
            let read = quoted.replace("\\\\", "\u{0}").replace("\\n", "\n");
            prop_assert!(!read.replace("\\\"", "").contains('"'));
            prop_assert_eq!(read.replace("\\\"", "\"").replace('\u{0}', "\\"), value);
        }

        #[test]
        fn any_label_key_becomes_a_valid_one(key in "[A-Za-z0-9_.-]{1,20}|node|job") {
            let mended = label_key(&key);
            prop_assert!(mended.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
            prop_assert!(!mended.starts_with("__") && !mended.as_bytes()[0].is_ascii_digit());
            prop_assert!(!RESERVED.contains(&mended.as_str()));
        }
    }
}
