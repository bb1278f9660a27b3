//! When a connection is tried again: exponential backoff, each attempt at the node's place in a
//! span that fits the number of nodes of the mesh.
//!
//! The client asks for a pause before each attempt, the first one after a loss and each of several
//! servers included; only the addresses of one host name follow each other without one.
//!
//! DESIGN S30.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_schemas::backoff::Backoff;
use plimsoll_schemas::limits::wire::MESH_NODES_MAX;
use plimsoll_schemas::random::share;
use plimsoll_schemas::transport::reconnect_span;

use crate::backoff::random_bits;
use crate::limits::{RECONNECT_SMALL_MAX, RETRY_DELAY_MIN};

/// The spans of the attempts after one loss of a connection, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Nodes of the mesh; 0 while it is unknown.
    mesh_nodes: u32,
    max: Duration,
}

impl Schedule {
    /// The span in which attempt number `attempt` (the first is 1) is made.
    fn span(self, attempt: u32) -> Duration {
        let grown = Backoff::new(RETRY_DELAY_MIN, self.max).span(attempt.saturating_sub(1));
        if self.mesh_nodes == 0 {
            return grown;
        }
        let spread = reconnect_span(self.mesh_nodes);
        grown.clamp(spread, RECONNECT_SMALL_MAX.max(spread)).min(self.max)
    }

    /// The pause before attempt number `attempt` of a node whose place in each span is `place`, in
    /// [0, 1): from its place in the former span to its place in this one. It is at most the
    /// longer of the two.
    fn pause(self, attempt: u32, place: f64) -> Duration {
        let to_place = self.span(attempt).mul_f64(place);
        match attempt {
            0 | 1 => to_place,
            _ => self.span(attempt - 1).mul_f64(1.0 - place) + to_place,
        }
    }
}

/// What decides about one connection's attempts. The client's task reads it, its owner changes it.
#[derive(Debug)]
pub(crate) struct Reconnects {
    max: Duration,
    mesh_nodes: AtomicU32,
    /// The bits of this node's place in the spans since its latest loss.
    place: AtomicU64,
    /// A client that never had a connection cannot be stopped in any other way.
    is_stopped: AtomicBool,
}

impl Reconnects {
    pub(crate) fn new(max: Duration) -> Self {
        let (mesh_nodes, place) = (AtomicU32::new(0), AtomicU64::new(0));
        Self { max, mesh_nodes, place, is_stopped: AtomicBool::new(false) }
    }

    /// From now on attempts are spread as a mesh of this many nodes needs it.
    pub(crate) fn set_mesh_nodes(&self, nodes: u32) {
        self.mesh_nodes.store(nodes.min(MESH_NODES_MAX), Ordering::Relaxed);
    }

