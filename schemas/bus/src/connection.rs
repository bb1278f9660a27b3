//! One connection to the broker, for the life of a process: opened without waiting, kept up
//! for ever, closed without loss.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::limits::{
    CLIENT_COMMANDS_MAX, CLOSE_WAIT, CONNECT_WAIT, EVENTS_MAX, HAND_OVER_WAIT, PING_EVERY,
    PUBLISH_QUEUE_MAX, REQUEST_WAIT, SUBSCRIPTION_MESSAGES_MAX, UNACKNOWLEDGED_MAX,
};
use async_nats::{Client, ConnectOptions, Server};
use futures_util::FutureExt;
use plimsoll_clock::Clock;
use plimsoll_schemas::remote_text::one_line;
use plimsoll_schemas::subject::{Lane, stream_prefix};
use plimsoll_schemas::transport::{BusEvent, ConnectFault, Publish};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::timeout;

use crate::config::{BusConfig, ConnectionRole};
use crate::cursor::Cursor;
use crate::cursor_event::StartPosition;
use crate::error::BusError;
use crate::event::BusEvents;
use crate::faults::Faults;
use crate::lanes::Lanes;
use crate::link::{self, Link, Signal, Supervisor};
use crate::listener::Listener;
use crate::liveness::Liveness;
use crate::messenger::Messenger;
use crate::publish::Writer;
use crate::reconnects::Reconnects;
use crate::replies::Replies;
use crate::task::AbortOnDrop;
use crate::tls::TlsFiles;
use crate::unacknowledged::{QueuedMessage, UnacknowledgedMessage, UnacknowledgedPublisher};
use crate::window::Window;

/// A connection that keeps itself up. Dropping it ends its tasks and drops what is still queued;
/// [`Bus::close`] does not.
#[derive(Debug)]
pub struct Bus {
    client: Client,
    lanes: Lanes,
    link: watch::Receiver<Link>,
    missing: Arc<Notify>,
    queue: mpsc::Sender<Publish>,
    asides: mpsc::Sender<QueuedMessage>,
    clock: Clock,
    replicas: u8,
    task: AbortOnDrop,
    reconnects: StopOnDrop,
}

impl Bus {
    /// Starts to connect, and retries until closed. Returns at once; needs a tokio runtime with
    /// time and network. Installs ring as the cryptography provider of rustls, unless the process
    /// has installed one.
    ///
    /// # Errors
    /// When `config` is invalid: a malformed address, or unreadable credentials.
    pub fn connect(config: BusConfig) -> Result<(Self, BusEvents), BusError> {
        Self::connect_at(config, Clock::start())
    }

    /// The same for a process whose clock is `clock`.
    ///
    /// # Errors
    /// As [`Bus::connect`].
    pub fn connect_at(config: BusConfig, clock: Clock) -> Result<(Self, BusEvents), BusError> {
        // An error means that a provider is there already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let addresses = config.addresses()?;
        let reconnects = StopOnDrop(Arc::new(Reconnects::new(config.reconnect_max)));
        // An aggregator or a tool is one of few: it need not wait for a place among thousands of
        // nodes (S30).
        if config.role == ConnectionRole::Few {
            reconnects.0.set_mesh_nodes(1);
        }
        let (signal_out, signal) = watch::channel(Signal::default());
        config.check()?;
        let options = config.identification(&addresses);
        let (events, events_out) = mpsc::channel(EVENTS_MAX);
        let (role, weak) = (config.role, events.downgrade());
        let forwarder = EventForwarder { signal: signal_out, events: weak, role };
        let options = options_of(options, &config, reconnects.0.clone(), forwarder);
        // With retries from the first attempt on, the client is there at once: a start waits for no
        // broker.
        let client = options.connect(addresses).now_or_never();
        let client = client
            .unwrap_or_else(|| Err(async_nats::ConnectErrorKind::TimedOut.into()))
            .map_err(|error| BusError::Client(error.to_string()))?;
        let bus = Self::start(client, config, signal, clock, reconnects, events);
        Ok((bus, BusEvents(events_out)))
    }

