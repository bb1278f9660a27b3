//! Connects the node's core with its sockets, sensors and broker: the crate's only `select!`.
//!
//! Each turn waits for one event, lets the core decide, and performs what the core returns. Each
//! kind of I/O has a room that owns it: `broker`, `inputs`, `spool`, the HTTP pages, the
//! scraper and the sampler. Shutdown runs through the same loop, so that signals are handled to the
//! end: the sockets are read empty, the last interval is sealed, the broker receives what is
//! queued, and the connection closes.
//!
//! DESIGN N39.

mod broker;
mod inputs;
mod spool;
mod start;

use plimsoll_clock::Clock;
use plimsoll_runtime::confirm_key::ConfirmKeyFile;
use plimsoll_runtime::exit::Exit;
use plimsoll_runtime::service_manager::ServiceManager;
use plimsoll_runtime::settings::is_identified;
use plimsoll_runtime::signals::{SignalEvent, Signals};
use plimsoll_runtime::supervision::Supervisor;
use plimsoll_schemas::hardware::Reading;
use plimsoll_schemas::permissions::BrokerUser;
use plimsoll_schemas::time::{Mono, Now};
use plimsoll_schemas::wire::capture::CaptureRefusal;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::mpsc;
use tokio::task::yield_now;

use self::broker::Broker;
use self::inputs::Inputs;
use self::spool::SpoolWriter;
pub use self::start::StartError;
use crate::config::Config;
use crate::core::captures::{CaptureEnd, CaptureGate};
use crate::core::continuous::{ContinuousEffect, Ended};
use crate::core::departure::{Departure, Step};
use crate::core::outbox::MessageNonce;
use crate::core::{Core, Identity};
use crate::io::broker_connection::{LinkEvent, ReceivedRequests};
use crate::io::captures::Profiler;
use crate::io::cost::{Cost, Stage};
use crate::io::hardware::Sampler;
use crate::io::history::History;
use crate::io::http::{AgentStats, Pages};
use crate::io::profiles::{ProfileEvent, Profiles};
use crate::io::scrape::{Scraped, Scraper};
use crate::limits::HISTORY_END_WAIT;

struct Driver {
    clock: Clock,
    core: Core,
    /// The key of confirmations, if there is to be one.
    confirm_key: Option<ConfirmKeyFile>,
    broker: Broker,
    spool: SpoolWriter,
    history: History,
    profiler: Profiler,
    profiles: Profiles,
    inputs: Inputs,
    pages: Pages,
    sampler: Sampler,
    readings: mpsc::Receiver<Vec<Reading>>,
    scraper: Scraper,
    signals: Signals,
    departure: Departure,
    cost: Cost,
    supervisor: Supervisor,
    service_manager: ServiceManager,
}

/// Runs a node until a signal ends it.
///
/// # Errors
/// When the configuration is invalid or an address cannot be bound. An unreachable broker is no
/// error: the node keeps connecting, and `/readyz` reports that it is not ready.
pub async fn run(config: &Config) -> Result<Exit, StartError> {
    let mut driver = Driver::start(config).await?;
    driver.inputs.log_start(driver.pages.address());
    while driver.turn().await {}
    driver.spool.finish(&mut driver.core, driver.clock).await;
    driver.inputs.answer(&driver.core, driver.clock.now());
    Ok(driver.finish().await)
}

fn message_nonce() -> Result<MessageNonce, StartError> {
    let mut nonce = MessageNonce::default();
    let filled = SystemRandom::new().fill(&mut nonce.0);
    filled.map_err(|_| StartError::new(Exit::Failure, &"the system has no random numbers"))?;
    Ok(nonce)
}

