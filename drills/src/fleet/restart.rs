//! The return of all connections after the broker was restarted.
//!
//! DESIGN D31.

use std::time::Duration;

use anyhow::Result;
use plimsoll_clock::Stopwatch;
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};

use super::broker_monitor::{BrokerMonitor, ConnectionCounts};
use super::limits::{CONNECTS_PER_SECOND_MAX, RECONNECTED_WITHIN};
use crate::live::expectation::{Drill, Expectation, Look};

/// Time between two polls of the broker.
const POLL_EVERY: Duration = Duration::from_millis(100);
/// How long connections are waited for.
const WATCH_FOR: Duration = Duration::from_secs(120);
/// Requests for the state before a restart, each with its own time-out.
const ATTEMPTS_MAX: usize = 6;
const SECOND: Duration = Duration::from_secs(1);

/// Connections at one time since the broker listens again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Returned {
    /// Seconds since then.
    pub at: f64,
    /// Connections that are open.
    pub open: u64,
    /// Connections accepted so far.
    pub accepted: u64,
}

/// What a restart of the broker led to. Times are seconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RestartStats {
    pub connections: u64,
    /// From the broker listening again to as many connections as before; none if they stayed away.
    pub back_seconds: Option<f64>,
    /// The greatest number of connections that the broker accepted in one second.
    pub connects_per_second_max: f64,
    /// Requests to the JetStream API from the restart until all were back, of all clients.
    pub jetstream_requests: u64,
    /// The same in the whole life of the broker before.
    pub jetstream_requests_before: u64,
    pub timeline: Vec<Returned>,
}

impl RestartStats {
    /// The state before the restart. A broker or a drill that is overloaded may answer late, so a
    /// request is repeated.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn before(monitor: &BrokerMonitor) -> Result<Self> {
        let mut connections = monitor.connections().await;
        for _ in 1..ATTEMPTS_MAX {
            if connections.is_ok() {
                break;
            }
            connections = monitor.connections().await;
        }
        let connections = connections?.open;
        let jetstream_requests_before = monitor.jetstream_requests().await?;
        Ok(Self { connections, jetstream_requests_before, ..Self::default() })
    }

    /// Polls the broker, which has just begun to listen again, until all are back.
    pub async fn watch(mut self, monitor: BrokerMonitor) -> Self {
        let (begun, mut ticks) = (Stopwatch::start(), interval(POLL_EVERY));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while begun.elapsed() < WATCH_FOR && self.back_seconds.is_none() {
            ticks.tick().await;
            // Its pages listen a moment after its clients do.
            let Ok(counts) = monitor.connections().await else { continue };
            self.on_counts(begun.elapsed().as_secs_f64(), counts);
        }
        self.connects_per_second_max = greatest_rate(&self.timeline);
        self.jetstream_requests = monitor.jetstream_requests().await.unwrap_or_default();
        self
    }

    fn on_counts(&mut self, at: f64, ConnectionCounts { open, accepted }: ConnectionCounts) {
        self.timeline.push(Returned { at, open, accepted });
        if open >= self.connections {
            self.back_seconds = Some(at);
        }
    }

    pub fn judge(&self, drill: &mut Drill) {
        let since = drill.elapsed();

        let expectation = Expectation::new(
            "all connections back",
            format!(
                "within {} s of the broker listening again it has as many connections as before",
                RECONNECTED_WITHIN.as_secs()
            ),
        );

        let within = self.back_seconds.is_some_and(|at| at <= RECONNECTED_WITHIN.as_secs_f64());
        let open = self.timeline.last().map_or(0, |last| last.open);

        let seen = match self.back_seconds {
            Some(at) => format!("{} connections after {at:.1} s", self.connections),
            None => format!("{open} of {} connections", self.connections),
        };

        drill.judge(expectation, since, Look::new(within, seen));

        let expectation = Expectation::new(
            "connects are spread",
            format!("the broker accepts at most {CONNECTS_PER_SECOND_MAX} connections a second"),
        );

        let most = self.connects_per_second_max;
        let met = !self.timeline.is_empty() && most <= f64::from(CONNECTS_PER_SECOND_MAX);
        drill.judge(expectation, since, Look::new(met, format!("at most {most:.0} a second")));
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let back = self.back_seconds.map_or("never".to_owned(), |at| format!("after {at:.1} s"));
        format!(
            "broker restarted: {} connections back {back}, at most {:.0} connects a second, {} \
             JetStream requests ({} before the restart)",
            self.connections,
            self.connects_per_second_max,
            self.jetstream_requests,
            self.jetstream_requests_before
        )
    }
}

/// The greatest number of connections accepted in one second. Polls are not a whole second apart,
/// so each span is the shortest one of at least a second, and its count is scaled to a second. A
/// shorter time than a second counts as one.
#[expect(clippy::cast_precision_loss, reason = "counts of connections, far below 2^53")]
fn greatest_rate(timeline: &[Returned]) -> f64 {
    let first = Returned::default();
    let begins = || std::iter::once(&first).chain(timeline);
    let rate = |(place, begin): (usize, &Returned)| {
        let later = &timeline[place..];
        let reaches = |one: &&Returned| one.at - begin.at >= SECOND.as_secs_f64();
        let end = later.iter().find(reaches).or(later.last())?;
        let span = (end.at - begin.at).max(SECOND.as_secs_f64());
        Some(end.accepted.saturating_sub(begin.accepted) as f64 / span)
    };
    begins().enumerate().filter_map(rate).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::expectation::Verdict;

    fn returned(rows: &[(f64, u64)]) -> Vec<Returned> {
        rows.iter()
            .map(|(at, accepted)| Returned { at: *at, open: 0, accepted: *accepted })
            .collect()
    }

    #[test]
    fn the_greatest_rate_is_that_of_the_fullest_second_wherever_it_begins() {
        let rate = |rows: &[(f64, u64)]| greatest_rate(&returned(rows));
        let even: Vec<(f64, u64)> =
            (1..=50_u32).map(|n| (f64::from(n) / 10.0, u64::from(n) * 40)).collect();
        assert!((rate(&even) - 400.0).abs() < 1.0, "{}", rate(&even));
        let burst = [(0.5, 10), (1.0, 20), (1.5, 600), (2.0, 620), (3.0, 630)];
        assert!((rate(&burst) - 600.0).abs() < 1e-9, "{}", rate(&burst));
        assert!((rate(&[(0.2, 700)]) - 700.0).abs() < 1e-9, "less than a second counts as one");
        assert!(rate(&[]).abs() < 1e-9);
    }

    #[test]
    fn a_storm_and_connections_that_stay_away_are_missed() {
        let judged = |accepted: u64, open: u64| {
            let mut stats = RestartStats { connections: 900, ..RestartStats::default() };
            stats.on_counts(1.0, ConnectionCounts { open, accepted });
            stats.connects_per_second_max = greatest_rate(&stats.timeline);
            let mut drill = Drill::begin("drill-fleet");
            stats.judge(&mut drill);
            drill.outcomes().iter().all(|outcome| outcome.verdict == Verdict::Met)
        };
        assert!(judged(500, 900));
        assert!(!judged(501, 900), "too many in a second");
        assert!(!judged(500, 899), "one is missing");
    }
}
