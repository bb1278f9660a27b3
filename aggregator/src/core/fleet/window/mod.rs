//! Samples of one operation in one scope: all of them, and those of each window.
//!
//! Owns, each in a part of its own:
//!
//! - the samples in slots, by the time at which they were taken: [`Cascade`];
//! - what is counted for the limits of budgets beside the samples: [`LimitCounts`];
//! - when samples arrived, so when a name is idle: [`Activity`];
//! - the exact figures of all samples, and when the newest was taken.
//!
//! The parts import none of each other. Here each event goes to all of them, and answers that take
//! several are put together.
//!
//! Refuses to drop a sample: what is too old for every window still counts in the total, so that
//! lateness costs time resolution only. Refuses to read a clock, to judge, and to choose what is
//! kept: that is the caller's [`Retention`].
//!
//! Interface of [`Windows`]:
//!
//! | what | methods |
//! |---|---|
//! | samples come | `add`, `absorb` (of an evicted operation), `carry` (counts of a record) |
//! | time passes | `expire`, `turn_back`, `pass_over` |
//! | samples of a window | `merged`, `show`, `each_window`, `exact`, `before` |
//! | what judges need | `sums`, `recent`, `spent`, `overdispersion`, `since_known` |
//! | a checkpoint | `head`, `ring`, `rings_changed_since`, `restore_ring` |
//!
//! DESIGN A17.

mod activity;
mod carried;
mod cascade;
mod dispersion;
mod limit_counts;
mod merged;
mod phase;
mod recent;
mod ring;
mod slot;
mod stored;
mod tally;

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_schemas::budget::Window;
use plimsoll_schemas::histogram::{ExactFigures, Histogram, Over, Packed};
use plimsoll_schemas::time::Wall;
use serde::{Deserialize, Serialize};

pub(in crate::core::fleet) use carried::CarriedSlot;
pub use cascade::Sums;
pub use dispersion::Overdispersion;
pub use merged::{Merged, Ranks};
pub use phase::Phase;
pub use recent::SlotCounts;
pub use slot::{Batch, Times};
use stored::StoredRing;
pub use tally::Limits;

use activity::Activity;
use cascade::{Cascade, RingCounts, SETTLED_FROM};
use limit_counts::LimitCounts;
use ring::{Shown, slot_ns};
use slot::Slot;
use stored::{StoredWindows, restored, stored};
use tally::Tally;

/// How the samples of one operation are kept in one scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The longest window; shorter ones are kept too.
    pub up_to: Window,
    pub limits: Limits,
}

impl Retention {
    pub fn is_judged(&self) -> bool {
        self.limits != Limits::default()
    }

    /// How the fleet keeps what its nodes keep so: all windows.
    pub fn of_fleet(self) -> Self {
        Self { up_to: Window::ALL[Window::ALL.len() - 1], ..self }
    }

    /// The first rings hold what has not settled.
    fn rings(&self) -> usize {
        (self.up_to as usize + 1).max(SETTLED_FROM)
    }
}

/// Everything known about one operation in one scope.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "StoredWindows", into = "StoredWindows")]
pub struct Windows {
    exact: ExactFigures,
    newest: Wall,
    activity: Activity,
    cascade: Cascade,
    counts: LimitCounts,
    /// The second up to which slots have been rolled over; nothing more can be within it.
    expired: u64,
}

/// What comes and passes.
impl Windows {
    /// Nothing yet, to be kept so.
    pub fn new(retention: &Retention) -> Self {
        Self {
            exact: ExactFigures::default(),
            newest: Wall(0),
            activity: Activity::default(),
            cascade: Cascade::new(retention.rings()),
            counts: LimitCounts::new(retention.limits),
            expired: 0,
        }
    }

    /// Keeps what is there in another way from now on; a window that was not kept starts empty.
    pub fn keep(&mut self, retention: &Retention) {
        let before = *self.limits();
        self.cascade.keep(retention.rings());
        if before != retention.limits {
            self.cascade.reckon(&before, &retention.limits);
        }
        self.counts.keep(retention.limits, self.exact.count);
    }

    pub fn is_kept(&self, retention: &Retention) -> bool {
        *self.limits() == retention.limits && self.rings() == retention.rings()
    }

    /// Adds samples. Those too old for a window do not come into it.
    pub fn add(&mut self, times: Times, batch: &Batch) {
        self.add_figures(times, batch);
        self.counts.add_to_clusters(times, batch);

        let now = times.now.max(times.shown);
        // A judge looks back half an hour, and a node may keep its
        // samples for less: what no ring takes is counted for it (A2).
        let has_slot = self.cascade.add(now, times.taken, batch);
        if !has_slot && self.counts_recent() {
            self.counts.add_late(now, times.taken, batch);
        }
    }