/// Without a key, or credentials by which the broker keeps others from ordering, anyone could.
fn capture_gate(key: Option<&ConfirmKeyFile>, is_identified: bool) -> CaptureGate {
    let closed = |refusal, fix| {
        tracing::warn!("captures.enabled: all orders are refused: {fix}");
        Err(refusal)
    };
    match key {
        None => closed(CaptureRefusal::NoKey, "set confirm.key_file"),
        Some(_) if !is_identified => closed(
            CaptureRefusal::NoCredentials,
            "give the node credentials for the broker: plimsoll nats-config",
        ),
        Some(file) => Ok(file.key().clone()),
    }
}

impl Driver {
    async fn start(config: &Config) -> Result<Self, StartError> {
        let invalid = |message: String| StartError::configuration(&message);
        let node = config.node_name().map_err(invalid)?;
        let labels = config.identity.labels().map_err(invalid)?;
        let connection_name = format!("plimsoll-node {node}");
        let bus = config.bus.to_config(&config.mesh, &connection_name, BrokerUser::Node(&node));
        let bus = bus.map_err(invalid)?;
        // Before anything is opened, so that a signal during the start ends it in order.
        let signals = Signals::listen().map_err(|error| StartError::new(Exit::Failure, &error))?;
        let supervisor = Supervisor::default();
        let protection = config.http.protection().map_err(invalid)?;
        let inputs = Inputs::open(config, &supervisor).await?;
        let pages = Pages::start(&config.http, &protection, &supervisor).await;
        let pages = pages.map_err(|error| StartError::listen(&error))?;
        let clock = Clock::start();
        let requests = ReceivedRequests {
            history: config.history.path.is_some(),
            captures: config.captures.enabled,
        };
        let is_identified = is_identified(&bus);
        let broker =
            Broker::connect(bus, &config.mesh, &node, requests, &supervisor, clock.now().mono)
                .map_err(|error| invalid(format!("bus: {error}")))?;
        let (sampler, readings) = Sampler::start(&config.hardware, &supervisor);
        let scraper = Scraper::start(&node, config.endpoints(), &supervisor);
        let identity = Identity { mesh: config.mesh.clone(), node, labels };
        let core = Core::new(identity.clone(), config.bounds(), clock.now());
        // Before the spool is opened, which may seal final messages of former incarnations.
        let mut core = core.with_nonce(message_nonce()?);
        let confirm_key = config.confirm.key().map_err(invalid)?;
        confirm_key.iter().for_each(|file| core.set_confirm_key(file.key().clone()));
        if config.captures.enabled {
            let gate = capture_gate(confirm_key.as_ref(), is_identified);
            core.enable_captures(identity.clone(), gate);
        }
        let history = History::open(&config.history, &identity, clock)
            .map_err(|error| StartError::configuration(&error))?;
        if history.is_kept() {
            core.keep_records();
        }
        let profiles = Profiles::open(&config.profiles, &identity.node, clock)
            .map_err(|error| StartError::configuration(&error))?;
        core.enable_continuous(config.profiles.watched());
        // Last, with the history kept already: what it takes over is recorded there once more.
        let spool = SpoolWriter::open(&config.spool, &identity, &mut core, clock.now())
            .map_err(|error| StartError::configuration(&error))?;
        let (departure, cost) = (Departure::default(), Cost::default());

        Ok(Self {
            clock,
            core,
            confirm_key,
            broker,
            spool,
            history,
            profiler: Profiler::new(&config.captures),
            profiles,
            inputs,
            pages,
            sampler,
            readings,
            scraper,
            signals,
            departure,
            cost,
            supervisor,
            service_manager: ServiceManager::ready(clock.now().mono),
        })
    }

