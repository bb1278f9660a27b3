//! The distribution of one operation's latencies, with its limit, and the quantiles as a table.

use maud::{Markup, html};
use plimsoll_compare::svg::{LogAxis, label, line, px};
use plimsoll_schemas::figure::{counted, quantile};
use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::summary::BucketCount;
use plimsoll_schemas::unit::Unit;

use super::super::document::OperationResult;
use super::super::tables::{self as cell, Table, table};
use super::super::words::value;
use super::{Figure, Picture};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 40.0;
const RIGHT: f64 = 680.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 186.0;
const TICKS: usize = 8;

/// The plot with its table.
pub(super) fn figure(of: &OperationResult, at: usize) -> Figure {
    let words = words(of);
    Figure { plot: plot(of, at, &words), table: quantiles(of), words }
}

/// The plot in words.
fn words(of: &OperationResult) -> String {
    let at = |quantile: f64| {
        let found = of.quantiles.iter().find(|found| found.quantile == quantile);
        value(&of.operation, found.map(|found| found.value))
    };

    let limit = match of.limit_seconds {
        Some(limit) => format!(", limit {}", value(&of.operation, Some(limit))),
        None => ", no limit".to_owned(),
    };

    let samples = counted(of.count, "sample");
    let [min, max] = [of.min, of.max].map(|shown| value(&of.operation, shown));

    format!(
        "{samples} from {min} to {max}: half up to {}, 99 % up to {}{limit}.",
        at(0.5),
        at(0.99)
    )
}

fn plot(of: &OperationResult, at: usize, words: &str) -> Markup {
    let unit = Unit::of(&of.operation);
    let (samples, raw) = (samples(&of.distribution, unit), unit.raw_per_shown());
    let limit = of.limit_seconds.map(|limit| limit * raw);
    let (least, most) = (of.min.unwrap_or_default() * raw, of.max.unwrap_or_default() * raw);
    let least = limit.map_or(least, |limit| limit.min(least));
    let most = limit.map_or(most, |limit| limit.max(most));
    let axis = LogAxis::new(least.max(1e3), most, LEFT..RIGHT, unit);
    let bars = axis.density(&samples);
    let highest = bars.iter().fold(f64::MIN_POSITIVE, |highest, bar| bar.1.max(highest));
    let y = |share: f64| BOTTOM - (BOTTOM - TOP) * share / highest;
    let top = bars.iter().map(|(x, share)| format!("{x:.1},{:.1}", y(*share)));
    let ends = [px(LEFT), px(RIGHT)].map(|x| format!("{x},{BOTTOM:.1}"));
    let outline: Vec<String> =
        [ends[0].clone()].into_iter().chain(top).chain([ends[1].clone()]).collect();

    let picture = Picture {
        id: format!("distribution-{at}"),
        size: (WIDTH, HEIGHT),
        title: format!("Distribution of {}", of.operation),
        words,
    };

    picture.of(&html! {
        @for (x, _) in axis.ticks(TICKS) { (line("grid", (x, TOP), (x, BOTTOM))) }
        polygon class="area" points=(outline.join(" ")) {}
        (line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM)))

        @for (place, (x, words)) in axis.ticks(TICKS).into_iter().enumerate() {
            @let class = if place % 2 == 1 { "dense" } else { "" };
            (label(class, (x, BOTTOM + 24.0), "middle", &words))
        }

        @if let Some(limit) = limit { (limit_mark(&axis, limit, unit)) }
    })
}

fn limit_mark(axis: &LogAxis, limit: f64, unit: Unit) -> Markup {
    let x = axis.at(limit);
    let anchor = if x > 0.5 * (LEFT + RIGHT) { "end" } else { "start" };
    let words = format!("limit {}", unit.text(limit / unit.raw_per_shown()));
    html! {
        (line("limit", (x, TOP - 8.0), (x, BOTTOM)))
        (label("limit-words", (x, TOP - 14.0), anchor, &words))
    }
}

fn quantiles(of: &OperationResult) -> Table {
    let rows = of.quantiles.iter().map(|found| {
        let ends = [found.value, found.lower, found.upper];
        let ends = ends.map(|shown| cell::figure(value(&of.operation, Some(shown))));
        [cell::text(quantile(found.quantile))].into_iter().chain(ends).collect()
    });
    let caption = format!("Quantiles of {}", of.operation);
    table(&caption, &["Quantile", "Value", "Min", "Max"], rows.collect(), "")
}

fn samples(buckets: &[BucketCount], unit: Unit) -> Packed {
    let mut samples = Histogram::default();
    for bucket in buckets {
        samples.record_n(unit.raw(bucket.upper), bucket.count);
    }
    Packed::from(&samples)
}
