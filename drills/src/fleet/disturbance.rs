//! The faults of a run under way: each begins and ends in its turn.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::args::FleetArgs;
use super::deployment::Deployment;
use super::faults::{Fault, FaultClock, drawn};

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
}

impl Faults {
    /// Those that the options ask for.
    pub fn of(args: &FleetArgs) -> Self {
        let left = drawn(args).into();
        Self { left, on: None, done: Vec::new(), clock: FaultClock::default() }
    }

    /// Whether one is on.
    pub fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// Begins and ends what is due.
    ///
    /// # Errors
    /// When a process does not start again, or does not end.
    pub async fn step(&mut self, now: Duration, deployment: &mut Deployment) -> Result<()> {
        if let Some(fault) = self.on {
            if now >= fault.end()
                && deployment.end_fault(fault.kind).await.with_context(|| format!("{fault:?}"))?
            {
                self.on = None;
                self.clock.turn();
                self.done.push(Fault { lasting: now.saturating_sub(fault.at), ..fault });
            } else if now > fault.end() + END_WAIT {
                bail!("the aggregator does not end within {} s", END_WAIT.as_secs());
            }
        } else if self.left.front().is_some_and(|next| next.at <= now)
            && let Some(fault) = self.left.pop_front()
        {
            let (at, lasting) = (now.as_secs_f64(), fault.lasting.as_secs_f64());
            eprintln!("{at:.1} s: {:?} for {lasting:.1} s", fault.kind);
            self.clock.turn();
            deployment.begin_fault(fault.kind);
            self.on = Some(Fault { at: now, ..fault });
        }
        Ok(())
    }

    /// Those that have happened, with their real times.
    pub fn done(self) -> Vec<Fault> {
        self.done
    }
}
