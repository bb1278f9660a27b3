//! A comparison as SVG: for each operation both distributions over a logarithmic axis, and the
//! shift of each quantile with its interval and the noise floor.
//!
//! Colours differ in lightness too, lines in dashes, and each operation's figures are in its
//! description, so that the picture does not depend on colour.

use std::fmt::Write;

use plimsoll_schemas::histogram::{Packed, layout, rank};

use crate::comparison::{Compared, Comparison, Shift};
use crate::side::Side;
use crate::table::{percent, quantile_name};

const WIDTH: f64 = 720.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const PANEL: f64 = 180.0;
const GAP: f64 = 70.0;
const TOP: f64 = 40.0;
/// Bars of a distribution: narrower ones show the noise of few samples.
const BARS: usize = 100;
/// Operations that are drawn; a browser shows more only slowly.
const OPERATIONS_MAX: usize = 20;
/// Text and lines take the colour of the page, so that both dark and light ones can have it.
const STYLE: &str = "text{font:12px sans-serif;fill:#333}.title{font-size:14px;font-weight:bold}\
.grid{stroke:#8886}.axis{stroke:#888}.a,.b{fill:none;stroke-width:2}.a{stroke:#0072b2}\
.b{stroke:#d55e00;stroke-dasharray:6 3}.bar{stroke:#d55e00;stroke-width:2}.dot{fill:#d55e00}\
.floor{fill:#8883}@media(prefers-color-scheme:dark){text{fill:#ddd}.a{stroke:#56b4e9}\
.b,.bar{stroke:#e69f00}.dot{fill:#e69f00}}";

/// The picture of a comparison of two sides.
#[must_use]
pub fn svg(comparison: &Comparison, a: &Side, b: &Side) -> String {
    let drawn = comparison.operations.iter().filter(|(_, compared)| !compared.shifts.is_empty());
    let drawn: Vec<_> = drawn.take(OPERATIONS_MAX).collect();
    let height = TOP + (drawn.len() * 2) as f64 * (PANEL + GAP);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-labelledby=\"title description\">\n<title id=\"title\">Latency of B compared with \
         A: {}</title>\n<desc id=\"description\">{}</desc>\n<style>{STYLE}</style>\n",
        comparison.verdict.words(),
        description(&drawn),
    );
    for (at, (name, compared)) in drawn.iter().enumerate() {
        let top = TOP + (at * 2) as f64 * (PANEL + GAP);
        let sides = [a, b].map(|side| {
            let slots = side.operations.get(name.as_str()).map(|of| of.slots.as_slice());
            let parts = slots.unwrap_or_default().iter().map(|slot| &slot.samples);
            Packed::united(&parts.collect::<Vec<_>>())
        });
        let heading = format!("{name}: {}", compared.verdict.words());
        text += &distributions(&heading, &sides, top);
        text += &shifts(compared, top + PANEL + GAP);
    }
    text + "</svg>\n"
}

fn description(drawn: &[(&plimsoll_schemas::ids::Operation, &Compared)]) -> String {
    let of = |(name, compared): &(&_, &Compared)| {
        let shifts = compared.shifts.iter().filter_map(|shift| {
            let change = percent(shift.change?.estimate);
            Some(format!("{} {change}", quantile_name(shift.quantile)))
        });
        let shifts: Vec<String> = shifts.collect();
        format!("{name} is {}: {}.", compared.verdict.words(), shifts.join(", "))
    };
    drawn.iter().map(of).collect::<Vec<_>>().join(" ")
}

fn distributions(heading: &str, sides: &[Packed; 2], top: f64) -> String {
    let mut text = label(LEFT, top - 12.0, "start", " class=\"title\"", heading);
    let ends = |quantile| sides.iter().filter_map(move |side| value_at(side, quantile));
    let low = ends(0.001).fold(f64::INFINITY, f64::min).log10();
    let high = ends(0.9995).fold(0.0, f64::max).log10();
    // Samples of one bucket would have no width.
    let (low, high) = (low - 0.02, high.max(low) + 0.02);
    let x = |decade: f64| LEFT + (decade - low) / (high - low) * (WIDTH - LEFT - RIGHT);
    for (decade, words) in ticks(low, high) {
        text += &line("grid", x(decade), top, x(decade), top + PANEL);
        text += &label(x(decade), top + PANEL + 16.0, "middle", "", &words);
    }
    text += &line("axis", LEFT, top + PANEL, WIDTH - RIGHT, top + PANEL);
    let densities = sides.each_ref().map(|side| density(side, low, high));
    let most = densities.iter().flatten().fold(f64::MIN_POSITIVE, |most, n| n.max(most));
    for (class, density) in ["a", "b"].into_iter().zip(&densities) {
        let points = density.iter().enumerate().map(|(at, n)| {
            let decade = low + (at as f64 + 0.5) / BARS as f64 * (high - low);
            format!("{:.1},{:.1}", x(decade), top + PANEL * (1.0 - n / most))
        });
        let points: Vec<String> = points.collect();
        let _written =
            writeln!(text, "<polyline class=\"{class}\" points=\"{}\"/>", points.join(" "));
    }
    text + &legend(top)
}

