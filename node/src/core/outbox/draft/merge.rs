//! Latencies of several intervals as one: samples and amounts are added, the newest gauge wins.

use std::collections::BTreeMap;

use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::Series;
use plimsoll_schemas::wire::Latency;

/// Merges latencies, oldest first.
pub(super) fn merge(bodies: impl IntoIterator<Item = Latency>) -> Latency {
    let mut histograms: BTreeMap<Series, Histogram> = BTreeMap::new();
    let mut counters = BTreeMap::new();
    let mut gauges = BTreeMap::new();

    for body in bodies {
        for (series, theirs) in body.histograms {
            add(&mut histograms, series, theirs, |ours, theirs| ours.merge(&theirs));
        }

        for (series, theirs) in body.counters {
            // The sum of two finite numbers may be infinite, which the wire rejects.
            let sum =
                |ours: &mut f64, theirs: f64| *ours = (*ours + theirs).clamp(f64::MIN, f64::MAX);
            add(&mut counters, series, theirs, sum);
        }

        // In the order of time, so that the newest value stays.
        gauges.extend(body.gauges);
    }

    Latency {
        histograms: histograms.into_iter().collect(),
        counters: counters.into_iter().collect(),
        gauges: gauges.into_iter().collect(),
    }
}

fn add<V>(merged: &mut BTreeMap<Series, V>, series: Series, theirs: V, add: impl Fn(&mut V, V)) {
    match merged.get_mut(&series) {
        Some(ours) => add(ours, theirs),
        None => drop(merged.insert(series, theirs)),
    }
}
