//! Drafts of events. Two of them become one that holds the newest of both, as many as fit into
//! one message; whoever joins them counts the others.

use crate::limits::COALESCED_BYTES_MAX;
use plimsoll_schemas::limits::wire::{EVENTS_MAX, INTERVAL_NS_MAX};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::{Body, Event};

use super::{Draft, SERIES_BYTES, Size, label_bytes};

impl Draft {
    /// Events and service checks that it carries.
    #[must_use]
    pub fn events(&self) -> u64 {
        match &self.body {
            Body::Event(events) => events.events.len() as u64,
            Body::Latency(_) | Body::Hardware(_) | Body::Bus(_) => 0,
        }
    }

    /// Puts the events of a draft that came before it to its own; tells how many of the oldest
    /// were given up.
    pub fn take_in_older_events(&mut self, older: Self) -> u64 {
        let (start, length_ns) = older.span(self);
        let (Body::Event(mut both), Body::Event(ours)) = (older.body, &mut self.body) else {
            return 0;
        };
        both.events.append(&mut ours.events);
        *ours = both;
        // Of a longer time no reader would believe that it is one interval; an event says itself
        // when it happened.
        self.length_ns = length_ns.min(INTERVAL_NS_MAX);
        self.start = Wall(start.0 + (length_ns - self.length_ns));
        self.enqueued = self.enqueued.min(older.enqueued);
        self.keep_newest_events()
    }

    /// Gives up the oldest events until one message holds the rest; tells how many.
    pub fn keep_newest_events(&mut self) -> u64 {
        let Body::Event(body) = &mut self.body else { return 0 };
        let mut room = COALESCED_BYTES_MAX;
        let newest = body.events.iter().rev().take(EVENTS_MAX);
        let kept = newest.map_while(|event| {
            room = room.checked_sub(bytes(event))?;
            Some(())
        });
        let given_up = body.events.len() - kept.count();
        body.events.drain(..given_up);
        self.size = Size::of(&self.body);
        given_up as u64
    }
}

/// An upper bound of the bytes of one event.
pub(super) fn bytes(event: &Event) -> usize {
    let labels: usize = event.labels.iter().map(label_bytes).sum();
    let texts = [&event.title, &event.text, &event.host, &event.aggregation_key];
    labels + texts.into_iter().map(String::len).sum::<usize>() + SERIES_BYTES
}

#[cfg(test)]
pub(crate) mod tests {
    use plimsoll_schemas::ids::{Incarnation, Labels, MeshName, NodeName, Seq};
    use plimsoll_schemas::limits::wire::{EVENT_TEXT_BYTES_MAX, EVENT_TITLE_BYTES_MAX, LABELS_MAX};
    use plimsoll_schemas::subject::{Kind, Lane, SnapshotSubject};
    use plimsoll_schemas::time::Mono;
    use plimsoll_schemas::wire::{
        AlertType, EventSource, Events, Header, Snapshot, Totals, decode, encode,
    };
    use proptest::prelude::*;

    use super::*;

    /// An event whose text tells which one it is.
    pub(crate) fn event(n: u64) -> Event {
        Event {
            source: EventSource::Event,
            title: format!("e{n}"),
            text: String::new(),
            alert_type: AlertType::Info,
            low_priority: false,
            at: Wall(n),
            host: String::new(),
            aggregation_key: String::new(),
            labels: Labels::default(),
        }
    }

    /// A draft of the events with these numbers.
    pub(crate) fn draft(numbers: std::ops::Range<u64>) -> Draft {
        let start = numbers.start;
        let events = numbers.map(event).collect();
        Draft::new(Body::Event(Events { events }), Wall(1_000 + start), 10, Mono(start))
    }

    /// The numbers of a body's events.
    pub(crate) fn numbers(body: &Body) -> Vec<u64> {
        let Body::Event(events) = body else { panic!("{body:?}") };
        events.events.iter().map(|event| event.at.0).collect()
    }

