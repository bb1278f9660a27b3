//! All nodes on all connections: which node is on which, with which profile and clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use plimsoll_clock::{Clock, Stopwatch};
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::time::{Now, nanos};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval};

use super::args::FleetArgs;
use super::body::{NodeProfile, Palette};
use super::deployment::Deployment;
use super::faults;
use super::limits::{OPENED_PER_SECOND, OPENING_MAX};
use super::load::Load;
use super::node::FleetNode;
use super::sender::{Ended, SendCounts, SendPlan, Sender, Shared, SharedTimes, lock};
use crate::sim::rng::Rng;

/// How far a wrong clock is ahead. Messages of incarnations more than a day ahead are refused.
const AHEAD: Duration = Duration::from_secs(20 * 3_600);
/// Messages still unacknowledged this long after the final message are abandoned.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);

/// Which nodes are on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ConnectionRole {
    /// Usual and hostile nodes, on one of several connections.
    Usual(u32),
    /// Nodes whose clock is [`AHEAD`].
    Ahead,
    /// Nodes whose clock began at 1970 when they started.
    Epoch,
    /// The node that measures freshness.
    Probe,
}

/// A connection to open, named by the first of its nodes.
struct ConnectionPlan {
    role: ConnectionRole,
    first: NodeName,
}

/// A connection that is established, and the clock of its nodes.
struct OpenConnection {
    role: ConnectionRole,
    clock: Clock,
    sender: Sender,
}

/// A fleet that sends.
pub struct Connections {
    tasks: Vec<JoinHandle<Ended>>,
    shared: Vec<Shared>,
    times: SharedTimes,
}

impl Connections {
    /// Opens all connections and starts all nodes. The stopwatch starts at the same time.
    ///
    /// # Errors
    /// When a connection is not established in time.
    pub async fn start(
        deployment: &Deployment,
        args: &FleetArgs,
        load: Load,
    ) -> Result<(Self, Stopwatch)> {
        let palette = Arc::new(Palette::new()?);
        let now = Clock::start().now();
        let mut numbers: BTreeMap<ConnectionRole, Vec<u64>> = BTreeMap::new();
        for number in 0..u64::from(args.nodes) + 1 {
            numbers.entry(role_of(args, number)).or_default().push(number);
        }

        let plans = roles(args).into_iter().map(|role| {
            let first = numbers.get(&role).and_then(|numbers| numbers.first());
            Ok(ConnectionPlan { role, first: load.node_name(first.copied().unwrap_or(0))? })
        });

        let open = open(deployment, plans.collect::<Result<_>>()?, now).await?;
        let times = SharedTimes::default();

        let (mut connections, watch) = (
            Self { tasks: Vec::new(), shared: Vec::new(), times: times.clone() },
            Stopwatch::start(),
        );

        for OpenConnection { role, clock, sender } in open {
            let plan = SendPlan {
                palette: palette.clone(),
                watch,
                times: times.clone(),
                started: clock.now().wall,
                give_up: load.ends_after(args.join_within) + GIVE_UP_AFTER,
            };

            let numbers = numbers.remove(&role).unwrap_or_default().into_iter();
            let nodes = numbers
                .map(|number| node(deployment, args, load, &plan, number))
                .collect::<Result<Vec<_>>>()?;

            let sender = match (&nodes[..], args.has_own_connections()) {
                ([node], true) => sender.with_confirmations(&deployment.mesh, node.name()),
                _ => sender.with_others(args.connections),
            };

            connections.shared.push(sender.shared());
            connections.tasks.push(tokio::spawn(sender.run(plan, nodes)));
        }

        Ok((connections, watch))
    }

    /// All connections together. What is behind is the one that is furthest behind.
    pub fn counts(&self) -> SendCounts {
        total(self.shared.iter().map(|one| *lock(one)))
    }

    /// True once every connection has ended.
    pub fn is_over(&self) -> bool {
        self.tasks.iter().all(JoinHandle::is_finished)
    }

    /// Waits for all connections to end.
    ///
    /// # Errors
    /// When a task failed.
    pub async fn end(self) -> Result<Ended> {
        let mut ended = Ended::default();
        for task in self.tasks {
            let one = task.await?;
            ended.nodes.extend(one.nodes);
            ended.counts = total([ended.counts, one.counts]);
        }
        ended.times = std::mem::take(&mut *lock(&self.times));
        Ok(ended)
    }
}

/// Opens all connections, at most [`OPENED_PER_SECOND`] a second.
async fn open(
    deployment: &Deployment,
    plans: Vec<ConnectionPlan>,
    now: Now,
) -> Result<Vec<OpenConnection>> {
    let mut ticks = interval(Duration::from_secs(1) / OPENED_PER_SECOND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut opening, mut open) = (JoinSet::new(), Vec::new());

    for ConnectionPlan { role, first } in plans {
        ticks.tick().await;
        if opening.len() >= OPENING_MAX
            && let Some(opened) = opening.join_next().await
        {
            open.push(opened??);
        }
        let clock = role.clock(now);
        let (bus, events) = deployment.connect(clock, &first)?;
        let with_clock = move |sender| OpenConnection { role, clock, sender };
        opening.spawn(async move { Sender::open(bus, events).await.map(with_clock) });
    }

    while let Some(opened) = opening.join_next().await {
        open.push(opened??);
    }
    Ok(open)
}

fn total(all: impl IntoIterator<Item = SendCounts>) -> SendCounts {
    all.into_iter().fold(SendCounts::default(), |sum, one| SendCounts {
        made: sum.made + one.made,
        bytes: sum.bytes + one.bytes,
        acknowledged: sum.acknowledged + one.acknowledged,
        resent: sum.resent + one.resent,
        duplicates: sum.duplicates + one.duplicates,
        refused: sum.refused + one.refused,
        confirmations: sum.confirmations + one.confirmations,
        waiting: sum.waiting + one.waiting,
        behind_ns: sum.behind_ns.max(one.behind_ns),
    })
}

