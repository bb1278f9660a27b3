//! The rooms of a run, the dispatch of its events, and the steps of its plan.

use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::time::nanos;
use plimsoll_schemas::transport::{BusEvent, Delivery};

use crate::sim::act::{Act, Crash, End, Who};
use crate::sim::broker::Broker;
use crate::sim::cores::aggregator::CHECKPOINT_EVERY;
use crate::sim::event::{Event, Request, Response, Undo};
use crate::sim::kernel::{Kernel, Outcome};
use crate::sim::machine::Machine;
use crate::sim::network::{Directions, Network, Server};
use crate::sim::node::Node;
use crate::sim::oracle::{Oracle, Sets};
use crate::sim::plan::{Plan, Readers};
use crate::sim::reader::LaneReader;
use crate::sim::rng::Rng;
use crate::sim::rooms::{NodeRooms, ReaderRooms, Rooms};
use crate::sim::schedule::{MILLISECOND, SECOND, Time};

/// The rooms, and the steps of the plan.
pub struct World {
    steps: Vec<(Time, Act)>,
    pub(super) kernel: Kernel,
    pub(super) network: Network,
    pub(super) broker: Broker,
    pub(super) nodes: Vec<Node>,
    pub(super) readers: Vec<LaneReader>,
    pub(super) oracle: Oracle,
    /// True once no node restarts on its own.
    pub(super) is_over: bool,
}

impl World {
    /// The world at the start of a plan; `traces` to write a trace.
    pub fn new(plan: &Plan, traces: bool) -> Self {
        let mut rng = Rng::new(plan.seed, 2);
        let knobs = &plan.knobs;
        let (count, readers) = (knobs.nodes, knobs.readers.count());
        let name = |number| NodeName::new(format!("n{number}")).expect("a letter and a digit");
        let names: Vec<NodeName> = (0..count).map(name).collect();
        let node =
            |(number, name): (usize, &NodeName)| Node::new(number, name.clone(), knobs, &mut rng);
        let nodes = names.iter().enumerate().map(node).collect();
        let aggregators =
            (0..readers).map(|which| LaneReader::new(which, knobs, &mut rng)).collect();

        let mut world = Self {
            steps: plan.steps.iter().map(|step| (step.at, step.act)).collect(),
            network: Network::new(count, readers),
            broker: Broker::new(knobs.sync_every, count, readers),
            nodes,
            readers: aggregators,
            oracle: Oracle::new(&names, readers, knobs.depths),
            kernel: Kernel::new(knobs.clone(), rng, traces),
            is_over: false,
        };

        match knobs.readers {
            Readers::One => {}
            Readers::Two => world.kernel.reach("two aggregators"),
            Readers::OneAndStateless => {
                world.kernel.reach("a stateless aggregator beside one with a store");
            }
        }

        world.kernel.trace(|| format!("{knobs:?}"));
        world.everyone().into_iter().for_each(|who| world.begin(who));
        world
    }

    /// Runs to the end; returns how it ended, and the samples as sets.
    pub fn run(mut self) -> (Outcome, Sets) {
        for (number, (at, _)) in self.steps.iter().enumerate() {
            self.kernel.at(*at, Event::Step(number));
        }
        let over = self.steps.last().map_or(0, |(at, _)| *at);
        self.run_until(over);
        self.end();
        (self.kernel.finish(), self.oracle.sets())
    }

