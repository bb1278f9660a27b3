//! Joins the aggregator's core with the world: the crate's only `select!`.
//!
//! Each turn waits for one event, lets the core decide, and carries out what it asks; of messages
//! it takes several that are there already. The emergency lane is read before the normal one,
//! which still has its turn.

mod looks;
mod orders;
mod posting;
mod rules;
mod telling;

use std::time::Duration;

use crate::limits::{MESSAGES_A_TURN_MAX, TURN_MAX};
use plimsoll_bus::{Bus, BusEvent, BusEvents, Cursor, CursorEvent, Delivery, Refusal};
use plimsoll_clock::{Clock, Stopwatch};
use plimsoll_runtime::absence::Absence;
use plimsoll_runtime::exit::Exit;
use plimsoll_runtime::http::Server;
use plimsoll_runtime::signals::{Asked, Signals};
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::{Mono, Now};
use tokio::sync::mpsc;

use crate::config::Config;
use crate::core::ingest::Position;
use crate::core::rules::RuleFileStats;
use crate::core::{Core, Delivered};
use crate::io::confirmations::Confirmations;
use crate::io::http::{self, Query, Readiness};
use crate::io::keeper::{Keeper, Written};
use crate::io::lanes::Lanes;
use crate::io::notify::{Endpoint, Notifier};
use crate::io::rules::Watch;
use looks::LookedAt;

/// Wait on the way out for notices that are still to be acknowledged.
const NOTICE_WAIT: Duration = Duration::from_secs(2);
/// Wait for the connection to close after that.
const CLOSE_WAIT: Duration = Duration::from_secs(2);
/// Wait on the way out for the last checkpoint.
const CHECKPOINT_WAIT: Duration = Duration::from_secs(3);

/// Why an aggregator did not run.
#[derive(Debug)]
pub struct StartError {
    /// The exit code that says so.
    pub exit: Exit,
    /// The text that says so.
    pub message: String,
}

struct Driver {
    mesh: MeshName,
    clock: Clock,
    core: Core,
    keeper: Keeper,
    confirmations: Confirmations,
    /// When the next of them may be said.
    confirms_at: Mono,
    notifier: Notifier,
    bus: Bus,
    events: BusEvents,
    lanes: Lanes,
    queries: mpsc::Receiver<Query>,
    server: Server,
    signals: Signals,
    /// How messages travel; `None` while there is no connection.
    delivery: Option<Delivery>,
    /// True while a connected broker does not answer.
    silent: bool,
    /// True once a denial was logged on this connection.
    denial_told: bool,
    /// The broker's address without secrets, for the log.
    url: String,
    absence: Absence,
    /// Looks at files of rules.
    watch: Watch,
    rule_files: RuleFileStats,
    /// Sections of the settings that differ from those of the start, as last told.
    restart_told: Vec<&'static str>,
    looks: LookedAt,
    was_ready: bool,
    /// Set once the aggregator is leaving: when it stops waiting.
    gives_up_at: Option<Mono>,
}

/// Runs an aggregator until it is asked to end.
///
/// # Errors
/// When the configuration cannot hold or the address cannot be had. A broker that is away is
/// no error: the aggregator keeps trying and says in `/readyz` that it is not ready.
pub async fn run(config: &Config, rules: Rules, watch: Watch) -> Result<Exit, StartError> {
    rules::advise(&config.advice(&rules));
    let mut driver = Driver::start(config, rules, watch).await?;
    tracing::info!(http = %driver.server.address(), "aggregator started");
    while driver.turn().await {}
    driver.keep_the_last().await;
    driver.notifier.end().await;
    // A broker that does not answer is owed nothing: what counts is in its streams.
    if tokio::time::timeout(CLOSE_WAIT, driver.bus.close()).await.is_err() {
        tracing::warn!("broker connection not closed in time");
    }
    // Whoever asks from here on is told that the process is ending.
    drop(driver.queries);
    driver.watch.end().await;
    driver.server.end().await;
    tracing::info!("aggregator ended");
    Ok(Exit::Success)
}

