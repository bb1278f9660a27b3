//! A document as Markdown: its sections without plots, for a terminal, a wiki or a merge request.

use jiff::tz::TimeZone;

use super::document::Document;
use super::sections::{sections, title};
use super::tables::{Section, Table, Tone};

pub(super) fn text(of: &Document, zone: &TimeZone) -> String {
    let mut text = format!("# {}\n\n**{}**\n", escaped(&title(of)), escaped(&of.summary));
    sections(of, zone).iter().for_each(|of| section(&mut text, of));
    text
}

fn section(text: &mut String, of: &Section) {
    *text += &format!("\n## {}\n", of.heading);
    for paragraph in &of.paragraphs {
        *text += &format!("\n{}\n", escaped(paragraph));
    }
    of.tables.iter().for_each(|of| table(text, of));
}

fn table(text: &mut String, of: &Table) {
    if of.rows.is_empty() {
        if !of.empty.is_empty() {
            *text += &format!("\n{}\n", of.empty);
        }
        return;
    }

    *text += &format!("\n{}:\n\n| {} |\n", escaped(&of.caption), of.heading.join(" | "));
    let first = of.rows.first().into_iter().flatten();
    let align = first.map(|cell| if cell.tone == Tone::Figure { "---:|" } else { "---|" });
    *text += &format!("|{}\n", align.collect::<String>());

    for row in &of.rows {
        let cells: Vec<String> = row.iter().map(|cell| escaped(&cell.words)).collect();
        *text += &format!("| {} |\n", cells.join(" | "));
    }
}

/// Without meaning in Markdown and HTML, and on one line.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '|' | '\\' | '`' | '*' | '[' | ']' | '#' | '!' => safe.extend(['\\', c]),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_cell_has_a_meaning() {
        let hostile = "<script>|`[x](y)\n# *a*";
        assert_eq!(escaped(hostile), "&lt;script&gt;\\|\\`\\[x\\](y) \\# \\*a\\*");
    }
}
