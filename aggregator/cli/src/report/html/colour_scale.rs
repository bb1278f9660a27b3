//! The colours of numbers of samples: seven steps of one hue that differ in lightness, shared by
//! all heatmaps of a page.

use maud::{Markup, html};
use plimsoll_schemas::figure::count;

const STEPS: u64 = 7;
/// The class of each step.
const CLASSES: [&str; 7] = ["h0", "h1", "h2", "h3", "h4", "h5", "h6"];

/// Steps that grow by the same factor, from one sample to the most of any cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColourScale {
    most: u64,
}

impl ColourScale {
    /// For cells of up to this many samples.
    pub(super) fn new(most: u64) -> Self {
        Self { most: most.max(1) }
    }

    /// The class of a cell; `None` without samples, so that one sample differs from none.
    pub(super) fn class(self, samples: u64) -> Option<&'static str> {
        let step = (1..STEPS).take_while(|step| samples >= self.lowest(*step)).count();
        (samples > 0).then(|| CLASSES[step])
    }

    /// The fewest samples of a step.
    fn lowest(self, step: u64) -> u64 {
        let share = step as f64 / STEPS as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 1 and the most samples of a cell"
        )]
        // Less than any rounding is off by, so that the steps of a power of ten are round.
        let lowest = (((self.most as f64).ln() * share).exp() - 1e-6).ceil() as u64;
        // Each step begins above the one before, however few samples there are.
        lowest.max(step + 1)
    }

    /// Each step with its numbers of samples.
    pub(super) fn legend(self) -> Markup {
        let steps = (0..STEPS).map(|step| {
            let from = if step == 0 { 1 } else { self.lowest(step) };
            let to = if step + 1 == STEPS { self.most } else { self.lowest(step + 1) - 1 };
            (from, to.min(self.most))
        });

        let steps: Vec<(u64, u64)> = steps.filter(|(from, to)| from <= to).collect();
        let width = 7 * 100;

        html! {
            figure {
                svg viewBox={ "0 0 " (width) " 44" } role="img" aria-labelledby="legend-title" {
                    title id="legend-title" { "Samples in a cell, from pale to strong" }
                    @for (at, (from, to)) in steps.iter().enumerate() {
                        @let x = at * 100;
                        @if let Some(class) = self.class(*from) {
                            rect class=(class) x=(x + 4) y="4" width="92" height="14" {}
                        }
                        text x=(x + 50) y="36" text-anchor="middle" {
                            (count(*from)) @if to > from { "–" (count(*to)) }
                        }
                    }
                }
                figcaption { "Samples in a cell." }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn more_samples_are_never_paler_and_one_is_shown(most in 1_u64..10_000_000) {
            let scale = ColourScale::new(most);
            prop_assert_eq!(scale.class(0), None);
            prop_assert_eq!(scale.class(1), Some("h0"));
            let steps: Vec<u64> = (1..STEPS).map(|step| scale.lowest(step)).collect();
            prop_assert!(steps.is_sorted(), "{:?}", steps);
            for (at, lowest) in steps.iter().enumerate() {
                let class = format!("h{}", at + 1);
                prop_assert_eq!(scale.class(*lowest), Some(class.as_str()));
            }
        }
    }

    #[test]
    fn the_legend_has_all_numbers_once() {
        let text = ColourScale::new(10_000_000).legend().into_string();
        assert_eq!(text.matches("<rect ").count(), 7);
        assert!(text.contains(">1–9<") && text.contains("–10,000,000<"), "{text}");
        assert_eq!(ColourScale::new(2).legend().into_string().matches("<rect ").count(), 2);
    }
}