    fn start(
        client: Client,
        config: BusConfig,
        signal: watch::Receiver<Signal>,
        clock: Clock,
        reconnects: StopOnDrop,
        events: mpsc::Sender<BusEvent>,
    ) -> Self {
        let (queue, queued) = mpsc::channel(PUBLISH_QUEUE_MAX);
        let (asides, waiting) = mpsc::channel(UNACKNOWLEDGED_MAX);
        let (link_out, link) = watch::channel(Link::default());
        let (answers_out, answers_in) = watch::channel(0);
        let BusConfig { mesh, partition, role, streams, replicas, .. } = config;
        let lanes = Lanes { mesh, partition };
        let inbox = client.new_inbox();
        let acknowledged = Arc::new(AtomicU64::new(0));
        let (missing, final_echo) = (Arc::new(Notify::new()), Arc::new(Notify::new()));

        let supervisor = Supervisor {
            client: client.clone(),
            lanes: lanes.clone(),
            signal: signal.clone(),
            link: link_out,
            events: events.clone(),
            missing: missing.clone(),
            acknowledged: acknowledged.clone(),
            role,
            streams,
            replicas,
            gone: false,
            lacks_streams: false,
        };

        let answers = Replies {
            client: client.clone(),
            inbox: inbox.clone(),
            streams: stream_prefix(&lanes.mesh),
            link: link.clone(),
            events: events.clone(),
            answers: answers_out,
            acknowledged,
            missing: missing.clone(),
            final_echo: final_echo.clone(),
            clock,
            liveness: Liveness::default(),
        };

        let writer = Writer {
            client: client.clone(),
            inbox,
            queue: queued,
            link: link.clone(),
            events,
            final_echo,
            answers: answers_in,
            clock,
            window: Window::default(),
            hand_over_wait: HAND_OVER_WAIT,
        };

        let unacknowledged = UnacknowledgedPublisher {
            client: client.clone(),
            queue: waiting,
            link: link.clone(),
            signal: signal.clone(),
            clock,
            refused: 0,
        };

        let running = run(supervisor, answers, writer, unacknowledged, client.clone(), signal);
        let task = AbortOnDrop(tokio::spawn(running));
        Self { client, lanes, link, missing, queue, asides, clock, replicas, task, reconnects }
    }

    /// States how many nodes the mesh has, so that they do not exceed `RECONNECTS_PER_SECOND` of
    /// the wire's limits when all reconnect. Holds from the next attempt on.
    pub fn spread_reconnects(&self, mesh_nodes: u32) {
        self.reconnects.0.set_mesh_nodes(mesh_nodes);
    }

    /// Queues a message without waiting. The answer is an event with its ticket. No answer comes if
    /// the connection breaks before the acknowledgement arrives.
    ///
    /// # Errors
    /// Returns the message when `limits::bus::PUBLISH_QUEUE_MAX` others wait.
    pub fn try_publish(&self, message: Publish) -> Result<(), Publish> {
        self.queue.try_send(message).map_err(mpsc::error::TrySendError::into_inner)
    }

    /// Publishes a message at most once, without waiting: no acknowledgement comes, and a message
    /// that cannot be sent within `limits::UNACKNOWLEDGED_AGE_MAX`, for example without a
    /// connection, is dropped.
    ///
    /// # Errors
    /// Returns the message when `limits::bus::UNACKNOWLEDGED_MAX` others wait.
    pub fn publish_unacknowledged(
        &self,
        aside: UnacknowledgedMessage,
    ) -> Result<(), UnacknowledgedMessage> {
        self.messenger().publish(aside)
    }

    /// Reads a lane from sequence number `start_seq` on (0 and 1: from its first message), now
    /// and for ever.
    ///
    /// `stream_id` is the [`crate::CursorEvent::Positioned`] one of the stream that the number
    /// is about: with another in its place, even one that has outgrown the number, the cursor
    /// returns [`crate::CursorEvent::Reset`] and reads from its first message. `None` accepts any
    /// stream.
    pub fn cursor(&self, lane: Lane, start_seq: u64, stream_id: Option<String>) -> Cursor {
        let start = StartPosition { seq: start_seq, stream_id };
        let (client, lanes) = (self.client.clone(), self.lanes.clone());
        Cursor::start(client, lanes, self.link.clone(), self.missing.clone(), lane, start)
    }

    /// Subscribes to a subject, without a stream: a message that is published while there is no
    /// connection is lost.
    pub fn listen(&self, subject: String) -> Listener {
        self.messenger().listen(subject)
    }

    /// Publishes and subscribes without streams, for a part of the program that does not own the
    /// connection. It holds the connection open: drop it before [`Bus::close`].
    pub fn messenger(&self) -> Messenger {
        let (client, link) = (self.client.clone(), self.link.clone());
        Messenger::new(client, link, self.asides.clone(), self.clock, self.replicas)
    }

