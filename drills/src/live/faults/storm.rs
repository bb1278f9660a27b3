//! One fault after the other, drawn by a seed, faster than the mesh can recover from each: a
//! process may be killed while it still takes up what an earlier death left behind.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_schemas::random::SplitMix64;

use super::processes::hush;
use crate::live::account::Terms;
use crate::live::expectation::Drill;
use crate::live::report::Report;
use crate::live::rig::Rig;
use crate::live::settings::busy;

const BLOWS: usize = 14;

/// The faults of a storm.
#[derive(Clone, Copy, Debug)]
enum Blow {
    StopBroker,
    KillBroker,
    WipeBroker,
    KillAggregator,
    KillNode(usize),
}

pub(super) struct Draw(SplitMix64);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(SplitMix64(seed))
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0.bits() % end
    }

    fn blow(&mut self) -> Blow {
        match self.below(9) {
            0 | 1 => Blow::StopBroker,
            2 | 3 => Blow::KillBroker,
            4 => Blow::WipeBroker,
            5 | 6 => Blow::KillAggregator,
            7 => Blow::KillNode(0),
            _ => Blow::KillNode(1),
        }
    }

    pub(super) fn span(&mut self, longest_ms: u64) -> Duration {
        Duration::from_millis(self.below(longest_ms))
    }
}

pub(super) async fn storm(drill: Drill, dir: &Path, seed: u64) -> Result<Report> {
    eprintln!("seed {seed}");
    let disturb = async |rig: &mut Rig| rage(rig, Draw::new(seed)).await;
    Rig::run(drill, busy(dir)?, Terms::CRASH, disturb).await
}

async fn rage(rig: &mut Rig, mut draw: Draw) -> Result<()> {
    for _ in 0..BLOWS {
        let blow = draw.blow();
        let (lasting, calm) = (draw.span(2_500), draw.span(1_500));
        strike(rig, blow, lasting).await.with_context(|| format!("{blow:?}"))?;
        rig.pass("calm", calm).await;
    }
    let over = rig.drill.elapsed();
    rig.stack.await_readiness().await.context("after the storm")?;
    let base = rig.merged().await?;
    rig.expect_recovery(&base, over).await;
    Ok(())
}

async fn strike(rig: &mut Rig, blow: Blow, lasting: Duration) -> Result<()> {
    let at = rig.drill.elapsed().as_secs_f64();
    eprintln!("{at:.1} s: {blow:?} for {lasting:?}");

    match blow {
        Blow::StopBroker => {
            rig.stack.broker().pause();
            rig.pass("stopped", lasting).await;
            rig.stack.broker().resume();
        }
        Blow::KillBroker | Blow::WipeBroker => {
            match blow {
                Blow::WipeBroker => rig.stack.broker().wipe()?,
                _ => rig.stack.broker().kill(),
            }
            rig.pass("dead", lasting).await;
            rig.stack.broker().restart().await?;
        }
        Blow::KillAggregator => {
            rig.stack.kill_aggregator();
            rig.pass("dead", lasting).await;
            rig.stack.launch_aggregator()?;
        }
        Blow::KillNode(place) => {
            hush(rig, place).await?;
            rig.stack.kill_node(place);
            rig.stack.stations()[place].resume_job();
            rig.pass("dead", lasting).await;
            rig.stack.launch_node(place)?;
        }
    }

    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_yields_one_storm_and_another_seed_another() {
        let storm = |seed| {
            let mut draw = Draw::new(seed);
            (0..BLOWS).map(|_| format!("{:?}", draw.blow())).collect::<Vec<_>>()
        };
        assert_eq!(storm(1), storm(1));
        assert_ne!(storm(1), storm(2));
        let mut draw = Draw::new(1);
        let all: std::collections::BTreeSet<_> =
            (0..200).map(|_| format!("{:?}", draw.blow())).collect();
        assert_eq!(all.len(), 6, "{all:?}");
    }
}
