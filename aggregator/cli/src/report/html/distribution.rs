//! The distribution of one operation's latencies, with its limit, and the quantiles as a table.

use std::time::Duration;

use maud::{Markup, html};
use plimsoll_compare::svg::{LogAxis, label, line, px};
use plimsoll_schemas::figure::{counted, quantile};
use plimsoll_schemas::histogram::{Histogram, Packed};
use plimsoll_schemas::summary::BucketCount;

use super::super::document::OperationResult;
use super::super::tables::{self as cell, Table, table};
use super::super::words::milliseconds_or_so;
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
        milliseconds_or_so(found.map(|found| found.value))
    };

    let limit = match of.limit_seconds {
        Some(limit) => format!(", limit {}", milliseconds_or_so(Some(limit))),
        None => ", no limit".to_owned(),
    };

    let samples = counted(of.count, "sample");
    let (min, max) = (milliseconds_or_so(of.min), milliseconds_or_so(of.max));

    format!(
        "{samples} from {min} to {max}: half up to {}, 99 % up to {}{limit}.",
        at(0.5),
        at(0.99)
    )
}

fn plot(of: &OperationResult, at: usize, words: &str) -> Markup {
    let samples = samples(&of.distribution);
    let limit = of.limit_seconds.map(|limit| limit * 1e9);
    let (least, most) = (of.min.unwrap_or_default() * 1e9, of.max.unwrap_or_default() * 1e9);
    let least = limit.map_or(least, |limit| limit.min(least));
    let most = limit.map_or(most, |limit| limit.max(most));
    let axis = LogAxis::new(least.max(1e3), most, LEFT..RIGHT);
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

        @if let Some(limit) = limit { (limit_mark(&axis, limit)) }
    })
}

fn limit_mark(axis: &LogAxis, limit: f64) -> Markup {
    let x = axis.at(limit);
    let anchor = if x > 0.5 * (LEFT + RIGHT) { "end" } else { "start" };
    let words = format!("limit {}", milliseconds_or_so(Some(limit / 1e9)));
    html! {
        (line("limit", (x, TOP - 8.0), (x, BOTTOM)))
        (label("limit-words", (x, TOP - 14.0), anchor, &words))
    }
}

fn quantiles(of: &OperationResult) -> Table {
    let rows = of.quantiles.iter().map(|found| {
        let ends = [found.value, found.lower, found.upper];
        let ends = ends.map(|seconds| cell::figure(milliseconds_or_so(Some(seconds))));
        [cell::text(quantile(found.quantile))].into_iter().chain(ends).collect()
    });
    let caption = format!("Quantiles of {}", of.operation);
    table(&caption, &["Quantile", "Value", "Min", "Max"], rows.collect(), "")
}

fn samples(buckets: &[BucketCount]) -> Packed {
    let mut samples = Histogram::default();
    for bucket in buckets {
        let upper = Duration::try_from_secs_f64(bucket.upper).unwrap_or_default();
        samples.record_n(u64::try_from(upper.as_nanos()).unwrap_or(u64::MAX), bucket.count);
    }
    Packed::from(&samples)
}