    /// As large as an event may be.
    fn largest(n: u64) -> Event {
        let name = "n".repeat(EVENT_TITLE_BYTES_MAX);
        let label = |n: usize| (format!("{n:0>64}"), "v".repeat(128));
        Event {
            source: EventSource::ServiceCheck,
            title: name.clone(),
            text: "t".repeat(EVENT_TEXT_BYTES_MAX),
            alert_type: AlertType::Warning,
            low_priority: true,
            at: Wall(u64::MAX / 2 - 1 - n),
            host: name.clone(),
            aggregation_key: name,
            labels: Labels::new((0..LABELS_MAX).map(label)).unwrap(),
        }
    }

    fn sent(draft: Draft) -> Vec<u8> {
        let header = Header {
            node: NodeName::new("n").unwrap(),
            incarnation: Incarnation(1),
            seq: Seq(1),
            start: draft.start,
            length_ns: draft.length_ns,
            totals: Totals::default(),
            last: false,
            heir: None,
            labels: Labels::default(),
        };
        encode(&Snapshot { header, body: draft.body })
    }

    fn is_readable(bytes: &[u8]) -> bool {
        let (mesh, node) = (MeshName::new("m").unwrap(), NodeName::new("n").unwrap());
        decode(&SnapshotSubject { mesh, lane: Lane::Normal, node, kind: Kind::Event }, bytes)
            .is_ok()
    }

    #[test]
    fn joined_events_stand_in_their_order_and_the_span_covers_both() {
        let mut newer = draft(5..7);
        assert_eq!(newer.take_in_older_events(draft(1..4)), 0);
        assert_eq!(numbers(&newer.body), [1, 2, 3, 5, 6]);
        assert_eq!((newer.start, newer.length_ns), (Wall(1_001), 14));
        assert_eq!((newer.enqueued, newer.latest, newer.events()), (Mono(1), Mono(5), 5));
    }

    #[test]
    fn of_too_many_events_the_newest_are_kept_and_the_others_counted() {
        let max = EVENTS_MAX as u64;
        let mut newer = draft(100..100 + max);
        assert_eq!(newer.take_in_older_events(draft(0..100)), 100);
        assert_eq!(numbers(&newer.body), (100..100 + max).collect::<Vec<_>>());
        assert_eq!(draft(0..max + 3).keep_newest_events(), 3);
        assert_eq!(draft(0..max).keep_newest_events(), 0);
    }

    #[test]
    fn events_more_than_a_day_apart_still_make_a_message_that_is_read() {
        let mut newer = draft(5..6);
        newer.start = Wall(3 * INTERVAL_NS_MAX);
        assert_eq!(newer.take_in_older_events(draft(1..2)), 0);
        assert_eq!(
            (newer.start, newer.length_ns),
            (Wall(2 * INTERVAL_NS_MAX + 10), INTERVAL_NS_MAX)
        );
        assert!(is_readable(&sent(newer)));
    }

    proptest! {
        #[test]
        fn what_is_kept_fits_into_one_message_and_takes_no_more_than_is_said(
            sizes in prop::collection::vec(any::<bool>(), 0..400),
        ) {
            let of_size = |(n, is_large)| if is_large { largest(n) } else { event(n) };
            let events: Vec<Event> = (0..).zip(sizes).map(of_size).collect();
            let body = Body::Event(Events { events: events.clone() });
            let mut draft = Draft::new(body, Wall(1), 1, Mono(1));
            let given_up = usize::try_from(draft.keep_newest_events()).unwrap();
            let Body::Event(kept) = &draft.body else { unreachable!() };
            prop_assert_eq!(&kept.events[..], &events[given_up..]);
            let all = events[given_up.saturating_sub(1)..].iter().map(bytes).sum::<usize>();
            let more_fits = events.len() - given_up < EVENTS_MAX && all <= COALESCED_BYTES_MAX;
            prop_assert!(given_up == 0 || !more_fits, "{} given up", given_up);
            let bound = draft.bytes();
            let bytes = sent(draft);
            prop_assert!(bytes.len() <= bound, "{} of {bound} bytes", bytes.len());
            prop_assert!(is_readable(&bytes));
        }
    }
}
