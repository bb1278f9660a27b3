//! A broker of three servers suffers one fault after the other, drawn by a seed: the failures of
//! such clusters that are published. Each must end within the time of a recovery, and no sample be
//! lost.
//!
//! DESIGN S73.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_clock::Deadline;
use plimsoll_mesh::cluster::Cluster;
use plimsoll_mesh::stack::StackOptions;
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::subject::{Lane, lane_stream};
use serde_json::Value;

use super::storm::Draw;
use crate::live::account::Terms;
use crate::live::expectation::Drill;
use crate::live::mesh_name::MESH;
use crate::live::report::Report;
use crate::live::rig::Rig;
use crate::live::settings::busy;

const SERVERS: usize = 3;
/// Longest time for which a server is down or an aggregator is.
const DOWN_MS_MAX: u64 = 6_000;

#[derive(Clone, Copy, Debug)]
enum Blow {
    /// A server is killed.
    Server(usize),
    /// The server that leads a lane's stream is killed.
    Leader(Lane),
    /// Two servers are killed at once; this one stays.
    AllBut(usize),
    /// The stream of a lane is deleted while no aggregator reads it.
    Stream(Lane),
    /// A server is killed and loses its store.
    Store(usize),
    /// One server misses messages, another loses its store, and the one that has all is killed.
    StoreBesideOutdated,
}

impl Blow {
    fn drawn(draw: &mut Draw) -> Self {
        let (kind, lane) = (draw.below(6), Lane::ALL[usize::from(draw.below(2) == 1)]);
        // At most two, so it fits.
        let server = usize::try_from(draw.below(3)).unwrap_or_default();
        match kind {
            0 => Self::Server(server),
            1 => Self::Leader(lane),
            2 => Self::AllBut(server),
            3 => Self::Stream(lane),
            4 => Self::Store(server),
            _ => Self::StoreBesideOutdated,
        }
    }
}

/// Strikes for so long, and once in any case.
pub(super) async fn storm(
    drill: Drill,
    dir: &Path,
    lasting: Duration,
    seed: u64,
) -> Result<Report> {
    eprintln!("seed {seed}");
    let options = StackOptions { servers: SERVERS, ..busy(dir)? };
    let disturb = async |rig: &mut Rig| rage(rig, lasting, Draw::new(seed)).await;
    Rig::run(drill, options, Terms::NOTHING, disturb).await
}

async fn rage(rig: &mut Rig, lasting: Duration, mut draw: Draw) -> Result<()> {
    let end = Deadline::within(lasting);
    loop {
        let (blow, down) = (Blow::drawn(&mut draw), draw.span(DOWN_MS_MAX));
        let at = rig.drill.elapsed().as_secs_f64();
        eprintln!("{at:.1} s: {blow:?} for {down:?}");
        let base = rig.merged().await?;
        strike(rig, blow, down).await.with_context(|| format!("{blow:?}"))?;
        let over = rig.drill.elapsed();
        cluster(rig)?.await_complete().await.with_context(|| format!("after {blow:?}"))?;
        rig.expect_recovery(&base, over).await;
        if end.has_passed() {
            return Ok(());
        }
    }
}

fn cluster(rig: &mut Rig) -> Result<&mut Cluster> {
    rig.stack.cluster().context("the broker is no cluster")
}

fn stream(lane: Lane) -> Result<String> {
    Ok(lane_stream(&MeshName::new(MESH)?, lane, None))
}

async fn strike(rig: &mut Rig, blow: Blow, down: Duration) -> Result<()> {
    match blow {
        Blow::Server(server) => kill(rig, &[server], down).await,
        Blow::Leader(lane) => {
            let leader = cluster(rig)?.leader(&stream(lane)?).await?;
            kill(rig, &[leader], down).await
        }
        Blow::AllBut(server) => {
            let others: Vec<usize> = (0..SERVERS).filter(|other| *other != server).collect();
            kill(rig, &others, down).await
        }
        Blow::Stream(lane) => {
            rig.stack.kill_aggregator();
            rig.pass("no aggregator reads", down).await;
            let deleted = format!("STREAM.DELETE.{}", stream(lane)?);
            cluster(rig)?.request(&deleted, &Value::Null)?;
            rig.stack.launch_aggregator()
        }
        Blow::Store(server) => {
            cluster(rig)?.server(server).wipe()?;
            rig.pass("a server is down", down).await;
            cluster(rig)?.server(server).restart().await
        }
        Blow::StoreBesideOutdated => outdated(rig, down).await,
    }
}

async fn kill(rig: &mut Rig, servers: &[usize], down: Duration) -> Result<()> {
    for server in servers {
        cluster(rig)?.server(*server).kill();
    }
    rig.pass("servers are down", down).await;
    for server in servers {
        cluster(rig)?.server(*server).restart().await?;
    }
    Ok(())
}

async fn outdated(rig: &mut Rig, down: Duration) -> Result<()> {
    let leader = cluster(rig)?.leader(&stream(Lane::Normal)?).await?;
    let (outdated, wiped) = ((leader + 1) % SERVERS, (leader + 2) % SERVERS);
    rig.stack.kill_aggregator();
    cluster(rig)?.server(outdated).kill();
    rig.pass("one server misses messages", down).await;
    cluster(rig)?.server(wiped).wipe()?;
    cluster(rig)?.server(leader).kill();
    for server in [wiped, outdated] {
        cluster(rig)?.server(server).restart().await?;
    }
    rig.pass("the only one that has all is down", down).await;
    cluster(rig)?.server(leader).restart().await?;
    rig.stack.launch_aggregator()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_fault_is_drawn_for_each_server_and_lane() {
        let mut draw = Draw::new(1);
        let drawn = (0..500).map(|_| format!("{:?}", Blow::drawn(&mut draw)));
        assert_eq!(drawn.collect::<BTreeSet<_>>().len(), 3 + 2 + 3 + 2 + 3 + 1);
    }
}
