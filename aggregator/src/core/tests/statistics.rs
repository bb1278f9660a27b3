//! Summary statistics of operations as messages fill them.

use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::summary::SummaryStats;

use super::*;
use crate::core::view::{NoStatistics, StatisticsQuery, UnknownNode};

fn query(operation: &str, node: Option<&str>, window: Option<Window>) -> StatisticsQuery {
    let node = node.map(|name| NodeName::new(name).unwrap());
    StatisticsQuery { operation: Operation::new(operation).unwrap(), node, window }
}

#[test]
fn statistics_are_those_of_the_fleet_of_a_node_and_of_a_window() {
    let mut core = core();
    let later = start().after(20 * SECOND);
    deliver(&mut core, start(), &Speaker::new("a").send(start(), 4 * MS, 3));
    deliver(&mut core, later, &Speaker::new("b").send(later, 8 * MS, 1));
    let view = core.read_view(later.wall, "t");
    let of = |node, window| {
        let page = view.statistics(&query("epoch_hook", node, window)).unwrap();
        assert_eq!((page.operation.as_str(), page.window), ("epoch_hook", window));
        assert_eq!((page.scope.node(), page.unit.as_str()), (node.unwrap_or(""), "seconds"));
        assert!(!page.approximate && page.ready);
        let SummaryStats { count, mean, min, max, p50, p999, .. } = page.stats;
        // A bucket of 4 ms is 4 us wide.
        let ms = |of: Option<f64>| of.map(|seconds| (seconds * 1e5).round() / 1e2);
        (count, [mean, min, max, p50, p999].map(ms))
    };
    let four = Some(4.0);
    let (all, a, b) = ([Some(5.0), four, Some(8.0), four, Some(8.0)], [four; 5], [Some(8.0); 5]);
    assert_eq!(of(None, None), (4, all));
    assert_eq!(of(None, Some(Window::OneMinute)), (4, all));
    assert_eq!(of(None, Some(Window::TenSeconds)), (1, b));
    assert_eq!(of(Some("a"), None), (3, a));
    assert_eq!(of(Some("a"), Some(Window::TenSeconds)), (0, [None; 5]));
    let std = view.statistics(&query("epoch_hook", None, None)).unwrap().stats.std.unwrap();
    assert!((std - 0.003_f64.sqrt() * 0.001_f64.sqrt()).abs() < 4e-6, "{std}");
}

#[test]
fn what_is_not_there_is_named_with_the_fix() {
    let mut core = core();
    deliver(&mut core, start(), &Speaker::new("a").send(start(), 4 * MS, 3));
    let view = core.read_view(start().wall, "t");
    let error = |operation, node, window| {
        view.statistics(&query(operation, node, window)).unwrap_err().to_string()
    };
    let unknown = error("hook", None, None);
    assert!(unknown.starts_with("no samples of \"hook\" from fleet; "));
    let elsewhere = error("hook", Some("a"), None);
    assert!(elsewhere.starts_with("no samples of \"hook\" from node a; "));
    assert!(error("epoch_hook", Some("b"), None).starts_with("node \"b\" is unknown; "));
    let window = Some(Window::ThirtyDays);
    let node = query("epoch_hook", Some("a"), window);
    assert_eq!(view.statistics(&node), Err(NoStatistics::Window(Window::ThirtyDays)));
    assert_eq!(view.statistics(&query("epoch_hook", None, window)).unwrap().stats.count, 3);
}

#[test]
fn an_expired_node_has_no_statistics() {
    let mut core = core();
    deliver(&mut core, start(), &Speaker::new("a").send(start(), 4 * MS, 3));
    core.on_deadline(start().after(SECOND));
    let later = start().after(3 * 86_400 * SECOND);
    core.on_deadline(later);
    let found = core.read_view(later.wall, "t").statistics(&query("epoch_hook", Some("a"), None));
    assert_eq!(found, Err(UnknownNode(NodeName::new("a").unwrap()).into()));
}

#[test]
fn samples_of_wide_buckets_are_marked() {
    let mut core = core();
    let mut histogram = Histogram::default();
    histogram.record_within(MS, 5 * MS, 3);
    let series = Series::plain(Operation::new("fetch").unwrap());
    let body = Latency { histograms: vec![(series, histogram)], ..Latency::default() };
    let message = Speaker::new("a").recorded(3).message(start(), Body::Latency(body), false);
    deliver(&mut core, start(), &message);
    let view = core.read_view(start().wall, "t");
    assert!(view.statistics(&query("fetch", None, None)).unwrap().approximate);
}