    pub(super) fn run_until(&mut self, until: Time) {
        while let Some(event) = self.kernel.next(until) {
            // An event for a paused process waits until it continues.
            match event.receiver() {
                Some(who) if self.machine(who).is_paused() => self.machine(who).defer(event),
                _ => self.on_event(event),
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        let (server, k) = (self.broker.server(), &mut self.kernel);
        match event {
            Event::Step(number) => self.on_step(number),
            Event::Undo(undo) => self.undo(undo),
            Event::Timer(Who::Node(number)) => self.at_node(number, Node::on_timer),
            Event::Timer(Who::Aggregator(which)) => self.at_reader(which, LaneReader::on_timer),
            Event::Request { who, generation, request } => {
                let read = self.network.on_request(k, who, generation, request, server);
                if let Some((who, request)) = read {
                    self.serve(who, request);
                }
            }
            Event::Response { who, generation, response } => {
                if let Some(response) = self.network.on_response(k, who, generation, response) {
                    self.on_response(who, response);
                }
            }
            Event::ConnectionLost { who, generation } => {
                let life = self.machine(who).life();
                if self.network.on_lost(&mut self.kernel, who, generation, life) {
                    self.on_bus_event(who, &BusEvent::Disconnected);
                }
            }
            Event::Dial { who, life } => {
                if self.machine(who).is_alive() && self.machine(who).life() == life {
                    self.network.on_dial(&mut self.kernel, who, life, server);
                }
            }
            Event::Established { who, generation } => {
                if self.network.on_established(k, who, generation, server) {
                    self.on_bus_event(who, &connected());
                    self.network.probe(&mut self.kernel, who, generation);
                }
            }
            Event::ProbeReply { who, generation } => {
                if let Some(event) = self.network.on_probe_reply(k, who, generation) {
                    self.on_bus_event(who, &event);
                }
            }
            Event::Stall { who, since } => {
                if self.network.on_stall(k, who, since) {
                    self.on_bus_event(who, &BusEvent::Stalled);
                    self.network.await_timeout(&mut self.kernel, who, since);
                }
            }
            Event::Timeout { who, since } => {
                let life = self.machine(who).life();
                if self.network.on_timeout(&mut self.kernel, who, life, since, server) {
                    self.on_bus_event(who, &BusEvent::Disconnected);
                }
            }
            Event::DelayedConfirmation { node, number, payload } => {
                self.broker.deliver(k, &mut self.network, node, number, payload);
            }
            Event::Client { node, life, event } => {
                if self.nodes[node].machine().life() == life {
                    self.on_bus_event(Who::Node(node), &event);
                }
            }
            Event::SpoolWritten { node, life } => {
                self.at_node(node, |node, rooms| node.on_spool_written(rooms, life));
            }
            Event::NoteWritten { node, life } => {
                self.at_node(node, |node, rooms| node.on_note_written(rooms, life));
            }
            Event::CheckpointWritten { which, life } => {
                self.at_reader(which, |reader, rooms| reader.on_checkpoint_written(rooms, life));
            }
            Event::RetryStream { which, lane, generation } => {
                self.at_reader(which, |reader, rooms| reader.retry_stream(rooms, lane, generation));
            }
        }
    }

    /// Applies `act` to a node and its oracle.
    fn at_node(&mut self, number: usize, act: impl FnOnce(&mut Node, &mut NodeRooms<'_>)) {
        let (k, net) = (&mut self.kernel, &mut self.network);
        act(&mut self.nodes[number], &mut Rooms { k, net, oracle: self.oracle.node(number) });
    }

    /// Applies `act` to an aggregator and the oracle.
    fn at_reader(&mut self, which: usize, act: impl FnOnce(&mut LaneReader, &mut ReaderRooms<'_>)) {
        let (k, net, oracle) = (&mut self.kernel, &mut self.network, &mut self.oracle);
        act(&mut self.readers[which], &mut Rooms { k, net, oracle });
    }

    fn serve(&mut self, who: Option<Who>, request: Request) {
        self.broker.serve(&mut self.kernel, &mut self.network, who, request);
    }

    fn on_bus_event(&mut self, who: Who, event: &BusEvent) {
        match who {
            Who::Node(number) => {
                self.at_node(number, |node, rooms| node.on_bus_event(rooms, event));
            }
            Who::Aggregator(which) => {
                self.at_reader(which, |reader, rooms| reader.on_bus_event(rooms, event));
            }
        }
    }

    fn on_response(&mut self, who: Who, response: Response) {
        match (response, who) {
            (Response::Publish(event), _) => self.on_bus_event(who, &event),
            (Response::Confirmation { payload }, Who::Node(number)) => {
                self.at_node(number, |node, rooms| node.on_confirmation(rooms, &payload));
            }
            (response, Who::Aggregator(which)) => {
                self.at_reader(which, |reader, rooms| reader.on_response(rooms, response));
            }
            (_, Who::Node(_)) => {}
        }
    }

    fn everyone(&self) -> Vec<Who> {
        let readers = (0..self.readers.len()).map(Who::Aggregator);
        (0..self.nodes.len()).map(Who::Node).chain(readers).collect()
    }

    fn machine(&mut self, who: Who) -> &mut Machine {
        match who {
            Who::Node(number) => self.nodes[number].machine(),
            Who::Aggregator(which) => self.readers[which].machine(),
        }
    }

    pub(super) fn begin(&mut self, who: Who) {
        match who {
            Who::Node(number) => self.at_node(number, Node::begin),
            Who::Aggregator(which) => self.at_reader(which, LaneReader::begin),
        }
    }

    fn on_step(&mut self, number: usize) {
        let (_, act) = self.steps[number];
        self.kernel.trace(|| format!("step {number}: {act}"));
        self.kernel.reach(act.name());

        match act {
            Act::Load { node, samples, packed } => {
                self.at_node(node, |node, rooms| node.load(rooms, samples, packed));
            }
            Act::Break { who, noticed_after } => self.tear(who, noticed_after),
            Act::Partition { who, requests, answers, span } => {
                self.network.block(who, Directions { requests, responses: answers });
                self.watch(who);
                self.undo_after(span, Undo::Unblock(who));
            }
            Act::Slow { who, delay, span } => {
                self.network.set_slowness(who, delay);
                self.undo_after(span, Undo::Hasten(who));
            }
            Act::Stall { span } => {
                if self.broker.stall() {
                    self.everyone().into_iter().for_each(|who| self.watch(who));
                    self.undo_after(span, Undo::ResumeBroker);
                }
            }
            Act::Restart { how, down } => self.crash_broker(how, down),
            Act::Full { span } => {
                self.broker.set_full(true);
                self.undo_after(span, Undo::BrokerRoom);
            }
            Act::LoseAcks { permille, span } => {
                self.broker.lose_acks(permille);
                self.undo_after(span, Undo::Acknowledge);
            }
            Act::Remake { lane } => {
                if self.broker.server() == Server::Up {
                    self.oracle.on_messages_lost(self.broker.remake(lane));
                    self.broker.end_consumers(&mut self.kernel, &mut self.network, lane);
                }
            }
            Act::EndProcess { who, end, down } => self.end_process(who, end, down),
            Act::Jump { who, by_ms } => self.machine(who).jump(by_ms.saturating_mul(1_000_000)),
            Act::DiskFull { who, span } => {
                self.machine(who).set_disk_full(true);
                self.undo_after(span, Undo::DiskRoom(who));
            }
            Act::Jam { node, span } => {
                self.nodes[node].set_jammed(true);
                self.undo_after(span, Undo::Unjam(node));
            }
            Act::Forge { node, lie } => {
                self.at_node(node, |node, rooms| node.on_forgery(rooms, lie));
            }
            Act::Delay { by, span } => {
                self.broker.delay_confirmations(by);
                self.undo_after(span, Undo::Punctual);
            }
            Act::BackUp { which } => self.readers[which].back_up(&mut self.oracle),
            Act::RollBack { which, down } => {
                self.at_reader(which, |reader, rooms| reader.roll_back(rooms, down));
            }
            Act::Away { which, down } => {
                self.at_reader(which, |reader, rooms| reader.go_away(rooms, down));
            }
            Act::Pause { who, span } => {
                if self.machine(who).pause() {
                    self.undo_after(span, Undo::Continue(who));
                }
            }
        }
    }

    fn undo_after(&mut self, span: Time, undo: Undo) {
        self.kernel.after(span, Event::Undo(undo));
    }

    fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Unblock(who) => self.unblock(who),
            Undo::Hasten(who) => self.network.set_slowness(who, 0),
            Undo::ResumeBroker => {
                if self.broker.server() == Server::Stalled {
                    self.kernel.trace(|| "broker: resumes".to_owned());
                    self.resume_broker();
                }
            }
            Undo::StartBroker(how) => self.start_broker(how),
            Undo::BrokerRoom => self.broker.set_full(false),
            Undo::Acknowledge => self.broker.lose_acks(0),
            Undo::Start(who) => {
                let is_wanted = matches!(who, Who::Aggregator(_)) || !self.is_over;
                if !self.machine(who).is_alive() && is_wanted {
                    self.begin(who);
                }
            }
            Undo::DiskRoom(who) => self.machine(who).set_disk_full(false),
            Undo::Unjam(node) => self.nodes[node].set_jammed(false),
            Undo::Punctual => self.broker.delay_confirmations(0),
            Undo::Continue(who) => self.resume(who),
        }
    }

    fn tear(&mut self, who: Who, noticed_after: Time) {
        self.network.tear(&mut self.kernel, who, noticed_after, self.broker.server());
    }

    fn watch(&mut self, who: Who) {
        self.network.watch(&mut self.kernel, who, self.broker.server());
    }

    fn unblock(&mut self, who: Who) {
        self.network.unblock(who);
        self.unpark(who);
        self.watch(who);
    }

    /// What waited in a connection arrives, in order.
    fn unpark(&mut self, who: Who) {
        for request in self.network.take_requests(who, self.broker.server()) {
            self.serve(Some(who), request);
        }
        let responses = self.network.take_responses(who);
        if self.machine(who).is_paused() {
            // Events that were deferred arrived later.
            self.machine(who).defer_first(responses.into_iter());
        } else {
            responses.into_iter().for_each(|event| self.kernel.after(0, event));
        }
    }

    fn crash_broker(&mut self, how: Crash, down: Time) {
        if self.broker.server() == Server::Down {
            return;
        }
        for who in self.everyone() {
            let noticed_after = self.kernel.rng().span(MILLISECOND / 10, 2 * SECOND);
            self.tear(who, noticed_after);
        }
        self.broker.end();
        drop(self.network.take_orphans());
        self.undo_after(down, Undo::StartBroker(how));
    }

    fn start_broker(&mut self, how: Crash) {
        if self.broker.server() == Server::Down {
            let gone = self.broker.start(&mut self.kernel, how);
            self.oracle.on_messages_lost(gone);
        }
    }

    /// The broker reads what it was sent while it was stopped, on broken connections too.
    fn resume_broker(&mut self) {
        self.broker.resume();
        for request in self.network.take_orphans() {
            self.kernel.reach("message read from a dead connection");
            self.serve(None, request);
        }
        for who in self.everyone() {
            self.unpark(who);
            self.watch(who);
        }
    }

    fn end_process(&mut self, who: Who, end: End, down: Time) {
        if !self.machine(who).is_alive() {
            return;
        }
        match (who, end) {
            (Who::Node(number), End::Terminated) => self.terminate_node(number, down),
            (Who::Aggregator(which), End::Terminated) => {
                self.at_reader(which, |reader, rooms| reader.terminate(rooms, down));
            }
            (Who::Node(number), End::Killed | End::PowerCut) => {
                self.at_node(number, |node, rooms| node.end(rooms, end));
                self.undo_after(down, Undo::Start(who));
            }
            (Who::Aggregator(which), End::Killed | End::PowerCut) => {
                self.at_reader(which, LaneReader::end);
                self.undo_after(down, Undo::Start(who));
            }
        }
    }

    pub(super) fn terminate_node(&mut self, number: usize, down: Time) {
        self.at_node(number, |node, rooms| node.terminate(rooms, down));
    }

    fn resume(&mut self, who: Who) {
        for event in self.machine(who).resume() {
            self.kernel.after(0, event);
        }
    }

    /// All faults end; what is down starts.
    pub(super) fn heal(&mut self) {
        self.kernel.heal(nanos(CHECKPOINT_EVERY));
        self.broker.set_full(false);
        self.broker.lose_acks(0);
        self.broker.delay_confirmations(0);
        self.start_broker(Crash::Kill);

        for who in self.everyone() {
            self.network.set_slowness(who, 0);
            self.machine(who).set_disk_full(false);
            self.unblock(who);
            self.resume(who);
        }

        if self.broker.server() == Server::Stalled {
            self.resume_broker();
        }
        self.nodes.iter_mut().for_each(|node| node.set_jammed(false));

        for who in self.everyone() {
            if !self.machine(who).is_alive() {
                self.begin(who);
            }
        }
    }
}

fn connected() -> BusEvent {
    BusEvent::Connected {
        delivery: Delivery::JetStream,
        server_version: String::new(),
        payload_bytes_max: 0,
    }
}
