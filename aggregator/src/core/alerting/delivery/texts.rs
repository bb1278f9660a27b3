//! The texts of a notification: short, since people read them on a telephone at night.

use crate::limits::notifications::{ALERT_ID_BYTES_MAX, WORST_NAMED_MAX};
use plimsoll_schemas::alert::{AlertKey, Evidence, Notification, WorstNode};
use plimsoll_schemas::figure::{count, counted, number, percent, quantile};
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::unit::Unit;

/// Shares from which on they may explain a latency; below, they are left out.
const STOLEN_FROM: f64 = 0.05;
const CGROUP_FULL_FROM: f64 = 0.85;
const WAITS_FROM: f64 = 0.01;

/// Seconds since 1970 as a point in time.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts saturate, and what is before 1970 is 1970"
)]
pub(super) fn wall(at_seconds: f64) -> Wall {
    Wall((at_seconds * 1e9) as u64)
}

/// The same for one alert as long as there is one, on every aggregator of the mesh.
pub(super) fn alert_id(mesh: &MeshName, key: &AlertKey) -> String {
    let AlertKey { rule, scope, operation } = key;
    let id = format!("plimsoll/{mesh}/{rule}/{}/{}/{operation}", scope.as_str(), scope.node());
    if id.len() <= ALERT_ID_BYTES_MAX {
        return id;
    }
    // Names are ASCII, so any cut is between two characters.
    format!("{}/{:08x}", &id[..ALERT_ID_BYTES_MAX - 9], crc32fast::hash(id.as_bytes()))
}

/// The rule's summary, or else the subject of the alert.
pub(super) fn summary(notification: &Notification) -> String {
    if !notification.summary.is_empty() {
        return notification.summary.clone();
    }
    let key = &notification.key;
    let (value, limit) = figures(notification);
    format!("{} of {}, {}: {value}, limit {limit}", key.rule, key.operation, key.scope)
}

/// The value that moved the alert, and its limit.
pub(super) fn figures(notification: &Notification) -> (String, String) {
    let unit = Unit::of(notification.key.operation.as_str());
    match &notification.evidence {
        Evidence::Latency(latency) => {
            (unit.text(latency.value_seconds), unit.text(latency.limit_seconds))
        }
        Evidence::Burn(burn) => {
            (format!("{}x", number(burn.long_burn)), format!("{}x", number(burn.factor)))
        }
        Evidence::Gap(gap) => (missing(gap.gap_samples), "0".to_owned()),
        Evidence::Straggler(of) => {
            (format!("+{}", percent(of.excess_ratio)), format!("+{}", percent(of.allowed_ratio)))
        }
        Evidence::Value(value) => {
            (number(value.value), format!("{} {}", value.comparison, number(value.threshold)))
        }
    }
}

/// The evidence for the alert, and the nodes at fault.
pub(super) fn evidence(notification: &Notification) -> String {
    // Where samples are over a limit, nodes have a share in them.
    let has_shares = matches!(notification.evidence, Evidence::Latency(_) | Evidence::Burn(_));
    let context = notification.context.as_ref();
    let worst = context.into_iter().flat_map(|context| context.worst.iter().take(WORST_NAMED_MAX));
    let ended = notification.ended.map(|why| format!("ended: {}", why.in_words()));
    let unit = Unit::of(notification.key.operation.as_str());
    ended
        .into_iter()
        .chain(std::iter::once(of_figures(unit, &notification.evidence)))
        .chain(worst.map(|worst| of_node(worst, has_shares)))
        .collect::<Vec<_>>()
        .join("; ")
}

fn of_figures(unit: Unit, evidence: &Evidence) -> String {
    match evidence {
        Evidence::Latency(latency) => format!(
            "{} at least {} in {}, {} of {} over the limit",
            quantile(latency.quantile),
            unit.text(latency.lower_seconds),
            latency.window,
            count(latency.over),
            counted(latency.samples, "sample")
        ),
        Evidence::Burn(burn) => format!(
            "{}x in {} and {}x in {}, {} of the error budget left",
            number(burn.long_burn),
            burn.long,
            number(burn.short_burn),
            burn.short,
            percent(burn.remaining)
        ),
        Evidence::Gap(gap) => missing(gap.gap_samples),
        Evidence::Straggler(of) => {
            let (by, peer) = (&of.by, &of.peer);
            format!("{by} {peer} at least {} slower than the median", percent(of.lower_ratio))
        }
        Evidence::Value(value) => {
            let labels = value.labels.iter().map(|(name, of)| format!(" {name}={of}"));
            format!("{} {}{}", value.metric, number(value.value), labels.collect::<String>())
        }
    }
}

