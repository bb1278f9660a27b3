//! All messages that are sealed and not acknowledged, each in one state of the table in
//! `outgoing.rs`.
//!
//! Owns the messages, their sums, and an index of their states, which follows each change of a
//! state in [`Index::advance`]. So the next message, the next deadline and the bytes on the way are
//! found without a scan of all messages; there may be thousands while the broker is away.
//!
//! Refuses to decide when a message may be sent.
//!
//! DESIGN N12.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Mono;
use plimsoll_schemas::transport::{Publish, Ticket};
use plimsoll_schemas::wire::confirmation::Confirmation;

use super::amount::Amount;
use super::outgoing::{Event, OutgoingMessage, State};
use super::sealed::SealedMessage;
use super::window::Departure;

#[derive(Debug, Default)]
pub(super) struct InFlight {
    messages: BTreeMap<Ticket, OutgoingMessage>,
    index: Index,
    next_ticket: u64,
    amount: Amount,
    /// Of it, what former incarnations sealed.
    adopted: Amount,
}

/// A message in a set: when its state ends by itself, if it does, and its ticket.
type Entry = (Mono, Ticket);

/// The tickets of the messages by state, and sums of those that are on the way.
#[derive(Debug, Default, PartialEq, Eq)]
struct Index {
    unspooled: BTreeSet<Entry>,
    spooling: BTreeSet<Entry>,
    in_flight: BTreeSet<Entry>,
    resting: BTreeSet<Entry>,
    normal: LaneIndex,
    emergency: LaneIndex,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct LaneIndex {
    ready: BTreeSet<Entry>,
    waiting: BTreeSet<Entry>,
    /// Messages that are in flight or about to be, and their bytes.
    messages_on_the_way: usize,
    bytes_on_the_way: usize,
}

impl InFlight {
    pub(super) fn amount(&self) -> Amount {
        self.amount
    }

    /// Without what former incarnations sealed.
    pub(super) fn own_amount(&self) -> Amount {
        self.amount - self.adopted
    }

