//! Joins the node's core with the world: the crate's only `select!`.
//!
//! Each turn waits for one event, lets the core decide, and carries out what it asks. The way
//! out goes through the same loop, so that signals are heard to the end: the sockets are read
//! empty, the last interval is sealed, the broker gets what is held, the connection closes.

mod broker;

use plimsoll_clock::Clock;
use plimsoll_runtime::absence::Absence;
use plimsoll_runtime::exit::Exit;
use plimsoll_runtime::http::Server;
use plimsoll_runtime::signals::{Asked, Signals};
use plimsoll_schemas::hardware::Reading;
use plimsoll_schemas::time::{Mono, Now};
use tokio::sync::mpsc;
use tokio::task::yield_now;

use crate::config::Config;
use crate::core::departure::{Departure, Step};
use crate::core::{Core, Identity};
use crate::io::cost::{Cost, Stage};
use crate::io::frames::Frames;
use crate::io::hardware::Sampler;
use crate::io::http::{self, Figures, Query};
use crate::io::keeper::Keeper;
use crate::io::link::Link;
use crate::io::listen::{Heard, Sockets};
use crate::io::otlp::Doors;
use crate::io::own_text::OwnText;
use crate::io::scrape::{Looked, Scraper};
use crate::io::spool::Written;

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
    link: Link,
    keeper: Keeper,
    /// The broker's address as it may be logged.
    url: String,
    absence: Absence,
    sockets: Sockets,
    frames: Frames,
    doors: Doors,
    cost: Cost,
    sampler: Sampler,
    readings: mpsc::Receiver<Vec<Reading>>,
    scraper: Scraper,
    queries: mpsc::Receiver<Query>,
    server: Option<Server>,
    signals: Signals,
    /// True once a refusal was logged on this connection; the next ones are only counted.
    complained: bool,
    /// True once a denial was logged on this connection.
    denial_told: bool,
    departure: Departure,
    own_text: OwnText,
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
    driver.keeper.finish(&mut driver.core, driver.clock).await;
    Ok(driver.finish().await)
}

