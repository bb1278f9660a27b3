//! Samples of one operation in one scope: all of them, and those of each window.
//!
//! A cascade: each window has a tier of slots of its own length, and a sample is kept in one
//! slot alone, by the time at which it was taken, not at which it arrived. It begins in the
//! first tier whose window still shows its time; slots that a window has passed are merged into
//! the next tier's longer ones. So a window is what lies in the tiers up to its own within its
//! time, and the order of arrival changes nothing. What is too old for every tier still counts
//! in the total: lateness costs time resolution and never a sample.
//!
//! DESIGN A17.

mod activity;
mod carried;
mod dispersion;
mod merged;
mod phase;
mod recent;
mod slot;
mod stored;
mod tally;
mod tier;
mod times;

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_schemas::budget::Window;
use plimsoll_schemas::histogram::{ExactFigures, Histogram, Over, Packed};
use plimsoll_schemas::time::{Wall, nanos};
use serde::{Deserialize, Serialize};

pub use dispersion::Overdispersion;
pub use merged::{Merged, Ranks};
pub use phase::Phase;
pub use recent::SlotCounts;
pub use slot::Batch;
use stored::StoredTier;
pub use tally::Limits;
pub use times::Times;

use activity::Activity;
use carried::Carried;
use dispersion::Dispersion;
use recent::RecentCounts;
use slot::Slot;
use stored::{Stored, restored, stored};
use tally::{Since, Tally};
use tier::{Shown, Tier, slot_ns};

/// What lies in this tier or behind it is in the settled samples too, so that the total need not be
/// put together from everything: 2 means that the tiers of 10 s and 1 min are added to what
/// settled.
const SETTLED_FROM: usize = 2;

/// How the samples of one operation are kept in one scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The longest window; shorter ones are kept too.
    pub up_to: Window,
    /// Limits of its budgets.
    pub limits: Limits,
}

impl Retention {
    /// Whether a budget judges the operation.
    pub fn is_judged(&self) -> bool {
        self.limits != Limits::default()
    }

    /// How the fleet keeps what its nodes keep so: all windows.
    pub fn of_fleet(self) -> Self {
        Self { up_to: Window::ALL[Window::ALL.len() - 1], ..self }
    }

    /// The first tiers hold what has not settled.
    fn tiers(&self) -> usize {
        (self.up_to as usize + 1).max(SETTLED_FROM)
    }
}

/// Everything known about one operation in one scope.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct Windows {
    exact: ExactFigures,
    /// All that has left the first tiers.
    settled: Slot,
    /// Each is shared with read views and checkpoints; copied when it changes meanwhile.
    tiers: Vec<Arc<Tier>>,
    /// Of samples that the last tier has passed, where the operation has a budget.
    recent: Arc<RecentCounts>,
    /// How samples over the limits come in clusters.
    dispersion: Arc<Dispersion>,
    newest: Wall,
    activity: Activity,
    carried: Carried,
    limits: Limits,
    since: Since,
    /// The second up to which slots have been rolled over; nothing more can be within it.
    expired: u64,
}

/// What is known of a window's samples where one limit counts: all that it takes to judge them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub samples: u64,
    /// Of those, samples certainly over the limit.
    pub over: u64,
    /// Samples in the limit's own bucket: on which side of it they lie is uncertain.
    pub uncertain: u64,
}

impl Windows {
    /// Nothing yet, to be kept so.
    pub fn new(retention: &Retention) -> Self {
        let mut windows = Self {
            exact: ExactFigures::default(),
            settled: Slot::default(),
            tiers: Vec::new(),
            recent: Arc::default(),
            dispersion: Arc::default(),
            newest: Wall(0),
            activity: Activity::default(),
            carried: Carried::default(),
            limits: retention.limits,
            since: Since::default(),
            expired: 0,
        };
        windows.keep(retention);
        windows
    }

    /// Keeps what is there in another way from now on; a window that was not kept begins empty.
    pub fn keep(&mut self, retention: &Retention) {
        self.tiers.resize_with(retention.tiers(), Arc::default);
        let (before, limits) = (self.limits, retention.limits);
        if before != limits {
            Arc::make_mut(&mut self.dispersion).keep(&before, &limits);
            self.tiers.iter_mut().for_each(|tier| Arc::make_mut(tier).reckon(&before, &limits));
            Arc::make_mut(&mut self.recent).reckon(&before, &limits);
            self.since = self.since.under(&before, &limits, self.exact.count);
            self.carried.keep(&limits);
        }
        self.limits = limits;
    }

