//! The account of datagrams over UDP: each that a node's socket did not bring must be one that the
//! kernel dropped there, and that the node counted.
//!
//! Datagrams are accounted for exactly: sent = read + dropped. The node's count of drops does not
//! state what was in them, and datagrams differ in size, so of the samples that were not accepted
//! it is checked that this many can have been in this many datagrams. That is exact if nothing was
//! dropped, and if datagrams have one size, such as one sample each.
//!
//! DESIGN D34.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use plimsoll_runtime::client::{Api, series_value};
use serde::Serialize;

/// Of a hundred samples, as many may be lost over UDP.
pub(super) const LOST_MAX_PERCENT: u64 = 5;
/// Why samples were lost in a socket, beside the reasons of ledgers.
pub(super) const KERNEL_DROPPED: &str = "kernel_dropped";

/// How many datagrams had how many samples. Datagrams have a limit of bytes, so sizes are few.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes(BTreeMap<u64, u64>);

impl Sizes {
    /// Adds a datagram with this many samples.
    pub(super) fn add(&mut self, samples: u64) {
        *self.0.entry(samples).or_default() += 1;
    }

    pub(super) fn datagrams(&self) -> u64 {
        self.0.values().sum()
    }

    /// Samples in all of them.
    pub(super) fn samples(&self) -> u64 {
        self.0.iter().map(|(samples, datagrams)| samples * datagrams).sum()
    }

    /// The least and the most samples that this many of the datagrams can have had.
    fn bounds(&self, datagrams: u64) -> (u64, u64) {
        (in_first(datagrams, self.0.iter()), in_first(datagrams, self.0.iter().rev()))
    }
}

/// The samples in this many datagrams, of the sizes that come first.
fn in_first<'a>(datagrams: u64, sizes: impl Iterator<Item = (&'a u64, &'a u64)>) -> u64 {
    let (mut left, mut sum) = (datagrams, 0);
    for (samples, of_size) in sizes {
        let taken = left.min(*of_size);
        (left, sum) = (left - taken, sum + taken * samples);
    }
    sum
}

/// What a node's page states of its UDP socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) read: u64,
    /// Datagrams that the kernel dropped.
    pub(super) dropped: u64,
    /// Values accepted from lines; the samples that the node measures itself are not among them.
    pub(super) samples: u64,
}

impl Received {
    /// The present state of a node.
    ///
    /// # Errors
    /// When there is no page, or one without these figures.
    pub(super) async fn of(api: &Api) -> Result<Self> {
        let page = api.get("/metrics").await?;
        let value = |name: &str| {
            series_value(&page, name).with_context(|| format!("no {name} at {}", api.url()))
        };
        Ok(Self {
            read: value("plimsoll_agent_datagrams_total")?,
            dropped: value("plimsoll_agent_kernel_dropped_datagrams_total{socket=\"udp\"}")?,
            samples: value("plimsoll_agent_values_total")?,
        })
    }

    /// Whether every datagram of a sender was read or dropped.
    pub(super) fn is_all_of(&self, sent: &Sizes) -> bool {
        self.read + self.dropped >= sent.datagrams()
    }
}

/// The datagrams of a load over UDP, of all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Datagrams {
    /// Handed to the kernel.
    pub sent: u64,
    /// Of those, datagrams that the nodes read.
    pub read: u64,
    /// Of those, datagrams that the kernel dropped, by the nodes' counts.
    pub dropped: u64,
    /// Sent, and neither read nor dropped, or the reverse; of each node by itself.
    pub unnamed: u64,
    /// Samples that were in the dropped datagrams, as far as they can have been in this many.
    pub dropped_samples: u64,
    /// Samples that were not accepted beyond those, or were accepted although their datagrams were
    /// dropped.
    pub unnamed_samples: u64,
}

impl Datagrams {
    /// Adds what one node's sender sent and what the node received of it.
    pub(super) fn add(&mut self, sent: &Sizes, received: &Received) {
        let datagrams = sent.datagrams();
        self.sent += datagrams;
        self.read += received.read;
        self.dropped += received.dropped;
        self.unnamed += datagrams.abs_diff(received.read + received.dropped);
        let missing = sent.samples().saturating_sub(received.samples);
        let (least, most) = sent.bounds(received.dropped);
        self.dropped_samples += missing.min(most);
        self.unnamed_samples += missing.saturating_sub(most) + least.saturating_sub(missing);
        self.unnamed_samples += received.samples.saturating_sub(sent.samples());
    }

    /// Whether the nodes' counts name every datagram and sample.
    pub(super) const fn are_named(&self) -> bool {
        self.unnamed == 0 && self.unnamed_samples == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 datagrams of one sample, ten of 20 and one of 3.
    fn sizes() -> Sizes {
        Sizes(BTreeMap::from([(1, 100), (20, 10), (3, 1)]))
    }

    fn account(sent: &Sizes, read: u64, dropped: u64, samples: u64) -> Datagrams {
        let mut datagrams = Datagrams::default();
        datagrams.add(sent, &Received { read, dropped, samples });
        datagrams
    }

    #[test]
    fn so_many_datagrams_hold_at_least_the_smallest_and_at_most_the_largest() {
        assert_eq!((sizes().datagrams(), sizes().samples()), (111, 303));
        for (datagrams, bounds) in
            [(0, (0, 0)), (1, (1, 20)), (11, (11, 203)), (102, (123, 294)), (999, (303, 303))]
        {
            assert_eq!(sizes().bounds(datagrams), bounds, "{datagrams}");
        }
    }

    #[test]
    fn what_was_dropped_is_named_within_what_the_datagrams_can_have_held() {
        for (read, dropped, samples, named) in
            [(111, 0, 303, 0), (109, 2, 301, 2), (109, 2, 263, 40), (0, 111, 0, 303)]
        {
            let datagrams = account(&sizes(), read, dropped, samples);
            assert!(datagrams.are_named(), "{datagrams:?}");
            assert_eq!(datagrams.dropped_samples, named, "{datagrams:?}");
        }
    }

    #[test]
    fn a_datagram_or_sample_without_a_name_shows_in_either_direction() {
        // Every tenth datagram was skipped; a line was rejected; three were accepted of
        // dropped datagrams; a foreign datagram with a sample came.
        let ones = Sizes(BTreeMap::from([(1, 100)]));
        for (sent, (read, dropped, samples), unnamed) in [
            (&ones, (90, 0, 90), (10, 10)),
            (&ones, (100, 0, 99), (0, 1)),
            (&ones, (95, 5, 98), (0, 3)),
            (&ones, (101, 0, 101), (1, 1)),
            (&sizes(), (109, 2, 262), (0, 1)),
        ] {
            let datagrams = account(sent, read, dropped, samples);
            assert_eq!((datagrams.unnamed, datagrams.unnamed_samples), unnamed, "{datagrams:?}");
            assert!(!datagrams.are_named());
        }
    }

    #[test]
    fn what_one_node_misses_and_another_has_too_many_do_not_cancel_out() {
        let ones = Sizes(BTreeMap::from([(1, 100)]));
        let mut datagrams = account(&ones, 99, 0, 99);
        datagrams.add(&ones, &Received { read: 101, dropped: 0, samples: 101 });
        assert_eq!((datagrams.unnamed, datagrams.unnamed_samples), (2, 2));
    }
}
