//! The network: one connection of each process to the broker, and the state that the process
//! assumes.
//!
//! Owns the links with everything that is under way or waits in them. Requests and responses travel
//! with delays, in order, and are lost with their connection; a process detects a broken or silent
//! connection late. It serves no request and decides nothing for a process: methods return what
//! arrives, and the world dispatches it.

mod link;

use std::collections::VecDeque;

use plimsoll_bus::limits::{
    PING_EVERY, PROBE_EVERY, RECONNECT_SMALL_MAX, RETRY_DELAY_MIN, STALL_AFTER,
};
use plimsoll_schemas::backoff::Backoff;
use plimsoll_schemas::time::nanos;
use plimsoll_schemas::transport::BusEvent;

use super::act::Who;
use super::clocks::duration;
use super::event::{Event, Request, Response};
use super::kernel::Kernel;
use super::schedule::{MILLISECOND, Time};
use link::{Belief, LaneLink};

/// The state of the broker's process, as far as connections depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// It responds.
    Up,
    /// It is stopped: its machine accepts packets, and no process reads them.
    Stalled,
    /// It does not run.
    Down,
}

/// Which packets of a process are held up.
#[derive(Clone, Copy, Debug)]
pub struct Directions {
    pub requests: bool,
    pub responses: bool,
}

/// See the module.
pub struct Network {
    links: Vec<LaneLink>,
    nodes: usize,
    /// Requests that a stopped broker reads later, from connections that are gone.
    orphans: VecDeque<Request>,
}

impl Network {
    /// A network without connections.
    pub fn new(nodes: usize, aggregators: usize) -> Self {
        let links = (0..nodes + aggregators).map(|_| LaneLink::default()).collect();
        Self { links, nodes, orphans: VecDeque::new() }
    }

    fn link(&mut self, who: Who) -> &mut LaneLink {
        let index = match who {
            Who::Node(number) => number,
            Who::Aggregator(which) => self.nodes + which,
        };
        &mut self.links[index]
    }

    fn delay(&mut self, k: &mut Kernel, who: Who) -> Time {
        let (min, max) = k.knobs().delay;
        let max = if k.is_healed() { max.min(50 * MILLISECOND) } else { max };
        k.rng().span(min, max) + self.link(who).slowness
    }

    /// A process sends; the request is lost if the connection is broken.
    pub fn request(&mut self, k: &mut Kernel, who: Who, request: Request) {
        let at = k.now() + self.delay(k, who);
        let link = self.link(who);
        if !link.is_intact {
            k.reach("message lost on the way");
            return;
        }
        let (generation, at) = (link.generation, link.requests.arrival(at, 0));
        k.at(at, Event::Request { who, generation, request });
    }

    /// The broker sends; the response is lost if the connection is broken.
    pub fn respond(&mut self, k: &mut Kernel, who: Who, response: Response) {
        let at = k.now() + self.delay(k, who);
        let is_slow = matches!(who, Who::Aggregator(_)) && !k.is_healed();
        let apart = if is_slow { k.knobs().reading } else { 0 };
        let link = self.link(who);
        if !link.is_intact {
            return;
        }
        let (generation, at) = (link.generation, link.responses.arrival(at, apart));
        k.at(at, Event::Response { who, generation, response });
    }

    /// A request arrives. Returns it if the broker reads it now, with its sender unless the
    /// connection is gone.
    pub fn on_request(
        &mut self,
        k: &mut Kernel,
        who: Who,
        generation: u64,
        request: Request,
        server: Server,
    ) -> Option<(Option<Who>, Request)> {
        let link = self.link(who);
        if link.generation != generation || !link.is_intact {
            return self.on_orphan(k, request, server).map(|request| (None, request));
        }
        let is_blocked = link.requests.is_blocked || !link.requests.parked.is_empty();
        if is_blocked || server == Server::Stalled {
            link.requests.parked.push_back(request);
            return None;
        }
        Some((Some(who), request))
    }

    /// The broker may read what was under way when its connection broke.
    fn on_orphan(&mut self, k: &mut Kernel, request: Request, server: Server) -> Option<Request> {
        if server == Server::Down || k.rng().chance(500) {
            k.reach("message lost on the way");
            None
        } else if server == Server::Stalled {
            self.orphans.push_back(request);
            None
        } else {
            k.reach("message read from a dead connection");
            Some(request)
        }
    }

