//! Waits for a partition and keeps it: a lease is renewed every quarter of its ttl, and counts as
//! lost once the ttl has passed since the last renewal that the broker answered was sent.
//!
//! DESIGN S82.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};

use plimsoll_bus::Leases;
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::ids::Partition;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::limits::{LEASE_POLL, LEASE_RELEASE_WAIT, LEASE_RENEWALS};

/// A partition that this process owns, as long as it is renewed.
#[derive(Debug)]
pub struct Lease {
    leases: Leases,
    pub partition: Partition,
    /// Since the last answered request was sent.
    renewed: Stopwatch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseLost {
    /// The broker dropped it, and another process may have it.
    Gone,
    /// The broker did not answer for the ttl.
    Silent,
}

/// A lease that a task renews. Dropping it ends the task; the lease then ends with its ttl.
#[derive(Debug)]
pub struct LeaseWatch {
    pub partition: Partition,
    lost: watch::Receiver<Option<LeaseLost>>,
    release: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// Learns of the loss of a lease.
#[derive(Debug)]
pub struct LeaseLosses(watch::Receiver<Option<LeaseLost>>);

impl LeaseLosses {
    /// Waits until the lease is lost, and why. Cancel safe.
    pub async fn lost(&mut self) -> LeaseLost {
        let lost = self.0.wait_for(Option::is_some).await;
        // A task that is gone renews no more.
        lost.ok().and_then(|lost| *lost).unwrap_or(LeaseLost::Silent)
    }
}

impl Lease {
    /// Waits until one of the first `partitions` partitions is free and takes it: `preferred` if
    /// that is free, or is about to be since a former run of this process has it. Needs a runtime.
    /// Cancel safe but for a partition that is just being taken, which is free again after the ttl.
    pub async fn acquire(
        mut leases: Leases,
        partitions: u16,
        preferred: Option<Partition>,
    ) -> Self {
        let (mut logged, mut fault) = (false, None);
        let begun = Stopwatch::start();

        loop {
            let awaited = preferred.filter(|_| begun.elapsed() < leases.ttl() + LEASE_POLL);
            match try_one(&mut leases, partitions, preferred, awaited).await {
                Ok(Attempt::Taken(partition, renewed)) => {
                    tracing::info!(%partition, partitions, "partition taken");
                    return Self { leases, partition, renewed };
                }
                Ok(Attempt::Owned(owners)) => {
                    fault = None;
                    if !std::mem::replace(&mut logged, true) {
                        let owners = described(&owners);
                        tracing::info!(partitions, owners, "all partitions have owners; waiting");
                    }
                }
                Err(error) => {
                    if fault.as_ref() != Some(&error) {
                        tracing::warn!(error, "no partition can be taken; retrying");
                    }
                    fault = Some(error);
                }
            }

            sleep(LEASE_POLL).await;
        }
    }

    /// Renews it from now on, until it is lost or released.
    pub fn spawn(self) -> LeaseWatch {
        let (lost_out, lost) = watch::channel(None);
        let (release, released) = oneshot::channel();
        let partition = self.partition;
        let task = tokio::spawn(self.keep(lost_out, released));
        LeaseWatch { partition, lost, release: Some(release), task }
    }

    async fn keep(
        mut self,
        lost: watch::Sender<Option<LeaseLost>>,
        mut released: oneshot::Receiver<()>,
    ) {
        loop {
            let ttl = self.leases.ttl();
            let left = ttl.saturating_sub(self.renewed.elapsed());
            let pause = (ttl / LEASE_RENEWALS).min(left);

            if let Ok(asked) = timeout(pause, &mut released).await {
                if asked.is_ok() {
                    self.give_back().await;
                }
                return;
            }

            if let Some(why) = self.renew().await {
                lost.send_replace(Some(why));
                return;
            }
        }
    }

    async fn give_back(&mut self) {
        if let Err(error) = self.leases.release(self.partition).await {
            let partition = self.partition;
            tracing::warn!(%partition, error, "lease not released; it ends with its ttl");
        }
    }