    /// Takes no more messages, hands over what is queued, waits until the broker has read it,
    /// and closes the connection. Takes at most twice `limits::bus::CLOSE_WAIT`; a broker that
    /// is absent is not waited for. Events can be read to their end afterwards.
    pub async fn close(self) {
        let Self { client, queue, asides, mut task, reconnects, .. } = self;
        // The writer ends once its queue has no other end, and only then is the connection closed.
        drop((queue, asides, client));
        if timeout(CLOSE_WAIT * 2, &mut task.0).await.is_err() {
            tracing::warn!("broker connection not closed in time");
        }
        // Only now: a connection that is lost meanwhile is made again for what is still queued.
        drop(reconnects);
    }
}

fn options_of(
    options: ConnectOptions,
    config: &BusConfig,
    reconnects: Arc<Reconnects>,
    forwarder: EventForwarder,
) -> ConnectOptions {
    let failures = FailureForwarder {
        faults: Faults::default(),
        tls: config.tls.clone(),
        events: forwarder.events.clone(),
    };
    options
        .name(&config.connection_name)
        .retry_on_initial_connect()
        .max_reconnects(None)
        .connection_timeout(CONNECT_WAIT)
        .request_timeout(Some(REQUEST_WAIT))
        .ping_interval(PING_EVERY)
        .client_capacity(CLIENT_COMMANDS_MAX)
        // Beyond this the client drops answers silently; messages under way stay below it (S25).
        .subscription_capacity(SUBSCRIPTION_MESSAGES_MAX)
        .reconnect_delay_callback(move |attempt| reconnects.pause(attempt))
        .event_callback(move |event| {
            forwarder.on_event(&event);
            ready(())
        })
        .reconnect_to_server_callback(move |servers, _| {
            failures.on_attempt(&servers);
            // The client chooses.
            ready(None)
        })
}

/// Where the client's own events go.
struct EventForwarder {
    signal: watch::Sender<Signal>,
    /// Weak, because a client that never had a connection outlives its owner for ever.
    events: mpsc::WeakSender<BusEvent>,
    role: ConnectionRole,
}

impl EventForwarder {
    fn on_event(&self, event: &async_nats::Event) {
        self.signal.send_modify(|signal| signal.on_event(event));
        let reported = link::denied(event, self.role).or_else(|| link::name_failed(event));
        if let Some((reported, events)) = reported.zip(self.events.upgrade()) {
            // Full: the owner does not read, and more of the same follow.
            let _ = events.try_send(reported);
        }
    }
}

/// Where failed attempts to connect go.
struct FailureForwarder {
    faults: Faults,
    tls: TlsFiles,
    events: mpsc::WeakSender<BusEvent>,
}

impl FailureForwarder {
    /// Takes the client's servers as they are before its next attempt.
    fn on_attempt(&self, servers: &[Server]) {
        let Some((fault, mut text)) = self.faults.latest(servers) else { return };
        if fault == ConnectFault::Tls
            && let Err(error) = self.tls.check()
        {
            // The client does not name the file.
            text = one_line(&error.to_string());
        }
        if let Some(events) = self.events.upgrade() {
            // Full: the owner does not read, and more of the same follow.
            let _ = events.try_send(BusEvent::ConnectFailed { fault, text });
        }
    }
}

/// Everything that one connection does, as one task. Ends when the writer does.
async fn run(
    supervisor: Supervisor,
    answers: Replies,
    mut writer: Writer,
    unacknowledged: UnacknowledgedPublisher,
    client: Client,
    mut signal: watch::Receiver<Signal>,
) {
    // The first command of all, so that no answer can come before its subscription.
    let subscriber = match client.subscribe(format!("{}.*", answers.inbox)).await {
        Ok(subscriber) => subscriber,
        Err(error) => {
            tracing::error!(%error, "inbox refused");
            return;
        }
    };

    let going_out = async {
        tokio::join!(writer.run(), unacknowledged.run());
        writer.wait_until_read().await;
    };

    tokio::select! {
        () = going_out => {}
        () = supervisor.run() => {}
        () = answers.run(subscriber) => {}
    }

    if signal.borrow().connected {
        // `drain` returns before anything is drained; only the client's last event reports the end.
        let drained = async { (client.drain().await, signal.wait_for(|now| now.closed).await) };
        let _ = timeout(CLOSE_WAIT, drained).await;
    }
}

/// Stops the reconnects of the client's own task when its owner is dropped.
#[derive(Debug)]
struct StopOnDrop(Arc<Reconnects>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}