    /// Adds to the exact figures of the total alone, if there is no room for more.
    pub fn add_figures(&mut self, times: Times, batch: &Batch) {
        self.exact.merge(&batch.exact());
        self.counts.since.tally.add(&batch.overs);
        self.newest = self.newest.max(times.taken);
        self.activity.touch(times.now.max(times.shown));
        // A node has rolled over in this second already, in its own phase,
        // so this is for the fleet and for groups, which do not wait.
        self.expire(times.shown, Phase::NONE);
    }

    /// Adds all samples of an operation that is evicted, each in the slot of its time.
    pub fn absorb(&mut self, other: &Self) {
        self.exact.merge(&other.exact);
        self.newest = self.newest.max(other.newest);
        if self.counts.is_judged() {
            self.counts.absorb(&Packed::from(&other.total()));
        }
        self.cascade.absorb(&other.cascade, &self.counts.limits);
    }

    /// Rolls slots that are older than their window over to longer ones, at the first call in each
    /// second of `now`.
    pub fn expire(&mut self, now: Wall, phase: Phase) {
        let second = now.0 / slot_ns(Window::ALL[0]);
        if second == self.expired {
            return;
        }
        self.expired = second;

        let counts_recent = self.counts_recent();
        let Self { cascade, counts, .. } = self;

        cascade.expire(now, phase, |begin, slot| {
            if counts_recent {
                counts.add_passed(begin, slot.exact().count, &slot.tally.overs());
            }
        });

        counts.expire(now);
    }

    /// Whether what its rings have passed is counted: that of budgets, for half an hour.
    fn counts_recent(&self) -> bool {
        self.counts.is_judged() && !self.keeps(Window::HalfHour)
    }

    /// The clock was set back: it is no longer known when samples were taken whose time lies
    /// in the future now, so they stay in the total alone.
    pub fn turn_back(&mut self, now: Wall) {
        self.newest = self.newest.min(now);
        self.activity.turn_back(now);
        self.counts.turn_back(now);
        self.cascade.turn_back(now);
    }

    /// The clock was set forward by so much: that is no time without samples.
    pub fn pass_over(&mut self, span: Duration) {
        self.activity.pass_over(span);
    }

    /// Takes counts of an error budget in place of samples taken before `until`, which are lost.
    pub fn carry(&mut self, until: Wall, limit_ns: u64, slots: Vec<CarriedSlot>) {
        self.counts.carried.take(until, limit_ns, slots);
    }
}

/// What is there.
impl Windows {
    /// The limits for which samples are summed.
    pub fn limits(&self) -> &Limits {
        &self.counts.limits
    }

    pub fn keeps(&self, window: Window) -> bool {
        self.cascade.keeps(window)
    }

    /// Whether every window has passed all samples, however many there were.
    pub fn is_passed(&self, now: Wall) -> bool {
        let longest = self.cascade.longest();
        // And a slot, since a window shows its oldest slot as a whole.
        self.newest.plus(longest.span() + longest.slot()) < now
    }

    /// Whether every window has passed what is still in slots, so that it should be expired.
    pub fn is_stale(&self, now: Wall) -> bool {
        self.is_passed(now) && self.cascade.rings.iter().any(|ring| !ring.slots.is_empty())
    }

    /// The samples of one window that ends now.
    pub fn merged(&self, now: Wall, window: Window) -> Histogram {
        let mut merged = Histogram::default();
        self.cascade.shown(now, window).for_each(|slot| slot.merge_into(&mut merged));
        merged
    }

    /// The same in the place of whatever `merged` holds.
    pub fn show(&self, now: Wall, window: Window, merged: &mut Merged) {
        merged.clear();
        self.cascade.shown(now, window).for_each(|slot| slot.add_to(merged));
    }

    /// Shows every window that is kept, the shortest first; each costs only what it has more than
    /// the one before. Afterwards `total` holds what [`Self::total`] does, at the cost of what is
    /// in no window. The previous content of the two is cleared.
    pub fn each_window(
        &self,
        now: Wall,
        merged: &mut Merged,
        total: &mut Merged,
        show: impl FnMut(Window, &Merged),
    ) {
        self.cascade.each_window(now, merged, total, show);
    }

