//! How urgent a message is: what it shows, compared with what was reported before.
//!
//! DESIGN N45.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::hardware::{GPUS_LOST, Reading, SensorState};
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Labels, Operation, Series};
use plimsoll_schemas::wire::{AlertType, Bus, Event, Events, Latency};

use super::outbox::Priority;

/// States in the latest messages of this node: a message with another state is not of low priority.
#[derive(Debug, Default)]
pub(super) struct ReportedStates {
    sensors: BTreeMap<(String, Labels), SensorState>,
    gpus_lost: f64,
    bus: Bus,
}

impl ReportedStates {
    /// Critical when a device is lost; normal when a sensor's state changes; otherwise low.
    pub(super) fn priority_of_hardware(&mut self, readings: &[Reading]) -> Priority {
        let lost = readings.iter().filter(|reading| reading.sensor == GPUS_LOST.name);
        let lost = lost.filter_map(|reading| reading.value).fold(0.0, f64::max);
        // Compared with the latest message, so that a device which stays lost is urgent once.
        let is_lost = lost > std::mem::replace(&mut self.gpus_lost, lost);
        let key = |reading: &Reading| (reading.sensor.clone(), reading.labels.clone());
        let sensors = readings.iter().map(|reading| (key(reading), reading.state)).collect();

        let changed = std::mem::replace(&mut self.sensors, sensors) != self.sensors;
        match (is_lost, changed) {
            (true, _) => Priority::Critical,
            (false, true) => Priority::Normal,
            (false, false) => Priority::Low,
        }
    }

    /// Normal when a state of delivery changes, or a loss is new; otherwise low.
    pub(super) fn priority_of_bus(&mut self, bus: &Bus) -> Priority {
        let states = |bus: &Bus| {
            let delivery = (bus.breaker_state, bus.conservative, bus.rerouting, bus.dropping);
            (
                delivery,
                bus.spool_durable,
                bus.dropped,
                bus.refused,
                bus.kernel_dropped,
                bus.reconnects,
                bus.taken_ids,
                bus.confirmations_refused_sum(),
            )
        };

        let is_same = states(&std::mem::replace(&mut self.bus, bus.clone())) == states(bus);
        if is_same { Priority::Low } else { Priority::Normal }
    }
}

/// Latencies by their priority. What goes at once goes alone, and when what is urgent overtakes a
/// backlog, each urgency does. An operation stays whole with all its series: a share of the others
/// would be missing in the fleet's percentiles.
pub(super) fn of_latency(
    latency: Latency,
    urgent: &BTreeMap<Operation, Priority>,
    breached: &BTreeSet<Operation>,
    is_behind: bool,
) -> Vec<(Latency, Priority)> {
    let of = |operation: &Operation| match urgent.get(operation).copied().unwrap_or_default() {
        // It overtakes a backlog either way, and alone it is not one of many that are declared.
        Priority::Immediate if is_behind && breached.contains(operation) => Priority::Critical,
        priority => priority,
    };

    // Of what is critical the newest is sent first, so what is breached comes last.
    let apart: &[Priority] = match is_behind {
        true => &[Priority::High, Priority::Immediate, Priority::Critical],
        false => &[Priority::Immediate],
    };

    let Latency { mut histograms, counters, gauges } = latency;
    let mut messages = Vec::new();

    for priority in apart {
        let is_meant = |(series, _): &mut (Series, Histogram)| of(&series.operation) == *priority;
        let histograms: Vec<_> = histograms.extract_if(.., is_meant).collect();
        if !histograms.is_empty() {
            messages.push((Latency { histograms, ..Latency::default() }, *priority));
        }
    }

    let rest = Latency { histograms, counters, gauges };
    if rest != Latency::default() {
        let most = rest.histograms.iter().map(|(series, _)| of(&series.operation)).max();
        messages.push((rest, most.unwrap_or_default()));
    }

    messages
}

