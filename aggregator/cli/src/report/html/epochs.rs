//! The epochs of a report by their number: the area between the shortest and the longest of each
//! few neighbours, which is a line while they are few.

use maud::{Markup, html};
use plimsoll_compare::svg::{LogAxis, label, line, px};
use plimsoll_schemas::unit::Unit;

use super::super::document::Document;
use super::super::epochs::neighbours;
use super::super::tables::Section;
use super::{Figure, Picture};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 704.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 180.0;
/// Columns of the plot, more than a pixel wide each.
const COLUMNS_MAX: usize = 600;
const TIME_TICKS: usize = 5;
const NUMBER_TICKS: usize = 6;

/// The plot of a section, with its paragraph as words and its table.
pub(super) fn figure(of: &Document, mut section: Section) -> Option<Figure> {
    let (words, table) = (section.paragraphs.pop()?, section.tables.pop()?);
    let all = of.epoch_time_ms.as_deref()?;
    Some(Figure { plot: plot(all, &words), words, table })
}

fn plot(all: &[f64], words: &str) -> Markup {
    let columns = neighbours(all, COLUMNS_MAX);
    let min = columns.iter().map(|of| of.min_ms).fold(f64::INFINITY, f64::min);
    let max = columns.iter().map(|of| of.max_ms).fold(0.0, f64::max);
    let axis = LogAxis::new((min * 1e6).max(1e3), max * 1e6, BOTTOM..TOP, Unit::Nanoseconds);
    let last = all.len().max(2) as f64;
    let x = |number: f64| LEFT + (number - 1.0) / (last - 1.0) * (RIGHT - LEFT);
    let point = |number: f64, ms: f64| format!("{},{}", px(x(number)), px(axis.at(ms * 1e6)));

    // Along the longest, and back along the shortest.
    let middle = |first: usize, last: usize| 0.5 * (first + last) as f64;
    let there = columns.iter().map(|of| point(middle(of.first, of.last), of.max_ms));
    let back = columns.iter().rev().map(|of| point(middle(of.first, of.last), of.min_ms));
    let outline: Vec<String> = there.chain(back).collect();

    let picture = Picture {
        id: "epochs-plot".to_owned(),
        size: (WIDTH, HEIGHT),
        title: "Epochs in order".to_owned(),
        words,
    };

    picture.of(&html! {
        @for (y, words) in axis.ticks(TIME_TICKS) {
            (line("grid", (LEFT, y), (RIGHT, y)))
            (label("", (LEFT - 8.0, y + 4.0), "end", &words))
        }
        polygon class="area" points=(outline.join(" ")) {}
        (line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM)))
        @for (place, number) in numbers(all.len()).into_iter().enumerate() {
            @let class = if place % 2 == 1 { "dense" } else { "" };
            (label(class, (x(number as f64), BOTTOM + 24.0), "middle", &number.to_string()))
        }
    })
}

/// The first, and each that is a multiple of a round number.
fn numbers(count: usize) -> Vec<usize> {
    let steps = (0..).flat_map(|power| [1, 2, 5].map(|of: usize| of * 10_usize.pow(power)));
    let step = steps.take(24).find(|step| count / step <= NUMBER_TICKS).unwrap_or(count.max(1));
    let multiples = (1..=count / step).map(|n| n * step).filter(|n| *n > 1);
    [1].into_iter().chain(multiples).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_below_the_plot_are_round_and_few() {
        for (count, wanted) in [
            (1, vec![1]),
            (3, vec![1, 2, 3]),
            (10, vec![1, 2, 4, 6, 8, 10]),
            (137, vec![1, 20, 40, 60, 80, 100, 120]),
            (10_000, vec![1, 2_000, 4_000, 6_000, 8_000, 10_000]),
        ] {
            assert_eq!(numbers(count), wanted, "{count}");
        }
    }

    #[test]
    fn one_epoch_and_epochs_of_no_time_are_drawn_too() {
        for all in [vec![5.0], vec![0.0, 0.0], vec![1.0; 2_000]] {
            let plot = plot(&all, "words").into_string();
            assert!(plot.contains("polygon") && !plot.contains("NaN"), "{plot}");
            let points = plot.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
            let columns = neighbours(&all, COLUMNS_MAX).len();
            assert_eq!(points.split(' ').count(), 2 * columns);
        }
    }
}