fn missing(samples: u64) -> String {
    format!("{} missing", counted(samples, "sample"))
}

/// A node's part in the slow samples, its own share of them, and the readings of its machine that
/// may explain it.
fn of_node(worst: &WorstNode, has_shares: bool) -> String {
    let hardware = &worst.hardware;
    let share = |what, ratio: Option<f64>| Some(format!("{what} {}", percent(ratio?)));
    let heat = |what, celsius: Option<f64>| Some(format!("{what} {} °C", number(celsius?)));
    let notable = |what, ratio: Option<f64>, from| share(what, ratio.filter(|of| *of >= from));
    let is = |what: &str, held: Option<bool>| (held == Some(true)).then(|| what.to_owned());

    let parts = [
        share("cpu", hardware.cpu_usage_ratio),
        share("memory", hardware.memory_used_ratio),
        heat("cpu", hardware.cpu_temperature_celsius),
        heat("gpu", hardware.gpu_temperature_celsius),
        share("gpu memory", hardware.gpu_memory_used_ratio),
        is("cpu throttled", hardware.cpu_throttled),
        is("gpu throttled", hardware.gpu_throttled),
        notable("cpu stolen", hardware.cpu_steal_ratio, STOLEN_FROM),
        notable("cgroup memory", hardware.cgroup_memory_used_ratio, CGROUP_FULL_FROM),
        notable("waiting for its cpu limit", hardware.cgroup_cpu_throttled_ratio, WAITS_FROM),
        notable("stalled for memory", hardware.memory_stalled_ratio, WAITS_FROM),
    ];

    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };

    let shares = has_shares.then(|| {
        let WorstNode { share, over, samples, .. } = worst;
        format!(
            ": {} of the fleet's slow samples, {} of its own {} over",
            percent(*share),
            count(*over),
            count(*samples)
        )
    });

    format!("{}{}{parts}", worst.node, shares.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::alert::{BusContext, HardwareContext, ValueEvidence};
    use plimsoll_schemas::ids::{Labels, NodeName};
    use plimsoll_schemas::rule::Comparison;

    use super::*;

    fn worst(hardware: HardwareContext) -> WorstNode {
        WorstNode {
            node: NodeName::new("a").unwrap(),
            labels: Labels::default(),
            samples: 4,
            over: 1,
            share: 0.25,
            share_of_slow: 0.25,
            over_ratio: 0.25,
            hardware,
            bus: BusContext::default(),
        }
    }

    #[test]
    fn what_of_a_machine_may_explain_a_latency_is_named_and_what_is_as_usual_is_not() {
        let unusual = HardwareContext {
            cpu_throttled: Some(true),
            gpu_throttled: Some(true),
            cpu_steal_ratio: Some(0.3),
            cgroup_memory_used_ratio: Some(0.97),
            cgroup_cpu_throttled_ratio: Some(0.4),
            memory_stalled_ratio: Some(0.02),
            ..HardwareContext::default()
        };
        assert_eq!(
            of_node(&worst(unusual), true),
            "a: 25 % of the fleet's slow samples, 1 of its own 4 over (cpu throttled, gpu throttled, \
             cpu stolen 30 %, cgroup memory 97 %, waiting for its cpu limit 40 %, stalled for \
             memory 2 %)"
        );
        let usual = HardwareContext {
            cpu_throttled: Some(false),
            gpu_throttled: Some(false),
            cpu_steal_ratio: Some(0.04),
            cgroup_memory_used_ratio: Some(0.8),
            cgroup_cpu_throttled_ratio: Some(0.0),
            memory_stalled_ratio: Some(0.0),
            ..HardwareContext::default()
        };
        assert_eq!(
            of_node(&worst(usual), true),
            "a: 25 % of the fleet's slow samples, 1 of its own 4 over"
        );
    }

    #[test]
    fn a_value_is_stated_with_labels_and_node_and_no_share_of_samples() {
        let value = ValueEvidence {
            metric: "disk_used_ratio".parse().unwrap(),
            labels: Labels::new([("mount", "/data")]).unwrap(),
            value: 0.96,
            comparison: Comparison::Greater,
            threshold: 0.95,
        };
        assert_eq!(
            of_figures(Unit::default(), &Evidence::Value(value)),
            "disk_used_ratio 0.96 mount=/data"
        );
        let half = HardwareContext { cpu_usage_ratio: Some(0.5), ..HardwareContext::default() };
        let worst = worst(half);
        assert_eq!(of_node(&worst, false), "a (cpu 50 %)");
        assert_eq!(
            of_node(&worst, true),
            "a: 25 % of the fleet's slow samples, 1 of its own 4 over (cpu 50 %)"
        );
    }
}
