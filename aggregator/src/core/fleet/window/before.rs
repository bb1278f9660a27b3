//! What came just before a window: its samples have been passed on to the next longer one.

use plimsoll_schemas::budget::Window;
use plimsoll_schemas::histogram::{Histogram, Over};
use plimsoll_schemas::time::{Wall, nanos};

use super::tier::{Shown, slot_ns};
use super::{Windows, slots};

impl Windows {
    /// The samples of a window's span just before a window that ends now, from the beginning of
    /// the next longer window's slot on, and how many of them are over a limit. None where no
    /// longer window is kept.
    #[must_use]
    pub fn before(&self, now: Wall, window: Window, limit_ns: u64) -> (Histogram, Over) {
        let (mut samples, mut over) = (Histogram::default(), Over::default());
        let next = window as usize + 1;
        let Some(longer) = Window::ALL.get(next).filter(|longer| self.keeps(**longer)) else {
            return (samples, over);
        };
        let to = Shown::new(now, window).from;
        let slot = slot_ns(*longer);
        let from = to.saturating_sub(nanos(window.span())) / slot * slot;
        let place = self.limits.place(limit_ns);
        let before = slots(&self.tiers[..=next]).filter(|(begin, _)| (from..to).contains(begin));
        before.for_each(|(_, slot)| {
            slot.merge_into(&mut samples);
            let count = || slot.count_over(limit_ns);
            over.add(place.map_or_else(count, |at| slot.tally().at(at)));
        });
        (samples, over)
    }
}