    /// No further attempt is made.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// The pause before attempt number `attempt` since the connection was lost.
    pub(crate) fn pause(&self, attempt: usize) -> Duration {
        if self.is_stopped.load(Ordering::Relaxed) {
            return Duration::MAX;
        }
        if attempt <= 1 {
            self.place.store(random_bits(), Ordering::Relaxed);
        }
        let mesh_nodes = self.mesh_nodes.load(Ordering::Relaxed);
        let place = share(self.place.load(Ordering::Relaxed));
        let schedule = Schedule { mesh_nodes, max: self.max };
        schedule.pause(u32::try_from(attempt).unwrap_or(u32::MAX), place)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use plimsoll_schemas::limits::wire::RECONNECTS_PER_SECOND;
    use plimsoll_schemas::random::SplitMix64;

    use super::*;
    use crate::limits::RECONNECT_MAX;

    const NODES: u32 = 10_000;
    const SECOND: Duration = Duration::from_secs(1);

    fn schedule(mesh_nodes: u32) -> Schedule {
        Schedule { mesh_nodes, max: RECONNECT_MAX }
    }

    /// Numbers in [0, 1) of a fixed sequence.
    fn shares() -> impl Iterator<Item = f64> {
        let mut random = SplitMix64(0);
        std::iter::repeat_with(move || share(random.bits()))
    }

    /// When a node is back that lost its connection at zero, if the broker is back after `outage`.
    fn back_after(outage: Duration, mut pause: impl FnMut(u32) -> Duration) -> Duration {
        let (mut at, mut attempt) = (pause(1), 1);
        while at < outage {
            attempt += 1;
            at += pause(attempt);
        }
        at - outage
    }

    /// The greatest number of connects in any second, and when the last node is back.
    fn storm(mut back: Vec<Duration>) -> (usize, Duration) {
        back.sort_unstable();
        let first_after = |at: Duration| back.partition_point(|other| *other < at);
        let most = (0..back.len()).map(|from| first_after(back[from] + SECOND) - from).max();
        (most.unwrap(), *back.last().unwrap())
    }

    fn outages() -> [Duration; 6] {
        [0, 3, 12, 25, 30, 300].map(Duration::from_secs)
    }

    #[test]
    fn ten_thousand_nodes_are_back_within_a_minute_and_at_most_500_a_second() {
        for outage in outages() {
            let spans = schedule(NODES);
            let places = shares().take(10_000);
            let back = places.map(|place| back_after(outage, |n| spans.pause(n, place))).collect();
            let (most, last) = storm(back);
            assert!(most <= 500, "{outage:?}: {most} in one second");
            assert!(last <= 60 * SECOND, "{outage:?}: {last:?}");
        }
    }

    /// Why a node keeps its place: drawn anew before each attempt, pauses bunch.
    #[test]
    fn pauses_drawn_anew_bunch_after_an_outage_of_nearly_one_span() {
        let (span, mut shares) = (schedule(NODES).span(1), shares());
        let back = (0..NODES)
            .map(|_| back_after(span - SECOND, |_| span.mul_f64(shares.next().unwrap())))
            .collect();
        let mean = usize::try_from(RECONNECTS_PER_SECOND).unwrap();
        assert!(storm(back).0 > 2 * mean);
    }

    #[test]
    fn a_small_mesh_is_back_within_two_seconds_of_any_outage() {
        for (nodes, outage) in [1, 3, 100, 400].into_iter().zip(outages()) {
            let back = shares().take(1_000);
            let back = back.map(|place| back_after(outage, |n| schedule(nodes).pause(n, place)));
            let last = back.max().unwrap();
            assert!(last <= RECONNECT_SMALL_MAX, "{nodes} nodes: {last:?}");
        }
    }

    #[test]
    fn spans_grow_and_fit_the_mesh() {
        let of = |nodes| [1, 2, 4, 8, 13, u32::MAX].map(|n| schedule(nodes).span(n).as_millis());
        assert_eq!(of(0), [25, 50, 200, 3_200, 60_000, 60_000], "grows while nodes are unknown");
        assert_eq!(of(1), [25, 50, 200, 2_000, 2_000, 2_000]);
        assert_eq!(of(200), [1_000, 1_000, 1_000, 2_000, 2_000, 2_000]);
        assert_eq!(of(NODES), [50_000; 6]);
        assert_eq!(of(MESH_NODES_MAX), [60_000; 6], "the longest pause limits any number");
    }

    #[test]
    fn a_place_is_drawn_for_each_loss_and_kept_until_the_next() {
        let reconnects = Reconnects::new(RECONNECT_MAX);
        reconnects.set_mesh_nodes(NODES);
        let first: Vec<Duration> = (0..100).map(|_| reconnects.pause(1)).collect();
        assert!(first.windows(2).filter(|pair| pair[0] != pair[1]).count() > 90, "{first:?}");
        let span = schedule(NODES).span(1);
        assert!(reconnects.pause(2).abs_diff(span) < Duration::from_micros(1));
        reconnects.stop();
        assert_eq!(reconnects.pause(1), Duration::MAX);
    }

    proptest! {
        #[test]
        fn each_attempt_is_in_its_own_span_and_no_pause_exceeds_the_longest(
            nodes in 0..=MESH_NODES_MAX,
            max_ms in 100..3_600_000_u64,
            place in 0.0..1.0_f64,
        ) {
            let schedule = Schedule { mesh_nodes: nodes, max: Duration::from_millis(max_ms) };
            let (mut at, mut begin) = (Duration::ZERO, Duration::ZERO);
            let rounding = Duration::from_micros(1);
            for attempt in 1..40 {
                let (span, pause) = (schedule.span(attempt), schedule.pause(attempt, place));
                prop_assert!(span <= schedule.max && pause <= schedule.max + rounding);
                at += pause;
                prop_assert!(at + rounding >= begin && at <= begin + span + rounding);
                begin += span;
            }
        }
    }
}
