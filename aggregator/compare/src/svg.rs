//! Parts of pictures in SVG: an axis of latencies, lines and labels, and the bars of a
//! distribution. Every text is escaped, whatever it holds.

use std::ops::Range;

use maud::{Markup, html};
use plimsoll_schemas::histogram::{Packed, layout};
use plimsoll_schemas::unit::Unit;

/// Bars of a distribution: narrower ones show the noise of few samples.
const BARS: usize = 100;
/// Decades of a picture whose samples are all in one bucket.
const DECADES_MIN: f64 = 0.04;
/// Ticks of one decade, from the most to the fewest.
const TICKS: [&[f64]; 3] = [&[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
/// The powers of ten between a nanosecond and the maximum sample.
const POWERS: std::ops::RangeInclusive<i32> = 0..=13;

/// A logarithmic axis from a latency to another one, between two places of a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct LogAxis {
    /// The logarithms of both latencies, in nanoseconds.
    decades: Range<f64>,
    /// Where both are. An axis that rises has the higher number first, since pictures count from
    /// their top.
    places: Range<f64>,
    unit: Unit,
}

impl LogAxis {
    /// An axis that begins a little before `low_ns` and ends a little after `high_ns`, or whole
    /// numbers of another unit.
    pub fn new(low_ns: f64, high_ns: f64, places: Range<f64>, unit: Unit) -> Self {
        let low = low_ns.max(1.0).log10();
        let high = high_ns.max(1.0).log10().max(low);
        Self { decades: low - 0.5 * DECADES_MIN..high + 0.5 * DECADES_MIN, places, unit }
    }

    /// Where a latency is; one outside the axis is at its nearer end.
    pub fn at(&self, ns: f64) -> f64 {
        self.place(self.share(ns).clamp(0.0, 1.0))
    }

    /// How far along the axis a latency is; below 0 or above 1 outside it.
    fn share(&self, ns: f64) -> f64 {
        let Range { start, end } = self.decades;
        (ns.max(1.0).log10() - start) / (end - start)
    }

    fn place(&self, share: f64) -> f64 {
        let Range { start, end } = self.places;
        start + share * (end - start)
    }

    /// At most this many ticks, with their places and words.
    pub fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        let Range { start: low, end: high } = self.decades;

        let inside = |steps: &[f64]| -> Vec<f64> {
            let all = POWERS.flat_map(|power| steps.iter().map(move |n| n * 10_f64.powi(power)));
            all.filter(|ns| (low..=high).contains(&ns.log10())).collect()
        };

        let fitting = TICKS.iter().map(|steps| inside(steps)).find(|found| found.len() <= most);
        let found = fitting.unwrap_or_else(|| {
            let all = inside(TICKS[TICKS.len() - 1]);
            let skip = all.len().div_ceil(most.max(1));
            all.into_iter().step_by(skip).collect()
        });

        // An axis within one step shows its ends.
        let ends = || vec![10_f64.powf(low), 10_f64.powf(high)];
        let shown = if found.len() < 2 { ends() } else { found };
        shown
            .into_iter()
            .map(|ns| (self.at(ns), self.unit.text(ns / self.unit.raw_per_shown())))
            .collect()
    }

    /// The share of samples in each of equally wide bars along the axis, with the place of its
    /// middle. A bucket wider than a bar is spread over those it covers.
    pub fn density(&self, samples: &Packed) -> Vec<(f64, f64)> {
        let mut bars = vec![0.0; BARS];
        let count = samples.exact().count.max(1) as f64;
        let bar = |ns: u64| self.share(ns as f64) * BARS as f64;

        for (index, n) in samples.buckets() {
            let (from, to) = (bar(layout::lowest(index)), bar(layout::highest(index) + 1));
            for (at, share) in bars.iter_mut().enumerate() {
                let covered = to.min(at as f64 + 1.0) - from.max(at as f64);
                *share += covered.max(0.0) / (to - from) * n as f64 / count;
            }
        }

        let middle = |at: usize| self.place((at as f64 + 0.5) / BARS as f64);
        bars.into_iter().enumerate().map(|(at, share)| (middle(at), share)).collect()
    }
}

pub fn line(class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> Markup {
    html! { line class=(class) x1=(px(x1)) y1=(px(y1)) x2=(px(x2)) y2=(px(y2)) {} }
}

/// Words whose `start`, `middle` or `end` is at a point.
pub fn label(class: &str, (x, y): (f64, f64), anchor: &str, words: &str) -> Markup {
    html! { text class=(class) x=(px(x)) y=(px(y)) text-anchor=(anchor) { (words) } }
}

/// The outline of points from left to right.
pub fn polyline(class: &str, points: impl Iterator<Item = (f64, f64)>) -> Markup {
    let points: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    html! { polyline class=(class) points=(points.join(" ")) {} }
}

pub fn px(at: f64) -> String {
    format!("{at:.1}")
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::histogram::Histogram;
    use proptest::prelude::*;

    use super::*;

    fn words(axis: &LogAxis, most: usize) -> Vec<String> {
        axis.ticks(most).into_iter().map(|(_, words)| words).collect()
    }

    #[test]
    fn an_axis_has_round_ticks_however_long_it_is() {
        let of = |low, high| words(&LogAxis::new(low, high, 0.0..100.0, Unit::Nanoseconds), 8);
        assert_eq!(of(1e6, 20e6), ["1 ms", "2 ms", "5 ms", "10 ms", "20 ms"]);
        assert_eq!(of(1e4, 1e7), ["10 µs", "30 µs", "100 µs", "300 µs", "1 ms", "3 ms", "10 ms"]);
        assert_eq!(of(1e3, 1e12).len(), 5);
        assert_eq!(of(17e6, 17e6), ["16.2 ms", "17.8 ms"]);
    }

    #[test]
    fn words_are_escaped() {
        let hostile = label("\"x", (1.0, 2.0), "end", "<script>&").into_string();
        let wanted = "<text class=\"&quot;x\" x=\"1.0\" y=\"2.0\" text-anchor=\"end\">\
                      &lt;script&gt;&amp;</text>";
        assert_eq!(hostile, wanted);
    }

    proptest! {
        #[test]
        fn bars_hold_all_samples_of_the_axis(
            values in prop::collection::vec(1_000_u64..=layout::MAX_NS, 1..50),
        ) {
            let mut samples = Histogram::default();
            values.iter().for_each(|value| samples.record(*value));
            let (low, high) = (samples.min_ns() as f64, samples.max_ns() as f64);
            // Buckets reach beyond the samples in them.
            let axis = LogAxis::new(low * 0.4, high * 1.01, 0.0..1.0, Unit::Nanoseconds);
            let sum: f64 = axis.density(&Packed::from(&samples)).iter().map(|bar| bar.1).sum();
            prop_assert!((sum - 1.0).abs() < 1e-6, "{}", sum);
        }
    }
}
