//! Events from a message to the page, and through the view to Prometheus.

use crate::limits::{NODE_SILENT_AFTER, SERVICE_CHECKS_MAX};
use plimsoll_schemas::ids::{Labels, NodeName};
use plimsoll_schemas::time::{Now, Wall};
use plimsoll_schemas::wire::{AlertType, Body, Bus, Event, EventSource, Events};
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// An event that happened at `at`.
pub(crate) fn event(title: &str, at: u64) -> Event {
    Event {
        source: EventSource::Event,
        title: title.to_owned(),
        text: "a\n\"text\"".to_owned(),
        alert_type: AlertType::Info,
        low_priority: false,
        at: Wall(at),
        host: "h".to_owned(),
        aggregation_key: String::new(),
        labels: Labels::new([("job", "train")]).unwrap(),
    }
}

/// A service check without tags.
pub(crate) fn check(name: &str, alert_type: AlertType) -> Event {
    let (host, labels) = (String::new(), Labels::default());
    Event { source: EventSource::ServiceCheck, alert_type, host, labels, ..event(name, 1) }
}

fn body(events: &[Event]) -> Body {
    Body::Event(Events { events: events.to_vec() })
}

fn send(core: &mut Core, now: Now, speaker: &mut Speaker, events: &[Event]) {
    deliver(core, now, &speaker.message(now, body(events), false));
}

fn titles(core: &Core, wanted: &EventsQuery) -> Vec<String> {
    let page = core.events(start().wall, wanted);
    page.events.into_iter().map(|row| row.title).collect()
}

fn rows(core: &Core, now: Now, family: &str) -> Vec<String> {
    let text = crate::exposition::fleet(&core.view(now.wall, "t"), &[]);
    text.lines().filter(|line| line.starts_with(family)).map(str::to_owned).collect()
}

#[test]
fn the_newest_events_of_all_nodes_are_listed_in_full_newest_first() {
    let (mut core, mut a, mut b) = (core(), Speaker::new("a"), Speaker::new("b"));
    send(&mut core, start(), &mut a, &[event("one", 5), event("two", 4)]);
    send(&mut core, start().after(SECOND), &mut b, &[check("three", AlertType::Error)]);
    assert_eq!(titles(&core, &EventsQuery::default()), ["three", "two", "one"]);
    let page = core.events(start().wall, &EventsQuery::default());
    let sent = serde_json::to_value(&page.events[1]).unwrap();
    let stated = serde_json::json!({
        "node": "a", "merged_at_seconds": 1_700_000_000.0, "at_seconds": 4e-9,
        "source": "event", "title": "two", "text": "a\n\"text\"", "alert_type": "info",
        "low_priority": false, "host": "h", "aggregation_key": "", "labels": {"job": "train"},
    });
    assert_eq!(sent, stated);
    assert_eq!(page.events[0].merged_at_seconds, 1_700_000_001.0);
    assert!(page.ready && page.mesh == "m");
}

#[test]
fn only_what_matches_is_returned() {
    let (mut core, mut a, mut b) = (core(), Speaker::new("a"), Speaker::new("b"));
    send(&mut core, start(), &mut a, &[event("e", 1), check("ok", AlertType::Success)]);
    send(&mut core, start(), &mut b, &[check("bad", AlertType::Error), event("f", 1)]);
    let sent = |wanted: EventsQuery| titles(&core, &wanted);
    let node = Some(NodeName::new("a").unwrap());
    assert_eq!(sent(EventsQuery { node, ..EventsQuery::default() }), ["ok", "e"]);
    assert_eq!(sent(EventsQuery { limit: 2, ..EventsQuery::default() }), ["f", "bad"]);
    let source = Some(EventSource::ServiceCheck);
    assert_eq!(sent(EventsQuery { source, ..EventsQuery::default() }), ["bad", "ok"]);
    let alert_type = Some(AlertType::Success);
    assert_eq!(
        sent(EventsQuery { source, alert_type, limit: 1, ..EventsQuery::default() }),
        ["ok"]
    );
    let absent = Some(NodeName::new("c").unwrap());
    assert_eq!(sent(EventsQuery { node: absent, ..EventsQuery::default() }), [""; 0]);
}

