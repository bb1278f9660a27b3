//! False names and the delay of true ones, over simulated ranks, beside the rules of others.
//!
//! `cargo run --release -p plimsoll-blame --example stragglers -- list` has the cases, `-- run`
//! simulates each one that the file of rows lacks, `-- run 3` the one of this number, `-- cost`
//! measures an evaluation, and `-- write` makes the tables and the plot of `RESULTS.md`.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times and counts of a simulation are positive and small"
)]

mod cases;
mod fleet;
mod plot;
mod rivals;
mod rows;
mod simulation;
mod table;

use plimsoll_clock::Stopwatch;

use cases::{Case, Run};
use rows::{Figures, Row};

/// The tables of `RESULTS.md` are between these lines.
const MARKS: [&str; 2] = ["<!-- Tables start here. -->\n", "<!-- Tables end here. -->\n"];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = arguments.get(1).map(|number| number.parse::<u64>().expect("a case's number"));
    match arguments.first().map(String::as_str) {
        Some("list") => list(),
        Some("run") => run(number),
        Some("cost") => cost(),
        Some("write") => write(),
        _ => println!("list, run [number], cost or write"),
    }
}

fn list() {
    for case in cases::all() {
        println!("{} {} {:?}", case.seed, case.label(), case.run);
    }
}

/// Simulates the case of this number, or all that have no row.
fn run(number: Option<u64>) {
    for case in cases::all() {
        let mut rows = rows::read();
        let has_row = rows.iter().any(|row| row.seed == case.seed);
        if number.map_or(has_row, |number| number != case.seed) {
            continue;
        }
        let watch = Stopwatch::start();
        rows.retain(|row| row.seed != case.seed);
        rows.extend(simulated(&case));
        rows.sort_by_key(|row| row.seed);
        rows::write(&rows);
        println!("{} {}: {:.0} s", case.seed, case.label(), watch.elapsed().as_secs_f64());
    }
}

fn simulated(case: &Case) -> Vec<Row> {
    let figures: Vec<Figures> = match case.run {
        Run::Calm(weeks) => {
            let all = simulation::calm(case.load, weeks, case.seed);
            all.into_iter().map(Figures::Calm).collect()
        }
        Run::Slow(times) => {
            let all = simulation::slow(case.load, times, case.seed);
            all.into_iter().map(Figures::Slow).collect()
        }
    };
    let contenders = ["Plimsoll"].into_iter().chain(rivals::NAMES);
    let row = |(contender, figures): (&str, Figures)| Row {
        seed: case.seed,
        label: case.label(),
        contender: contender.to_owned(),
        figures,
    };
    contenders.zip(figures).map(row).collect()
}

/// The time that a second of a cohort takes: its reports, and its evaluation.
fn cost() {
    println!("| ranks | reports of a second, µs | evaluation, median µs | p95 µs |");
    println!("|---|---|---|---|");
    for ranks in [8, 64, 1_000] {
        let [reports, median, p95] = simulation::cost(ranks);
        println!("| {ranks} | {reports:.1} | {median:.1} | {p95:.1} |");
    }
}

fn write() {
    let rows = rows::read();
    let path = rows::folder().join("RESULTS.md");
    let text = std::fs::read_to_string(&path).expect("RESULTS.md is there");
    let [start, end] = MARKS;
    let (before, rest) = text.split_once(start).expect("RESULTS.md has its first mark");
    let (_, after) = rest.split_once(end).expect("RESULTS.md has its second mark");
    let text = format!("{before}{start}\n{}\n{end}{after}", table::tables(&rows));
    std::fs::write(path, text).expect("RESULTS.md can be written");
    std::fs::write(rows::folder().join("stragglers.svg"), plot::plot(&rows))
        .expect("the plot can be written");
}
