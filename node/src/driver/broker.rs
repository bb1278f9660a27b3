//! The connection to the broker: its events go to the core, messages of the core go out.
//!
//! Owns the link and what is logged about it once per connection. Decides nothing about messages.
//!
//! DESIGN S30.

use bytes::Bytes;
use plimsoll_bus::{BusConfig, BusError, BusEvent, Publish};
use plimsoll_runtime::absence::Absence;
use plimsoll_runtime::broker_faults::BrokerFaults;
use plimsoll_runtime::supervision::{SupervisedTask, Supervisor};
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::subject::answer_subject;
use plimsoll_schemas::time::{Mono, Now};

use crate::core::Core;
use crate::io::broker_connection::{BrokerConnection, LinkEvent, ReceivedRequests};

pub(super) struct Broker {
    link: BrokerConnection,
    config: BusConfig,
    mesh: MeshName,
    node: NodeName,
    requests: ReceivedRequests,
    /// The connection's tasks as one, which the driver starts again if they end.
    task: SupervisedTask,
    started: Mono,
    /// When the connection is opened anew, after its tasks have ended.
    restart_at: Option<Mono>,
    /// Address of the broker without secrets, for logs.
    url: String,
    absence: Absence,
    pub(super) faults: BrokerFaults,
    /// Dead letters sent, repetitions included.
    letters: u64,
    /// Nodes of the mesh, as an aggregator has stated; 0 while it is unknown. Outlives the link.
    mesh_nodes: u32,
}

impl Broker {
    pub(super) fn connect(
        config: BusConfig,
        mesh: &MeshName,
        node: &NodeName,
        requests: ReceivedRequests,
        supervisor: &Supervisor,
        now: Mono,
    ) -> Result<Self, BusError> {
        let url = config.url_without_secrets();
        let link = BrokerConnection::open(config.clone(), mesh, node, requests)?;
        let absence = Absence::since(now);

        Ok(Self {
            link,
            config,
            mesh: mesh.clone(),
            node: node.clone(),
            requests,
            task: supervisor.task("broker"),
            started: now,
            restart_at: None,
            url,
            absence,
            faults: BrokerFaults::default(),
            letters: 0,
            mesh_nodes: 0,
        })
    }

    /// The connection's tasks have ended although it was not closed. What was in flight waits; it
    /// is sent again on the next connection.
    pub(super) fn on_ended(&mut self, core: &mut Core, now: Now) {
        self.on_event(core, now, &BusEvent::Disconnected);
        self.plan_restart(now.mono, "connection ended");
    }

    fn plan_restart(&mut self, now: Mono, why: &str) {
        let pause = self.task.on_ended(now.since(self.started), why);
        self.restart_at = Some(now.plus(pause));
    }

    /// Opens the connection anew once its pause is over.
    pub(super) fn restart_if_due(&mut self, now: Mono) {
        if self.restart_at.take_if(|at| now >= *at).is_none() {
            return;
        }
        self.started = now;

        let config = self.config.clone();
        match BrokerConnection::open(config, &self.mesh, &self.node, self.requests) {
            Ok(link) => {
                // A connection that is opened anew has no such number until a confirmation comes.
                link.spread_reconnects(self.mesh_nodes);
                self.link = link;
            }
            // Only a change of its files since the start can make the configuration invalid.
            Err(error) => self.plan_restart(now, &error.to_string()),
        }
    }

    /// The next event. Cancel safe.
    pub(super) async fn next(&mut self) -> LinkEvent {
        self.link.next().await
    }

    /// Logs an event and passes it to the core.
    pub(super) fn on_event(&mut self, core: &mut Core, now: Now, event: &BusEvent) {
        match event {
            BusEvent::Connected { delivery, server_version, .. } => {
                tracing::info!(delivery = delivery.as_str(), server_version, "broker connected");
            }
            BusEvent::Disconnected => tracing::warn!("broker disconnected; messages wait"),
            BusEvent::Stalled => tracing::warn!("broker does not answer; messages wait"),
            BusEvent::RoundTrip(_) => {
                if core.is_stalled() {
                    tracing::info!("broker answers again");
                }
            }
            BusEvent::Acknowledged { .. }
            | BusEvent::ConnectFailed { .. }
            | BusEvent::Streams { .. }
            | BusEvent::Refused { .. }
            | BusEvent::Denied { .. } => {}
        }

        self.faults.on_event(event);
        let taken = core.taken_ids();
        core.on_bus_event(now, event);
        log_taken_id(taken, core.taken_ids());
    }