    /// Whether it is kept so already.
    pub fn is_kept(&self, retention: &Retention) -> bool {
        self.limits == retention.limits && self.tiers.len() == retention.tiers()
    }

    /// The limits for which samples are summed.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Adds samples. Those too old for a window do not come into it.
    pub fn add(&mut self, times: Times, batch: &Batch) {
        self.add_figures(times, batch);
        let now = times.now.max(times.shown);
        let taken = times.taken.0;
        if self.limits.used() > 0 {
            self.limits.renew(batch.limits());
            let samples = batch.exact().count;
            let dispersion = Arc::make_mut(&mut self.dispersion);
            dispersion.add(times.shown, times.taken, samples, batch.overs(), &self.limits);
        }
        // The shortest window that covers the samples and has room for them.
        let mut tiers = Window::ALL.into_iter().zip(&mut self.tiers).enumerate();
        let found = tiers.find(|(_, (window, tier))| {
            let slot = slot_ns(*window);
            Shown::new(now, *window).covers(taken / slot * slot) && tier.has_room(taken / slot)
        });
        if found.as_ref().is_none_or(|(number, _)| *number >= SETTLED_FROM) {
            self.settled.add(batch);
        }
        if let Some((_, (window, tier))) = found {
            Arc::make_mut(tier).add(taken / slot_ns(window), batch);
        } else if self.counts_recent() && RecentCounts::covers(now, taken) {
            Arc::make_mut(&mut self.recent).add(taken, batch.exact().count, batch.overs());
        }
    }

    /// Whether what its tiers have passed is counted: that of budgets, for half an hour.
    fn counts_recent(&self) -> bool {
        self.limits != Limits::default() && !self.keeps(Window::HalfHour)
    }

    /// Adds to the exact figures of the total alone, if there is no room for more.
    pub fn add_figures(&mut self, times: Times, batch: &Batch) {
        self.exact.merge(&batch.exact());
        self.since.add(batch.overs());
        self.newest = self.newest.max(times.taken);
        self.activity.touch(times.now.max(times.shown));
        self.expire(times.shown, Phase::NONE);
    }

    /// Adds all samples of an operation that is evicted, each in the slot of its time.
    pub fn absorb(&mut self, other: &Self) {
        let batch_of = |slot: &Slot, limits| Batch::new(&slot.packed(), limits);
        self.exact.merge(&other.exact);
        self.newest = self.newest.max(other.newest);
        if self.limits != Limits::default() {
            let total = Packed::from(&other.total());
            self.since.add(Batch::new(&total, &self.limits).overs());
        }
        self.settled.add(&batch_of(&other.settled, &self.limits));
        for (number, tier) in other.tiers.iter().enumerate() {
            for slot in tier.slots() {
                let batch = batch_of(slot, &self.limits);
                match self.tiers.get_mut(number).filter(|into| into.has_room(slot.number)) {
                    Some(into) => Arc::make_mut(into).add(slot.number, &batch),
                    // Later tiers' samples have settled already.
                    None if number < SETTLED_FROM => self.settled.add(&batch),
                    None => {}
                }
            }
        }
    }