/// By what a sender states: critical when one of them is an error or a failed service check, high
/// when one is a warning. One that its sender gave a low priority is neither.
pub(super) fn of_events(events: &Events) -> Priority {
    let of = |event: &Event| match event.alert_type {
        // A sender may make its event less urgent, and never more (S86).
        _ if event.low_priority => Priority::Normal,
        AlertType::Error => Priority::Critical,
        AlertType::Warning => Priority::High,
        AlertType::Info | AlertType::Success => Priority::Normal,
    };
    events.events.iter().map(of).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::hardware::{LOAD1, MissingReading};
    use plimsoll_schemas::wire::EventSource;

    use super::*;

    #[test]
    fn readings_are_low_until_a_state_changes_and_critical_when_a_device_is_lost() {
        let mut reported = ReportedStates::default();
        let load = |value| Reading::ok(&LOAD1, Labels::default(), value);
        let lost = |count| Reading::ok(&GPUS_LOST, Labels::default(), count);
        let failed = Reading::absent(&LOAD1, Labels::default(), MissingReading::failed("timeout"));
        for (readings, priority) in [
            (vec![load(1.0), lost(0.0)], Priority::Normal),
            (vec![load(2.0), lost(0.0)], Priority::Low),
            (vec![failed.clone(), lost(0.0)], Priority::Normal),
            (vec![failed.clone(), lost(0.0)], Priority::Low),
            (vec![failed.clone(), lost(1.0)], Priority::Critical),
            (vec![failed.clone(), lost(1.0)], Priority::Low),
            (vec![failed, lost(0.0)], Priority::Low),
        ] {
            assert_eq!(reported.priority_of_hardware(&readings), priority, "{readings:?}");
        }
    }

    #[test]
    fn a_bus_report_is_low_until_a_state_of_delivery_changes() {
        let mut reported = ReportedStates::default();
        let quiet = Bus { attempted: 9, outbox_depth: 7, ..Bus::default() };
        assert_eq!(reported.priority_of_bus(&quiet), Priority::Low);
        for changed in [
            Bus { breaker_state: Some(2), ..quiet.clone() },
            Bus { conservative: true, ..quiet.clone() },
            Bus { rerouting: true, ..quiet.clone() },
            Bus { dropping: true, ..quiet.clone() },
            Bus { spool_durable: Some(false), ..quiet.clone() },
            Bus { dropped: 1, ..quiet.clone() },
            Bus { refused: 1, ..quiet.clone() },
            Bus { kernel_dropped: 1, ..quiet.clone() },
            Bus { taken_ids: 1, ..quiet.clone() },
            Bus { reconnects: 1, ..quiet.clone() },
        ] {
            assert_eq!(reported.priority_of_bus(&changed), Priority::Normal, "{changed:?}");
            assert_eq!(reported.priority_of_bus(&changed), Priority::Low);
            assert_eq!(reported.priority_of_bus(&quiet), Priority::Normal);
        }
    }

    #[test]
    fn behind_a_backlog_a_breach_takes_all_series_of_its_operation_and_nothing_else() {
        let series = |name: &str, label: &str| {
            let labels = Labels::new([("k", label)]).unwrap();
            let series = Series { operation: Operation::new(name).unwrap(), labels };
            (series, Histogram::default())
        };
        let latency = Latency {
            histograms: vec![series("a", "1"), series("b", "1"), series("a", "2")],
            counters: vec![(series("c", "1").0, 1.0)],
            gauges: Vec::new(),
        };
        let urgent = |names: &[(&str, Priority)]| {
            let each = names.iter().map(|(name, of)| (Operation::new(*name).unwrap(), *of));
            each.collect::<BTreeMap<_, _>>()
        };
        let a = BTreeSet::from([Operation::new("a").unwrap()]);
        let breached = urgent(&[("a", Priority::Critical)]);
        let whole = of_latency(latency.clone(), &breached, &a, false);
        assert_eq!(whole, [(latency.clone(), Priority::Critical)]);
        let whole = of_latency(latency.clone(), &BTreeMap::new(), &BTreeSet::new(), true);
        assert_eq!(whole, [(latency.clone(), Priority::Normal)]);

        let both = urgent(&[("a", Priority::Immediate), ("b", Priority::Immediate)]);
        let apart = |is_behind| -> Vec<(usize, Priority)> {
            let apart = of_latency(latency.clone(), &both, &a, is_behind);
            apart.iter().map(|(part, of)| (part.histograms.len(), *of)).collect()
        };
        let (at_once, rest) = (Priority::Immediate, (0, Priority::Normal));
        assert_eq!(apart(false), [(3, at_once), rest]);
        assert_eq!(apart(true), [(1, at_once), (2, Priority::Critical), rest], "the breached last");

        let split = of_latency(latency, &breached, &a, true);
        let names = |latency: &Latency| {
            let histograms = latency.histograms.iter();
            histograms.map(|(series, _)| series.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(&split[0].0), ["a{k=1}", "a{k=2}"]);
        assert_eq!((names(&split[1].0), split[1].0.counters.len()), (vec!["b{k=1}".into()], 1));
        assert_eq!([split[0].1, split[1].1], [Priority::Critical, Priority::Normal]);
    }

    #[test]
    fn an_error_is_critical_and_a_warning_high_unless_its_sender_gave_it_a_low_priority() {
        let event = |(alert_type, low_priority)| Event {
            source: EventSource::ServiceCheck,
            title: "t".to_owned(),
            text: String::new(),
            alert_type,
            low_priority,
            at: plimsoll_schemas::time::Wall(1),
            host: String::new(),
            aggregation_key: String::new(),
            labels: Labels::default(),
        };
        let of = |events: &[(AlertType, bool)]| {
            of_events(&Events { events: events.iter().copied().map(event).collect() })
        };
        let info = (AlertType::Info, false);
        assert_eq!(of(&[info, (AlertType::Success, false)]), Priority::Normal);
        assert_eq!(of(&[info, (AlertType::Warning, false)]), Priority::High);
        assert_eq!(of(&[info, (AlertType::Error, false)]), Priority::Critical);
        assert_eq!(of(&[info, (AlertType::Error, true)]), Priority::Normal);
    }
}
