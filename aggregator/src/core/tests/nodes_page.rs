//! The pages of nodes and of their readings, of a whole core.

use plimsoll_schemas::hardware::{
    CPU_TEMPERATURE_CELSIUS, LOAD1, MissingReading, Reading, SensorState,
};
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::summary::{HardwarePage, NodeStatus, NodesPage, SampleTotals};
use plimsoll_schemas::wire::Hardware;

use super::*;
use crate::core::view::{HardwareQuery, NodesQuery, ReadView, UnknownNode};

const ALL: NodesQuery = NodesQuery { node: None, presence: None, after: None, limit: 100 };

fn named(text: &str) -> Option<NodeName> {
    Some(NodeName::new(text).unwrap())
}

/// A message with the time at which it was sent, by a clock that is right.
fn deliver_timed(core: &mut Core, now: Now, (subject, payload): (String, Vec<u8>)) {
    let (at, payload) = (Some(now.wall), Bytes::from(payload));
    let lane = Lane::Normal;
    let message = Delivered { lane, stream_seq: 1, pending: 0, at, sent: at, subject, payload };
    let _read = core.on_message(now, &message);
}

/// Three nodes of which the first one has left and the second one is silent.
fn three() -> ReadView {
    let mut core = core();
    let later = start().after(15 * SECOND);
    let labels = Labels::new([("rack", "r1")]).unwrap();
    for node in ["a", "b", "c"] {
        let mut speaker = Speaker::new(node).called(labels.clone()).of(7);
        deliver_timed(&mut core, start(), speaker.send_all(start(), [4 * MS, 5 * MS]));
        match node {
            "a" => deliver(&mut core, start(), &speaker.final_message(start())),
            "c" => deliver_timed(&mut core, later, speaker.send(later, MS, 1)),
            _ => {}
        }
    }
    core.read_view(later.wall, "t")
}

fn names(page: &NodesPage) -> Vec<&str> {
    page.nodes.iter().map(|node| node.row.node.as_str()).collect()
}

#[test]
fn a_node_has_its_row_of_the_summary_and_its_own_state() {
    let view = three();
    let page = view.nodes_page(&ALL).unwrap();
    let rows: Vec<_> = page.nodes.iter().map(|node| node.row.clone()).collect();
    let summary = view.view(ViewQuery { fleet: true, nodes: Nodes::All, native: false }).summary;
    assert_eq!(rows, summary.nodes);
    let presences: Vec<_> = rows.iter().map(|row| row.presence).collect();
    assert_eq!(presences, [Presence::Left, Presence::Silent, Presence::Up]);
    let node = &page.nodes[2];
    assert_eq!(node.labels.get("rack"), Some("r1"));
    assert_eq!((node.samples, &node.incarnations), (SampleTotals { jobs: 5, own: 2 }, &vec![7]));
    assert!(node.newest_sample_seconds >= Some(1_700_000_015.0), "{node:?}");
    let measured = |node: &NodeStatus| (node.clock_ahead_seconds, node.delay_seconds);
    assert_eq!(measured(node), (Some(0.0), Some(0.0)));
    assert_eq!(measured(&page.nodes[1]), (None, None), "what was measured is stale");
}

#[test]
fn pages_of_any_length_list_each_node_once() {
    let view = three();
    for limit in 1..4 {
        let (mut listed, mut after, mut pages) = (Vec::new(), None, 0);
        loop {
            let page = view.nodes_page(&NodesQuery { after, limit, ..ALL }).unwrap();
            pages += 1;
            listed.extend(names(&page).into_iter().map(str::to_owned));
            let Some(next) = page.next else { break };
            after = named(&next);
        }
        assert_eq!(
            (listed, pages),
            (vec!["a".into(), "b".into(), "c".into()], 3_usize.div_ceil(limit))
        );
    }
    // The name of a node that has expired since is as good as any.
    let after_aa = view.nodes_page(&NodesQuery { after: named("aa"), ..ALL }).unwrap();
    assert_eq!(names(&after_aa), ["b", "c"]);
}

#[test]
fn nodes_are_selected_by_name_and_presence() {
    let view = three();
    let of = |query| view.nodes_page(&query).map(|page| names(&page).join(" "));
    let presence = Some(Presence::Silent);
    assert_eq!(of(NodesQuery { presence, ..ALL }).as_deref(), Ok("b"));
    assert_eq!(of(NodesQuery { node: named("c"), ..ALL }).as_deref(), Ok("c"));
    assert_eq!(of(NodesQuery { node: named("c"), presence, ..ALL }).as_deref(), Ok(""));
    let unknown = UnknownNode(NodeName::new("d").unwrap());
    assert_eq!(of(NodesQuery { node: named("d"), ..ALL }), Err(unknown.clone()));
    assert!(unknown.to_string().starts_with("node \"d\" is unknown; "), "{unknown}");
}

#[test]
fn readings_have_their_unit_and_time_or_why_there_is_none() {
    let mut core = core();
    let later = start().after(SECOND);
    let readings = vec![
        Reading::ok(&LOAD1, Labels::default(), 1.5),
        Reading::absent(
            &CPU_TEMPERATURE_CELSIUS,
            Labels::default(),
            MissingReading::unsupported("no_driver"),
        ),
    ];
    deliver(&mut core, start(), &Speaker::new("a").send(start(), MS, 1));
    let body = Body::Hardware(Hardware::all(readings));
    deliver(&mut core, later, &Speaker::new("b").message(later, body, false));
    let view = core.read_view(later.wall, "t");
    let of = |sensor| -> HardwarePage {
        view.hardware_page(&HardwareQuery { nodes: ALL, sensor }).unwrap()
    };
    let page = of(None);
    let [a, b] = page.nodes.as_slice() else { panic!("{page:?}") };
    assert_eq!((a.received_at_seconds, a.readings.len()), (None, 0));
    assert_eq!(b.received_at_seconds, Some(1_700_000_001.0));
    let rows: Vec<_> = b
        .readings
        .iter()
        .map(|row| (row.sensor.as_str(), row.unit.as_deref(), row.value, row.state))
        .collect();
    assert_eq!(
        rows,
        [
            ("load1", None, Some(1.5), SensorState::Ok),
            ("cpu_temperature_celsius", Some("celsius"), None, SensorState::Unsupported),
        ]
    );
    assert_eq!(b.readings[1].reason.as_deref(), Some("no_driver"));
    assert_eq!(of(Some(&LOAD1)).nodes[1].readings, b.readings[..1]);
}
