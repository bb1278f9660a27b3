//! A node at one point in time: the metrics that rules compare and pages show.

use std::time::Duration;

use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::metric::NodeMetric;
use plimsoll_schemas::summary::Presence;
use plimsoll_schemas::time::{Wall, seconds};

use super::node::Node;
use super::node::metrics::{Count, Peak};

/// A node as it is at one point in time.
#[derive(Clone, Copy, Debug)]
pub struct NodeAt<'n> {
    pub node: &'n Node,
    /// The point in time.
    pub at: Wall,
    presence: Presence,
}

impl<'n> NodeAt<'n> {
    pub fn new(node: &'n Node, at: Wall) -> Self {
        Self { node, at, presence: node.presence(at) }
    }

    /// Whether what it last reported still holds.
    pub fn is_reporting(&self) -> bool {
        self.presence == Presence::Up
    }

    /// Whether its last sensor readings still hold.
    pub fn has_fresh_readings(&self) -> bool {
        self.is_reporting() && self.node.metrics.are_readings_fresh(self.at)
    }

    /// How long its way to the broker takes; `None` while it does not report that.
    pub fn way(&self) -> Option<Duration> {
        let round_trip = self.node.round_trip().filter(|_| self.is_reporting())?;
        Some(round_trip.max(self.node.delay()))
    }

    /// The labels of the device that last counted towards a metric, where several count.
    pub fn counted_labels(&self, figure: NodeMetric) -> Option<&'n Labels> {
        self.node.metrics.counted_labels(figure)
    }

    /// One metric; `None` if it is unknown. Only the fleet tracks sequence gaps, and only
    /// beside other nodes is a link slow.
    #[expect(clippy::cast_precision_loss, reason = "to be compared with a threshold, no account")]
    pub fn figure(&self, figure: NodeMetric) -> Option<f64> {
        let Self { node, at, presence } = *self;
        let metrics = &node.metrics;
        let increase = |what: Count| metrics.increase(at, what);
        let has_bus = self.is_reporting() && node.bus.is_known();
        let of_bus = |value: f64| has_bus.then_some(value);

        match figure {
            // Its final message announced the silence. It is 0
            // and not unknown, so that an alert resolves.
            NodeMetric::SilentSeconds if presence == Presence::Left => Some(0.0),
            NodeMetric::SilentSeconds => Some(at.since(node.last_seen).as_secs_f64()),
            NodeMetric::DuplicateNames => Some(increase(Count::DuplicateNames)),
            NodeMetric::Unaccounted => Some(increase(Count::Unaccounted)),
            NodeMetric::LedgerGap | NodeMetric::LinkDelaySeconds => None,
            NodeMetric::CrashedRuns => self.is_reporting().then(|| increase(Count::CrashedRuns)),
            NodeMetric::SamplesLost => self.is_reporting().then(|| increase(Count::SamplesLost)),
            NodeMetric::Rerouted => of_bus(increase(Count::Rerouted)),
            NodeMetric::Dropped => of_bus(increase(Count::Dropped)),
            NodeMetric::KernelDropped => of_bus(increase(Count::KernelDropped)),
            NodeMetric::TaskRestarts => of_bus(increase(Count::TaskRestarts)),
            NodeMetric::TakenIds => of_bus(increase(Count::TakenIds)),
            NodeMetric::ConfirmationsRefused => of_bus(increase(Count::ConfirmationsRefused)),
            NodeMetric::OutboxDepth => of_bus(node.bus.value.outbox_depth as f64),
            NodeMetric::OutboxBytes => of_bus(node.bus.value.outbox_bytes as f64),
            NodeMetric::OutboxAgeSeconds => of_bus(seconds(node.bus.value.outbox_age_ns)),
            NodeMetric::SamplesLateSeconds => {
                of_bus(seconds(node.bus.value.outbox_age_ns)).filter(|_| node.has_jobs())
            }
            NodeMetric::OutboxPressure => of_bus(node.bus.value.outbox_pressure as f64 / 1e6),
            NodeMetric::SpoolNotDurable => {
                of_bus(f64::from(u8::from(node.bus.value.spool_durable == Some(false))))
            }
            NodeMetric::RoundTripSeconds => {
                node.bus.value.round_trip_ns.filter(|_| has_bus).map(seconds)
            }
            NodeMetric::BreakerOpen => metrics.peak(at, Peak::BREAKER).filter(|_| has_bus),
            NodeMetric::ConservativeMode => {
                metrics.peak(at, Peak::CONSERVATIVE).filter(|_| has_bus)
            }
            NodeMetric::ClockSkewSeconds => {
                let ahead_ns = node.clock_ahead_ns().filter(|_| self.is_reporting())?;
                Some(seconds(ahead_ns.unsigned_abs()))
            }
            _ if !self.has_fresh_readings() => None,
            _ => metrics.sensor_figure(at, figure),
        }
    }
}