impl Driver {
    async fn start(config: &Config, rules: Rules, watch: Watch) -> Result<Self, StartError> {
        let fail = |exit| move |message: String| StartError { exit, message };
        let bus_config = config
            .bus
            .to_config(&config.mesh, "plimsoll-aggregator")
            .map_err(fail(Exit::Configuration))?;
        let url = bus_config.url_without_secrets();
        let signals = Signals::listen().map_err(|error| fail(Exit::Failure)(error.to_string()))?;
        let token = config.http.token().map_err(fail(Exit::Configuration))?;
        let (routes, queries) = http::routes(&config.metrics, token);
        let server = Server::start("http.address", config.http.address, routes)
            .await
            .map_err(|error| fail(Exit::Listen)(error.to_string()))?;
        let clock = Clock::start();
        let endpoints = Endpoint::of_config(config).map_err(fail(Exit::Configuration))?;
        let (keeper, core) = restore(config, rules, clock.now())?;
        let dashboard = config.notices.dashboard(server.address());
        let core = core.linking(dashboard.map_err(fail(Exit::Configuration))?);
        let receivers = endpoints.iter().map(|endpoint| endpoint.receiver.clone()).collect();
        let core = core.telling(clock.now(), receivers, clock.now().wall.0);
        let (bus, events) = Bus::connect(bus_config)
            .map_err(|error| fail(Exit::Configuration)(format!("bus: {error}")))?;
        Ok(Self {
            url,
            absence: Absence::since(clock.now().mono),
            watch,
            rule_files: RuleFileStats::at_start(clock.now().wall),
            restart_told: Vec::new(),
            mesh: config.mesh.clone(),
            clock,
            keeper,
            confirmations: Confirmations::default(),
            confirms_at: Mono(0),
            lanes: Lanes::open(|lane| cursor(&bus, &core, lane)),
            core,
            notifier: Notifier::start(endpoints),
            bus,
            events,
            queries,
            server,
            signals,
            delivery: None,
            silent: false,
            denial_told: false,
            looks: LookedAt::default(),
            was_ready: false,
            gives_up_at: None,
        })
    }

    /// One event and what follows from it; false when there is nothing left to do.
    async fn turn(&mut self) -> bool {
        let wait = self.next_deadline().since(self.clock.now().mono);
        // While the past is caught up with, both lanes are read at the same pace.
        let lags = self.core.lags();
        // In this order, so that a flood of messages delays neither clock nor questions.
        tokio::select! {
            biased;
            asked = self.signals.next() => self.on_asked(asked),
            () = tokio::time::sleep(wait) => {}
            event = self.events.next() => self.on_bus(event),
            found = self.watch.next() => self.on_rules(found),
            written = self.keeper.written() => self.on_written(written),
            Some((name, answer)) = self.notifier.next() => self.on_answer(&name, answer),
            Some(query) = self.queries.recv() => self.on_query(query),
            Some((lane, event)) = self.lanes.next(lags) => self.on_lanes(lane, event),
        }
        let now = self.clock.now();
        self.core.on_deadline(now);
        self.keeper.keep(&mut self.core, (now.mono, now.wall));
        self.confirm(now.mono);
        self.send_notices(now);
        self.post_notices(now);
        self.tell_readiness();
        self.looks.let_go(now.mono);
        self.tell_absence(now.mono);
        self.tell_conflict(now.mono);
        self.tell_unmatched();
        !self.is_done(now)
    }

    fn on_written(&mut self, written: Option<Written>) {
        let now = self.clock.now().mono;
        self.keeper.on_written(&mut self.core, now, written);
    }

    async fn keep_the_last(&mut self) {
        let now = self.clock.now();
        self.keeper.finish(&mut self.core, (now.mono, now.wall), CHECKPOINT_WAIT).await;
        self.confirm(Mono(u64::MAX));
    }

    fn next_deadline(&self) -> Mono {
        let mut deadline = self.core.next_deadline();
        if !self.confirmations.is_empty() || self.keeper.has_more_to_tell() {
            deadline = deadline.min(self.confirms_at);
        }
        deadline = self.looks.deadline().map_or(deadline, |stale_at| deadline.min(stale_at));
        deadline = self.core.next_post_at().map_or(deadline, |post_at| deadline.min(post_at));
        self.gives_up_at.map_or(deadline, |gives_up_at| deadline.min(gives_up_at))
    }

    fn is_done(&mut self, now: Now) -> bool {
        let Some(gives_up_at) = self.gives_up_at else { return false };
        self.core.notices().is_empty() && self.core.is_all_told() || now.mono >= gives_up_at
    }

    fn on_asked(&mut self, asked: Asked) {
        match asked {
            Asked::Reload => self.watch.ask(),
            Asked::End => {
                let wait = if self.gives_up_at.is_some() { Duration::ZERO } else { NOTICE_WAIT };
                self.gives_up_at = Some(self.clock.now().mono.plus(wait));
            }
        }
    }

    fn on_bus(&mut self, event: Option<BusEvent>) {
        let now = self.clock.now().mono;
        match event {
            Some(BusEvent::Connected { delivery, server_version }) => {
                tracing::info!(delivery = delivery.as_str(), server_version, "broker connected");
                (self.delivery, self.silent) = (Some(delivery), false);
                self.denial_told = false;
                self.core.on_broker(true, now);
            }
            Some(BusEvent::Disconnected) => {
                tracing::warn!("broker disconnected");
                (self.delivery, self.silent) = (None, false);
                self.core.on_broker(false, now);
            }
            Some(BusEvent::Stalled) => {
                tracing::warn!("broker is silent");
                self.silent = true;
                self.core.on_broker(false, now);
            }
            Some(BusEvent::RoundTrip(_)) => {
                if std::mem::replace(&mut self.silent, false) {
                    tracing::info!("broker answers again");
                    self.core.on_broker(true, now);
                }
            }
            Some(BusEvent::Acknowledged { token, .. }) => self.core.notices().on_delivered(token),
            Some(BusEvent::Refused { token, reason }) => self.on_refused(token, &reason),
            Some(BusEvent::Denied { text }) => self.on_denied(&text),
            None => self.gives_up_at = Some(Mono(0)),
        }
    }

