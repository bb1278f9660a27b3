//! The circuit breaker: after consecutive failures of the broker, sending stops for a while.
//!
//! Only what the broker did counts: acknowledgements, missing acknowledgements and rejections.
//! What the node does itself (drop, coalesce, rate limit) and a lost connection never count as a
//! failure.
//!
//! A new connection ends the wait but does not close the breaker: it proves that the broker is
//! reachable, not that it stores messages (a full stream rejects them on every connection). So
//! one probe is sent first, which costs a healthy broker one round trip and spares an unhealthy
//! one the whole backlog at every reconnect.
//!
//! DESIGN N11.

use plimsoll_schemas::time::Mono;
use plimsoll_schemas::transport::Ticket;
use plimsoll_schemas::wire::BreakerState;

#[derive(Clone, Copy, Debug)]
enum State {
    Closed { failures: u32 },
    HalfOpen { probe: Option<Ticket> },
    Open { until: Mono },
}

#[derive(Clone, Debug)]
pub(super) struct Breaker {
    failures_max: u32,
    state: State,
}

impl Breaker {
    /// A closed breaker that opens after `failures_max` failures in a row.
    pub(super) fn new(failures_max: u32) -> Self {
        Self { failures_max, state: State::Closed { failures: 0 } }
    }

    /// Whether a message may be sent.
    pub(super) fn allows_sending(&self) -> bool {
        matches!(self.state, State::Closed { .. } | State::HalfOpen { probe: None })
    }

    /// A message was sent; half-open, it is the probe.
    pub(super) fn on_sent(&mut self, ticket: Ticket) {
        if let State::HalfOpen { probe: probe @ None } = &mut self.state {
            *probe = Some(ticket);
        }
    }

    /// The broker acknowledged a message. Half-open, only the probe counts: an older message may
    /// have been stored before the failures started.
    pub(super) fn on_success(&mut self, ticket: Ticket) {
        match self.state {
            State::Closed { .. } => self.state = State::Closed { failures: 0 },
            State::HalfOpen { probe } if probe == Some(ticket) => {
                self.state = State::Closed { failures: 0 };
            }
            State::HalfOpen { .. } | State::Open { .. } => {}
        }
    }

    /// The broker did not acknowledge a message in time, or declined it. If that opens the breaker,
    /// it stays open until then.
    pub(super) fn on_failure(&mut self, ticket: Ticket, until: Mono) {
        let open = State::Open { until };
        match &mut self.state {
            State::Closed { failures } if *failures + 1 < self.failures_max => *failures += 1,
            State::Closed { .. } => self.state = open,
            State::HalfOpen { probe } if *probe == Some(ticket) => self.state = open,
            State::HalfOpen { .. } | State::Open { .. } => {}
        }
    }

    /// A sent message came back without an answer of the broker: another one may be the probe.
    pub(super) fn on_released(&mut self, ticket: Ticket) {
        if let State::HalfOpen { probe } = &mut self.state {
            probe.take_if(|probe| *probe == ticket);
        }
    }

    /// There is a new connection, or a stalled broker answers again.
    pub(super) fn on_connected(&mut self) {
        if !matches!(self.state, State::Closed { .. }) {
            self.state = State::HalfOpen { probe: None };
        }
    }

    pub(super) fn on_deadline(&mut self, now: Mono) {
        if self.next_deadline().is_some_and(|until| now >= until) {
            self.state = State::HalfOpen { probe: None };
        }
    }

    /// When an open breaker allows a probe.
    pub(super) fn next_deadline(&self) -> Option<Mono> {
        match self.state {
            State::Open { until } => Some(until),
            State::Closed { .. } | State::HalfOpen { .. } => None,
        }
    }

