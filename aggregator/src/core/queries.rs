//! What the core answers without changing: positions, deadlines and pages.

use plimsoll_schemas::alert::{AlertKey, AlertState, AlertsPage, LEDGER_GAP, SilencesPage};
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::limits::wire::MESH_NODES_MAX;
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::summary::{EventsPage, LedgerPage, Pulse, RunsPage};
use plimsoll_schemas::time::{Mono, Wall, seconds};

use super::Core;
use super::alerting::{AlertsQuery, Situation, Undeliverable};
use super::durable::{CommonTerms, PendingConfirmation};
use super::fleet::{EventsQuery, Node, Rollups};
use super::history::History;
use super::ingest::{LaneOrder, Position};
use super::rules::Inputs;
use super::runs::RunsQuery;
use super::view::{Nodes, ReadView, View, ViewQuery, blame_page, of_mesh, severities};

impl Core {
    /// Whether everything that the streams held at the start has been read.
    pub fn is_ready(&self) -> bool {
        self.ingest.is_ready()
    }

    /// Whether unread messages may wait in a stream.
    pub fn is_behind(&self) -> bool {
        self.ingest.is_behind()
    }

    /// Which lane is to be read next. While catching up, the one that is further back in time;
    /// otherwise the emergency lane, unless its lead has left too many gaps in a node's numbers.
    /// The emergency lane waits then for a stream that is not open yet.
    pub fn lane_order(&self) -> LaneOrder {
        let is_fragmented = self.fleet.is_fragmented();
        match self.ingest.lags() {
            Some(lane) if is_fragmented && self.ingest.awaits(lane) => LaneOrder::Only(lane),
            Some(lane) => LaneOrder::First(lane),
            None if is_fragmented && self.ingest.awaits(Lane::Normal) => {
                LaneOrder::Only(Lane::Normal)
            }
            None if is_fragmented => LaneOrder::Mostly(Lane::Normal),
            None => LaneOrder::Mostly(Lane::Emergency),
        }
    }

    /// Messages still to be read, by lane.
    pub fn pending(&self) -> Vec<(Lane, u64)> {
        self.ingest.pending()
    }

    /// How far a lane has been read.
    pub fn position(&self, lane: Lane) -> Position {
        self.ingest.position(lane)
    }

    pub fn node_names(&self) -> Vec<NodeName> {
        self.fleet.nodes().keys().cloned().collect()
    }

    /// When [`Self::on_deadline`] next has something to do without an event.
    pub fn next_deadline(&self) -> Mono {
        if self.is_evaluating { Mono(u64::MAX) } else { self.evaluator.evaluates_at }
    }

    /// When [`Self::next_post`] next returns one; `None` while there is nothing to post.
    pub fn next_post_at(&self) -> Option<Mono> {
        self.alerting.deliveries.next_deadline()
    }

    /// Whether every receiver that answers has been notified of everything.
    pub fn has_sent_all(&self) -> bool {
        self.alerting.deliveries.is_settled()
    }

    /// What of the past is not stored yet.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The rules in force.
    pub fn rules(&self) -> &Rules {
        self.evaluator.rules()
    }

    /// What the confirmations to all nodes have in common now.
    pub fn common_terms(&self) -> CommonTerms {
        let urgent = self.evaluator.rules().urgent.clone();
        CommonTerms { limits: self.evaluator.limits(), urgent, mesh_nodes: self.mesh_nodes() }
    }

    /// Nodes that may reconnect at once: those that have neither left nor expired.
    pub(super) fn mesh_nodes(&self) -> u32 {
        u32::try_from(self.fleet.present).map_or(MESH_NODES_MAX, |nodes| nodes.min(MESH_NODES_MAX))
    }

    /// The confirmation for a node where what is in memory counts as stored.
    pub fn confirmation_from_memory(
        &self,
        name: &NodeName,
        now: Mono,
    ) -> Option<PendingConfirmation> {
        let node = self.node(name)?;
        Some(PendingConfirmation::new(name, now, self.ingest.read_up_to(), node))
    }

