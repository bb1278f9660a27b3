//! A comparison as SVG: for each operation both distributions over a logarithmic axis, and the
//! shift of each quantile with its interval and the noise floor.
//!
//! Colours differ in lightness too, lines in dashes, and each operation's figures are in its
//! description, so that the picture does not depend on colour.

use maud::{Markup, PreEscaped, html};
use plimsoll_schemas::figure::quantile;
use plimsoll_schemas::histogram::{Packed, layout, rank};
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::unit::Unit;

use crate::comparison::{Compared, Comparison, Shift};
use crate::runs::Named;
use crate::side::Side;
use crate::svg::{LogAxis, label, line, polyline, px};
use crate::table::percent;

const WIDTH: f64 = 720.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const PANEL: f64 = 180.0;
const GAP: f64 = 70.0;
const TOP: f64 = 40.0;
/// Ticks that fit beside each other.
const TICKS: usize = 10;
/// Operations that are drawn; a browser shows more only slowly.
const OPERATIONS_MAX: usize = 20;
/// Text and lines take the colour of the page, so that both dark and light ones can have it.
const STYLE: &str = "text{font:12px sans-serif;fill:#333}.title{font-size:14px;font-weight:bold}\
.grid{stroke:#8886}.axis{stroke:#888}.a,.b{fill:none;stroke-width:2}.a{stroke:#0072b2}\
.b{stroke:#d55e00;stroke-dasharray:6 3}.bar{stroke:#d55e00;stroke-width:2}.dot{fill:#d55e00}\
.floor{fill:#8883}@media(prefers-color-scheme:dark){text{fill:#ddd}.a{stroke:#56b4e9}\
.b,.bar{stroke:#e69f00}.dot{fill:#e69f00}}";

/// The picture of a comparison of two sides.
pub fn svg(comparison: &Comparison, sides: [&[Named<Side>]; 2]) -> String {
    let drawn = comparison.operations.iter().filter(|(_, compared)| !compared.shifts.is_empty());
    let drawn: Vec<_> = drawn.take(OPERATIONS_MAX).collect();
    let height = TOP + (drawn.len() * 2) as f64 * (PANEL + GAP);
    let verdict = comparison.verdict.words();

    let text = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (height) } role="img"
            aria-labelledby="title description" {
            title id="title" { "Latency of B compared with A: " (verdict) }
            desc id="description" { (description(&drawn)) }
            style { (PreEscaped(STYLE)) }
            @for (at, (name, compared)) in drawn.iter().enumerate() {
                @let top = TOP + (at * 2) as f64 * (PANEL + GAP);
                (distributions(name, compared, sides, top))
                (shifts(compared, top + PANEL + GAP))
            }
        }
    };

    text.into_string() + "\n"
}

fn description(drawn: &[(&Operation, &Compared)]) -> String {
    let of = |(name, compared): &(&_, &Compared)| {
        let shifts = compared.shifts.iter().filter_map(|shift| {
            let change = percent(shift.change?.estimate);
            Some(format!("{} {change}", quantile(shift.quantile)))
        });
        let shifts: Vec<String> = shifts.collect();
        format!("{name} is {}: {}.", compared.verdict.words(), shifts.join(", "))
    };
    drawn.iter().map(of).collect::<Vec<_>>().join(" ")
}

