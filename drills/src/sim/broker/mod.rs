//! The broker: its process, its streams, and the requests that it serves.
//!
//! Owns the streams, the consumers of aggregators, and the confirmations it relays. It serves one
//! request at a time and responds over the network. It does not decide when it crashes: the world
//! stops, resumes, kills and starts it.

mod relay;
mod streams;

use std::rc::Rc;

use bytes::Bytes;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::transport::{BusEvent, Refusal, Ticket};

use super::act::{Crash, Who};
use super::event::{Event, Request, Response, StreamInfo, StreamPosition};
use super::kernel::Kernel;
use super::network::{Network, Server};
use super::schedule::{MILLISECOND, Time};
use relay::Relay;
use streams::{PublishOutcome, Stream, Streams};

/// Where an aggregator reads a lane.
#[derive(Clone, Copy, Debug)]
struct Consumer {
    generation: u64,
    next: u64,
}

/// See the module.
pub struct Broker {
    server: Server,
    /// Share of acknowledgements that are lost, in a thousand.
    lost_acks_permille: u64,
    streams: Streams,
    consumers: Vec<[Option<Consumer>; 2]>,
    relay: Relay,
}

impl Broker {
    /// A running broker with empty streams.
    pub fn new(sync_every: Time, nodes: usize, aggregators: usize) -> Self {
        Self {
            server: Server::Up,
            lost_acks_permille: 0,
            streams: Streams::new(sync_every),
            consumers: vec![[None; 2]; aggregators],
            relay: Relay::new(nodes),
        }
    }

    /// The state of its process.
    pub fn server(&self) -> Server {
        self.server
    }

    /// The stream of a lane.
    pub fn stream(&self, lane: Lane) -> &Stream {
        self.streams.stream(lane)
    }

    /// Its disk becomes full, or has free space again.
    pub fn set_full(&mut self, is_full: bool) {
        self.streams.is_full = is_full;
    }

    /// This many acknowledgements of a thousand are lost from now on.
    pub fn lose_acks(&mut self, permille: u64) {
        self.lost_acks_permille = permille;
    }

    /// The longest delay of confirmations from now on.
    pub fn delay_confirmations(&mut self, delay_max: Time) {
        self.relay.set_delay_max(delay_max);
    }

    /// Acts on a request; without a sender there is no response.
    pub fn serve(&mut self, k: &mut Kernel, net: &mut Network, who: Option<Who>, request: Request) {
        match (request, who) {
            (Request::Publish { message }, _) => {
                let outcome = self.streams.take(k.now(), &message);
                k.trace(|| format!("broker: {} {outcome:?}", message.publish.message_id));
                (0..self.consumers.len()).for_each(|which| self.pump(k, net, which, message.lane));
                self.acknowledge(k, net, who, message.publish.ticket, outcome);
            }
            (Request::DeadLetter { ticket }, _) => {
                // Its stream shares the disk of the others.
                let outcome = match self.streams.is_full {
                    true => PublishOutcome::Full,
                    false => PublishOutcome::StreamMessage,
                };
                self.acknowledge(k, net, who, ticket, outcome);
            }
            (Request::Confirm { node, payload }, _) => self.relay.relay(k, net, node, payload),
            (Request::StreamInfo { lane }, Some(who)) => {
                let stream = self.streams.stream(lane);
                let (first, last) = (stream.first(), stream.last);
                let info = StreamInfo { first, last, stream: stream.id };
                net.respond(k, who, Response::StreamInfo { lane, info });
            }
            (Request::Consume { lane, stream, next }, Some(who @ Who::Aggregator(which))) => {
                if self.streams.stream(lane).id != stream {
                    k.reach("stream recreated before its consumer");
                    return net.respond(k, who, Response::StreamGone { lane });
                }

                let generation = net.generation(who);
                let consumer = Consumer { generation, next };
                self.consumers[which][lane as usize] = Some(consumer);
                self.pump(k, net, which, lane);
            }
            (Request::StreamInfo { .. } | Request::Consume { .. }, _) => {}
        }
    }