    /// Rolls slots that are older than their window over to longer ones, at the first call in each
    /// second of `now`.
    pub fn expire(&mut self, now: Wall, phase: Phase) {
        let second = now.0 / slot_ns(Window::ALL[0]);
        if second == self.expired {
            return;
        }
        self.expired = second;
        for (number, window) in Window::ALL.into_iter().enumerate().take(self.tiers.len()) {
            let next = Window::ALL[(number + 1).min(self.tiers.len() - 1)];
            let coarse = slot_ns(next);
            let waited = Wall(now.0.saturating_sub(phase.wait_ns(coarse)));
            let from = Shown::new(waited, window).from;
            while self.tiers[number].has_passed(window, coarse, from) {
                let given = Arc::make_mut(&mut self.tiers[number]).give(window, coarse);
                let Some(slot) = given else { break };
                if number + 1 == SETTLED_FROM {
                    self.settled.pack();
                    self.settled.absorb(&slot);
                }
                if let Some(next) = self.tiers.get_mut(number + 1) {
                    Arc::make_mut(next).take(slot);
                } else if self.counts_recent() {
                    let (begin, samples) = (slot.number * coarse, slot.exact().count);
                    Arc::make_mut(&mut self.recent).add(begin, samples, &slot.tally().overs());
                }
            }
        }
        if !self.recent.is_empty() {
            Arc::make_mut(&mut self.recent).expire(now);
        }
        if !self.dispersion.is_idle(now) {
            Arc::make_mut(&mut self.dispersion).expire(now, &self.limits);
        }
        if !self.carried.is_empty() {
            let longest = Window::ALL[Window::ALL.len() - 1];
            self.carried.expire(Wall(Shown::new(now, longest).from));
        }
    }

    /// The clock was set back: it is no longer known when samples were taken whose time lies
    /// in the future now, so it stays in the total alone.
    pub fn turn_back(&mut self, now: Wall) {
        self.newest = self.newest.min(now);
        self.activity.turn_back(now);
        Arc::make_mut(&mut self.recent).turn_back(now);
        Arc::make_mut(&mut self.dispersion).turn_back(now);
        for (number, window) in Window::ALL.into_iter().enumerate().take(self.tiers.len()) {
            for slot in Arc::make_mut(&mut self.tiers[number]).give_after(window, now) {
                if number < SETTLED_FROM {
                    self.settled.absorb(&slot);
                }
            }
        }
    }

    /// The clock was set forward by so much: that is no time without samples.
    pub fn pass_over(&mut self, span: Duration) {
        self.activity.pass_over(span);
    }

    /// Whether every window has passed all samples, however many there were.
    pub fn is_passed(&self, now: Wall) -> bool {
        let longest = Window::ALL[self.tiers.len() - 1];
        self.newest.plus(longest.span() + longest.slot()) < now
    }

    /// Whether every window has passed what is still in slots: to let it go is worth the while.
    pub fn is_stale(&self, now: Wall) -> bool {
        self.is_passed(now) && self.tiers.iter().any(|tier| !tier.slots().is_empty())
    }

    /// Whether a window is kept in this scope.
    pub fn keeps(&self, window: Window) -> bool {
        (window as usize) < self.tiers.len()
    }

    /// The slots of one window that ends now; none of one that is not kept.
    fn shown(&self, now: Wall, window: Window) -> impl Iterator<Item = &Slot> {
        let kept = if self.keeps(window) { window as usize + 1 } else { 0 };
        let shown = Shown::new(now, window);
        let slots = slots(&self.tiers[..kept]);
        slots.filter(move |(begin, _)| shown.covers(*begin)).map(|(_, slot)| slot)
    }

    /// The samples of one window that ends now.
    pub fn merged(&self, now: Wall, window: Window) -> Histogram {
        let mut merged = Histogram::default();
        self.shown(now, window).for_each(|slot| slot.merge_into(&mut merged));
        merged
    }

    /// The same in the place of whatever `merged` holds.
    pub fn show(&self, now: Wall, window: Window, merged: &mut Merged) {
        merged.clear();
        self.shown(now, window).for_each(|slot| slot.add_to(merged));
    }

