//! One connection with the nodes on it: an open loop. When a message is due is fixed before
//! anything starts; a slow broker makes messages wait and never makes them fewer.
//!
//! DESIGN D8.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap};
use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::fleet::limits::{ANSWER_WAIT, REFUSED_PAUSE};
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use plimsoll_bus::{Bus, BusEvent, BusEvents, Delivery, Listener, Publish, Refusal, Ticket};
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::subject::confirm_subject;
use plimsoll_schemas::time::{Wall, nanos};
use plimsoll_schemas::wire::confirmation;
use serde::Serialize;
use tokio::time::{sleep, timeout};

use super::body::Palette;
use super::node::{FleetNode, REFUSED};
use super::queue::{Message, Queue};

/// Shortest time between two turns: the resolution of the schedule.
const TICK: Duration = Duration::from_millis(4);
/// Time between two checks whether everything was acknowledged, after the last message is made.
const END_CHECK_EVERY: Duration = Duration::from_millis(100);
/// Wait for the first connection.
const CONNECT_WAIT: Duration = Duration::from_secs(20);

/// What a connection has done so far.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct SendCounts {
    #[serde(rename = "messages")]
    pub made: u64,
    /// Bytes of those, without headers.
    #[serde(skip)]
    pub bytes: u64,
    /// Messages acknowledged by the broker.
    pub acknowledged: u64,
    /// Messages sent again because no acknowledgement came.
    pub resent: u64,
    /// Messages that the broker recognised as duplicates.
    pub duplicates: u64,
    /// Refusals after which a message was tried again.
    pub refused: u64,
    /// Confirmations of the aggregator that nodes have received.
    pub confirmations: u64,
    /// Messages that wait or are under way.
    #[serde(skip)]
    pub waiting: u64,
    /// How long the oldest of those has been due.
    #[serde(skip)]
    pub behind_ns: u64,
}

/// A connection that has ended.
#[derive(Default)]
pub struct Ended {
    /// Its nodes with their ledgers.
    pub nodes: Vec<FleetNode>,
    /// What it has done.
    pub counts: SendCounts,
    /// When messages were sent.
    pub times: SendTimes,
}

/// When the messages of all connections were sent.
#[derive(Default)]
pub struct SendTimes {
    /// How long after it was due each message was handed over.
    pub late: Histogram,
    /// How long after it was due each message was acknowledged.
    pub answered: Histogram,
}

/// One for all connections: histograms of each of ten thousand would be most of their memory.
pub type SharedTimes = Arc<Mutex<SendTimes>>;

/// The content of a lock that no panic leaves half changed.
pub fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts that other tasks read.
pub type Shared = Arc<Mutex<SendCounts>>;

/// A message under way.
struct Flying {
    message: Message,
    sent: Duration,
}

pub struct Sender {
    bus: Bus,
    events: BusEvents,
    nodes: Vec<FleetNode>,
    /// Nodes by the time at which they are due next.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    queue: Queue,
    flying: BTreeMap<u64, Flying>,
    tokens: u64,
    is_up: bool,
    held_until: Duration,
    counts: SendCounts,
    shared: Shared,
    /// Those of its node, if it is the only one.
    confirmations: Option<Confirmations>,
}

/// What a node receives for its own messages.
struct Confirmations {
    node: NodeName,
    listener: Listener,
}

/// The inputs of a sender.
#[derive(Clone)]
pub struct SendPlan {
    pub palette: Arc<Palette>,
    /// Runs from the beginning of the fleet.
    pub watch: Stopwatch,
    /// Where times of all connections are recorded.
    pub times: SharedTimes,
    /// That beginning on these nodes' clock.
    pub started: Wall,
    /// When to abandon unacknowledged messages.
    pub give_up: Duration,
}

impl Sender {
    /// Takes a connection that has just been opened, and waits until it is established.
    ///
    /// # Errors
    /// When it is not established in time, or the broker has no streams.
    pub async fn open(bus: Bus, mut events: BusEvents) -> Result<Self> {
        timeout(CONNECT_WAIT, connected(&mut events)).await.context("the broker is silent")??;
        Ok(Self {
            bus,
            events,
            nodes: Vec::new(),
            due: BinaryHeap::new(),
            queue: Queue::default(),
            flying: BTreeMap::new(),
            tokens: 0,
            is_up: true,
            held_until: Duration::ZERO,
            counts: SendCounts::default(),
            shared: Shared::default(),
            confirmations: None,
        })
    }