impl Driver {
    async fn start(config: &Config) -> Result<Self, StartError> {
        let wrong = |message: String| StartError::new(Exit::Configuration, &message);
        let node = config.node_name().map_err(wrong)?;
        let bus_config =
            config.bus.to_config(&config.mesh, &format!("plimsoll-node {node}")).map_err(wrong)?;
        let url = bus_config.url_without_secrets();
        let listen = |error: &dyn ToString| StartError::new(Exit::Listen, error);
        let signals = Signals::listen().map_err(|error| StartError::new(Exit::Failure, &error))?;
        let sockets = Sockets::open(config.listen.udp, config.listen.unix.as_deref());
        let sockets = sockets.map_err(|error| listen(&error))?;
        let frames = Frames::listen(config.listen.stream.as_deref());
        let frames = frames.map_err(|error| listen(&error))?;
        let (routes, queries) = http::routes();
        let server = match config.http.address {
            Some(address) => {
                let started = Server::start("http.address", address, routes).await;
                Some(started.map_err(|error| listen(&error))?)
            }
            None => None,
        };
        let doors = Doors::open(&config.otlp).await.map_err(|error| listen(&error))?;
        let link = Link::open(bus_config, &config.mesh, &node)
            .map_err(|error| wrong(format!("bus: {error}")))?;
        let (sampler, readings) = Sampler::start(&config.hardware);
        let scraper = Scraper::start(&node, config.endpoints());
        let clock = Clock::start();
        let labels = config.identity.labels().map_err(wrong)?;
        let identity = Identity { mesh: config.mesh.clone(), node, labels };
        let mut core = Core::new(identity.clone(), config.bounds(), clock.now());
        let keeper = Keeper::open(&config.spool, &identity, &mut core, clock.now())
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Self {
            absence: Absence::since(clock.now().mono),
            clock,
            core,
            link,
            keeper,
            url,
            sockets,
            frames,
            doors,
            cost: Cost::default(),
            sampler,
            readings,
            scraper,
            queries,
            server,
            signals,
            complained: false,
            denial_told: false,
            departure: Departure::default(),
            own_text: OwnText::default(),
        })
    }

    fn announce(&self) {
        let address = |address: Option<std::net::SocketAddr>| {
            address.map_or_else(|| "none".to_owned(), |address| address.to_string())
        };
        tracing::info!(
            udp = address(self.sockets.udp_address()),
            http = address(self.server.as_ref().map(Server::address)),
            otlp_http = address(self.doors.http_address()),
            otlp_grpc = address(self.doors.grpc_address()),
            "node started"
        );
    }

    /// One event and what follows from it; false when there is nothing left to do.
    async fn turn(&mut self) -> bool {
        let wait = self.next_deadline().since(self.clock.now().mono);
        let mut readable = self.departure.step() == Step::Emptying;
        // In this order, so that a flood of datagrams delays neither clock nor broker.
        tokio::select! {
            biased;
            asked = self.signals.next() => self.on_asked(asked),
            () = tokio::time::sleep(wait) => {}
            event = self.link.next() => self.on_link(event),
            written = self.keeper.written() => self.on_written(written),
            Some(query) = self.queries.recv() => {
                // The asker may have hung up.
                let _answered = query.send(self.figures());
            }
            Some(readings) = self.readings.recv() => self.core.on_hardware(readings),
            Some(looked) = self.scraper.next() => self.on_looked(&looked),
            () = self.frames.readable() => readable = true,
            () = self.sockets.readable() => readable = true,
            () = self.doors.readable() => readable = true,
        }
        self.cost.begin();
        let is_more = readable && self.read_sockets();
        let now = self.clock.now();
        self.depart(now);
        self.core.on_deadline(now);
        self.cost.end(Stage::Decide);
        self.publish(now);
        self.cost.end(Stage::Publish);
        self.keeper.keep(&mut self.core, now);
        self.cost.end(Stage::Spool);
        self.tell_absence(now.mono);
        if is_more {
            // Sockets that are always readable must not keep signals and tasks from their turn.
            yield_now().await;
        }
        self.departure.step() != Step::Ended
    }

    /// Whether there may be more.
    fn read_sockets(&mut self) -> bool {
        let (core, now) = (&mut self.core, self.clock.now());
        let taken = self.sockets.take(&mut self.cost, |heard| match heard {
            Heard::Datagram(datagram) => core.on_datagram(now, datagram),
            Heard::Failed => core.on_read_error(),
            Heard::Dropped(datagrams) => core.on_kernel_dropped(datagrams),
        });
        let framed = self.frames.take(|read| match read {
            Ok(frame) => Some(core.on_frame(now, frame)),
            Err(error) => {
                core.on_frame_rejected(error.reason());
                None
            }
        });
        self.frames.drain_ended().for_each(|reason| core.on_frame_rejected(reason));
        self.cost.end(Stage::Frames);
        let posted = self.doors.take(|post| {
            post.answer(|signal, encoding, body| core.on_otlp(now, signal, encoding, body))
        });
        for warning in self.core.take_otlp_warnings() {
            tracing::warn!("refused by OTLP, told once for this reason: {warning}");
        }
        self.cost.end(Stage::Otlp);
        self.departure.on_polled(now.mono, taken + framed + posted, self.doors.is_awaited());
        !self.sockets.is_empty() || !self.frames.is_empty() || !self.doors.is_empty()
    }

    fn figures(&self) -> Figures {
        Figures {
            status: self.core.status(),
            dropped: self.sockets.dropped(),
            connections: self.frames.clients(),
            http: self.server.as_ref().map(Server::figures),
            otlp: self.doors.figures(),
            by_stage: self.cost.by_stage(),
        }
    }

    fn next_deadline(&self) -> Mono {
        let deadline = self.core.next_deadline().min(self.departure.next_deadline());
        self.absence.next_deadline().map_or(deadline, |told| deadline.min(told))
    }

    fn on_asked(&mut self, asked: Asked) {
        if asked == Asked::Reload {
            return tracing::warn!("a node has nothing to reload; restart it instead");
        }
        if self.departure.step() != Step::Running {
            tracing::warn!("asked again to end; what is held stays behind");
        }
        self.departure.on_shutdown_requested(self.clock.now().mono);
        self.sockets.end_rests();
        self.doors.leave();
    }

    /// Carries out the step that the departure has come to, once.
    fn depart(&mut self, now: Now) {
        if self.departure.step() == Step::Draining && !self.core.is_leaving() {
            self.sockets.close();
            self.frames = Frames::absent();
            self.doors.close();
            self.core.on_leave(now);
            tracing::info!(messages = self.core.status().bus.outbox_messages, "node draining");
        }
        self.departure.on_deadline(now.mono, self.core.is_drained(now));
        if self.departure.step() == Step::Closing {
            self.link.close();
        }
    }

    fn tell_absence(&mut self, now: Mono) {
        match self.core.is_connected() {
            true => self.absence.on_present(),
            false => self.absence.on_absent(now),
        }
        if let Some(away) = self.absence.on_deadline(now) {
            let (url, away_s) = (&self.url, away.as_secs());
            tracing::warn!(
                url,
                away_s,
                "broker is away and messages wait; check bus.url, its credentials, and the broker"
            );
        }
    }

    fn on_written(&mut self, written: Option<Written>) {
        self.keeper.on_written(&mut self.core, self.clock.now(), written);
    }

    fn on_looked(&mut self, looked: &Looked) {
        for warning in self.core.on_scrape(self.clock.now(), &looked.scrape) {
            tracing::warn!("{warning}");
        }
    }

    async fn finish(self) -> Exit {
        drop(self.sampler);
        // Whoever asks from here on is told that the process is ending.
        drop(self.queries);
        if let Some(server) = self.server {
            server.end().await;
        }
        self.doors.end().await;
        let status = self.core.status();
        let (recorded, lost) = (status.totals.recorded, status.totals.lost_sum());
        if status.bus.outbox_messages == 0 && self.core.is_leaving() {
            tracing::info!(recorded, lost, "node ended, nothing held");
            return Exit::Success;
        }
        let (messages, samples) = (status.bus.outbox_messages, status.held_samples);
        if status.spool.durable && self.core.is_leaving() {
            tracing::warn!(
                recorded,
                lost,
                messages,
                samples,
                "node ended; the spool keeps the rest"
            );
            return Exit::Success;
        }
        tracing::error!(recorded, lost, messages, samples, "node ended while holding messages");
        Exit::Undrained
    }
}