    /// Handles one event; false when nothing is left to do.
    async fn turn(&mut self) -> bool {
        let wait = self.next_deadline().since(self.clock.now().mono);
        // While sockets are emptied they are polled, whether they are announced or not: an empty
        // one ends the step.
        let mut readable = self.departure.step() == Step::Emptying;

        // In this order, so that a flood of datagrams delays neither clock nor broker.
        tokio::select! {
            biased;
            signal = self.signals.next() => self.on_process_signal(signal),
            () = tokio::time::sleep(wait) => {}
            event = self.broker.next() => self.on_link(event),
            result = self.spool.written() => {
                self.spool.on_written(&mut self.core, self.clock.now(), result);
            }
            answer = self.history.answer() => self.broker.respond(&answer.asker, answer.payload),
            end = self.profiler.next() => self.on_captured(end),
            event = self.profiles.next() => self.on_profiles(event),
            Some(query) = self.pages.next() => {
                // The client may have closed its connection.
                let _sent = query.send(self.stats());
            }
            Some(readings) = self.readings.recv() => self.core.on_hardware(readings),
            Some(scraped) = self.scraper.next() => self.on_scraped(&scraped),
            () = self.inputs.readable() => readable = true,
        }

        if self.core.is_interval_over(self.clock.now().mono) {
            // What came in time belongs to the interval that is about to close.
            self.inputs.cut_rests_short();
            readable = true;
        }

        self.cost.begin();
        let is_more = readable && self.read_inputs();
        // Before anything of it may be sent or written, so that no answered sample is sent again.
        let now = self.clock.now();
        self.service_manager.on_turn(now.mono);
        self.inputs.answer(&self.core, now);
        self.depart(now);
        self.broker.restart_if_due(now.mono);
        self.core.on_task_restarts(self.supervisor.total());
        self.core.on_deadline(now);
        self.start_captures(now);
        self.cost.end(Stage::Decide);
        // After the deadline, which may have closed an interval, and before the spool is written:
        // what is sealed here is in its next batch.
        self.broker.publish(&mut self.core, now);
        while let Some(record) = self.core.next_record() {
            self.history.write(record, now.wall);
        }
        self.cost.end(Stage::Publish);
        self.spool.write(&mut self.core, now);
        self.cost.end(Stage::Spool);
        self.broker.log_absence(self.core.is_connected(), now.mono);

        if is_more {
            // Sockets that are always readable must not starve signals and tasks.
            yield_now().await;
        }

        self.departure.step() != Step::Ended
    }

    fn start_captures(&mut self, now: Now) {
        while let Some(start) = self.core.captures().on_deadline(now.mono) {
            match start.past {
                Some(_) => self.profiles.read(start),
                None => self.profiler.start(start),
            }
        }
        while let Some(effect) = self.core.next_continuous(now.mono) {
            match effect {
                ContinuousEffect::Find => self.profiles.find(),
                ContinuousEffect::Start(start) => self.profiler.start(start),
            }
        }
    }

    fn on_captured(&mut self, end: CaptureEnd) {
        let now = self.clock.now();
        if !self.core.continuous().has(end.id) {
            return self.core.captures().on_captured(now.mono, end);
        }
        match self.core.continuous().on_ended(now.mono, end) {
            Ended::Store(profile) => self.profiles.store(profile, now.wall),
            Ended::Report(why) => {
                tracing::warn!("not profiled (logged once for each reason): {why}");
            }
            Ended::Nothing => {}
        }
    }

    fn on_profiles(&mut self, event: ProfileEvent) {
        let now = self.clock.now().mono;
        match event {
            ProfileEvent::Found(pids) => self.core.continuous().on_found(now, &pids),
            ProfileEvent::Stored(stored) => self.core.continuous().on_stored(stored),
            ProfileEvent::Read(end) => self.core.captures().on_captured(now, end),
        }
    }

    /// Whether there may be more to read.
    fn read_inputs(&mut self) -> bool {
        let now = self.clock.now();
        let taken = self.inputs.read(&mut self.core, &mut self.cost, now);
        self.departure.on_polled(now.mono, taken, self.inputs.is_awaited());
        !self.inputs.is_empty()
    }