    /// Reads the confirmations of its only node, as a real node does.
    pub fn with_confirmations(mut self, mesh: &MeshName, node: &NodeName) -> Self {
        let listener = self.bus.listen(confirm_subject(mesh, node));
        self.confirmations = Some(Confirmations { node: node.clone(), listener });
        self
    }

    /// Reconnects as one of this many connections.
    pub fn with_others(self, connections: u32) -> Self {
        self.bus.spread_reconnects(connections);
        self
    }

    /// Where other tasks read its counts.
    pub fn shared(&self) -> Shared {
        self.shared.clone()
    }

    /// Runs until every node has sent its final message and the broker has acknowledged it, or the
    /// time is over.
    pub async fn run(mut self, plan: SendPlan, nodes: Vec<FleetNode>) -> Ended {
        let due =
            |(place, node): (usize, &FleetNode)| node.due_ns().map(|due| Reverse((due, place)));
        self.due = nodes.iter().enumerate().filter_map(due).collect();
        self.nodes = nodes;
        let mut turn = pin!(sleep(TICK));

        loop {
            tokio::select! {
                biased;
                event = self.events.next() => {
                    let Some(event) = event else { break };
                    let may_send = !matches!(event, BusEvent::Acknowledged { .. });
                    self.on_event(&plan, event);
                    if may_send {
                        turn.set(sleep(self.rest(&plan)));
                    }
                }
                payload = confirmation(&mut self.confirmations) => self.on_confirmation(&payload),
                () = turn.as_mut() => {
                    let now = plan.watch.elapsed();
                    self.on_tick(&plan, now);
                    turn.set(sleep(self.rest(&plan)));
                    let idle = self.queue.is_empty() && self.flying.is_empty();
                    if (self.due.is_empty() && idle) || now >= plan.give_up {
                        break;
                    }
                }
            }
        }

        self.show(plan.watch.elapsed());
        self.bus.close().await;
        let Self { nodes, counts, .. } = self;
        Ended { nodes, counts, times: SendTimes::default() }
    }

    /// Time until there is something to do without an event.
    fn rest(&self, plan: &SendPlan) -> Duration {
        let now = plan.watch.elapsed();
        let due = self.due.peek().map(|Reverse((due, _))| Duration::from_nanos(*due));
        let answer = self.flying.first_key_value().map(|(_, flying)| flying.sent + ANSWER_WAIT);
        let send = (self.is_up && !self.queue.is_empty()).then_some(self.held_until);
        let next = due.into_iter().chain(answer).chain(send).min();
        let next = next.unwrap_or(now + END_CHECK_EVERY);
        let is_ending = self.due.is_empty();
        let next = if is_ending { next.min(now + END_CHECK_EVERY) } else { next };
        next.saturating_sub(now).max(TICK)
    }

    fn on_confirmation(&mut self, payload: &[u8]) {
        let Some(Confirmations { node, .. }) = &self.confirmations else { return };
        if let Ok(confirmation) = confirmation::decode(node, payload) {
            self.counts.confirmations += 1;
            // As a node does, which keeps its number when none is stated.
            if confirmation.mesh_nodes > 0 {
                self.bus.spread_reconnects(confirmation.mesh_nodes);
            }
        }
    }

    fn on_tick(&mut self, plan: &SendPlan, now: Duration) {
        while let Some(mut next) = self.due.peek_mut() {
            let Reverse((due, place)) = *next;
            if due > nanos(now) {
                break;
            }
            let (node, waiting) = (&mut self.nodes[place], self.queue.len());
            node.seal(&plan.palette, plan.started, place, &mut self.queue);
            self.counts.made += (self.queue.len() - waiting) as u64;

            match node.due_ns() {
                Some(due) => *next = Reverse((due, place)),
                None => drop(PeekMut::pop(next)),
            }
        }

        self.send_again(now);
        self.send(plan, now);
        self.show(now);
    }