    pub fn node(&self, name: &NodeName) -> Option<&Node> {
        self.fleet.nodes().get(name).map(AsRef::as_ref)
    }

    pub fn rollups(&self) -> &Rollups {
        self.fleet.rollups()
    }

    pub fn gap_alert(&self, name: &NodeName) -> AlertState {
        let is_it =
            |key: &AlertKey| key.rule.as_str() == LEDGER_GAP && key.scope.node() == name.as_str();
        let mut alerts = self.alerting.alerts.active();
        alerts.find(|(key, _)| is_it(key)).map_or(AlertState::Inactive, |(_, state)| state)
    }

    /// The newest undeliverable notifications, oldest first.
    pub fn undeliverable(&self) -> Vec<Undeliverable> {
        self.alerting.deliveries.undeliverable().cloned().collect()
    }

    pub fn events(&self, now: Wall, query: &EventsQuery) -> EventsPage {
        EventsPage {
            mesh: self.mesh.to_string(),
            at_seconds: seconds(now.0),
            ready: self.is_ready(),
            events: self.fleet.events.rows(query),
        }
    }

    /// What pages that stay open need to know once a second. `broker` is the state of the
    /// connection.
    pub fn pulse(&self, now: Wall, broker: &str) -> Pulse {
        let of = |wanted| {
            let active = self.alerting.alerts.active();
            active.filter(move |(_, state)| *state == wanted).map(|(key, _)| key)
        };

        Pulse {
            at_seconds: seconds(now.0),
            ready: self.is_ready(),
            broker: broker.to_owned(),
            freshness: of_mesh(self.fleet.last_seen(now), broker),
            firing: of(AlertState::Firing).count() as u64,
            firing_severity: of(AlertState::Firing).map(severities(self.rules())).max(),
            pending: of(AlertState::Pending).count() as u64,
            changed_at_seconds: self.alerting.changes().last().map(|last| last.at_seconds),
        }
    }

    pub fn alerts_page(&self, now: Wall, query: &AlertsQuery) -> AlertsPage {
        let inputs = Inputs { fleet: &self.fleet, broker: self.ingest.broker_health() };
        let situation = Situation { evaluator: &self.evaluator, inputs, blame: &self.blame };
        AlertsPage {
            mesh: self.mesh.to_string(),
            at_seconds: seconds(now.0),
            ready: self.is_ready(),
            alerts: self.alerting.rows(now, query, situation),
        }
    }

    pub fn runs_page(&self, now: Wall, query: &RunsQuery) -> RunsPage {
        RunsPage {
            mesh: self.mesh.to_string(),
            at_seconds: seconds(now.0),
            ready: self.is_ready(),
            runs: self.runs.rows(now, query),
        }
    }

    /// All silences that hold or are yet to begin.
    pub fn silences_page(&self) -> SilencesPage {
        SilencesPage { silences: self.alerting.silences.rows() }
    }

    /// What is known now, to be shown. `broker` is the state of the connection.
    pub fn read_view(&self, now: Wall, broker: &str) -> ReadView {
        let Self { mesh, ingest, fleet, evaluator, alerting, .. } = self;
        let mut view = ReadView::of(mesh, now, broker, ingest, fleet, evaluator, alerting);
        view.blame = blame_page(&self.blame, evaluator.rules(), alerting);
        let limited = self.runs.stored.limited;
        if limited > 0 {
            view.own.merged.limited.insert("run".into(), limited);
        }
        view
    }

    /// All rows at once.
    pub fn view(&self, now: Wall, broker: &str) -> View {
        let query = ViewQuery { fleet: true, nodes: Nodes::All, native: true };
        self.read_view(now, broker).view(query)
    }

    /// Every ledger entry at once.
    pub fn statement(&self, now: Wall) -> LedgerPage {
        self.read_view(now, "").ledger_page()
    }
}