    /// A response arrives. Returns it if the process receives it now.
    pub fn on_response(
        &mut self,
        k: &mut Kernel,
        who: Who,
        generation: u64,
        response: Response,
    ) -> Option<Response> {
        let link = self.link(who);
        if link.generation != generation || !link.is_intact {
            k.reach("message lost on the way");
            return None;
        }
        if link.responses.is_blocked || !link.responses.parked.is_empty() {
            link.responses.parked.push_back(response);
            return None;
        }
        Some(response)
    }

    /// Identifies a process's present connection.
    pub fn generation(&mut self, who: Who) -> u64 {
        self.link(who).generation
    }

    /// Whether this connection of a process is intact.
    pub fn is_intact(&mut self, who: Who, generation: u64) -> bool {
        let link = self.link(who);
        link.generation == generation && link.is_intact
    }

    /// Whether a process assumes that its connection is up.
    pub fn sees_up(&mut self, who: Who) -> bool {
        self.link(who).belief == Belief::Up
    }

    /// A process ends or starts: it has no connection.
    pub fn clear(&mut self, who: Who) {
        self.link(who).clear();
    }

    /// A connection breaks; its process detects it after `noticed_after`.
    pub fn tear(&mut self, k: &mut Kernel, who: Who, noticed_after: Time, server: Server) {
        let link = self.link(who);
        if !link.is_intact {
            return;
        }
        let generation = link.generation;
        let reached_the_machine = server == Server::Stalled && !link.requests.is_blocked;
        let unread = link.tear();
        if reached_the_machine {
            self.orphans.extend(unread);
        }
        k.after(noticed_after, Event::ConnectionLost { who, generation });
        self.watch(k, who, server);
    }

    /// A process of this incarnation detects that a connection is broken, and dials; true if it
    /// assumed that the connection was up.
    pub fn on_lost(&mut self, k: &mut Kernel, who: Who, generation: u64, life: u64) -> bool {
        let link = self.link(who);
        if link.generation != generation || link.is_intact {
            return false;
        }
        link.quiet_since = None;
        let was_up = std::mem::replace(&mut link.belief, Belief::Down) != Belief::Down;
        self.dial_soon(k, who, life);
        if was_up {
            k.reach("lost connection reported");
        }
        was_up
    }

    /// A process of this life tries to connect after a pause.
    pub fn dial_soon(&mut self, k: &mut Kernel, who: Who, life: u64) {
        let link = self.link(who);
        let pause = Backoff::new(RETRY_DELAY_MIN, RECONNECT_SMALL_MAX).span(link.attempts);
        link.attempts += 1;
        k.after(nanos(pause), Event::Dial { who, life });
    }

    /// A running process tries to connect, unless it assumes that it is connected.
    pub fn on_dial(&mut self, k: &mut Kernel, who: Who, life: u64, server: Server) {
        let link = self.link(who);
        if link.is_intact || link.belief != Belief::Down {
            return;
        }
        if server != Server::Up || !link.is_open() {
            return self.dial_soon(k, who, life);
        }
        link.join();
        let generation = link.generation;
        let settled = self.delay(k, who) * 4;
        k.after(settled, Event::Established { who, generation });
    }

    /// A connection is ready; true if the process may use it. [`Self::probe`] must follow.
    pub fn on_established(
        &mut self,
        k: &mut Kernel,
        who: Who,
        generation: u64,
        server: Server,
    ) -> bool {
        let link = self.link(who);
        if link.generation != generation || !link.is_intact || link.belief != Belief::Down {
            return false;
        }
        if server == Server::Stalled || !link.is_open() {
            // The requests that follow a connect receive no response: the client begins again.
            self.tear(k, who, nanos(STALL_AFTER), server);
            return false;
        }
        link.belief = Belief::Up;
        k.trace(|| format!("{who}: connected"));
        true
    }

    /// Sends a probe on a new connection.
    pub fn probe(&mut self, k: &mut Kernel, who: Who, generation: u64) {
        let reply = self.delay(k, who) * 2 + k.rng().below(nanos(PROBE_EVERY));
        k.after(reply, Event::ProbeReply { who, generation });
    }