fn legend(top: f64) -> String {
    let key = |class, at: f64, words| {
        let left = WIDTH - RIGHT - at;
        line(class, left, top - 16.0, left + 30.0, top - 16.0)
            + &label(left + 36.0, top - 12.0, "start", "", words)
    };
    key("a", 110.0, "A") + &key("b", 54.0, "B")
}

/// Shifts from the lowest quantile at the left to the highest at the right.
fn shifts(compared: &Compared, top: f64) -> String {
    let shown: Vec<&Shift> = compared.shifts.iter().filter(|s| s.change.is_some()).collect();
    let most = shown.iter().filter_map(|shift| shift.change).fold(0.01, |most: f64, change| {
        most.max(change.high.abs()).max(change.low.abs()).max(change.floor)
    });
    let y = |share: f64| top + PANEL * 0.5 * (1.0 - share / most);
    let mut text = label(LEFT, top - 12.0, "start", " class=\"title\"", "shift from A to B");
    for share in [-most, -0.5 * most, 0.0, 0.5 * most, most] {
        let class = if share == 0.0 { "axis" } else { "grid" };
        text += &line(class, LEFT, y(share), WIDTH - RIGHT, y(share));
        text += &label(LEFT - 8.0, y(share) + 4.0, "end", "", &percent(share));
    }
    let each = (WIDTH - LEFT - RIGHT) / shown.len().max(1) as f64;
    for (at, shift) in shown.into_iter().enumerate() {
        let middle = LEFT + (at as f64 + 0.5) * each;
        text += &shift_mark(shift, middle, each * 0.4, &y);
        text += &label(middle, top + PANEL + 16.0, "middle", "", &quantile_name(shift.quantile));
    }
    let words = "line: interval; grey: noise floor of a side with itself";
    text + &label(WIDTH - RIGHT, top + PANEL + 34.0, "end", "", words)
}

fn shift_mark(shift: &Shift, middle: f64, half: f64, y: &impl Fn(f64) -> f64) -> String {
    let Some(change) = shift.change else { return String::new() };
    let mut text = String::new();
    let (upper, lower) = (y(change.floor), y(-change.floor));
    let _written = writeln!(
        text,
        "<rect class=\"floor\" x=\"{:.1}\" y=\"{upper:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
        middle - half,
        2.0 * half,
        lower - upper
    );
    text += &line("bar", middle, y(change.low), middle, y(change.high));
    let at = y(change.estimate);
    let _written =
        writeln!(text, "<circle class=\"dot\" cx=\"{middle:.1}\" cy=\"{at:.1}\" r=\"4\"/>");
    text
}

/// The share of samples in each bar. A bucket wider than a bar is spread over those it covers.
fn density(samples: &Packed, low: f64, high: f64) -> Vec<f64> {
    let mut bars = vec![0.0; BARS];
    let count = samples.exact().count.max(1) as f64;
    let bar = |ns: u64| ((ns.max(1) as f64).log10() - low) / (high - low) * BARS as f64;
    for (index, n) in samples.buckets() {
        let (from, to) = (bar(layout::lowest(index)), bar(layout::highest(index) + 1));
        for (at, share) in bars.iter_mut().enumerate() {
            let covered = to.min(at as f64 + 1.0) - from.max(at as f64);
            *share += covered.max(0.0) / (to - from) * n as f64 / count;
        }
    }
    bars
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

/// 1, 2 and 5 of each power of ten between two decades of nanoseconds, in milliseconds.
fn ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    let steps = (0..=13).flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10_f64.powi(power)));
    let inside = steps.filter(|ns| (low..=high).contains(&ns.log10()));
    let all: Vec<f64> = inside.collect();
    // At most about ten fit beside each other.
    let skip = all.len().div_ceil(10).max(1);
    let shown = all.into_iter().step_by(skip);
    shown.map(|ns| (ns.log10(), format!("{} ms", ns / 1e6))).collect()
}

fn line(class: &str, x1: f64, y1: f64, x2: f64, y2: f64) -> String {
    format!(
        "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>\n"
    )
}

/// Operations hold no character that XML would need escaped.
fn label(x: f64, y: f64, anchor: &str, class: &str, words: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{class}>{words}</text>\n")
}
