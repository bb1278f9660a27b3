//! One operation by time and latency: a cell for each column and band, the exact maximum of each
//! column, the limit, and the columns as a table.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use maud::{Markup, html};
use plimsoll_compare::history::SecondsRange;
use plimsoll_compare::svg::{LogAxis, label, line, px};
use plimsoll_schemas::figure::{count, counted};
use plimsoll_schemas::unit::Unit;

use super::super::document::{Column, OperationResult, OverTime};
use super::super::tables::{self as cell, Table, table};
use super::super::words::{completeness, over, value};
use super::colour_scale::ColourScale;
use super::time_axis::ticks;
use super::{Figure, Picture};
use crate::time_range::shown;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 276.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 704.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 236.0;
/// A cell whose band is narrower is still seen.
const CELL_MIN: f64 = 1.5;
const STRIP: f64 = 5.0;
const TIME_TICKS: usize = 6;
const LATENCY_TICKS: usize = 6;
/// A column is complete from here on: intervals that end in the next one leave some thousandths.
const COMPLETE: f64 = 0.99;

/// The plot with its table.
pub(super) fn figure(
    of: &OperationResult,
    at: usize,
    scale: &ColourScale,
    zone: &TimeZone,
) -> Figure {
    let words = words(of, zone);
    Figure { plot: plot(of, at, &words, scale, zone), table: columns(of, zone), words }
}

/// The plot in words.
fn words(of: &OperationResult, zone: &TimeZone) -> String {
    let columns = &of.over_time.columns;
    let with_max = columns.iter().filter_map(|column| Some((column.max?, column)));
    let slowest = with_max.max_by(|a, b| a.0.total_cmp(&b.0));
    let step = humantime::format_duration(std::time::Duration::from_secs_f64(
        of.over_time.step_seconds.clamp(0.0, 1e12),
    ));
    let Some((max, column)) = slowest else { return "No samples.".to_owned() };
    let incomplete = columns.iter().filter(|column| !is_complete(column)).count();

    let incomplete = match incomplete {
        0 => String::new(),
        n => format!(" {n} of {} incomplete or unknown.", counted(columns.len() as u64, "column")),
    };

    let (max, at) = (value(&of.operation, Some(max)), shown(column.from_seconds, zone));
    format!("Columns of {step}. The maximum is {max}, in the column from {at}.{incomplete}")
}

fn is_complete(column: &Column) -> bool {
    column.completeness.is_some_and(|share| share >= COMPLETE)
}

/// Where times and latencies are in the picture.
struct Axes {
    range: SecondsRange,
    latency: LogAxis,
    unit: Unit,
}

impl Axes {
    fn of(over_time: &OverTime, limit: Option<f64>, unit: Unit) -> Option<Self> {
        let (first, last) = (over_time.columns.first()?, over_time.columns.last()?);
        let (lowest, highest) = (over_time.bands.first()?, over_time.bands.last()?);
        let limit = limit.unwrap_or(highest.upper);
        let (low, high) = (lowest.lower.min(limit), highest.upper.max(limit));
        let raw = unit.raw_per_shown();
        let latency = LogAxis::new((low * raw).max(1e3), high * raw, BOTTOM..TOP, unit);
        let range = SecondsRange { from: first.from_seconds, to: last.to_seconds };
        Some(Self { range, latency, unit })
    }

    fn x(&self, at: f64) -> f64 {
        let share = (at - self.range.from) / self.range.seconds().max(f64::MIN_POSITIVE);
        LEFT + share * (RIGHT - LEFT)
    }

    fn y(&self, shown: f64) -> f64 {
        self.latency.at(shown * self.unit.raw_per_shown())
    }
}