    /// Shows every window that is kept, the shortest first; each costs only what it has more than
    /// the one before. Afterwards `total` holds what [`Self::total`] does, at the cost of what is
    /// in no window. The previous content of the two is cleared.
    pub fn each_window(
        &self,
        now: Wall,
        merged: &mut Merged,
        total: &mut Merged,
        mut show: impl FnMut(Window, &Merged),
    ) {
        merged.clear();
        total.clear();
        self.settled.add_to(total);
        let unsettled = &self.tiers[..SETTLED_FROM.min(self.tiers.len())];
        // What `merged` holds: the slots of all tiers up to this one that this window covers. A
        // longer window covers all of them, so only slots that are new to it are added.
        let mut previous: Option<(usize, Shown)> = None;
        for (number, window) in Window::ALL.into_iter().enumerate().take(self.tiers.len()) {
            let shown = Shown::new(now, window);
            for (tier_number, (tier, of)) in self.tiers.iter().zip(Window::ALL).enumerate() {
                let is_new = |begin| match previous {
                    Some((last, previous)) if tier_number <= last => !previous.covers(begin),
                    _ => tier_number <= number,
                };
                let slot_ns = slot_ns(of);
                for slot in tier.slots() {
                    let begin = slot.number * slot_ns;
                    if is_new(begin) && shown.covers(begin) {
                        slot.add_to(merged);
                    }
                }
            }
            if number + 1 == unsettled.len() {
                total.add_merged(merged);
                let others = slots(unsettled).filter(|(begin, _)| !shown.covers(*begin));
                others.for_each(|(_, slot)| slot.add_to(total));
            }
            previous = Some((number, shown));
            show(window, merged);
        }
    }

    /// The samples of a window's span just before a window that ends now, from the beginning of
    /// the next longer window's slot on, and how many of them are over a limit. None where no
    /// longer window is kept.
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

    /// What is known exactly of one window that ends now.
    pub fn exact(&self, now: Wall, window: Window) -> ExactFigures {
        let mut exact = ExactFigures::default();
        self.shown(now, window).for_each(|slot| exact.merge(&slot.exact()));
        exact
    }

    /// What it takes to judge samples by `limit_ns`; cheap, since it merges nothing.
    pub fn sums(&self, now: Wall, window: Window, limit_ns: u64) -> Sums {
        let place = self.limits.place(limit_ns);
        let kept = if self.keeps(window) { window as usize + 1 } else { 0 };
        let shown = Shown::new(now, window);
        let (mut samples, mut sum) = (0_u64, Over::default());
        for (tier, of) in self.tiers[..kept].iter().zip(Window::ALL) {
            let numbers = shown.numbers(of);
            for slot in tier.slots().iter().filter(|slot| numbers.contains(&slot.number)) {
                samples = samples.saturating_add(slot.count());
                let count = || slot.count_over(limit_ns);
                sum.add(place.map_or_else(count, |at| slot.tally().at(at)));
            }
        }
        Sums { samples, over: sum.over, uncertain: sum.uncertain }
    }

    /// What an error budget is judged by. What was carried over counts up to when it was kept, and
    /// no sample of that time beside it.
    pub fn spent(&self, now: Wall, window: Window, limit_ns: u64) -> Sums {
        let Some((until, carried)) = self.carried.of(limit_ns) else {
            return self.sums(now, window, limit_ns);
        };
        let shown = Shown::new(now, window);
        let mut sums = Sums::default();
        for slot in self.recent(now, window, limit_ns) {
            if shown.covers(slot.begin.0) && slot.begin > until {
                sums.samples = sums.samples.saturating_add(slot.samples);
                sums.over = sums.over.saturating_add(slot.over.over);
                sums.uncertain = sums.uncertain.saturating_add(slot.over.uncertain);
            }
        }
        for (_, samples, over) in carried.iter().filter(|(begin, ..)| shown.covers(begin.0)) {
            sums.samples = sums.samples.saturating_add(*samples);
            sums.over = sums.over.saturating_add(*over);
        }
        sums
    }

    /// The counts of [`Self::spent`] over the longest window: when each slot begins, its samples,
    /// and how many are over the limit; oldest first.
    pub fn spent_slots(&self, now: Wall, limit_ns: u64) -> Vec<(Wall, u64, u64)> {
        let longest = Window::ALL[Window::ALL.len() - 1];
        let (until, carried) = self.carried.of(limit_ns).unwrap_or_default();
        let own = self.recent(now, longest, limit_ns).into_iter().rev();
        let own = own.filter(|slot| slot.begin > until);
        let own = own.map(|slot| (slot.begin, slot.samples, slot.over.over));
        carried.iter().copied().chain(own).collect()
    }

    /// Takes such counts in place of samples taken before `until`, which are lost.
    pub fn carry(&mut self, until: Wall, limit_ns: u64, slots: Vec<(Wall, u64, u64)>) {
        self.carried.take(until, limit_ns, slots);
    }