    /// The response to a probe arrives; returns what the client reports.
    pub fn on_probe_reply(
        &mut self,
        k: &mut Kernel,
        who: Who,
        generation: u64,
    ) -> Option<BusEvent> {
        let link = self.link(who);
        let arrives = link.generation == generation && link.is_intact;
        if !arrives || link.belief == Belief::Down || link.quiet_since.is_some() {
            return None;
        }
        link.belief = Belief::Up;
        let span = self.delay(k, who) * 2;
        Some(BusEvent::RoundTrip(duration(span)))
    }

    /// Begins or ends the silence of a connection. To be called after every change of a link or
    /// of the server.
    pub fn watch(&mut self, k: &mut Kernel, who: Who, server: Server) {
        let now = k.now();
        let link = self.link(who);
        if link.belief == Belief::Down {
            return;
        }
        let is_quiet = !link.is_intact || server == Server::Stalled || !link.is_open();

        match (is_quiet, link.quiet_since) {
            (true, None) => {
                link.quiet_since = Some(now);
                let silence = nanos(STALL_AFTER) + k.rng().below(nanos(PROBE_EVERY));
                k.after(silence, Event::Stall { who, since: now });
            }
            (false, Some(_)) => {
                link.quiet_since = None;
                let generation = link.generation;
                let reply = self.delay(k, who);
                k.after(reply, Event::ProbeReply { who, generation });
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// A connection has been silent for long; true if the client reports that.
    /// [`Self::await_timeout`] must follow.
    pub fn on_stall(&mut self, k: &mut Kernel, who: Who, since: Time) -> bool {
        let link = self.link(who);
        if link.quiet_since != Some(since) || link.belief != Belief::Up {
            return false;
        }
        link.belief = Belief::Stalled;
        k.reach("stall reported");
        k.trace(|| format!("{who}: the broker does not respond"));
        true
    }

    /// Schedules the end of a stalled connection.
    pub fn await_timeout(&mut self, k: &mut Kernel, who: Who, since: Time) {
        let patience = k.rng().within(nanos(PING_EVERY)..=3 * nanos(PING_EVERY));
        k.after(patience, Event::Timeout { who, since });
    }

    /// A stalled connection is closed; true if the client reports that.
    pub fn on_timeout(
        &mut self,
        k: &mut Kernel,
        who: Who,
        life: u64,
        since: Time,
        server: Server,
    ) -> bool {
        if self.link(who).quiet_since != Some(since) {
            return false;
        }
        let generation = self.link(who).generation;
        self.tear(k, who, 0, server);
        self.on_lost(k, who, generation, life)
    }

    /// Packets of one or both directions are held up.
    pub fn block(&mut self, who: Who, directions: Directions) {
        let link = self.link(who);
        link.requests.is_blocked |= directions.requests;
        link.responses.is_blocked |= directions.responses;
    }

    /// Both directions are open again.
    pub fn unblock(&mut self, who: Who) {
        let link = self.link(who);
        (link.requests.is_blocked, link.responses.is_blocked) = (false, false);
    }

    /// Every packet of a process takes this much longer.
    pub fn set_slowness(&mut self, who: Who, slowness: Time) {
        self.link(who).slowness = slowness;
    }

    /// Requests that waited and can now be read, in order.
    pub fn take_requests(&mut self, who: Who, server: Server) -> VecDeque<Request> {
        let link = self.link(who);
        match server != Server::Stalled && !link.requests.is_blocked {
            true => std::mem::take(&mut link.requests.parked),
            false => VecDeque::new(),
        }
    }

    /// Responses that waited and can now arrive, in order.
    pub fn take_responses(&mut self, who: Who) -> Vec<Event> {
        let link = self.link(who);
        if link.responses.is_blocked {
            return Vec::new();
        }
        let generation = link.generation;
        let parked = std::mem::take(&mut link.responses.parked).into_iter();
        parked.map(|response| Event::Response { who, generation, response }).collect()
    }

    /// Requests from broken connections that the broker reads now that it continues.
    pub fn take_orphans(&mut self) -> VecDeque<Request> {
        std::mem::take(&mut self.orphans)
    }
}