    fn on_denied(&mut self, text: &str) {
        if !std::mem::replace(&mut self.denial_told, true) {
            tracing::warn!(text, "broker denies; check its permissions for this user");
        }
    }

    fn on_refused(&mut self, token: u64, reason: &Refusal) {
        tracing::debug!(%reason, "broker did not take a notice");
        if matches!(reason, Refusal::TooLarge | Refusal::Malformed) {
            self.core.notices().on_refused(token);
        }
    }

    fn broker(&self) -> &'static str {
        match self.delivery {
            None => "disconnected",
            Some(_) if self.silent => "silent",
            Some(delivery) => delivery.as_str(),
        }
    }

    fn on_query(&mut self, query: Query) {
        // The asker may have hung up.
        match query {
            Query::Look(answer) => drop(answer.send(self.look())),
            Query::Events(wanted, answer) => {
                let page = self.core.events(self.clock.now().wall, &wanted);
                drop(answer.send(Box::new(page)));
            }
            Query::Alerts(wanted, answer) => {
                let page = self.core.alerts_page(self.clock.now().wall, &wanted);
                drop(answer.send(Box::new(page)));
            }
            Query::Silences(answer) => drop(answer.send(self.core.silences_page())),
            Query::Order(order, answer) => drop(answer.send(self.on_order(order))),
            Query::Undelivered(answer) => drop(answer.send(self.core.undelivered())),
            Query::Readiness(answer) => drop(answer.send(Readiness {
                broker: self.broker(),
                past_is_read: self.core.is_ready(),
                pending: self.core.pending().iter().map(|(_, pending)| pending).sum(),
            })),
        }
    }

    /// Takes what the lanes have ready, until the others have waited long enough.
    fn on_lanes(&mut self, lane: Lane, event: CursorEvent) {
        let turn = Stopwatch::start();
        self.on_cursor(lane, event);
        for _ in 1..MESSAGES_A_TURN_MAX {
            if turn.elapsed() >= TURN_MAX {
                return;
            }
            let Some((lane, event)) = self.lanes.ready(self.core.lags()) else { return };
            self.on_cursor(lane, event);
        }
    }

    fn on_cursor(&mut self, lane: Lane, event: CursorEvent) {
        match event {
            CursorEvent::Positioned { first_seq, last_seq, stream_id } => {
                self.core.on_positioned(lane, first_seq, last_seq, &stream_id);
            }
            CursorEvent::Reset { expected_seq, last_seq } => {
                let lane_name = lane.as_str();
                tracing::warn!(lane = lane_name, expected_seq, last_seq, "stream was made anew");
                self.core.on_reset(lane, last_seq);
            }
            CursorEvent::Message(message) => self.on_message(&message),
        }
    }

    fn on_message(&mut self, message: &plimsoll_bus::Delivered) {
        let delivered = Delivered {
            lane: message.lane,
            at: message.at,
            sent: message.sent,
            stream_seq: message.stream_seq,
            pending: message.pending,
            subject: &message.subject,
            payload: &message.payload,
        };
        let Err(unreadable) = self.core.on_message(self.clock.now(), delivered) else { return };
        // Anyone who may publish can cause this: the 1st, 2nd, 4th, 8th ... is logged.
        if unreadable.count.is_power_of_two() {
            let (subject, count) = (&message.subject, unreadable.count);
            tracing::warn!(subject, count, why = unreadable.text, "message cannot be read");
        }
    }
}

/// The core as its checkpoint has it, or an empty one.
fn restore(config: &Config, rules: Rules, now: Now) -> Result<(Keeper, Core), StartError> {
    let (mesh, path) = (config.mesh.clone(), config.state.path.as_deref());
    let (keeper, checkpoint) = Keeper::open(path, &mesh, now.wall)
        .map_err(|error| StartError { exit: Exit::Configuration, message: error.to_string() })?;
    let core = match checkpoint {
        Some(checkpoint) => Core::restore(mesh, rules, now, checkpoint),
        None => Core::new(mesh, rules, now),
    };
    Ok((keeper, core.measuring(config.windows.nodes_up_to, &config.rollup)))
}

/// Reads on from where the core is. A number without a stream that it is about says nothing.
fn cursor(bus: &Bus, core: &Core, lane: Lane) -> Cursor {
    let Position { read, stream_id } = core.position(lane);
    let next = if stream_id.is_some() { read.saturating_add(1) } else { 1 };
    bus.cursor(lane, next, stream_id)
}

#[cfg(test)]
mod tests;