    fn stats(&self) -> AgentStats {
        AgentStats {
            status: self.core.status(),
            broker_faults: self.broker.faults.clone(),
            inputs: self.inputs.stats(),
            http: self.pages.stats(),
            by_stage: self.cost.by_stage(),
            task_restarts: self.supervisor.restarts(),
            history: self.history.is_kept().then(|| self.history.stats()),
            profiles: self.profiles.stats(),
        }
    }

    fn next_deadline(&self) -> Mono {
        let optional = [self.broker.next_deadline(), self.service_manager.next_deadline()];
        let deadline = self.core.next_deadline().min(self.departure.next_deadline());
        optional.into_iter().flatten().fold(deadline, Mono::min)
    }

    fn on_link(&mut self, event: LinkEvent) {
        let now = self.clock.now();
        match event {
            LinkEvent::Bus(event) => self.broker.on_event(&mut self.core, now, &event),
            LinkEvent::Confirmation(payload) => {
                self.refresh_key(now);
                self.broker.on_confirmation(&mut self.core, now, &payload);
            }
            LinkEvent::HistoryRequest(payload) => {
                self.history.request(payload, self.core.body_bytes_max());
            }
            LinkEvent::CaptureRequest(payload) => {
                self.refresh_key(now);
                if let Some(answer) = self.core.captures().on_request(now, &payload) {
                    self.broker.respond(&answer.asker, answer.response.encode().into());
                }
                for id in self.core.captures().take_stopped() {
                    self.profiler.stop(id);
                }
            }
            LinkEvent::CutOff if self.departure.step() == Step::Running => {
                self.broker.on_ended(&mut self.core, now);
            }
            LinkEvent::CutOff => self.departure.on_connection_lost(now.mono),
            LinkEvent::Closed => self.departure.on_closed(),
        }
    }

    fn refresh_key(&mut self, now: Now) {
        if let Some(file) = &mut self.confirm_key
            && file.refresh(now.mono)
        {
            self.core.set_confirm_key(file.key().clone());
        }
    }

    fn on_process_signal(&mut self, signal: SignalEvent) {
        if signal == SignalEvent::Reload {
            return tracing::warn!("SIGHUP ignored: a node cannot reload its settings; restart it");
        }
        if self.departure.step() != Step::Running {
            tracing::warn!("second shutdown signal; unsent data is left behind");
        }
        self.service_manager.stopping();
        self.departure.on_shutdown_requested(self.clock.now().mono);
        self.inputs.leave();
    }

    /// Performs the current step of the shutdown, once.
    fn depart(&mut self, now: Now) {
        // The sockets are closed first: nothing can come after the last interval.
        if self.departure.step() == Step::Draining && !self.core.is_leaving() {
            self.inputs.close();
            self.core.on_leave(now);
            tracing::info!(messages = self.core.status().bus.outbox_messages, "node draining");
        }
        self.departure.on_deadline(now.mono, self.core.is_drained(now));
        if self.departure.step() == Step::Closing {
            self.broker.close();
        }
    }

    fn on_scraped(&mut self, scraped: &Scraped) {
        for warning in self.core.on_scrape(self.clock.now(), &scraped.scrape) {
            tracing::warn!("{warning}");
        }
    }

    async fn finish(self) -> Exit {
        drop(self.sampler);
        self.pages.end().await;
        self.inputs.end().await;
        self.history.end(HISTORY_END_WAIT).await;
        let status = self.core.status();
        let (recorded, lost) = (status.totals.recorded, status.totals.lost_sum());

        if status.bus.outbox_messages == 0 && self.core.is_leaving() {
            tracing::info!(recorded, lost, "node ended; all messages acknowledged");
            return Exit::Success;
        }

        let (messages, samples) = (status.bus.outbox_messages, status.held_samples);

        if status.spool.durable && self.core.is_leaving() {
            tracing::warn!(
                recorded,
                lost,
                messages,
                samples,
                "node ended; unsent messages stay in the spool"
            );
            return Exit::Success;
        }

        tracing::error!(recorded, lost, messages, samples, "node ended with unsent data");
        Exit::Undrained
    }
}
