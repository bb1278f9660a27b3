//! Events and service checks, well-formed and not.

use plimsoll_schemas::ids::{Incarnation, Labels, NodeName, Seq};
use plimsoll_schemas::limits::wire::MESSAGE_BYTES_MAX;
use plimsoll_schemas::wire::{Body, Header, Snapshot, Totals, encode};
use proptest::prelude::*;

use super::line::ParsedEvent;
use super::*;
use crate::core::intake::series::LabelRules;
use crate::limits::LINE_BYTES_MAX;
use plimsoll_schemas::limits::wire::EVENT_TEXT_BYTES_MAX;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::{AlertType, EventSource};

const NOW: Wall = Wall(9_000_000_000);

fn read(line: &str) -> Result<Event, Reject> {
    parse(NOW, line.as_bytes(), &LabelRules::default()).map(|parsed| parsed.event)
}

fn plain(source: EventSource, title: &str, text: &str) -> Event {
    Event {
        source,
        title: title.to_owned(),
        text: text.to_owned(),
        alert_type: AlertType::Info,
        low_priority: false,
        at: NOW,
        host: String::new(),
        aggregation_key: String::new(),
        labels: Labels::default(),
    }
}

#[test]
fn an_event_is_read_in_all_its_parts() {
    let line = "_e{5,12}:tit|e|one\\ntwo|2.|d:7|h:gpu7|k:deploy|p:low|s:ci|t:error|#a:1,b|c:x|e:y";
    let expected = Event {
        alert_type: AlertType::Error,
        low_priority: true,
        at: Wall(7_000_000_000),
        host: "gpu7".to_owned(),
        aggregation_key: "deploy".to_owned(),
        labels: Labels::new([("a", "1"), ("b", "")]).unwrap(),
        ..plain(EventSource::Event, "tit|e", "one\ntwo|2.")
    };
    assert_eq!(read(&line.replace("5,12", "5,11")), Ok(expected));
    assert_eq!(read(line), Err(Reject::Event));
    assert_eq!(read("_e{1,0}:a|"), Ok(plain(EventSource::Event, "a", "")));
    assert_eq!(read("_e{2,4}:é|🦀|p:normal"), Ok(plain(EventSource::Event, "é", "🦀")));
}

#[test]
fn a_service_check_is_read_in_all_its_parts() {
    for (status, alert_type) in [
        ("0", AlertType::Success),
        ("1", AlertType::Warning),
        ("2", AlertType::Error),
        ("3", AlertType::Info),
    ] {
        let line = format!("_sc|db.up|{status}|d:7|h:h|#a:1|m:slow\\nm\\: very|c:x");
        let expected = Event {
            alert_type,
            at: Wall(7_000_000_000),
            host: "h".to_owned(),
            labels: Labels::new([("a", "1")]).unwrap(),
            ..plain(EventSource::ServiceCheck, "db.up", "slow\nm: very")
        };
        assert_eq!(read(&line), Ok(expected));
    }
}

#[test]
fn what_is_malformed_is_refused_whole() {
    for line in [
        "_e{",
        "_e{1,1}",
        "_e{1,1}:",
        "_e{1,1}:a",
        "_e{1,1}:a|",
        "_e{0,1}:|b",
        "_e{1,1}:ab|c",
        "_e{1,1}:a|bc",
        "_e{1,9}:a|b",
        "_e{-1,1}:a|b",
        "_e{1.,1}:a|b",
        "_e{1,1,1}:a|b",
        "_e{1,18446744073709551615}:a|b",
        "_e{1,1}:é|b",
        "_sc|",
        "_sc|a",
        "_sc||0",
        "_sc|a|4",
        "_sc|a|",
    ] {
        assert_eq!(read(line), Err(Reject::Event), "{line}");
    }
    let parse = |line: &[u8]| parse(NOW, line, &LabelRules::default()).unwrap_err();
    assert_eq!(parse(b"_sc|\xff|0"), Reject::Encoding);
    assert_eq!(parse(&[b'x'; LINE_BYTES_MAX + 1]), Reject::TooLong);
}

#[test]
fn an_unknown_field_costs_itself_alone() {
    let plain = read("_e{1,1}:a|b").unwrap();
    for field in ["d:soon", "d:0", "d:99999999999", "p:high", "t:fatal", "x:y", "", "#"] {
        assert_eq!(read(&format!("_e{{1,1}}:a|b|{field}")), Ok(plain.clone()), "{field}");
    }
    assert_eq!(read("_sc|a|0|d:x"), read("_sc|a|0"));
}

#[test]
fn long_texts_are_cut_at_a_character_and_counted() {
    let (title, text) = ("é".repeat(200), format!("x{}", "🦀".repeat(600)));
    let line = format!("_e{{{},{}}}:{title}|{text}|h:{title}|k:short", title.len(), text.len());
    let ParsedEvent { event, cut, .. } =
        parse(NOW, line.as_bytes(), &LabelRules::default()).unwrap();
    assert_eq!((event.title, event.host), ("é".repeat(128), "é".repeat(128)));
    assert_eq!(event.text, format!("x{}", "🦀".repeat(255)));
    assert_eq!((cut, event.aggregation_key.as_str()), (3, "short"));
}

#[test]
fn the_events_of_an_interval_are_bounded_and_fit_into_one_message() {
    let labels: Vec<String> = (0..16).map(|n| format!("k{n}:{}", "v".repeat(128))).collect();
    let long = "t".repeat(EVENT_TEXT_BYTES_MAX);
    let wide = format!("_e{{1,{}}}:a|{long}|#{}", long.len(), labels.join(","));
    for (line, expected) in [("_sc|a|0", EVENTS_MAX), (&wide, 78)] {
        let mut open = OpenEvents::default();
        let taken = (0..EVENTS_MAX + 9).filter(|_| open.push(read(line).unwrap()).is_ok()).count();
        assert_eq!(open.push(read(line).unwrap()), Err(Reject::EventsCap));
        let events = open.take();
        assert_eq!((taken, events.events.len()), (expected, expected));
        let bound: usize = events.events.iter().map(bytes).sum();
        let header = Header {
            node: NodeName::new("n").unwrap(),
            incarnation: Incarnation(1),
            seq: Seq(1),
            start: NOW,
            length_ns: 1,
            totals: Totals::default(),
            last: false,
            successor: None,
            labels: Labels::default(),
        };
        let message = encode(&Snapshot { header, body: Body::Event(events) });
        assert!(
            message.len() <= bound.min(MESSAGE_BYTES_MAX) + 300,
            "{} of {bound}",
            message.len()
        );
        assert_eq!(open.take(), Events::default());
    }
}

proptest! {
    #[test]
    fn any_title_and_text_come_back(title in "[^\n\r]{1,40}", text in "[^\n\r\\\\]{0,80}") {
        let line = format!("_e{{{},{}}}:{title}|{text}", title.len(), text.len());
        prop_assert_eq!(read(&line), Ok(plain(EventSource::Event, &title, &text)));
    }

    #[test]
    fn nearly_valid_events_never_panic(
        line in "(_e\\{[0-9]{0,3},[0-9]{0,3}\\}:|_sc\\|)[a-zé|:#,0-9\\\\]{0,40}",
    ) {
        let _: Result<_, _> = parse(NOW, line.as_bytes(), &LabelRules::default());
    }
}