    pub(super) fn oldest(&self) -> Option<Mono> {
        self.messages.values().next().map(|sent| sent.enqueued)
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&OutgoingMessage> {
        self.messages.get(&ticket)
    }

    pub(super) fn bytes_of(&self, ticket: Ticket) -> usize {
        self.get(ticket).map_or(0, |sent| sent.message.payload.len())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Ticket, &OutgoingMessage)> {
        self.messages.iter().map(|(ticket, sent)| (*ticket, sent))
    }

    /// Bytes of the normal lane that are on their way or about to be. The emergency lane has a rate
    /// limit instead of a window.
    pub(super) fn window_bytes(&self) -> usize {
        self.index.normal.bytes_on_the_way
    }

    /// The same for both lanes.
    pub(super) fn bytes_on_the_way(&self) -> usize {
        self.index.normal.bytes_on_the_way + self.index.emergency.bytes_on_the_way
    }

    /// Messages sent and not yet answered: what the broker has to do.
    pub(super) fn unanswered(&self) -> usize {
        self.index.in_flight.len()
    }

    /// Messages sent and not yet answered, or sealed and not yet sent: no more is sealed than may
    /// be sent soon, since a sealed message is merged with none that comes later.
    pub(super) fn unanswered_or_unsent(&self) -> usize {
        self.index.normal.messages_on_the_way + self.index.emergency.messages_on_the_way
    }

    /// The oldest message of a lane that waits for a retry.
    pub(super) fn waiting(&self, lane: Lane) -> Option<Ticket> {
        first(&self.index.lane(lane).waiting)
    }

    /// The oldest message that may be sent for the first time, those of the emergency lane first.
    pub(super) fn ready(&self) -> Option<Ticket> {
        first(&self.index.emergency.ready).or_else(|| first(&self.index.normal.ready))
    }

    pub(super) fn add_sealed(&mut self, message: SealedMessage, enqueued: Mono, spooled: bool) {
        self.add(OutgoingMessage::sealed(message, enqueued, spooled));
    }

    pub(super) fn adopt(&mut self, message: SealedMessage, now: Mono) {
        self.add(OutgoingMessage::adopted(message, now));
    }

    fn add(&mut self, sent: OutgoingMessage) {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        let amount = Amount::of_sealed(&sent.message);
        self.amount = self.amount + amount;
        if sent.adopted {
            self.adopted = self.adopted + amount;
        }

        self.index.insert(ticket, &sent);
        self.messages.insert(ticket, sent);
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<OutgoingMessage> {
        let sent = self.messages.remove(&ticket)?;
        self.index.remove(ticket, &sent);

        let amount = Amount::of_sealed(&sent.message);
        self.amount = self.amount - amount;
        if sent.adopted {
            self.adopted = self.adopted - amount;
        }
        Some(sent)
    }

    /// Something happened to a message; false if its state stays, or if it is not here.
    pub(super) fn on(&mut self, ticket: Ticket, event: Event) -> bool {
        let sent = self.messages.get_mut(&ticket);
        sent.is_some_and(|sent| self.index.advance(ticket, sent, event))
    }

    /// Sends a message that is ready or waits for a retry; `wait` is that of a first attempt.
    pub(super) fn send(
        &mut self,
        departure: Departure,
        ticket: Ticket,
        wait: Duration,
    ) -> Option<(&OutgoingMessage, Publish)> {
        if !self.on(ticket, Event::Sent { departure, wait }) {
            return None;
        }
        let sent = self.messages.get(&ticket)?;
        Some((sent, sent.publish(ticket)))
    }

    pub(super) fn on_spooling(&mut self) {
        while let Some((_, ticket)) = self.index.unspooled.pop_first() {
            self.on(ticket, Event::SpoolingStarted);
        }
    }

    pub(super) fn on_spooled(&mut self) {
        while let Some((_, ticket)) = self.index.spooling.pop_first() {
            self.on(ticket, Event::Spooled);
        }
    }

    pub(super) fn on_spool_failed(&mut self) {
        while let Some((_, ticket)) =
            self.index.spooling.pop_first().or_else(|| self.index.unspooled.pop_first())
        {
            self.on(ticket, Event::SpoolFailed);
        }
    }

    /// No answer to what was sent on an earlier connection will arrive: everything in flight or
    /// resting waits for a retry.
    pub(super) fn on_connected(&mut self) {
        for (ticket, sent) in &mut self.messages {
            self.index.advance(*ticket, sent, Event::Connected);
        }
    }

    /// Messages whose acknowledgement is overdue, the oldest first.
    pub(super) fn overdue(&self, now: Mono) -> Vec<Ticket> {
        // The set is in the order of deadlines; messages go again in the order of seals.
        let mut overdue = until(&self.index.in_flight, now);
        overdue.sort_unstable();
        overdue
    }

    /// Ends the rest of messages whose time is over.
    pub(super) fn end_rests(&mut self, now: Mono) {
        for ticket in until(&self.index.resting, now) {
            self.on(ticket, Event::RestEnded);
        }
    }

    /// When the next acknowledgement is overdue or the next rest ends.
    pub(super) fn next_deadline(&self) -> Option<Mono> {
        let next = [self.index.in_flight.first(), self.index.resting.first()];
        next.into_iter().flatten().map(|(at, _)| *at).min()
    }

    /// Messages that an aggregator has stored although their acknowledgement is missing.
    pub(super) fn covered_by(&self, confirmation: &Confirmation) -> Vec<Ticket> {
        let stored = |message: &SealedMessage| {
            let mut incarnations = confirmation.incarnations.iter();
            incarnations.any(|confirmed| {
                confirmed.incarnation == message.incarnation && confirmed.covers(message.seq)
            })
        };
        let covered = self.messages.iter().filter(|(_, sent)| stored(&sent.message));
        covered.map(|(ticket, _)| *ticket).collect()
    }

    /// The message sent the longest ago among those of a subject that are in flight.
    pub(super) fn oldest_in_flight_of(&self, subject: &str) -> Option<Ticket> {
        // A broker handles the messages of a connection in order, so what it denies is what was
        // sent first (N47).
        let in_flight = self.index.in_flight.iter().filter_map(|(_, ticket)| {
            let sent = self.get(*ticket).filter(|sent| sent.message.subject == subject)?;
            Some((sent.departure()?.at, *ticket))
        });
        in_flight.min().map(|(_, ticket)| ticket)
    }
}

impl Index {
    /// Moves a message on, with its entry; false if its state stays.
    fn advance(&mut self, ticket: Ticket, sent: &mut OutgoingMessage, event: Event) -> bool {
        let Some(next) = sent.on(event) else { return false };
        self.remove(ticket, sent);
        sent.state = next;
        self.insert(ticket, sent);
        true
    }

    fn insert(&mut self, ticket: Ticket, sent: &OutgoingMessage) {
        if sent.state.is_on_the_way() {
            let lane = self.lane_mut(sent.message.lane);
            lane.messages_on_the_way += 1;
            lane.bytes_on_the_way += sent.message.payload.len();
        }
        if let Some((set, entry)) = self.place(ticket, sent) {
            set.insert(entry);
        }
    }

    fn remove(&mut self, ticket: Ticket, sent: &OutgoingMessage) {
        if sent.state.is_on_the_way() {
            let lane = self.lane_mut(sent.message.lane);
            lane.messages_on_the_way -= 1;
            lane.bytes_on_the_way -= sent.message.payload.len();
        }
        if let Some((set, entry)) = self.place(ticket, sent) {
            set.remove(&entry);
        }
    }

    /// The set for a message in its state, and its entry there.
    fn place(
        &mut self,
        ticket: Ticket,
        sent: &OutgoingMessage,
    ) -> Option<(&mut BTreeSet<Entry>, Entry)> {
        let lane = sent.message.lane;

        // No time ends the states at zero, which leaves their messages in the order of the seals.
        let (set, at) = match sent.state {
            State::Unspooled => (&mut self.unspooled, Mono(0)),
            State::Spooling => (&mut self.spooling, Mono(0)),
            State::Ready => (&mut self.lane_mut(lane).ready, Mono(0)),
            State::InFlight(attempt) => (&mut self.in_flight, attempt.overdue_at),
            State::Waiting => (&mut self.lane_mut(lane).waiting, Mono(0)),
            State::Resting { until } => (&mut self.resting, until),
            // Only the answer to its letter ends this.
            State::AwaitsLetter => return None,
        };
        Some((set, (at, ticket)))
    }

    fn lane(&self, lane: Lane) -> &LaneIndex {
        match lane {
            Lane::Normal => &self.normal,
            Lane::Emergency => &self.emergency,
        }
    }

    fn lane_mut(&mut self, lane: Lane) -> &mut LaneIndex {
        match lane {
            Lane::Normal => &mut self.normal,
            Lane::Emergency => &mut self.emergency,
        }
    }
}

fn first(set: &BTreeSet<Entry>) -> Option<Ticket> {
    set.first().map(|(_, ticket)| *ticket)
}

/// The tickets in a set whose time is over.
fn until(set: &BTreeSet<Entry>, now: Mono) -> Vec<Ticket> {
    set.range(..=(now, Ticket(u64::MAX))).map(|(_, ticket)| *ticket).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::outgoing::NoAnswer;
    use super::super::outgoing::tests::message;
    use super::super::window::SendWindow;
    use super::*;

    /// What may happen to a message at `now`, by number.
    fn event(number: u8, now: Mono) -> Event {
        let rests_until = now.plus(Duration::from_secs(5));
        match number {
            0 | 1 => {
                let departure = SendWindow::new().depart(now);
                Event::Sent { departure, wait: Duration::from_secs(3) }
            }
            2 => Event::NotHandedOver,
            3 => Event::Deferred,
            4 => Event::IdTaken,
            5 => Event::OverdueOffline,
            6 => Event::NoAnswer { cause: NoAnswer::Overdue, rests_until },
            7 => Event::Refused { at: now, every: Duration::ZERO, rests_until },
            8 => Event::LetterMade,
            _ => Event::LetterRefused { rests_until },
        }
    }

    proptest! {
        #[test]
        fn the_index_follows_every_change_of_state(
            steps in prop::collection::vec((0..18_u8, 1..20_u64), 0..300),
        ) {
            let (mut in_flight, mut now) = (InFlight::default(), Mono(0));
            for (step, number) in steps {
                let lane = if number.is_multiple_of(3) { Lane::Emergency } else { Lane::Normal };
                match step {
                    0..10 => {
                        in_flight.on(Ticket(number), event(step, now));
                    }
                    10 => in_flight.adopt(message(number, lane), now),
                    11 => in_flight.on_spooling(),
                    12 => in_flight.on_spooled(),
                    13 => in_flight.on_spool_failed(),
                    14 => in_flight.on_connected(),
                    15 => {
                        now = now.plus(Duration::from_secs(number / 4));
                        in_flight.end_rests(now);
                    }
                    16 => drop(in_flight.remove(Ticket(number))),
                    _ => in_flight.add_sealed(message(number, lane), now, number.is_multiple_of(2)),
                }

                let mut index = Index::default();
                in_flight.messages.iter().for_each(|(ticket, sent)| index.insert(*ticket, sent));
                prop_assert_eq!(&in_flight.index, &index, "after {} of {}", step, number);
            }
        }
    }
}