    /// The samples of a window's span just before a window that ends now, from the start of the
    /// next longer window's slot on, and how many of them are over a limit. None where no longer
    /// window is kept.
    pub fn before(&self, now: Wall, window: Window, limit_ns: u64) -> (Histogram, Over) {
        self.cascade.before(now, window, self.limits().at(limit_ns))
    }

    /// What is known exactly of one window that ends now.
    pub fn exact(&self, now: Wall, window: Window) -> ExactFigures {
        self.cascade.exact(now, window)
    }

    /// What it takes to judge samples by `limit_ns`; cheap, since it merges nothing.
    pub fn sums(&self, now: Wall, window: Window, limit_ns: u64) -> Sums {
        self.cascade.sums(now, window, self.limits().at(limit_ns))
    }

    /// What an error budget is judged by. What was carried over counts up to when it was kept, and
    /// no sample of that time beside it.
    pub fn spent(&self, now: Wall, window: Window, limit_ns: u64) -> Sums {
        let Some((until, carried)) = self.counts.carried.of(limit_ns) else {
            return self.sums(now, window, limit_ns);
        };
        let shown = Shown::new(now, window);
        let mut sums = Sums::default();

        for slot in self.recent(now, window, limit_ns) {
            // The record stands for all samples up to then. Those
            // that could be read after all would count twice.
            if shown.covers(slot.begin.0) && slot.begin > until {
                sums.samples = sums.samples.saturating_add(slot.samples);
                sums.over = sums.over.saturating_add(slot.over.over);
                sums.uncertain = sums.uncertain.saturating_add(slot.over.uncertain);
            }
        }

        for slot in carried.iter().filter(|slot| shown.covers(slot.begin.0)) {
            sums.samples = sums.samples.saturating_add(slot.samples);
            sums.over = sums.over.saturating_add(slot.over);
        }

        sums
    }

    /// The counts of [`Self::spent`] over the longest window, oldest first.
    pub fn spent_slots(&self, now: Wall, limit_ns: u64) -> Vec<CarriedSlot> {
        let longest = Window::ALL[Window::ALL.len() - 1];
        let (until, carried) = self.counts.carried.of(limit_ns).unwrap_or_default();
        let own = self.recent(now, longest, limit_ns).into_iter().rev();
        let own = own.filter(|slot| slot.begin > until);
        let own = own.map(|SlotCounts { begin, samples, over }| CarriedSlot {
            begin,
            samples,
            over: over.over,
        });
        carried.iter().copied().chain(own).collect()
    }

    /// Samples by slot, and how many of them are over a limit, newest first: those of the window,
    /// and of half an hour where it is shorter. What no ring keeps any more is counted for limits
    /// of budgets alone. A slot is as long as its age asks for, whenever it was rolled over.
    pub fn recent(&self, now: Wall, window: Window, limit_ns: u64) -> Vec<SlotCounts> {
        // However short the window is, a stretch that shows a breach may be half an hour long (A1).
        let span = window.max(Window::HalfHour);
        let shown = Shown::new(now, span);
        let kept = self.cascade.counts(now, span, self.limits().at(limit_ns));
        let behind_all = |slot| RingCounts { ring: self.rings(), slot };
        let all = kept.chain(self.counts.passed(limit_ns).map(behind_all));

        let mut all: Vec<_> = all.filter(|part| shown.covers(part.slot.begin.0)).collect();
        all.sort_by_key(|part| (Reverse(part.slot.begin), part.ring));

        // What was rolled over early and what was not are parts of one slot.
        all.dedup_by(|part, into| {
            let is_same = (part.ring, part.slot.begin) == (into.ring, into.slot.begin);
            if is_same {
                into.slot.add(&part.slot);
            }
            is_same
        });

        all.into_iter().map(|part| part.slot).collect()
    }

    /// How samples over a limit come in clusters.
    pub fn overdispersion(&self, limit_ns: u64) -> Overdispersion {
        self.counts.overdispersion(limit_ns)
    }

    /// All samples since a limit was set, and how many of them lie over it; `None` for a limit for
    /// which nothing is summed. Falls only when the limit is removed.
    pub fn since_known(&self, limit_ns: u64) -> Option<Sums> {
        self.counts.since_known(limit_ns, self.exact.count)
    }

    /// Whether one window that ends now holds a sample; cheap, since it merges nothing.
    pub fn has_data(&self, now: Wall, window: Window) -> bool {
        self.cascade.shown(now, window).next().is_some()
    }

    /// When the slot begins that holds the oldest samples of all windows; `None` without any.
    pub fn oldest(&self) -> Option<Wall> {
        self.cascade.oldest().into_iter().chain(self.counts.carried.oldest()).min()
    }