    /// Samples by slot, and how many of them are over a limit, newest first: those of the window,
    /// and of half an hour where it is shorter. What no tier keeps any more is counted for limits
    /// of budgets alone. A slot is as long as its age asks for, whenever it was rolled over.
    pub fn recent(&self, now: Wall, window: Window, limit_ns: u64) -> Vec<SlotCounts> {
        let span = window.max(Window::HalfHour);
        let shown = Shown::new(now, span);
        let place = self.limits.place(limit_ns);
        let kept = self.tiers.iter().zip(Window::ALL).enumerate().take(span as usize + 1);
        let kept = kept.flat_map(|(tier, (slots, of))| {
            let slots = slots.slots().iter();
            slots.map(move |slot| (self.rolled_over(now, tier, slot.number * slot_ns(of)), slot))
        });
        let kept = kept.map(|((tier, begin), slot)| {
            let count = || slot.count_over(limit_ns);
            let over = place.map_or_else(count, |at| slot.tally().at(at));
            (tier, SlotCounts { begin: Wall(begin), samples: slot.exact().count, over })
        });
        let counted = place.into_iter().flat_map(|place| self.recent.slots(place));
        let all = kept.chain(counted.map(|slot| (self.tiers.len(), slot)));
        let mut all: Vec<_> = all.filter(|(_, slot)| shown.covers(slot.begin.0)).collect();
        all.sort_by_key(|(tier, slot)| (Reverse(slot.begin), *tier));
        all.dedup_by(|(tier, slot), (before, into)| {
            let is_same = (*tier, slot.begin) == (*before, into.begin);
            if is_same {
                into.add(slot);
            }
            is_same
        });
        all.into_iter().map(|(_, slot)| slot).collect()
    }

    /// How samples over a limit come in clusters.
    pub fn overdispersion(&self, limit_ns: u64) -> Overdispersion {
        self.dispersion.of(self.limits.place(limit_ns))
    }

    /// The tier to which a slot that begins then is rolled over by now, and the begin of its slot
    /// there; behind the last tier, that of the counts.
    fn rolled_over(&self, now: Wall, mut tier: usize, mut begin: u64) -> (usize, u64) {
        while let Some(window) = Window::ALL.get(tier).filter(|_| tier < self.tiers.len()) {
            let is_last = tier + 1 == self.tiers.len();
            let next = Window::ALL[if is_last { tier } else { tier + 1 }];
            let coarse = slot_ns(next);
            if (begin / coarse + 1) * coarse > Shown::new(now, *window).from {
                break;
            }
            tier += 1;
            begin = if is_last { RecentCounts::begin(begin) } else { begin / coarse * coarse };
        }
        (tier, begin)
    }

    /// All samples since a limit was set, and how many of them lie over it; `None` for a limit for
    /// which nothing is summed. Falls only when the limit is removed.
    pub fn since_known(&self, limit_ns: u64) -> Option<(u64, Over)> {
        let place = self.limits.place(limit_ns)?;
        Some(self.since.at(place, self.exact.count))
    }

    /// Whether one window that ends now holds a sample; cheap, since it merges nothing.
    pub fn has_data(&self, now: Wall, window: Window) -> bool {
        self.shown(now, window).next().is_some()
    }

    /// When the slot begins that holds the oldest samples of all windows; `None` without any.
    pub fn oldest(&self) -> Option<Wall> {
        let own = slots(&self.tiers).map(|(begin, _)| Wall(begin)).min();
        own.into_iter().chain(self.carried.oldest()).min()
    }

    /// When the latest sample was taken.
    pub fn newest(&self) -> Wall {
        self.newest
    }

    /// When samples last arrived.
    pub fn touched(&self) -> Wall {
        self.activity.touched()
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
        let mut total = Histogram::default();
        self.settled.merge_into(&mut total);
        let unsettled = self.tiers.iter().take(SETTLED_FROM).flat_map(|tier| tier.slots());
        unsettled.for_each(|slot| slot.merge_into(&mut total));
        total
    }

    /// What is known exactly of all samples ever added.
    pub fn total_exact(&self) -> ExactFigures {
        self.exact
    }

    /// What is stored beside the tiers.
    pub fn head(&self) -> impl Serialize + use<> {
        self.without_slots()
    }