    fn acknowledge(
        &mut self,
        k: &mut Kernel,
        net: &mut Network,
        who: Option<Who>,
        ticket: Ticket,
        outcome: PublishOutcome,
    ) {
        let event = match outcome {
            PublishOutcome::StreamMessage => BusEvent::Acknowledged { ticket, duplicate: false },
            PublishOutcome::Duplicate => {
                k.reach("duplicate recognised by the broker");
                BusEvent::Acknowledged { ticket, duplicate: true }
            }
            PublishOutcome::Full => {
                k.reach("message declined");
                BusEvent::Refused { ticket, reason: full() }
            }
        };

        let Some(who) = who else { return };
        let permille = self.lost_acks_permille;
        if permille == 0 || !k.rng().chance(permille) {
            net.respond(k, who, Response::Publish(event));
        }
    }

    /// Sends an aggregator the messages of a stream that it has not been sent.
    fn pump(&mut self, k: &mut Kernel, net: &mut Network, which: usize, lane: Lane) {
        let who = Who::Aggregator(which);
        let Some(mut consumer) = self.consumers[which][lane as usize] else { return };

        if !net.is_intact(who, consumer.generation) {
            self.consumers[which][lane as usize] = None;
            return;
        }

        let stream = self.streams.stream(lane);
        while let Some((number, stored)) = stream.from(consumer.next) {
            let message = Rc::clone(&stored.message);
            let (behind, at) = (stream.behind(number), self.streams.timestamp(stored.at));
            let position = StreamPosition { stream: stream.id, number, behind, at };
            consumer.next = number + 1;
            net.respond(k, who, Response::Message { lane, position, message });
        }

        self.consumers[which][lane as usize] = Some(consumer);
    }

    /// A delayed confirmation continues to its node.
    pub fn deliver(
        &mut self,
        k: &mut Kernel,
        net: &mut Network,
        node: usize,
        number: u64,
        payload: Bytes,
    ) {
        self.relay.deliver(k, net, node, number, payload);
    }

    /// Its process is stopped; false when it does not run.
    pub fn stall(&mut self) -> bool {
        if self.server != Server::Down {
            self.server = Server::Stalled;
        }
        self.server == Server::Stalled
    }

    /// Its process continues; false when it was not stopped. The requests that waited for it are
    /// still in the network.
    pub fn resume(&mut self) -> bool {
        let was_stalled = self.server == Server::Stalled;
        if was_stalled {
            self.server = Server::Up;
        }
        was_stalled
    }

    pub fn end(&mut self) {
        self.server = Server::Down;
        self.consumers.fill([None; 2]);
    }

    /// Its process starts again after a crash; returns how many messages the streams have lost.
    pub fn start(&mut self, k: &mut Kernel, how: Crash) -> usize {
        let now = k.now();
        let gone = self.streams.crash(now, how, k.rng()).len();
        self.server = Server::Up;
        k.trace(|| format!("broker: up again, {gone} messages gone"));
        gone
    }

    /// A lane's stream is deleted and made again; returns how many messages it had.
    pub fn remake(&mut self, lane: Lane) -> usize {
        self.streams.remake(lane).len()
    }

    /// Reports to the consumers of a deleted stream that it is gone.
    pub fn end_consumers(&mut self, k: &mut Kernel, net: &mut Network, lane: Lane) {
        for (which, consumers) in self.consumers.iter_mut().enumerate() {
            if consumers[lane as usize].take().is_some() {
                let who = Who::Aggregator(which);
                let (generation, response) = (net.generation(who), Response::StreamGone { lane });
                k.after(MILLISECOND, Event::Response { who, generation, response });
            }
        }
    }
}

/// How a broker with a full disk answers a publish.
fn full() -> Refusal {
    Refusal::Rejected { code: 10_047, description: "insufficient storage resources".to_owned() }
}