    /// When the latest sample was taken.
    pub fn newest(&self) -> Wall {
        self.newest
    }

    /// When samples last arrived.
    pub fn touched(&self) -> Wall {
        self.activity.touched
    }

    /// From when on it is idle: after as long without samples as it got samples before, within
    /// bounds.
    pub fn idle_from(&self) -> Wall {
        self.activity.idle_from()
    }

    /// Whether the latest sample lies in a window that ends now, be it kept here or not.
    pub fn newest_is_in(&self, now: Wall, window: Window) -> bool {
        let slot = slot_ns(window);
        self.newest.0 > 0
            && Shown::new(now.max(self.newest), window).covers(self.newest.0 / slot * slot)
    }

    /// All samples ever added, save those for which there was no room.
    pub fn total(&self) -> Histogram {
        self.cascade.total()
    }

    /// What is known exactly of all samples ever added.
    pub fn total_exact(&self) -> ExactFigures {
        self.exact
    }

    pub fn heap_bytes(&self) -> usize {
        self.cascade.heap_bytes() + self.counts.heap_bytes()
    }
}

/// What is stored of it.
impl Windows {
    /// What is stored beside the rings.
    pub fn head(&self) -> impl Serialize + use<> {
        self.without_slots()
    }

    pub fn ring(&self, number: usize) -> Option<StoredRing> {
        Some(StoredRing(stored(self.cascade.rings.get(number)?)))
    }

    pub fn rings(&self) -> usize {
        self.cascade.rings.len()
    }

    /// The rings that have changed since `before`, a copy that is still held: what is shared
    /// with it is what it was.
    pub fn rings_changed_since(&self, before: Option<&Self>) -> Vec<usize> {
        let rings = &self.cascade.rings;
        let former = |number| before.and_then(|before| before.cascade.rings.get(number));
        let is_former = |number| former(number).is_some_and(|f| Arc::ptr_eq(f, &rings[number]));
        (0..rings.len()).filter(|number| !is_former(*number)).collect()
    }

    /// Whether all that is stored beside the rings is what it was, where no ring has changed.
    pub fn has_head_of(&self, before: &Self) -> bool {
        let figures = |of: &Self| (of.exact, of.newest);
        figures(self) == figures(before) && self.counts == before.counts
    }

    /// Takes one ring as it was stored, if there is such a ring.
    pub fn restore_ring(&mut self, number: usize, StoredRing(slots): StoredRing) {
        self.cascade.restore_ring(number, restored(slots));
    }

    /// What there is beside slots, and as many rings as there are.
    #[expect(clippy::cast_possible_truncation, reason = "taking halves is the point")]
    fn without_slots(&self) -> StoredWindows {
        let ExactFigures { count, sum_ns, min_ns, max_ns } = self.exact;
        let LimitCounts { limits, since, recent, dispersion, carried } = self.counts.clone();

        StoredWindows {
            exact: (count, (sum_ns >> 64) as u64, sum_ns as u64, min_ns, max_ns),
            settled: self.cascade.settled.packed(),
            rings: vec![Vec::new(); self.rings()],
            newest: self.newest,
            began: self.activity.began,
            limits,
            since,
            recent: Arc::unwrap_or_clone(recent),
            dispersion: Arc::unwrap_or_clone(dispersion),
            carried,
        }
    }
}

impl From<Windows> for StoredWindows {
    fn from(windows: Windows) -> Self {
        let rings = windows.cascade.rings.iter().map(|ring| stored(ring)).collect();
        Self { rings, ..windows.without_slots() }
    }
}

impl From<StoredWindows> for Windows {
    fn from(stored: StoredWindows) -> Self {
        let (count, high, low, min_ns, max_ns) = stored.exact;
        let sum_ns = (u128::from(high) << 64) | u128::from(low);
        let settled = Slot::restored(0, Tally::default(), stored.settled);

        Self {
            exact: ExactFigures { count, sum_ns, min_ns, max_ns },
            newest: stored.newest,
            activity: Activity::restored(stored.began, stored.newest),
            cascade: Cascade::restored(settled, stored.rings.into_iter().map(restored).collect()),
            counts: LimitCounts {
                limits: stored.limits,
                since: stored.since,
                recent: Arc::new(stored.recent),
                dispersion: Arc::new(stored.dispersion),
                carried: stored.carried,
            },
            expired: 0,
        }
    }
}

#[cfg(test)]
mod tests;