    fn show(&mut self, now: Duration) {
        let flying = self.flying.first_key_value().map(|(_, flying)| &flying.message);
        let oldest = flying.into_iter().chain(self.queue.first()).map(|message| message.due_ns);
        let since = oldest.min().unwrap_or(u64::MAX);
        self.counts.behind_ns = nanos(now).saturating_sub(since);
        self.counts.waiting = (self.queue.len() + self.flying.len()) as u64;
        *lock(&self.shared) = self.counts;
    }

    /// Hands over what waits until the connection takes no more.
    fn send(&mut self, plan: &SendPlan, now: Duration) {
        while self.is_up && now >= self.held_until {
            let Some(message) = self.queue.pop() else { return };
            let node = &self.nodes[message.node];

            let outgoing = Publish {
                headers: Vec::new(),
                ticket: Ticket(self.tokens + 1),
                subject: node.subject(message.kind).to_owned(),
                message_id: node.message_id(&message),
                payload: message.payload.clone(),
            };

            if self.bus.try_publish(outgoing).is_err() {
                return self.queue.put_back(message);
            }
            self.tokens += 1;
            let sent = plan.watch.elapsed();
            self.counts.bytes += message.payload.len() as u64;
            lock(&plan.times).late.record(nanos(sent).saturating_sub(message.due_ns));
            self.flying.insert(self.tokens, Flying { message, sent });
        }
    }

    /// Requeues messages that have waited too long for an acknowledgement.
    fn send_again(&mut self, now: Duration) {
        while let Some(oldest) = self.flying.first_entry() {
            if now.saturating_sub(oldest.get().sent) < ANSWER_WAIT {
                return;
            }
            self.queue.put_back(oldest.remove().message);
            self.counts.resent += 1;
        }
    }

    fn on_event(&mut self, plan: &SendPlan, event: BusEvent) {
        match event {
            BusEvent::Acknowledged { ticket: Ticket(token), duplicate } => {
                let Some(Flying { message, .. }) = self.flying.remove(&token) else { return };
                let took = nanos(plan.watch.elapsed()).saturating_sub(message.due_ns);
                self.nodes[message.node].on_acknowledged(message.incarnation);
                self.counts.acknowledged += 1;
                self.counts.duplicates += u64::from(duplicate);
                lock(&plan.times).answered.record(took);
                if self.flying.is_empty() {
                    self.show(plan.watch.elapsed());
                }
            }
            BusEvent::Refused { ticket: Ticket(token), reason } => {
                let Some(Flying { message, .. }) = self.flying.remove(&token) else { return };
                if matches!(reason, Refusal::TooLarge | Refusal::Malformed) {
                    return self.nodes[message.node].lose(REFUSED, message.samples);
                }
                self.counts.refused += 1;
                self.queue.put_back(message);
                self.held_until = plan.watch.elapsed() + REFUSED_PAUSE;
            }
            BusEvent::Connected { .. } => self.is_up = true,
            BusEvent::Disconnected => {
                self.is_up = false;
                self.counts.resent += self.flying.len() as u64;
                while let Some((_, Flying { message, .. })) = self.flying.pop_last() {
                    self.queue.put_back(message);
                }
            }
            BusEvent::ConnectFailed { .. }
            | BusEvent::Stalled
            | BusEvent::RoundTrip(_)
            | BusEvent::Streams { .. }
            | BusEvent::Denied { .. } => {}
        }
    }
}

/// The next confirmation; none on a shared connection.
async fn confirmation(confirmations: &mut Option<Confirmations>) -> Bytes {
    match confirmations {
        Some(Confirmations { listener, .. }) => match listener.next().await {
            Some(received) => received.payload,
            // The connection's events end too.
            None => pending().await,
        },
        None => pending().await,
    }
}

async fn connected(events: &mut BusEvents) -> Result<()> {
    loop {
        match events.next().await {
            Some(BusEvent::Connected { delivery: Delivery::JetStream, .. }) => return Ok(()),
            Some(BusEvent::Connected { delivery: Delivery::Core, .. }) => {
                bail!("the broker keeps no streams; start it with JetStream")
            }
            Some(_) => {}
            None => bail!("the connection was closed"),
        }
    }
}