impl ConnectionRole {
    fn clock(self, now: Now) -> Clock {
        match self {
            Self::Usual(_) | Self::Probe => Clock::start(),
            Self::Ahead => Clock::skewed(i64::try_from(nanos(AHEAD)).unwrap_or(i64::MAX)),
            Self::Epoch => Clock::skewed(i64::try_from(now.wall.0).map_or(i64::MIN, |ns| -ns)),
        }
    }
}

fn roles(args: &FleetArgs) -> Vec<ConnectionRole> {
    // The probe comes first, so that a flood of names never takes its place.
    let mut roles = vec![ConnectionRole::Probe];
    roles.extend((0..args.connections).map(ConnectionRole::Usual));
    if args.skewed > 0 {
        roles.push(ConnectionRole::Ahead);
    }
    if args.skewed > 1 {
        roles.push(ConnectionRole::Epoch);
    }
    roles
}

/// The connection of node number `n`: number 0 is the probe, then skewed ones, usual ones, hostile
/// ones.
fn role_of(args: &FleetArgs, n: u64) -> ConnectionRole {
    match n {
        0 => ConnectionRole::Probe,
        n if n <= u64::from(args.skewed) && n % 2 == 1 => ConnectionRole::Ahead,
        n if n <= u64::from(args.skewed) => ConnectionRole::Epoch,
        n => {
            let connection = n % u64::from(args.connections);
            ConnectionRole::Usual(u32::try_from(connection).unwrap_or(0))
        }
    }
}

fn node(
    deployment: &Deployment,
    args: &FleetArgs,
    load: Load,
    plan: &SendPlan,
    number: u64,
) -> Result<FleetNode> {
    let offset_ns = Rng::new(args.seed, number).below(nanos(args.join_within).max(1));
    let usual = u64::from(args.nodes - args.hostile);
    let profile = |rng: &mut Rng| match number {
        0 => NodeProfile::Probe,
        n if n <= usual => NodeProfile::job(rng, plan.palette.tables()),
        n if n % 2 == 0 => NodeProfile::Flood,
        _ => NodeProfile::Wide,
    };
    let load = load_of(args, load, number);
    FleetNode::new(&deployment.mesh, &load, number, profile, offset_ns, plan.started)
}

/// The load of node number `n`: the probe's is never disturbed, the last ones before the hostile
/// ones are fast, and every other node begins again, or those that faults draw.
fn load_of(args: &FleetArgs, load: Load, n: u64) -> Load {
    let usual = u64::from(args.nodes - args.hostile);
    let is_fast = n <= usual && n + u64::from(args.fast) > usual;
    let load = if n.is_multiple_of(2) { load } else { load.without_restart() };
    let restart_at_ns = faults::restart_at_ns(args, n).or(load.restart_at_ns);
    let load = Load { restart_at_ns, ..load };
    match n {
        0 => Load { largest_at_ns: None, ..load.without_restart() },
        _ if is_fast => load.fast(),
        _ => load,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_one_seat_and_every_seat_a_node() {
        let args = FleetArgs { nodes: 50, connections: 3, skewed: 5, hostile: 4, ..args() };
        let roles = roles(&args);
        for number in 0..=50 {
            assert!(roles.contains(&role_of(&args, number)), "{number}");
        }
        let taken =
            |role: &ConnectionRole| (0..=50).filter(|n| role_of(&args, *n) == *role).count();
        assert_eq!(roles.iter().map(taken).sum::<usize>(), 51);
        assert!(roles.iter().all(|role| taken(role) > 0));
        assert_eq!(
            (
                taken(&ConnectionRole::Probe),
                taken(&ConnectionRole::Ahead),
                taken(&ConnectionRole::Epoch)
            ),
            (1, 3, 2)
        );
    }

    #[test]
    fn wrong_clocks_are_ahead_and_at_1970() {
        let now = Clock::start().now();
        let ahead = nanos(AHEAD);
        assert!(ConnectionRole::Ahead.clock(now).now().wall.0 >= now.wall.0 + ahead);
        assert!(ConnectionRole::Epoch.clock(now).now().wall.0 < 3_600_000_000_000);
        assert!(ConnectionRole::Usual(0).clock(now).now().wall >= now.wall);
    }

    #[test]
    fn half_of_the_nodes_begin_again_and_the_fast_ones_are_before_the_hostile_ones() {
        let args = FleetArgs { nodes: 50, skewed: 5, hostile: 4, fast: 3, ..args() };
        let load = Load {
            interval_ns: 1_000_000_000,
            rounds: 8,
            largest_at_ns: Some(1),
            restart_at_ns: Some(2),
            ..Load::default()
        };
        let loads: Vec<Load> = (0..=50).map(|n| load_of(&args, load, n)).collect();
        let fast: Vec<usize> = (0..=50).filter(|n| loads[*n].rounds == 800).collect();
        assert_eq!(fast, [44, 45, 46]);
        assert_eq!(loads.iter().filter(|load| load.restart_at_ns.is_some()).count(), 25);
        assert_eq!(loads.iter().filter(|load| load.largest_at_ns.is_some()).count(), 50);
        assert_eq!((loads[0].restart_at_ns, loads[0].largest_at_ns), (None, None), "the probe");
    }

    fn args() -> FleetArgs {
        FleetArgs { join_within: Duration::from_secs(1), ..FleetArgs::default() }
    }
}
