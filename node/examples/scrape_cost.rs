//! What it costs to read one page of Prometheus text: of a file that is named, else one of 100
//! histograms of 15 buckets, 200 counters and 200 gauges, each value of which has grown since the
//! page before.
//!
//! `scrape_cost [FILE]` prints microseconds a page and nanoseconds a row on one core, at the
//! median of eleven rounds: CPU that the driver spends every five seconds on each target.

use std::fmt::Write;
use std::hint::black_box;
use std::time::Duration;

use plimsoll_clock::Stopwatch;
use plimsoll_node::core::Bounds;
use plimsoll_node::core::intake::lines::Unit;
use plimsoll_node::core::intake::promtext::{Format, Page, Scrape, Target};
use plimsoll_node::core::{Core, Identity};
use plimsoll_schemas::ids::{Labels, MeshName, NodeName};
use plimsoll_schemas::time::{Mono, Now, Wall};

const ROUNDS: usize = 11;
const PAGES: u32 = 40;
const EVERY: Duration = Duration::from_secs(5);

/// A page on which everything has counted so far.
fn page(so_far: u64) -> String {
    let mut page = "# TYPE fetch_seconds histogram\n# TYPE hits_total counter\n".to_owned();
    for n in 0..100 {
        for bound in 1..=15_u32 {
            let le = f64::from(bound) / 100.0;
            let upto = u64::from(bound) * so_far;
            writeln!(page, "fetch_seconds_bucket{{path=\"/p{n}\",le=\"{le}\"}} {upto}")
                .expect("text takes text");
        }
        let count = 16 * so_far;
        let rows = [("bucket", ",le=\"+Inf\"", count), ("count", "", count), ("sum", "", so_far)];
        for (part, le, value) in rows {
            writeln!(page, "fetch_seconds_{part}{{path=\"/p{n}\"{le}}} {value}")
                .expect("text takes text");
        }
    }
    for n in 0..200 {
        writeln!(page, "hits_total{{zone=\"z{n}\"}} {so_far}\ndepth{{zone=\"z{n}\"}} {so_far}")
            .expect("text takes text");
    }
    page
}

fn core() -> Core {
    let name = "a constant name of plain letters";
    let (mesh, node) = (MeshName::new("m").expect(name), NodeName::new("n").expect(name));
    let mut bounds = Bounds::default();
    bounds.rules.targets = vec![Target {
        name: "http://t/".to_owned(),
        labels: Labels::default(),
        unit: Unit(None),
        allow: Vec::new(),
        series_max: 2_000,
    }];
    Core::new(Identity { mesh, node, labels: Labels::default() }, bounds, BEGAN)
}

const BEGAN: Now = Now { mono: Mono(0), wall: Wall(1_700_000_000_000_000_000) };

fn main() {
    let file = std::env::args().nth(1).map(|path| std::fs::read_to_string(path).expect("a file"));
    let (mut core, mut now, mut so_far) = (core(), BEGAN, 0);
    let mut rounds: Vec<Duration> = Vec::new();
    let mut rows = 0;
    for _ in 0..ROUNDS {
        let mut took = Duration::ZERO;
        for _ in 0..PAGES {
            so_far += 1;
            now = now.after(EVERY);
            let body = file.clone().unwrap_or_else(|| page(so_far));
            rows = body.lines().filter(|line| !line.starts_with('#')).count();
            let page = Page { format: Format::Text, body: body.into_bytes(), is_whole: true };
            let scrape = Scrape { target: 0, took: Duration::ZERO, page: Ok(page) };
            let begun = Stopwatch::start();
            black_box(core.on_scrape(now, &scrape));
            took += begun.elapsed();
            core.on_deadline(now);
        }
        rounds.push(took / PAGES);
    }
    rounds.sort_unstable();
    let (page, series) = (rounds[ROUNDS / 2], core.status().intake.scrapes[0].series);
    let row = page.as_nanos() / rows.max(1) as u128;
    println!("{rows} rows, {series} series: {} us a page, {row} ns a row", page.as_micros());
}