fn distributions(
    name: &Operation,
    compared: &Compared,
    sides: [&[Named<Side>]; 2],
    top: f64,
) -> Markup {
    let heading = format!("{name}: {}", compared.verdict.words());

    let sides = sides.map(|runs| {
        let measured = runs.iter().filter_map(|run| run.of.operations.get(name.as_str()));
        let parts = measured.flat_map(|of| &of.slots).map(|slot| &slot.samples);
        Packed::united(&parts.collect::<Vec<_>>())
    });

    // Not from the lowest sample to the highest: one sample
    // of an hour would squeeze all others into a corner.
    let ends = |quantile| sides.iter().filter_map(move |side| value_at(side, quantile));
    let low = ends(0.001).fold(f64::INFINITY, f64::min);
    let (high, unit) = (ends(0.9995).fold(0.0, f64::max), Unit::of(name.as_str()));
    let axis = LogAxis::new(low, high, LEFT..WIDTH - RIGHT, unit);
    let bottom = top + PANEL;
    let densities = sides.each_ref().map(|side| axis.density(side));
    let shares = densities.iter().flatten().map(|bar| bar.1);
    let most = shares.fold(f64::MIN_POSITIVE, f64::max);

    html! {
        (label("title", (LEFT, top - 12.0), "start", &heading))

        @for (x, words) in axis.ticks(TICKS) {
            (line("grid", (x, top), (x, bottom)))
            (label("tick", (x, bottom + 16.0), "middle", &words))
        }

        (line("axis", (LEFT, bottom), (WIDTH - RIGHT, bottom)))
        @for (class, density) in ["a", "b"].into_iter().zip(&densities) {
            (polyline(class, density.iter().map(|(x, n)| (*x, top + PANEL * (1.0 - n / most)))))
        }
        (key("a", 110.0, "A", top))
        (key("b", 54.0, "B", top))
    }
}

fn key(class: &str, at: f64, words: &str, top: f64) -> Markup {
    let left = WIDTH - RIGHT - at;
    html! {
        (line(class, (left, top - 16.0), (left + 30.0, top - 16.0)))
        (label("tick", (left + 36.0, top - 12.0), "start", words))
    }
}

/// Shifts from the lowest quantile at the left to the highest at the right.
fn shifts(compared: &Compared, top: f64) -> Markup {
    let shown: Vec<&Shift> = compared.shifts.iter().filter(|s| s.change.is_some()).collect();
    let most = shown.iter().filter_map(|shift| shift.change).fold(0.01, |most: f64, change| {
        most.max(change.high.abs()).max(change.low.abs()).max(change.floor)
    });
    let y = |share: f64| top + PANEL * 0.5 * (1.0 - share / most);
    let each = (WIDTH - LEFT - RIGHT) / shown.len().max(1) as f64;
    let middle = |at: usize| LEFT + (at as f64 + 0.5) * each;
    let words = "line: interval; grey: noise floor of a side with itself";

    html! {
        (label("title", (LEFT, top - 12.0), "start", "shift from A to B"))

        @for share in [-most, -0.5 * most, 0.0, 0.5 * most, most] {
            @let class = if share == 0.0 { "axis" } else { "grid" };
            (line(class, (LEFT, y(share)), (WIDTH - RIGHT, y(share))))
            (label("tick", (LEFT - 8.0, y(share) + 4.0), "end", &percent(share)))
        }

        @for (at, shift) in shown.into_iter().enumerate() {
            (shift_mark(shift, middle(at), each * 0.4, &y))
            @let name = quantile(shift.quantile);
            (label("tick", (middle(at), top + PANEL + 16.0), "middle", &name))
        }

        (label("tick", (WIDTH - RIGHT, top + PANEL + 34.0), "end", words))
    }
}

fn shift_mark(shift: &Shift, middle: f64, half: f64, y: &impl Fn(f64) -> f64) -> Markup {
    let Some(change) = shift.change else { return Markup::default() };
    let (upper, lower) = (y(change.floor), y(-change.floor));
    html! {
        rect class="floor" x=(px(middle - half)) y=(px(upper)) width=(px(2.0 * half))
            height=(px(lower - upper)) {}
        (line("bar", (middle, y(change.low)), (middle, y(change.high))))
        circle class="dot" cx=(px(middle)) cy=(px(y(change.estimate))) r="4" {}
    }
}

fn value_at(samples: &Packed, quantile: f64) -> Option<f64> {
    let mut left = rank(quantile, samples.exact().count);
    let mut buckets = samples.buckets();
    let found = buckets.find(|(_, n)| {
        left = left.saturating_sub(*n);
        left == 0
    });
    found.map(|(index, _)| layout::highest(index) as f64)
}
