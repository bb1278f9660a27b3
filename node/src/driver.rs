//! Joins the node's core with the world: the crate's only `select!`.
//!
//! Each turn waits for one event, lets the core decide, and carries out what it asks. On the
//! way out the sockets are read empty, the last interval is sealed, and the loop goes on until
//! the broker has everything or the drain deadline passes.

use std::time::Duration;

use plimsoll_bus::{Bus, BusEvent, BusEvents, Outgoing, Refusal};
use plimsoll_process::exit::Exit;
use plimsoll_process::http::Server;
use plimsoll_process::signals::{Asked, Signals};
use plimsoll_schemas::clock::Clock;
use plimsoll_schemas::hardware::Reading;
use plimsoll_schemas::ids::Seq;
use plimsoll_schemas::limits::node::DRAIN_WAIT;
use plimsoll_schemas::time::{Mono, Now};
use tokio::sync::mpsc;

use crate::config::Config;
use crate::core::outbox::Publish;
use crate::core::{Core, Identity, Signal};
use crate::io::hardware::Sampler;
use crate::io::http::{self, Query};
use crate::io::listen::Listener;

/// Why a node did not run.
#[derive(Debug)]
pub struct StartError {
    /// The exit code that says so.
    pub exit: Exit,
    /// The text that says so.
    pub message: String,
}

impl StartError {
    fn new(exit: Exit, message: &dyn ToString) -> Self {
        Self { exit, message: message.to_string() }
    }
}

struct Driver {
    clock: Clock,
    core: Core,
    bus: Bus,
    events: BusEvents,
    udp: Listener,
    unix: Listener,
    sampler: Option<Sampler>,
    readings: mpsc::Receiver<Vec<Reading>>,
    queries: mpsc::Receiver<Query>,
    server: Option<Server>,
    signals: Signals,
    /// True once a refusal was logged on this connection; the next ones are only counted.
    complained: bool,
    /// Set once the node is leaving: when it stops waiting.
    gives_up_at: Option<Mono>,
}

/// Runs a node until it is asked to end.
///
/// # Errors
/// When the configuration cannot hold or a socket cannot be had. A broker that is away is no
/// error: the node keeps trying and says in `/readyz` that it is not ready.
pub async fn run(config: &Config) -> Result<Exit, StartError> {
    let mut driver = Driver::start(config).await?;
    driver.announce();
    while driver.turn().await {}
    Ok(driver.close().await)
}

impl Driver {
    async fn start(config: &Config) -> Result<Self, StartError> {
        let wrong = |message: String| StartError::new(Exit::Configuration, &message);
        let node = config.node_name().map_err(wrong)?;
        let bus_config =
            config.bus.to_config(&config.mesh, &format!("plimsoll-node {node}")).map_err(wrong)?;
        let listen = |error: &dyn ToString| StartError::new(Exit::Listen, error);
        let signals = Signals::listen().map_err(|error| StartError::new(Exit::Failure, &error))?;
        let udp = Listener::udp(config.listen.udp).await.map_err(|error| listen(&error))?;
        let unix = Listener::unix(config.listen.unix.as_deref()).map_err(|error| listen(&error))?;
        let (routes, queries) = http::routes();
        let server = match config.http.address {
            Some(address) => {
                let started = Server::start("http.address", address, routes).await;
                Some(started.map_err(|error| listen(&error))?)
            }
            None => None,
        };
        let (bus, events) =
            Bus::connect(bus_config).map_err(|error| wrong(format!("bus: {error}")))?;
        let (sampler, readings) = Sampler::start(&config.hardware);
        let clock = Clock::start();
        let identity = Identity { mesh: config.mesh.clone(), node };
        let core = Core::new(identity, config.bounds(), clock.now());
        Ok(Self {
            clock,
            core,
            bus,
            events,
            udp,
            unix,
            sampler: Some(sampler),
            readings,
            queries,
            server,
            signals,
            complained: false,
            gives_up_at: None,
        })
    }

    fn announce(&self) {
        let address = |address: Option<std::net::SocketAddr>| {
            address.map_or_else(|| "none".to_owned(), |address| address.to_string())
        };
        tracing::info!(
            udp = address(self.udp.udp_address()),
            http = address(self.server.as_ref().map(Server::address)),
            "node started"
        );
    }

    /// One event and what follows from it; false when there is nothing left to do.
    async fn turn(&mut self) -> bool {
        let wait = self.next_deadline().since(self.clock.now().mono);
        // In this order, so that a flood of datagrams delays neither clock nor broker.
        tokio::select! {
            biased;
            asked = self.signals.next() => self.on_asked(asked),
            () = tokio::time::sleep(wait) => {}
            event = self.events.next() => self.on_bus(event),
            Some(query) = self.queries.recv() => {
                // The asker may have hung up.
                let _answered = query.send(self.core.status());
            }
            Some(readings) = self.readings.recv() => self.core.on_hardware(readings),
            () = self.unix.readable() => drop(self.read_sockets()),
            () = self.udp.readable() => drop(self.read_sockets()),
        }
        let now = self.clock.now();
        self.core.on_deadline(now);
        self.publish(now);
        !self.is_done(now)
    }