    /// Passes a confirmation to the core; the number of nodes in it spreads later reconnects.
    pub(super) fn on_confirmation(&mut self, core: &mut Core, now: Now, payload: &[u8]) {
        let Err(reason) = core.on_confirmation(now, payload) else {
            if core.mesh_nodes() != self.mesh_nodes {
                self.mesh_nodes = core.mesh_nodes();
                self.link.spread_reconnects(self.mesh_nodes);
            }
            return;
        };
        // Any client with publish permission can cause this: the 1st, 2nd, 4th, 8th ... is logged.
        let count: u64 = core.status().confirmations.rejected.values().sum();
        if count.is_power_of_two() {
            tracing::warn!(reason, count, "confirmation rejected; check who may publish it");
        }
    }

    pub(super) fn publish(&mut self, core: &mut Core, now: Now) {
        if !self.link.is_open() {
            return;
        }

        while let Some(publish) = core.next_publish(now) {
            if let Err(ticket) = self.link.try_publish(publish) {
                return core.on_handover_failed(now, ticket);
            }
        }

        // After all messages: a letter is of one that no broker takes, and delays none that may be
        // stored.
        while let Some(letter) = core.next_dead_letter(now) {
            self.log_letter(&letter);
            if let Err(ticket) = self.link.try_publish(letter) {
                return core.on_handover_failed(now, ticket);
            }
        }
    }

    /// Sends a response to a request of an aggregator, once.
    pub(super) fn respond(&self, asker: &str, response: Bytes) {
        let subject = answer_subject(&self.mesh, &self.node, asker);
        self.link.publish_unacknowledged(subject, response);
    }

    /// A broker can cause many: the 1st, 2nd, 4th, 8th ... is logged.
    fn log_letter(&mut self, letter: &Publish) {
        self.letters += 1;
        if self.letters.is_power_of_two() {
            let count = self.letters;
            let header = |name| letter.headers.iter().find(|(of, _)| *of == name);
            let [reason, subject, samples] =
                ["Plimsoll-Reason", "Plimsoll-Subject", "Plimsoll-Samples"]
                    .map(|name| header(name).map_or("", |(_, value)| value.as_str()));

            tracing::warn!(
                reason,
                subject,
                samples,
                count,
                "broker refuses a message for good; it becomes a dead letter"
            );
        }
    }

    /// When [`Self::log_absence`] has a line to log, or [`Self::restart_if_due`] something to do.
    pub(super) fn next_deadline(&self) -> Option<Mono> {
        self.absence.next_deadline().into_iter().chain(self.restart_at).min()
    }

    /// Logs that the broker is unreachable: soon after it went, then rarely.
    pub(super) fn log_absence(&mut self, is_connected: bool, now: Mono) {
        match is_connected {
            true => self.absence.on_present(),
            false => self.absence.on_absent(now),
        }
        if let Some(span) = self.absence.on_deadline(now) {
            let (url, seconds) = (&self.url, span.as_secs());
            let cause = self.faults.connect_error().unwrap_or("no answer");

            tracing::warn!(
                url,
                seconds,
                "broker unreachable: {cause}; messages wait; check bus.url, its credentials and the \
                 broker"
            );
        }
    }

    /// Begins to close the connection, once.
    pub(super) fn close(&mut self) {
        self.link.close();
    }
}

/// Any client that may publish can cause this: the 1st, 2nd, 4th, 8th ... is logged.
fn log_taken_id(before: u64, count: u64) {
    if count > before && count.is_power_of_two() {
        tracing::error!(
            count,
            "a stream has a message id that this node never sent: another client used it; the \
             message is resent under another id; check who may publish to the broker"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plimsoll_schemas::ids::Labels;
    use plimsoll_schemas::time::Wall;

    use super::*;
    use crate::core::{Bounds, Identity};

    #[tokio::test]
    async fn a_connection_whose_tasks_end_is_opened_anew_after_a_pause() {
        let (mesh, node) = (MeshName::new("m").unwrap(), NodeName::new("n").unwrap());
        let url = "nats://127.0.0.1:1".to_owned();
        let config = BusConfig::new(url, "test".to_owned(), mesh.clone());
        let (start, supervisor) = (Now { mono: Mono(0), wall: Wall(1) }, Supervisor::default());
        let identity =
            Identity { mesh: mesh.clone(), node: node.clone(), labels: Labels::default() };
        let mut core = Core::new(identity, Bounds::default(), start);
        let connected = {
            let requests = ReceivedRequests::default();
            Broker::connect(config, &mesh, &node, requests, &supervisor, start.mono)
        };
        let mut broker = connected.unwrap();
        broker.close();
        broker.on_ended(&mut core, start);
        let due = broker.restart_at.expect("a restart is planned");
        assert!((1_500_000_000..=2_500_000_000).contains(&due.0), "{due:?}");
        assert!(broker.next_deadline() <= Some(due));
        broker.restart_if_due(Mono(due.0 - 1));
        assert!(!broker.link.is_open(), "it is too early");
        broker.restart_if_due(due.plus(Duration::from_millis(1)));
        assert!(broker.link.is_open());
        assert_eq!((broker.restart_at, supervisor.total()), (None, 1));
    }
}