    pub(super) fn state(&self) -> BreakerState {
        match self.state {
            State::Closed { .. } => BreakerState::Closed,
            State::HalfOpen { .. } => BreakerState::HalfOpen,
            State::Open { .. } => BreakerState::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const OPEN_FOR: Duration = Duration::from_secs(30);

    #[derive(Clone, Copy, Debug)]
    enum Event {
        Sent(u64),
        Success(u64),
        Failure(u64),
        Released(u64),
        Connected,
        Pass(u64),
    }
    use Event::*;

    fn after(events: &[Event]) -> Breaker {
        let (mut breaker, mut now) = (Breaker::new(3), Mono(0));
        events.iter().for_each(|event| apply(&mut breaker, &mut now, *event));
        breaker
    }

    fn apply(breaker: &mut Breaker, now: &mut Mono, event: Event) {
        match event {
            Sent(seq) if breaker.allows_sending() => breaker.on_sent(Ticket(seq)),
            Sent(_) => {}
            Success(seq) => breaker.on_success(Ticket(seq)),
            Failure(seq) => breaker.on_failure(Ticket(seq), now.plus(OPEN_FOR)),
            Released(seq) => breaker.on_released(Ticket(seq)),
            Connected => breaker.on_connected(),
            Pass(seconds) => {
                *now = now.plus(Duration::from_secs(seconds));
                breaker.on_deadline(*now);
            }
        }
    }

    #[test]
    fn every_row_of_the_table_holds() {
        let open = [Failure(1), Failure(2), Failure(3)];
        let half = [&open[..], &[Pass(30)]].concat();
        let probing = [&half[..], &[Sent(9)]].concat();
        let then = |before: &[Event], more: &[Event]| [before, more].concat();
        for (events, state, allows_sending) in [
            (vec![], 0, true),
            (vec![Failure(1), Failure(2)], 0, true),
            (vec![Failure(1), Failure(2), Success(4), Failure(3), Failure(5)], 0, true),
            (open.to_vec(), 2, false),
            (then(&open, &[Pass(29)]), 2, false),
            (then(&open, &[Success(1), Failure(4)]), 2, false),
            (half.clone(), 1, true),
            (probing.clone(), 1, false),
            (then(&probing, &[Sent(10), Success(10), Success(1), Failure(2)]), 1, false),
            (then(&probing, &[Success(9)]), 0, true),
            (then(&probing, &[Success(9), Failure(1), Failure(2)]), 0, true),
            (then(&probing, &[Failure(9)]), 2, false),
            (then(&probing, &[Failure(9), Pass(29)]), 2, false),
            (then(&probing, &[Failure(9), Pass(30)]), 1, true),
            (then(&probing, &[Released(8)]), 1, false),
            (then(&probing, &[Released(9)]), 1, true),
            (then(&open, &[Connected]), 1, true),
            (then(&probing, &[Connected]), 1, true),
            (vec![Failure(1), Failure(2), Connected, Failure(3)], 2, false),
        ] {
            let breaker = after(&events);
            let found = (breaker.state().as_number(), breaker.allows_sending());
            assert_eq!(found, (state, allows_sending), "{events:?}");
        }
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            1 => (1..6_u64).prop_map(Sent),
            1 => (1..6_u64).prop_map(Success),
            2 => (1..6_u64).prop_map(Failure),
            1 => (1..6_u64).prop_map(Released),
            1 => Just(Connected),
            1 => (0..40_u64).prop_map(Pass),
        ];
        prop::collection::vec(event, 0..60)
    }

    proptest! {
        #[test]
        fn an_open_breaker_always_tries_again_and_a_probe_that_arrives_closes_it(
            events in events(),
        ) {
            let mut breaker = after(&events);
            breaker.on_deadline(Mono(u64::MAX));
            prop_assert_ne!(breaker.state(), BreakerState::Open);
            breaker.on_connected();
            prop_assert!(breaker.allows_sending());
            breaker.on_sent(Ticket(77));
            breaker.on_success(Ticket(77));
            prop_assert_eq!(breaker.state(), BreakerState::Closed);
        }

        #[test]
        fn half_open_allows_exactly_one_message(seqs in prop::collection::vec(1..9_u64, 1..9)) {
            let mut breaker = after(&[Failure(1), Failure(1), Failure(1), Connected]);
            let passed = seqs.iter().filter(|seq| {
                let passes = breaker.allows_sending();
                breaker.on_sent(Ticket(**seq));
                passes
            });
            prop_assert_eq!(passed.count(), 1);
        }
    }
}