    /// Both take their turn whichever woke us, so that a flood on one does not starve the other.
    fn read_sockets(&mut self) -> usize {
        let listeners = [&mut self.unix, &mut self.udp];
        listeners
            .map(|listener| listener.take(|datagram| self.core.on_datagram(datagram)))
            .iter()
            .sum()
    }

    fn next_deadline(&self) -> Mono {
        let deadline = self.core.next_deadline();
        self.gives_up_at.map_or(deadline, |gives_up_at| deadline.min(gives_up_at))
    }

    fn is_done(&self, now: Now) -> bool {
        let Some(gives_up_at) = self.gives_up_at else { return false };
        self.core.is_drained() || now.mono >= gives_up_at
    }

    fn on_asked(&mut self, asked: Asked) {
        match asked {
            Asked::Reload => tracing::warn!("a node has nothing to reload; restart it instead"),
            Asked::End if self.gives_up_at.is_some() => {
                tracing::warn!("asked again to end; what is held stays behind");
                self.gives_up_at = Some(Mono(0));
            }
            Asked::End => self.leave(),
        }
    }

    /// What the jobs had sent before now is still in the sockets, and counts.
    fn leave(&mut self) {
        while self.read_sockets() > 0 {}
        (self.udp, self.unix) = (Listener::absent(), Listener::absent());
        let now = self.clock.now();
        self.core.on_leave(now);
        self.gives_up_at = Some(now.mono.plus(DRAIN_WAIT));
        tracing::info!(messages = self.core.status().bus.outbox_messages, "node draining");
    }

    fn on_bus(&mut self, event: Option<BusEvent>) {
        let now = self.clock.now();
        let signal = match event {
            Some(BusEvent::Connected { delivery, server_version }) => {
                tracing::info!(delivery = delivery.as_str(), server_version, "broker connected");
                self.complained = false;
                Signal::Connected
            }
            Some(BusEvent::Disconnected) => {
                tracing::warn!("broker disconnected; messages wait");
                Signal::Disconnected
            }
            Some(BusEvent::Stalled) => {
                tracing::warn!("broker is silent; messages wait");
                Signal::Disconnected
            }
            Some(BusEvent::RoundTrip(span)) => self.on_round_trip(span),
            Some(BusEvent::Acknowledged { token, .. }) => Signal::Acknowledged(Seq(token)),
            Some(BusEvent::Refused { token, reason }) => self.on_refused(Seq(token), &reason),
            None => return self.gives_up_at = Some(Mono(0)),
        };
        self.core.on_signal(now, signal);
    }

    /// A silent broker that answers again need not be connected to again.
    fn on_round_trip(&mut self, span: Duration) -> Signal {
        if !self.core.status().connected {
            tracing::info!("broker answers again");
            self.core.on_signal(self.clock.now(), Signal::Recovered);
        }
        Signal::RoundTrip(span)
    }

    /// What no broker can take is given up; anything else may pass.
    fn on_refused(&mut self, seq: Seq, reason: &Refusal) -> Signal {
        if !std::mem::replace(&mut self.complained, true) {
            tracing::warn!(%seq, %reason, "broker did not take a message");
        }
        match reason {
            Refusal::TooLarge | Refusal::Malformed => Signal::Refused(seq),
            Refusal::HandOver
            | Refusal::NoResponders
            | Refusal::Rejected { .. }
            | Refusal::Unreadable
            | Refusal::Closed => Signal::Deferred(seq),
        }
    }

    fn publish(&mut self, now: Now) {
        while let Some(Publish { seq, subject, message_id, payload }) = self.core.next_publish(now)
        {
            let outgoing = Outgoing { token: seq.0, subject, message_id, payload };
            if let Err(back) = self.bus.try_publish(outgoing) {
                self.core.on_not_taken(now, Seq(back.token));
                return;
            }
        }
    }

    async fn close(mut self) -> Exit {
        if let Some(sampler) = self.sampler.take() {
            sampler.stop();
        }
        self.bus.close().await;
        let status = self.core.status();
        let (recorded, lost) = (status.totals.recorded, status.totals.lost_sum());
        if status.bus.outbox_messages == 0 {
            tracing::info!(recorded, lost, "node ended, nothing held");
            return Exit::Success;
        }
        let (messages, samples) = (status.bus.outbox_messages, status.held_samples);
        tracing::error!(recorded, lost, messages, samples, "node ended while holding messages");
        Exit::Undrained
    }
}