    /// Renews once; returns why the lease is lost if it is.
    async fn renew(&mut self) -> Option<LeaseLost> {
        let sent = Stopwatch::start();
        let left = self.leases.ttl().saturating_sub(self.renewed.elapsed());
        let partition = self.partition;

        match timeout(left, self.leases.renew(partition)).await {
            Ok(Ok(true)) => {
                // From when it was sent: the broker counts from some time after that.
                self.renewed = sent;
                None
            }
            Ok(Ok(false)) => {
                tracing::warn!(%partition, "lease lost: another process may have the partition");
                Some(LeaseLost::Gone)
            }
            // A broker that restarts within the ttl costs no partition.
            Ok(Err(error)) => {
                tracing::debug!(%partition, error, "lease not renewed; retrying");
                None
            }
            Err(_) => {
                let silent_s = self.renewed.elapsed().as_secs_f64();
                tracing::warn!(%partition, silent_s, "lease lost: the broker does not answer");
                Some(LeaseLost::Silent)
            }
        }
    }
}

impl LeaseWatch {
    /// Whether another process may have the partition.
    pub fn is_lost(&self) -> bool {
        self.lost.borrow().is_some()
    }

    /// Learns of its loss.
    pub fn losses(&self) -> LeaseLosses {
        LeaseLosses(self.lost.clone())
    }

    /// Gives the partition back, so that another process need not wait for the ttl.
    pub async fn release(mut self) {
        if let Some(release) = self.release.take() {
            let _lost_already = release.send(());
        }
        if timeout(LEASE_RELEASE_WAIT, &mut self.task).await.is_err() {
            let partition = self.partition;
            tracing::warn!(%partition, "lease not released in time; it ends with its ttl");
        }
    }
}

impl Drop for LeaseWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

enum Attempt {
    Taken(Partition, Stopwatch),
    Owned(BTreeMap<Partition, String>),
}

async fn try_one(
    leases: &mut Leases,
    partitions: u16,
    preferred: Option<Partition>,
    awaited: Option<Partition>,
) -> Result<Attempt, String> {
    let owners = leases.owners(partitions).await?;
    // The lease of this process's former incarnation is about to
    // end, and the state on the disk is of that partition (A174).
    if awaited.and_then(|of| owners.get(&of)).is_some_and(|owner| owner == leases.owner()) {
        return Ok(Attempt::Owned(owners));
    }
    let seed = RandomState::new().hash_one(partitions);

    for partition in order(partitions, preferred, seed) {
        if owners.contains_key(&partition) {
            continue;
        }
        let sent = Stopwatch::start();
        if leases.try_take(partition).await? {
            return Ok(Attempt::Taken(partition, sent));
        }
    }

    Ok(Attempt::Owned(owners))
}

/// The order in which partitions are tried: the preferred one, then all from a random one on, so
/// that processes that start together do not all try the same.
fn order(partitions: u16, preferred: Option<Partition>, seed: u64) -> Vec<Partition> {
    let mut others: Vec<_> =
        Partition::first(partitions).filter(|other| Some(*other) != preferred).collect();
    if !others.is_empty() {
        let turn = seed % others.len() as u64;
        others.rotate_left(usize::try_from(turn).unwrap_or_default());
    }
    let preferred = preferred.filter(|preferred| preferred.0 < partitions);
    preferred.into_iter().chain(others).collect()
}

fn described(owners: &BTreeMap<Partition, String>) -> String {
    let mut text = String::new();
    for (partition, owner) in owners {
        let comma = if text.is_empty() { "" } else { ", " };
        let _into_a_string = write!(text, "{comma}{partition}: {owner}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_partition_is_tried_first_and_each_one_once() {
        for seed in 0..9 {
            let tried = order(4, Some(Partition(2)), seed);
            assert_eq!((tried[0], tried.len()), (Partition(2), 4));
            let mut sorted = tried.clone();
            sorted.sort();
            assert!(sorted.into_iter().eq(Partition::first(4)), "{tried:?}");
        }
        assert_eq!(order(4, None, 1)[0], Partition(1));
        assert_eq!(order(1, Some(Partition(7)), 3), [Partition(0)]);
        assert!(order(0, None, 3).is_empty());
    }

    #[test]
    fn owners_are_one_line() {
        let owners = [(Partition(0), "a".to_owned()), (Partition(3), "b".to_owned())];
        assert_eq!(described(&BTreeMap::from(owners)), "0: a, 3: b");
    }
}
