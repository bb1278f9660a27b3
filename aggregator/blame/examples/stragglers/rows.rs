//! What was simulated, one row for each case and rule, in a file that is kept.

use std::path::PathBuf;

use crate::simulation::{Calm, Delays};

/// A rule's figures of one case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) seed: u64,
    pub(crate) label: String,
    pub(crate) contender: String,
    pub(crate) figures: Figures,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Figures {
    Calm(Calm),
    Slow(Delays),
}

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All rows of the file; none if it is not there.
pub(crate) fn read() -> Vec<Row> {
    let text = std::fs::read_to_string(folder().join("results.tsv")).unwrap_or_default();
    text.lines().map(|line| Row::parse(line).expect("a row as this program writes it")).collect()
}

/// Replaces the file.
pub(crate) fn write(rows: &[Row]) {
    let text: String = rows.iter().map(|row| row.line() + "\n").collect();
    std::fs::write(folder().join("results.tsv"), text).expect("the crate's folder can be written");
}

impl Row {
    fn line(&self) -> String {
        let Self { seed, label, contender, figures } = self;
        let figures = match figures {
            Figures::Calm(Calm { hours, names, passed }) => {
                format!("calm\t{hours}\t{names}\t{}", list(passed))
            }
            Figures::Slow(Delays { seconds, wrong, explained, covered }) => {
                format!("slow\t{wrong}\t{explained}\t{covered}\t{}", counted(seconds))
            }
        };
        format!("{seed}\t{label}\t{contender}\t{figures}")
    }

    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.split('\t');
        let mut next = || parts.next();
        let seed = next()?.parse().ok()?;
        let (label, contender) = (next()?.to_owned(), next()?.to_owned());
        let figures = match next()? {
            "calm" => Figures::Calm(Calm {
                hours: next()?.parse().ok()?,
                names: next()?.parse().ok()?,
                passed: numbers(next()?)?,
            }),
            _ => Figures::Slow(Delays {
                wrong: next()?.parse().ok()?,
                explained: next()?.parse().ok()?,
                covered: next()?.parse().ok()?,
                seconds: expanded(next()?)?,
            }),
        };
        Some(Self { seed, label, contender, figures })
    }
}

fn list(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

/// Sorted numbers as `number*count`.
fn counted(numbers: &[u64]) -> String {
    let runs = numbers.chunk_by(|one, next| one == next);
    runs.map(|run| format!("{}*{}", run[0], run.len())).collect::<Vec<_>>().join(",")
}

fn expanded(text: &str) -> Option<Vec<u64>> {
    let mut numbers = Vec::new();
    for run in text.split(',') {
        let (number, count) = run.split_once('*')?;
        let number: u64 = number.parse().ok()?;
        numbers.extend(std::iter::repeat_n(number, count.parse().ok()?));
    }
    Some(numbers)
}

fn numbers(text: &str) -> Option<Vec<u64>> {
    text.split(',').filter(|part| !part.is_empty()).map(|part| part.parse().ok()).collect()
}