fn plot(
    of: &OperationResult,
    at: usize,
    words: &str,
    scale: &ColourScale,
    zone: &TimeZone,
) -> Markup {
    let Some(axes) = Axes::of(&of.over_time, of.limit_seconds, Unit::of(&of.operation)) else {
        return Markup::default();
    };

    let picture = Picture {
        id: format!("heatmap-{at}"),
        size: (WIDTH, HEIGHT),
        title: format!("Latency of {} over time", of.operation),
        words,
    };

    picture.of(&html! {
        @for (y, words) in axes.latency.ticks(LATENCY_TICKS) {
            (line("grid", (LEFT, y), (RIGHT, y)))
            (label("", (LEFT - 8.0, y + 4.0), "end", &words))
        }

        @for (class, path) in cells(&of.over_time, &axes, scale) {
            path class=(class) d=(path) {}
        }
        path class="max" d=(maxima(&of.over_time.columns, &axes)) {}
        path class="gap" d=(gaps(&of.over_time.columns, &axes)) {}
        @if let Some(limit) = of.limit_seconds {
            (line("limit", (LEFT, axes.y(limit)), (RIGHT, axes.y(limit))))
        }
        (line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM)))

        @for (place, (at, words)) in ticks(axes.range, zone, TIME_TICKS).iter().enumerate() {
            @let class = if place % 2 == 1 { "dense" } else { "" };
            // Words at either end stay within the picture; the tick itself is where its time is.
            @let x = axes.x(*at).clamp(LEFT + 24.0, RIGHT - 24.0);
            (line("axis", (axes.x(*at), BOTTOM), (axes.x(*at), BOTTOM + 12.0)))
            (label(class, (x, BOTTOM + 30.0), "middle", words))
        }
    })
}

/// The cells of each colour as one path: a page with some thousand of them stays small.
fn cells(of: &OverTime, axes: &Axes, scale: &ColourScale) -> BTreeMap<&'static str, String> {
    let mut paths: BTreeMap<&'static str, String> = BTreeMap::new();
    for (column, row) in of.columns.iter().zip(&of.counts) {
        for (band, samples) in of.bands.iter().zip(row) {
            let Some(class) = scale.class(*samples) else { continue };
            let (top, bottom) = (axes.y(band.upper), axes.y(band.lower));
            let path = paths.entry(class).or_default();
            rectangle(path, axes, column, top, (bottom - top).max(CELL_MIN));
        }
    }
    paths
}

fn rectangle(path: &mut String, axes: &Axes, column: &Column, top: f64, height: f64) {
    let (left, right) = (axes.x(column.from_seconds), axes.x(column.to_seconds));
    let (width, height) = (px(right - left), px(height));
    *path += &format!("M{left:.1} {top:.1}h{width}v{height}h-{width}z");
}

/// A short line at each column's maximum.
fn maxima(columns: &[Column], axes: &Axes) -> String {
    let mut path = String::new();
    for column in columns {
        let Some(max) = column.max else { continue };
        let (left, right) = (axes.x(column.from_seconds), axes.x(column.to_seconds));
        path += &format!("M{left:.1} {:.1}h{:.1}", axes.y(max), right - left);
    }
    path
}

/// A strip below the columns that are not complete.
fn gaps(columns: &[Column], axes: &Axes) -> String {
    let mut path = String::new();
    let incomplete = columns.iter().filter(|column| !is_complete(column));
    incomplete.for_each(|column| rectangle(&mut path, axes, column, BOTTOM + 1.0, STRIP));
    path
}

fn columns(of: &OperationResult, zone: &TimeZone) -> Table {
    let rows = of.over_time.columns.iter().map(|column| {
        let latencies =
            [column.p50, column.p99, column.max].map(|shown| value(&of.operation, shown));
        let over = column.over.map_or("-".to_owned(), |of| over(of.over, of.uncertain));
        let figures = [count(column.count)].into_iter().chain(latencies);
        let figures = figures.chain([over, completeness(column.completeness)]).map(cell::figure);
        [cell::text(shown(column.from_seconds, zone))].into_iter().chain(figures).collect()
    });
    let heading = ["From", "Samples", "p50", "p99", "Maximum", "Over the limit", "Complete"];
    table(&format!("Columns of {}", of.operation), &heading, rows.collect(), "")
}
