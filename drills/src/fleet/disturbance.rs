//! The faults of a run under way: each begins and ends in its turn.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use plimsoll_clock::Stopwatch;
use tokio::task::JoinHandle;

use super::args::FleetArgs;
use super::deployment::Deployment;
use super::faults::{Fault, FaultClock, FaultKind, drawn};
use super::restart::RestartStats;

/// How long an aggregator may take to end.
const END_WAIT: Duration = Duration::from_secs(30);

/// The faults of a run under way.
#[derive(Debug)]
pub struct Faults {
    left: VecDeque<Fault>,
    on: Option<Fault>,
    done: Vec<Fault>,
    /// What others look at.
    pub clock: FaultClock,
    /// Whether the return of connections is watched after the broker was killed.
    are_watched: bool,
    /// The state before the broker was killed.
    before: Option<RestartStats>,
    returning: Option<JoinHandle<RestartStats>>,
}

impl Faults {
    /// Those that the options ask for: drawn ones, or one restart of the broker.
    pub fn of(args: &FleetArgs) -> Self {
        let restart = args.restart_broker.map(|at| {
            let (kind, lasting) = (FaultKind::BrokerKilled, args.broker_down);
            Fault { at, kind, lasting }
        });
        Self {
            left: drawn(args).into_iter().chain(restart).collect(),
            on: None,
            done: Vec::new(),
            clock: FaultClock::default(),
            are_watched: restart.is_some(),
            before: None,
            returning: None,
        }
    }

    /// Whether one is on.
    pub fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// Begins and ends what is due.
    ///
    /// # Errors
    /// When a process does not start again, or does not end.
    pub async fn step(&mut self, watch: Stopwatch, deployment: &mut Deployment) -> Result<()> {
        let now = watch.elapsed();
        if let Some(fault) = self.on {
            if now >= fault.end()
                && deployment.end_fault(fault.kind).await.with_context(|| format!("{fault:?}"))?
            {
                self.on = None;
                self.clock.turn();
                self.done.push(Fault { lasting: now.saturating_sub(fault.at), ..fault });
                self.watch(deployment);
            } else if now > fault.end() + END_WAIT {
                bail!("the aggregator does not end within {} s", END_WAIT.as_secs());
            }
        } else if self.left.front().is_some_and(|next| next.at <= now)
            && let Some(fault) = self.left.pop_front()
        {
            if let Some(monitor) = deployment.monitor().filter(|_| self.are_watched) {
                self.before = Some(RestartStats::before(&monitor).await?);
            }
            let fault = Fault { at: watch.elapsed(), ..fault };
            let (at, lasting) = (fault.at.as_secs_f64(), fault.lasting.as_secs_f64());
            eprintln!("{at:.1} s: {:?} for {lasting:.1} s", fault.kind);
            self.clock.turn();
            deployment.begin_fault(fault.kind);
            self.on = Some(fault);
        }

        Ok(())
    }

    /// Watches the connections return to a broker that has just begun to listen again.
    fn watch(&mut self, deployment: &Deployment) {
        if let Some((before, monitor)) = self.before.take().zip(deployment.monitor()) {
            self.returning = Some(tokio::spawn(before.watch(monitor)));
        }
    }

    /// Those that have happened, with their real times, and what the restart of the broker led to.
    ///
    /// # Errors
    /// When the watch of the restart failed.
    pub async fn end(self) -> Result<(Vec<Fault>, Option<RestartStats>)> {
        // Connections that have ended do not return any more.
        let returned = match self.returning.filter(JoinHandle::is_finished) {
            Some(watch) => Some(watch.await.context("the watch of the restart failed")?),
            None => None,
        };
        Ok((self.done, returned))
    }
}