    /// What is stored of one tier.
    pub fn tier(&self, number: usize) -> Option<StoredTier> {
        Some(StoredTier(stored(self.tiers.get(number)?)))
    }

    pub fn tiers(&self) -> usize {
        self.tiers.len()
    }

    /// The tiers that have changed since `before`, a copy that is still held: what is shared
    /// with it is what it was.
    pub fn tiers_changed_since(&self, before: Option<&Self>) -> Vec<usize> {
        let former = |number| before.and_then(|before| before.tiers.get(number));
        let is_former =
            |number| former(number).is_some_and(|f| Arc::ptr_eq(f, &self.tiers[number]));
        (0..self.tiers.len()).filter(|number| !is_former(*number)).collect()
    }

    /// Whether all that is stored beside the tiers is what it was, where no tier has changed.
    pub fn has_head_of(&self, before: &Self) -> bool {
        let head = |of: &Self| (of.exact, of.newest, of.limits);
        let rest = |of: &Self| (of.since.clone(), of.recent.clone());
        let is_carried = self.carried == before.carried;
        let is_dispersed = self.dispersion == before.dispersion;
        head(self) == head(before) && rest(self) == rest(before) && is_carried && is_dispersed
    }

    /// Takes one tier as it was stored, if there is such a tier.
    pub fn restore_tier(&mut self, number: usize, StoredTier(slots): StoredTier) {
        if let Some(tier) = self.tiers.get_mut(number) {
            *tier = restored(slots);
        }
    }

    /// What there is beside slots, and as many tiers as there are.
    #[expect(clippy::cast_possible_truncation, reason = "taking halves is the point")]
    fn without_slots(&self) -> Stored {
        let ExactFigures { count, sum_ns, min_ns, max_ns } = self.exact;
        Stored {
            exact: (count, (sum_ns >> 64) as u64, sum_ns as u64, min_ns, max_ns),
            settled: self.settled.packed(),
            tiers: vec![Vec::new(); self.tiers.len()],
            newest: self.newest,
            began: self.activity.began,
            limits: self.limits,
            since: self.since.clone(),
            recent: (*self.recent).clone(),
            dispersion: (*self.dispersion).clone(),
            carried: self.carried.clone(),
        }
    }

    /// Heap bytes in use.
    pub fn heap_bytes(&self) -> usize {
        let tiers: usize = self.tiers.iter().map(|tier| tier.heap_bytes()).sum();
        let counts = self.recent.heap_bytes() + self.carried.heap_bytes();
        tiers + self.settled.heap_bytes() + counts + self.dispersion.heap_bytes()
    }
}

/// The slots of the first tiers, each with the time at which it begins.
fn slots(tiers: &[Arc<Tier>]) -> impl Iterator<Item = (u64, &Slot)> {
    tiers.iter().zip(Window::ALL).flat_map(|(tier, window)| {
        let slot_ns = slot_ns(window);
        tier.slots().iter().map(move |slot| (slot.number * slot_ns, slot))
    })
}

impl From<Windows> for Stored {
    fn from(windows: Windows) -> Self {
        let tiers = windows.tiers.iter().map(|tier| stored(tier)).collect();
        Self { tiers, ..windows.without_slots() }
    }
}

impl From<Stored> for Windows {
    fn from(stored: Stored) -> Self {
        let (count, high, low, min_ns, max_ns) = stored.exact;
        let sum_ns = (u128::from(high) << 64) | u128::from(low);
        let mut tiers: Vec<Arc<Tier>> = stored.tiers.into_iter().map(restored).collect();
        tiers.resize_with(tiers.len().clamp(SETTLED_FROM, Window::ALL.len()), Arc::default);
        Self {
            exact: ExactFigures { count, sum_ns, min_ns, max_ns },
            settled: Slot::restored(0, Tally::default(), stored.settled),
            tiers,
            recent: Arc::new(stored.recent),
            dispersion: Arc::new(stored.dispersion),
            newest: stored.newest,
            activity: Activity::restored(stored.began, stored.newest),
            carried: stored.carried,
            limits: stored.limits,
            since: stored.since,
            expired: 0,
        }
    }
}

#[cfg(test)]
mod tests;
