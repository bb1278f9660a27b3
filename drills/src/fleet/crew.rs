//! All nodes on all connections: who sits where, with which habit and which clock.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use plimsoll_clock::{Clock, Stopwatch};
use plimsoll_schemas::time::{Now, nanos};
use tokio::task::JoinHandle;

use super::FleetArgs;
use super::body::{Habit, Palette};
use super::node::{FleetNode, Regime};
use super::sender::{Course, Ended, Sender, Shared, Tally, look};
use super::site::Site;
use crate::sim::dice::Dice;

/// How far a wrong clock is ahead.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
/// What is still under way so long after the last word is given up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);

/// Which nodes sit on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    /// Usual and hostile nodes, on one of several connections.
    Usual(u32),
    /// Nodes whose clock is a year ahead.
    Ahead,
    /// Nodes whose clock began at 1970 when they started.
    Epoch,
    /// The node that measures freshness.
    Probe,
}

/// A fleet that speaks.
pub struct Crew {
    tasks: Vec<JoinHandle<Ended>>,
    shared: Vec<Shared>,
}

impl Crew {
    /// Opens all connections, and lets all nodes begin. The stopwatch runs from that moment.
    ///
    /// # Errors
    /// When a connection does not stand in time.
    pub async fn start(site: &Site, args: &FleetArgs, regime: Regime) -> Result<(Self, Stopwatch)> {
        let palette = Arc::new(Palette::new()?);
        let now = Clock::start().now();
        let mut open = Vec::new();
        for seat in seats(args) {
            let clock = seat.clock(now);
            open.push((seat, clock, Sender::open(site.connect(clock)?).await?));
        }
        let (mut crew, watch) =
            (Self { tasks: Vec::new(), shared: Vec::new() }, Stopwatch::start());
        for (seat, clock, sender) in open {
            let course = Course {
                regime,
                palette: palette.clone(),
                watch,
                started: clock.now().wall,
                give_up: Duration::from_nanos(regime.interval_ns * (regime.rounds + 2))
                    + args.join_within
                    + GIVE_UP_AFTER,
            };
            let numbers = (0..u64::from(args.nodes) + 1).filter(|n| seat_of(args, *n) == seat);
            let nodes = numbers
                .map(|number| node(site, args, &course, number))
                .collect::<Result<Vec<_>>>()?;
            crew.shared.push(sender.shared());
            crew.tasks.push(tokio::spawn(sender.run(course, nodes)));
        }
        Ok((crew, watch))
    }

    /// All connections together. What is behind is the one that is furthest behind.
    #[must_use]
    pub fn tally(&self) -> Tally {
        total(self.shared.iter().map(look))
    }

    /// True once every connection has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.tasks.iter().all(JoinHandle::is_finished)
    }

    /// Waits for all connections to end.
    ///
    /// # Errors
    /// When one came to grief.
    pub async fn end(self) -> Result<Ended> {
        let mut ended = Ended::default();
        for task in self.tasks {
            let one = task.await?;
            ended.nodes.extend(one.nodes);
            ended.late.merge(&one.late);
            ended.answered.merge(&one.answered);
            ended.tally = total([ended.tally, one.tally]);
        }
        Ok(ended)
    }
}

fn total(tallies: impl IntoIterator<Item = Tally>) -> Tally {
    tallies.into_iter().fold(Tally::default(), |sum, one| Tally {
        made: sum.made + one.made,
        bytes: sum.bytes + one.bytes,
        acknowledged: sum.acknowledged + one.acknowledged,
        resent: sum.resent + one.resent,
        duplicates: sum.duplicates + one.duplicates,
        refused: sum.refused + one.refused,
        waiting: sum.waiting + one.waiting,
        behind_ns: sum.behind_ns.max(one.behind_ns),
    })
}

impl Seat {
    fn clock(self, now: Now) -> Clock {
        match self {
            Self::Usual(_) | Self::Probe => Clock::start(),
            Self::Ahead => Clock::skewed(i64::try_from(nanos(YEAR)).unwrap_or(i64::MAX)),
            Self::Epoch => Clock::skewed(i64::try_from(now.wall.0).map_or(i64::MIN, |ns| -ns)),
        }
    }
}

fn seats(args: &FleetArgs) -> Vec<Seat> {
    // The probe comes first, so that a flood of names never takes its place.
    let mut seats = vec![Seat::Probe];
    seats.extend((0..args.connections).map(Seat::Usual));
    if args.skewed > 0 {
        seats.push(Seat::Ahead);
    }
    if args.skewed > 1 {
        seats.push(Seat::Epoch);
    }
    seats
}

/// Where node number `n` sits: number 0 is the probe, then skewed ones, usual ones, hostile ones.
fn seat_of(args: &FleetArgs, n: u64) -> Seat {
    match n {
        0 => Seat::Probe,
        n if n <= u64::from(args.skewed) && n % 2 == 1 => Seat::Ahead,
        n if n <= u64::from(args.skewed) => Seat::Epoch,
        n => {
            let connection = n % u64::from(args.connections);
            Seat::Usual(u32::try_from(connection).unwrap_or(0))
        }
    }
}

fn node(site: &Site, args: &FleetArgs, course: &Course, number: u64) -> Result<FleetNode> {
    let offset_ns = Dice::new(args.seed, number).below(nanos(args.join_within).max(1));
    let usual = u64::from(args.nodes - args.hostile);
    let habit = |dice: &mut Dice| match number {
        0 => Habit::Probe,
        n if n <= usual => Habit::job(dice, course.palette.tables()),
        n if n % 2 == 0 => Habit::Flood,
        _ => Habit::Wide,
    };
    FleetNode::new(&site.mesh, &course.regime, number, habit, (offset_ns, course.started))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_one_seat_and_every_seat_a_node() {
        let args = FleetArgs { nodes: 50, connections: 3, skewed: 5, hostile: 4, ..args() };
        let seats = seats(&args);
        for number in 0..=50 {
            assert!(seats.contains(&seat_of(&args, number)), "{number}");
        }
        let taken = |seat: &Seat| (0..=50).filter(|n| seat_of(&args, *n) == *seat).count();
        assert_eq!(seats.iter().map(taken).sum::<usize>(), 51);
        assert!(seats.iter().all(|seat| taken(seat) > 0));
        assert_eq!((taken(&Seat::Probe), taken(&Seat::Ahead), taken(&Seat::Epoch)), (1, 3, 2));
    }

    #[test]
    fn wrong_clocks_are_a_year_ahead_and_at_1970() {
        let now = Clock::start().now();
        let year = nanos(YEAR);
        assert!(Seat::Ahead.clock(now).now().wall.0 >= now.wall.0 + year);
        assert!(Seat::Epoch.clock(now).now().wall.0 < 3_600_000_000_000);
        assert!(Seat::Usual(0).clock(now).now().wall >= now.wall);
    }

    fn args() -> FleetArgs {
        FleetArgs { join_within: Duration::from_secs(1), ..FleetArgs::default() }
    }
}
