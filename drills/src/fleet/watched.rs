//! What `/metrics` of each aggregator reports of its cursors and its ledger, again and again: an
//! aggregator that stands still delays no other.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plimsoll_clock::Stopwatch;
use plimsoll_runtime::client::Api;
use serde::Serialize;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// An answer that takes longer is none.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// The ledger's sums of all nodes, in samples, and the messages still to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LedgerSums {
    /// Messages that its cursors have still to read.
    pub pending: f64,
    /// Samples that nodes have recorded.
    pub recorded: f64,
    pub merged: f64,
    pub held: f64,
    /// Dropped by nodes, for all reasons.
    pub lost: f64,
    /// Before the oldest message that was read.
    pub unread: f64,
    pub unaccounted: f64,
}

impl LedgerSums {
    /// Reads them from Prometheus text.
    pub fn read(text: &str) -> Self {
        let mut sums = Self::default();
        for line in text.lines() {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };

            let sum = match series.split('{').next().unwrap_or_default() {
                "plimsoll_aggregator_pending_messages" => &mut sums.pending,
                "plimsoll_samples_recorded_total" => &mut sums.recorded,
                "plimsoll_samples_merged_total" => &mut sums.merged,
                "plimsoll_samples_held" => &mut sums.held,
                "plimsoll_samples_lost_total" => &mut sums.lost,
                "plimsoll_samples_unread" => &mut sums.unread,
                "plimsoll_samples_unaccounted" => &mut sums.unaccounted,
                _ => continue,
            };

            *sum += value.parse::<f64>().unwrap_or_default();
        }

        sums
    }
}

type Latest = Arc<Mutex<Option<(Duration, LedgerSums)>>>;

/// One aggregator that is asked; no longer once it is dropped.
pub struct Watched {
    every: Duration,
    latest: Latest,
    task: JoinHandle<()>,
}

impl Watched {
    /// Asks so often from now on.
    pub fn start(api: Api, every: Duration, watch: Stopwatch) -> Self {
        let latest = Latest::default();
        let found = latest.clone();

        let task = tokio::spawn(async move {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);

            loop {
                ticks.tick().await;
                let Ok(Ok(text)) = timeout(ANSWER_WAIT, api.get("/metrics")).await else {
                    continue;
                };
                let sums = (watch.elapsed(), LedgerSums::read(&text));
                *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(sums);
            }
        });

        Self { every, latest, task }
    }

    /// The latest answer; none when there was none for some time, as while it is down.
    pub fn now(&self, now: Duration) -> Option<LedgerSums> {
        let latest = *self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, sums) = latest?;
        (now.saturating_sub(at) <= self.every * 2).then_some(sums)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_all_nodes_and_reasons_and_lanes_add_up() {
        let page = "# HELP plimsoll_samples_lost_total Samples\n\
            plimsoll_samples_recorded_total 100\n\
            plimsoll_samples_merged_total 80\n\
            plimsoll_samples_held 7\n\
            plimsoll_samples_unaccounted 1\n\
            plimsoll_samples_unread 2\n\
            plimsoll_node_recorded_samples_total{node=\"a\"} 9\n\
            plimsoll_samples_lost_total{reason=\"crash\"} 4\n\
            plimsoll_samples_lost_total{reason=\"disk\"} 6\n\
            plimsoll_aggregator_pending_messages{lane=\"normal\"} 12\n\
            plimsoll_aggregator_pending_messages{lane=\"emergency\"} 1\n";
        let expected = LedgerSums {
            pending: 13.0,
            recorded: 100.0,
            merged: 80.0,
            held: 7.0,
            lost: 10.0,
            unread: 2.0,
            unaccounted: 1.0,
        };
        assert_eq!(LedgerSums::read(page), expected);
    }
}
