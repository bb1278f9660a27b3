//! The parts of a section: paragraphs, tables and cells, which Markdown and HTML both have.

use plimsoll_schemas::summary::Verdict;

/// A heading with its paragraphs and tables.
pub(super) struct Section {
    /// Names it in a link.
    pub(super) id: &'static str,
    pub(super) heading: &'static str,
    pub(super) paragraphs: Vec<String>,
    pub(super) tables: Vec<Table>,
}

/// A table; without rows, a sentence instead.
pub(super) struct Table {
    pub(super) caption: String,
    pub(super) heading: Vec<String>,
    pub(super) rows: Vec<Vec<Cell>>,
    pub(super) empty: &'static str,
}

/// A cell, and how it is shown.
pub(super) struct Cell {
    pub(super) words: String,
    pub(super) tone: Tone,
}

/// How a cell is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Text,
    /// As a figure, so that digits are below each other.
    Figure,
    Good,
    /// Neither good nor bad yet.
    Open,
    Bad,
}

impl Tone {
    pub(super) fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Within => Self::Good,
            Verdict::Breach => Self::Bad,
            Verdict::NoData | Verdict::Insufficient | Verdict::Uncertain => Self::Open,
        }
    }
}

pub(super) fn text(words: impl Into<String>) -> Cell {
    Cell { words: words.into(), tone: Tone::Text }
}

pub(super) fn figure(words: impl Into<String>) -> Cell {
    Cell { words: words.into(), tone: Tone::Figure }
}

pub(super) fn table(
    caption: &str,
    heading: &[&str],
    rows: Vec<Vec<Cell>>,
    empty: &'static str,
) -> Table {
    let heading = heading.iter().map(|name| (*name).to_owned()).collect();
    Table { caption: caption.to_owned(), heading, rows, empty }
}