#[test]
fn events_are_kept_up_to_the_bound_and_counted_beyond_it() {
    let (mut core, mut a) = (core(), Speaker::new("a"));
    for message in 0..5 {
        let events: Vec<Event> = (0..100).map(|n| event(&format!("{message}-{n}"), 1)).collect();
        send(&mut core, start(), &mut a, &events);
    }
    let sent = titles(&core, &EventsQuery::default());
    assert_eq!((sent.len(), sent[0].as_str(), sent[255].as_str()), (256, "4-99", "2-44"));
    let counted = rows(&core, start(), "plimsoll_node_events_total");
    assert_eq!(
        counted,
        [r#"plimsoll_node_events_total{node="a",source="event",alert_type="info"} 500"#]
    );
}

#[test]
fn events_of_one_node_push_out_no_others() {
    let (mut core, mut quiet, mut loud) = (core(), Speaker::new("quiet"), Speaker::new("loud"));
    let events = |name: &str, n: usize| -> Vec<Event> {
        (0..n).map(|n| event(&format!("{name}{n}"), 1)).collect()
    };
    send(&mut core, start(), &mut quiet, &events("q", 3));
    for _ in 0..9 {
        send(&mut core, start(), &mut loud, &events("l", 100));
    }
    let listed = |core: &Core, node: &str| {
        let node = Some(NodeName::new(node).unwrap());
        titles(core, &EventsQuery { node, ..EventsQuery::default() })
    };
    assert_eq!(listed(&core, "quiet"), ["q2", "q1", "q0"]);
    let of_loud = listed(&core, "loud");
    assert_eq!((of_loud.len(), &*of_loud[0], &*of_loud[252]), (253, "l99", "l47"));
    for _ in 0..2 {
        send(&mut core, start(), &mut quiet, &events("r", 100));
    }
    assert_eq!((listed(&core, "quiet").len(), listed(&core, "loud").len()), (128, 128));
}

#[test]
fn a_check_shows_its_latest_status_until_its_node_is_silent_and_its_counts_stay() {
    let (mut core, mut a) = (core(), Speaker::new("a"));
    let checks = [check("db", AlertType::Error), check("net \"x\"\n", AlertType::Info)];
    send(&mut core, start(), &mut a, &checks);
    send(&mut core, start(), &mut a, &[check("db", AlertType::Warning)]);
    let status = "plimsoll_service_check_status";
    assert_eq!(
        rows(&core, start(), status),
        [
            format!(r#"{status}{{node="a",check="db",status="ok"}} 0"#),
            format!(r#"{status}{{node="a",check="db",status="warning"}} 1"#),
            format!(r#"{status}{{node="a",check="db",status="critical"}} 0"#),
            format!(r#"{status}{{node="a",check="db",status="unknown"}} 0"#),
            format!(r#"{status}{{node="a",check="net \"x\"\n",status="ok"}} 0"#),
            format!(r#"{status}{{node="a",check="net \"x\"\n",status="warning"}} 0"#),
            format!(r#"{status}{{node="a",check="net \"x\"\n",status="critical"}} 0"#),
            format!(r#"{status}{{node="a",check="net \"x\"\n",status="unknown"}} 1"#),
        ]
    );
    let silent = start().after(NODE_SILENT_AFTER);
    assert_eq!(rows(&core, silent, status), [""; 0]);
    assert_eq!(rows(&core, silent, "plimsoll_node_events_total").len(), 3);
}

#[test]
fn checks_of_one_name_are_kept_apart_by_tags_and_host() {
    let (mut core, mut a) = (core(), Speaker::new("a"));
    let of = |instance: &str, status| Event {
        labels: Labels::new([("instance", instance)]).unwrap(),
        ..check("db", status)
    };
    let of_host = Event { host: "h1".to_owned(), ..check("db", AlertType::Info) };
    let all = [of("1", AlertType::Error), of("2", AlertType::Success), of_host];
    send(&mut core, start(), &mut a, &all);
    let status = "plimsoll_service_check_status";
    let shown = rows(&core, start(), status);
    let shown: Vec<&str> = shown.iter().filter_map(|row| row.strip_suffix(" 1")).collect();
    let row = |tags: &str, is: &str| {
        format!(r#"{status}{{node="a",check="db",tags="{tags}",status="{is}"}}"#)
    };
    let expected =
        [row("host:h1", "unknown"), row("instance:1", "critical"), row("instance:2", "ok")];
    assert_eq!(shown, expected);
}

#[test]
fn a_flood_of_checks_finds_no_room_and_that_is_counted() {
    let (mut core, mut a) = (core(), Speaker::new("a"));
    let name = |n| format!("c{n}");
    let flood: Vec<Event> =
        (0..SERVICE_CHECKS_MAX + 3).map(|n| check(&name(n), AlertType::Success)).collect();
    send(&mut core, start(), &mut a, &flood);
    let statuses = rows(&core, start(), "plimsoll_service_check_status");
    assert_eq!(statuses.len(), 4 * SERVICE_CHECKS_MAX);
    assert_eq!(core.view(start().wall, "t").own.merged.limited["service_check"], 3);
}

#[test]
fn a_breaker_has_one_series_per_state_and_an_unknown_state_is_none_of_them() {
    let (mut core, mut a) = (core(), Speaker::new("a"));
    let family = "plimsoll_node_breaker_state";
    assert_eq!(rows(&core, start(), family), [""; 0]);
    for (state, values) in [(0, [1, 0, 0]), (1, [0, 1, 0]), (2, [0, 0, 1]), (9, [0, 0, 0])] {
        let bus = Bus { breaker_state: Some(state), ..Bus::default() };
        deliver(&mut core, start(), &a.message(start(), Body::Bus(bus), false));
        let wanted = ["closed", "half_open", "open"];
        let row = |(name, n)| format!(r#"{family}{{node="a",state="{name}"}} {n}"#);
        let wanted: Vec<String> = wanted.into_iter().zip(values).map(row).collect();
        assert_eq!(rows(&core, start(), family), wanted);
    }
}

#[test]
fn what_a_kernel_dropped_before_a_node_is_shown() {
    let (mut core, mut a) = (core(), Speaker::new("a"));
    let bus = Bus { kernel_dropped: 42, ..Bus::default() };
    deliver(&mut core, start(), &a.message(start(), Body::Bus(bus), false));
    let family = "plimsoll_node_kernel_dropped_datagrams_total";
    assert_eq!(rows(&core, start(), family), [format!(r#"{family}{{node="a"}} 42"#)]);
}

proptest! {
    /// Invariant 2, of events: repetitions change neither the page nor the counts.
    #[test]
    fn events_are_merged_at_most_once_in_whatever_order_they_come(
        sizes in prop::collection::vec((0..3_usize, 0..5_usize), 1..30),
        order in prop::collection::vec(any::<Index>(), 0..60),
    ) {
        let mut speakers = ["a", "b", "c"].map(Speaker::new);
        let mut got = 0;
        let messages: Vec<_> = sizes.iter().map(|(node, n)| {
            let events: Vec<Event> = (got..got + n).map(|n| event(&n.to_string(), 1)).collect();
            got += n;
            speakers[*node].message(start(), body(&events), false)
        }).collect();
        let mut core = core();
        order.iter().for_each(|index| deliver(&mut core, start(), index.get(&messages)));
        messages.iter().for_each(|message| deliver(&mut core, start(), message));
        let mut sent: Vec<usize> =
            titles(&core, &EventsQuery::default())
                .iter()
                .map(|title| title.parse().unwrap())
                .collect();
        sent.sort_unstable();
        prop_assert_eq!(sent, (0..got).collect::<Vec<_>>());
        let counts = core.view(start().wall, "t").nodes;
        let counted = counts.iter().flat_map(|node| node.node.events.values()).sum::<u64>();
        prop_assert_eq!(counted, got as u64);
    }
}
