//! CompleteHistogram pages, and what is made of them.

mod restarts;
mod rows;

use std::time::Duration;

use plimsoll_schemas::time::{Mono, Now, Wall};

use super::*;
use crate::core::intake::lines::Unit;
use crate::core::intake::points::{Buckets, Point, Value};

const BEGAN: Now = Now { mono: Mono(5_000_000_000), wall: Wall(1_700_000_000_000_000_000) };

fn target() -> Target {
    Target {
        name: "http://app/metrics".to_owned(),
        labels: Default::default(),
        unit: Unit(None),
        allow: Vec::new(),
        series_max: 100,
    }
}

/// Pages of one target, and the points that they make as text.
struct Desk {
    pages: Pages,
    format: Format,
    is_whole: bool,
    warnings: Vec<String>,
}

impl Desk {
    fn new(target: Target) -> Self {
        let (labels, units) = (LabelRules::default(), Units::default());
        let pages = Pages::new(BEGAN, labels, units, vec![target], 7);
        Self { pages, format: Format::Text, is_whole: true, warnings: Vec::new() }
    }

    /// What a page that comes this many seconds after the node began reports, in order.
    fn read(&mut self, seconds: u64, page: &str) -> Vec<String> {
        let mut points = Vec::new();
        self.scrape_page(BEGAN.after(Duration::from_secs(seconds)), page, &mut |point| {
            points.push(text(point)?);
            Ok(())
        });
        points
    }

    fn scrape_page(&mut self, now: Now, page: &str, sink: &mut Sink<'_>) {
        let body = page.as_bytes().to_vec();
        let page = Page { format: self.format, body, is_whole: self.is_whole };
        let scrape = Scrape { target: 0, took: Duration::from_millis(3), page: Ok(page) };
        let received = self.pages.on_scrape(now, &scrape, sink);
        self.warnings.extend(received.warnings);
    }

    fn figures(&self) -> ScrapeStats {
        self.pages.stats().remove(0)
    }
}

fn text(point: &Point<'_>) -> Result<String, Reject> {
    let series = (point.series)()?;
    let start = match point.start {
        Wall(0) => String::new(),
        start => format!(" since {start}"),
    };
    let value = match point.value {
        Value::Gauge(value) => format!("= {value}"),
        Value::Sum { value, monotonic } => {
            assert!(monotonic, "{series}");
            format!("+ {value}")
        }
        Value::Latencies(got) => {
            let Buckets::Explicit { bounds, counts } = got.buckets else { panic!("{series}") };
            assert_eq!((bounds.len() + 1, got.min, got.max), (counts.len(), None, None));
            assert_eq!(counts.iter().sum::<u64>(), got.count, "{series}");
            let sum = got.sum.map_or_else(|| "-".to_owned(), |sum| sum.to_string());
            format!("{:?} {bounds:?} {counts:?} sum {sum}", got.unit)
        }
    };
    Ok(format!("{series} {value}{start}"))
}
