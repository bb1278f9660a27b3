//! What a node's metrics remember, and for how long.

use plimsoll_schemas::hardware::{GPU_TEMPERATURE_CELSIUS, GPU_THROTTLE_REASON, Reading};
use plimsoll_schemas::ids::{Incarnation, Labels, Seq};
use plimsoll_schemas::wire::Hardware;

use super::*;
use crate::core::fleet::{MessageKey, Node, NodeAt};

/// Number `seq` of an incarnation.
fn key(incarnation: u64, seq: u64) -> MessageKey {
    MessageKey { incarnation: Incarnation(incarnation), seq: Seq(seq) }
}

fn second(n: u64) -> Wall {
    Wall((1_700_000_040 + n) * 1_000_000_000)
}

fn read(node: &mut Node, at: Wall, celsius: f64, held: bool) {
    let labels = Labels::new([("reason", "hw_slowdown")]).unwrap();
    let readings = vec![
        Reading::ok(&GPU_TEMPERATURE_CELSIUS, Labels::default(), celsius),
        Reading::ok(&GPU_THROTTLE_REASON, labels, f64::from(u8::from(held))),
    ];
    node.last_seen = at;
    node.take_readings(key(1, at.0), Hardware::all(readings));
}

#[test]
fn peaks_are_of_this_and_the_previous_minute_and_absent_without_data() {
    let mut node = Node::default();
    assert_eq!(node.metrics.peaks(second(0)), HardwareContext::default());
    for (at, celsius, held) in [(0, 80.0, false), (30, 91.0, true), (59, 60.0, false)] {
        read(&mut node, second(at), celsius, held);
    }
    let peaks = |node: &Node, at| {
        let HardwareContext { gpu_temperature_celsius, gpu_throttled, .. } =
            node.metrics.peaks(second(at));
        (gpu_temperature_celsius, gpu_throttled)
    };
    assert_eq!(peaks(&node, 59), (Some(91.0), Some(true)));
    read(&mut node, second(61), 50.0, false);
    assert_eq!(peaks(&node, 61), (Some(91.0), Some(true)));
    assert_eq!(peaks(&node, 121), (Some(50.0), Some(false)));
    assert_eq!(peaks(&node, 181), (None, None));
    assert_eq!(node.metrics.peaks(second(61)).memory_used_ratio, None);
}

#[test]
fn figures_of_sensors_end_with_the_node_or_with_its_readings() {
    let mut node = Node::default();
    read(&mut node, second(0), 80.0, false);
    let figure =
        |node: &Node, at| NodeAt::new(node, second(at)).figure(NodeMetric::GpuTemperatureCelsius);
    assert_eq!([figure(&node, 1), figure(&node, 11)], [Some(80.0), None]);
    node.last_seen = second(134);
    assert_eq!(figure(&node, 134), Some(80.0), "two samples of a minute are late");
    node.last_seen = second(135);
    assert_eq!(figure(&node, 135), None, "it reports, but no sensors any more");
}

#[test]
fn each_peak_has_a_place_of_its_own_that_a_record_keeps() {
    let mut peaks = Peaks::default();
    let places = 0..SENSED + BESIDE;
    for place in places.clone() {
        peaks.see(second(0), place, Some(place as f64));
    }
    let record = rmp_serde::to_vec_named(&peaks).unwrap();
    let kept: Peaks = rmp_serde::from_slice(&record).unwrap();
    for place in places {
        assert_eq!(kept.get(second(0), place), Some(place as f64));
        assert_eq!(kept.get(second(60), place), Some(place as f64));
    }
}

#[test]
fn what_a_node_never_reported_is_no_figure() {
    let node = Node { last_seen: second(0), ..Node::default() };
    for figure in NodeMetric::ALL {
        let found = NodeAt::new(&node, second(1)).figure(*figure);
        let known = match figure {
            NodeMetric::SilentSeconds => Some(1.0),
            NodeMetric::SamplesLost
            | NodeMetric::CrashedRuns
            | NodeMetric::Unaccounted
            | NodeMetric::DuplicateNames => Some(0.0),
            _ => None,
        };
        assert_eq!(found, known, "{figure:?}");
    }
}

#[test]
fn losses_before_an_incarnation_is_first_seen_are_no_growth() {
    let dropped = |began: u64, received: &[(u64, u64)]| {
        let mut node = Node::default();
        for (at, dropped) in received {
            node.last_seen = second(*at);
            let bus = Bus { dropped: *dropped, ..Bus::default() };
            let from = key(second(began).0, *at);
            node.take_bus(from, bus);
            node.observe_counts(from.incarnation);
        }
        node.metrics.increase(node.last_seen, Count::Dropped)
    };
    assert_eq!(dropped(0, &[(3_600, 70)]), 0.0, "of an hour without messages");
    assert_eq!(dropped(0, &[(3_600, 70), (3_601, 75)]), 5.0);
    assert_eq!(dropped(3_590, &[(3_600, 70)]), 70.0, "of the run's first ten seconds");
}
