//! Pages in every format, parsed by independent parsers.

mod messages;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use plimsoll_schemas::budget::Window;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Labels, Operation, Series};
use plimsoll_schemas::rule::file::effective;
use plimsoll_schemas::transport::BusEvent;
use plimsoll_schemas::unit::Unit;
use plimsoll_schemas::wire::{Body, Bus, Latency};
use proptest::prelude::*;
use prost::Message;

use super::external_labels::{valid_key, valid_name};
use super::writer::{Family, FamilyType, Value};
use super::*;
use crate::config::Config;
use crate::core::Core;
use crate::core::fleet::Buckets;
use crate::core::fleet::Definition;
use crate::core::fleet::Merged;
use crate::core::tests::{MS, Speaker, core, deliver, start};
use messages::MetricFamily;

/// Two nodes, of which one is over the limit of epoch_hook.
fn busy() -> Core {
    let mut core = core();
    for (name, ms) in [("a", 3), ("b", 40)] {
        let mut speaker = Speaker::new(name);
        for _ in 0..3 {
            let message = speaker.send_all(start(), (1..200).map(|n| n * ms * MS / 100));
            deliver(&mut core, start(), &message);
        }
    }
    core
}

fn rendered(core: &Core, format: Format) -> Vec<u8> {
    let budgets = effective(&[]).unwrap();
    let view = core.view(start().wall, "jetstream");
    page(&view, PageOptions { budgets: &budgets, aliases: true }, &ServingStats::default(), format)
}

fn families(mut bytes: &[u8]) -> BTreeMap<String, MetricFamily> {
    let mut families = BTreeMap::new();
    while !bytes.is_empty() {
        let family = MetricFamily::decode_length_delimited(&mut bytes).unwrap();
        families.insert(family.name.clone(), family);
    }
    families
}

#[test]
fn node_info_has_the_software_version_beside_the_nodes_own_labels() {
    let mut core = core();
    let own = Labels::new([("rack", "r7"), ("version", "job 4")]).unwrap();
    for (name, version) in [("new", "0.1.0"), ("old", "")] {
        let mut speaker = Speaker::new(name).called(own.clone());
        let message = speaker.send_all(start(), [MS]);
        deliver(&mut core, start(), &message);
        let bus = Bus { version: version.into(), suspect_units: 2, ..Bus::default() };
        let message = speaker.message(start(), Body::Bus(bus), false);
        deliver(&mut core, start(), &message);
    }
    let page = String::from_utf8(rendered(&core, Format::Text)).unwrap();
    for row in [
        "plimsoll_node_info{node=\"new\",label_version=\"job 4\",rack=\"r7\",version=\"0.1.0\"} 1\n",
        "plimsoll_node_info{node=\"old\",label_version=\"job 4\",rack=\"r7\"} 1\n",
        "plimsoll_node_suspect_unit_operations{node=\"new\"} 2\n",
    ] {
        assert!(page.contains(row), "{row}: {page}");
    }
    let summary = core.view(start().wall, "jetstream").summary;
    let versions = summary.nodes.iter().map(|row| (&*row.version, row.suspect_units));
    assert_eq!(versions.collect::<Vec<_>>(), [("0.1.0", 2), ("", 2)]);
}

#[test]
fn a_family_is_written_once_with_help_and_type() {
    let mut writer = Writer::new(Format::Text);
    let (a, b) = (writer.labels([("node", "a")]), writer.labels([("node", "b"), ("x", "y")]));
    writer.family(Family::gauge("m_seconds", "Some time"), |rows| {
        rows.add(&[&a], Value::nanos(1_500_000_000));
        rows.add(&[&b], Value::Float(2.0));
    });
    let none = writer::NONE;
    writer.family(Family::counter("n_total", "A count"), |rows| {
        rows.add(&[none], Value::Count(3));
    });
    writer.family(Family::counter("o_total", "Nothing"), |_| {});
    assert_eq!(
        text(writer),
        "# HELP m_seconds Some time\n# TYPE m_seconds gauge\nm_seconds{node=\"a\"} 1.5\n\
         m_seconds{node=\"b\",x=\"y\"} 2\n# HELP n_total A count\n# TYPE n_total counter\n\
         n_total 3\n"
    );
}

#[test]
fn openmetrics_names_units_and_families_by_its_own_rules() {
    let mut writer = Writer::new(Format::OpenMetrics);
    let labels = writer.labels([("node", "a")]);
    writer.family(Family::counter("m_seconds_total", "Time"), |rows| {
        rows.add(&[&labels], Value::Nanos(5));
    });
    assert_eq!(
        text(writer),
        "# HELP m_seconds Time\n# TYPE m_seconds counter\n# UNIT m_seconds seconds\n\
         m_seconds_total{node=\"a\"} 0.000000005\n# EOF\n"
    );
}

const NS: Unit = Unit::Nanoseconds;

#[test]
fn operations_that_are_no_latencies_have_families_of_their_unit() {
    let mut core = core();
    let mut speaker = Speaker::new("a");
    let values: [(&str, u64); 3] = [("s:bytes", 1_536), ("n:count", 2_500), ("t:ps", 480_000)];
    for (name, raw) in values {
        let mut samples = Histogram::default();
        samples.record_n(raw, 2);
        let message = speaker.send_samples(start(), &[name], &samples);
        deliver(&mut core, start(), &message);
    }
    let page = String::from_utf8(rendered(&core, Format::Text)).unwrap();
    let row = |family: &str, rest: &str| {
        page.lines().find_map(|row| {
            let is_it = row.starts_with(family) && row.contains(rest) && row.contains("\"fleet\"");
            is_it.then(|| row.rsplit(' ').next().unwrap().to_owned())
        })
    };
    for (family, rest, value) in [
        ("plimsoll_distribution_p99_bytes{", "window=\"total\"", Some("1536")),
        ("plimsoll_distribution_sum_bytes_total{", "s:bytes", Some("3072")),
        ("plimsoll_distribution_bytes_bucket{", "le=\"100000.0\"", Some("2")),
        ("plimsoll_distribution_p50_count{", "window=\"total\"", Some("2.5")),
        ("plimsoll_distribution_count_bucket{", "le=\"2.5\"", Some("2")),
        ("plimsoll_latency_p99_seconds{", "t:ps", Some("4.8e-7")),
        ("plimsoll_latency_sum_seconds_total{", "t:ps", Some("9.6e-7")),
        ("plimsoll_latency_p99_seconds{", "s:bytes", None),
        ("plimsoll_latency_seconds_bucket{", "n:count", None),
        ("plimsoll_latency_samples_total{", "n:count", Some("2")),
    ] {
        assert_eq!(row(family, rest).as_deref(), value, "{family} {rest}");
    }
}

#[test]
fn a_classic_histogram_has_ends_as_client_libraries_write_them() {
    let mut samples = Histogram::default();
    [3_000, 20_000, 2_000_000_000].into_iter().for_each(|ns| samples.record(ns));
    let buckets =
        Buckets::of(&Merged::from(&samples), &[5_000, 12_500, 100_000, 1_000_000_000], false, NS);
    let mut writer = Writer::new(Format::Text);
    let family = Family { name: "h", family_type: FamilyType::Histogram, help: "H" };
    let labels = writer.labels([("o", "x")]);
    writer.family(family, |rows| rows.add_buckets(&[&labels], &buckets, NS));
    let rows: Vec<String> = text(writer).lines().skip(2).map(str::to_owned).collect();
    let wanted = [
        "h_bucket{o=\"x\",le=\"5e-06\"} 1",
        "h_bucket{o=\"x\",le=\"1.25e-05\"} 1",
        "h_bucket{o=\"x\",le=\"0.0001\"} 2",
        "h_bucket{o=\"x\",le=\"1.0\"} 2",
        "h_bucket{o=\"x\",le=\"+Inf\"} 3",
        "h_sum{o=\"x\"} 2.000023",
        "h_count{o=\"x\"} 3",
    ];
    assert_eq!(rows, wanted);
}

#[test]
fn protobuf_equals_text() {
    let core = busy();
    let page = families(&rendered(&core, Format::Protobuf));
    let text = String::from_utf8(rendered(&core, Format::Text)).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let names: Vec<&str> = names.iter().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.len() > 60 && names.iter().all(|name| page.contains_key(*name)), "{names:?}");
    assert_eq!(page.len(), names.len());
    for family in page.values().filter(|family| family.kind != 4) {
        for metric in &family.metric {
            let pairs = metric.label.iter().map(|pair| (pair.name.as_str(), pair.value.as_str()));
            let mut writer = Writer::new(Format::Text);
            let set = writer.labels(pairs);
            let value = metric.value().unwrap();
            let plain = Family::gauge(&family.name, "");
            writer.family(plain, |rows| rows.add(&[&set], Value::Float(value)));
            let row = self::text(writer).lines().last().unwrap().to_owned();
            let (series, _) = row.rsplit_once(' ').unwrap();
            let sent = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
            let sent = sent.unwrap_or_else(|| panic!("text has no {series}"));
            // The process's own metrics change from page to page.
            if !family.name.starts_with("process_") {
                assert_eq!(sent.parse::<f64>().unwrap(), value, "{series}");
            }
        }
    }
}

#[test]
fn protobuf_carries_native_histograms_of_the_fleet_and_of_nodes() {
    let page = families(&rendered(&busy(), Format::Protobuf));
    let family = &page["plimsoll_latency_seconds"];
    assert_eq!((family.kind, family.unit.as_str(), family.metric.len()), (4, "seconds", 9));
    for metric in &family.metric {
        let histogram = metric.histogram.as_ref().unwrap();
        let of = |name: &str| metric.label.iter().find(|pair| pair.name == name).unwrap();
        let is_fleet = of("scope").value == "fleet";
        assert_eq!(histogram.sample_count, if is_fleet { 1194 } else { 597 });
        assert_eq!(histogram.bucket.is_empty(), !is_fleet);
        let (mut n, mut sum) = (0_i64, histogram.zero_count);
        for delta in &histogram.positive_delta {
            n += delta;
            sum += u64::try_from(n).unwrap();
        }
        assert_eq!(sum, histogram.sample_count);
        let used: u32 = histogram.positive_span.iter().map(|span| span.length).sum();
        assert_eq!(used as usize, histogram.positive_delta.len());
        assert!((2..=5).contains(&histogram.schema) && histogram.zero_threshold > 0.0);
    }
}

#[test]
fn a_budget_is_exported_with_all_inputs_of_its_verdict() {
    let core = busy();
    let text = fleet(&core.view(start().wall, "t"), &effective(&[]).unwrap());
    let of = |name: &str, scope: &str, more: &str| -> Option<f64> {
        let labels = format!("{{budget=\"epoch_hook\",{scope},operation=\"epoch_hook\"{more}}} ");
        let row = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(&labels));
        row.map(|value| value.parse().unwrap())
    };
    // Three times 0.4 to 79.6 ms in steps of 0.4: those from 18.4 ms on are over the limit.
    let (node, all) = ("scope=\"node\",node=\"b\"", "scope=\"fleet\",node=\"\"");
    let limit = ",limit_seconds=\"0.018\"";
    let (share, of_all) = (462.0 / 597.0, 462.0 / 1194.0);
    for (name, more, of_node, of_fleet) in [
        ("plimsoll_budget_verdict", ",verdict=\"breach\"", Some(1.0), Some(1.0)),
        ("plimsoll_budget_window_samples", "", Some(597.0), Some(1194.0)),
        ("plimsoll_budget_window_over_limit_samples", "", Some(462.0), Some(462.0)),
        ("plimsoll_budget_window_uncertain_samples", "", Some(3.0), Some(3.0)),
        ("plimsoll_budget_window_over_limit_ratio", "", Some(share), Some(of_all)),
        ("plimsoll_budget_overdispersion_ratio", "", Some(4.0), Some(4.0)),
        ("plimsoll_budget_overdispersion_learning", "", Some(1.0), Some(1.0)),
        ("plimsoll_budget_window_nodes", "", None, Some(2.0)),
        ("plimsoll_budget_window_expected_nodes", "", None, Some(2.0)),
        ("plimsoll_budget_window_late_nodes", "", None, Some(0.0)),
        ("plimsoll_budget_samples_total", limit, Some(597.0), Some(1194.0)),
        ("plimsoll_budget_over_limit_samples_total", limit, Some(462.0), Some(462.0)),
    ] {
        assert_eq!(of(name, node, more), of_node, "{name}");
        assert_eq!(of(name, all, more), of_fleet, "{name}");
    }
    let [lower, value, upper] = ["lower_bound", "value", "upper_bound"]
        .map(|name| of(&format!("plimsoll_budget_{name}_seconds"), node, ""));
    assert!(Some(0.018) < lower && lower < value && value < Some(0.08), "{lower:?} {value:?}");
    // While four count as one, these are too few.
    assert_eq!(upper, None);
}

#[test]
fn a_budget_without_samples_has_no_data() {
    let text = fleet(&core().view(start().wall, "t"), &effective(&[]).unwrap());
    let labels = "{budget=\"publish\",scope=\"fleet\",node=\"\",operation=\"publish\"";
    for row in ["plimsoll_budget_window_samples", "plimsoll_budget_window_expected_nodes"] {
        assert!(text.contains(&format!("\n{row}{labels}}} 0\n")), "{row}\n{text}");
    }
    assert!(text.contains(&format!("\nplimsoll_budget_verdict{labels},verdict=\"no_data\"}} 1\n")));
    assert!(
        !text.contains("plimsoll_budget_window_over_limit_ratio{")
            && !text.contains("_samples_total{")
    );
}

#[test]
fn a_silent_node_keeps_its_counters_and_loses_its_gauges() {
    let mut core = busy();
    let at = |second| start().after(std::time::Duration::from_secs(second));
    (0..=60).for_each(|second| core.on_deadline(at(second)));
    let later = at(60);
    let text = fleet(&core.view(later.wall, "t"), &effective(&[]).unwrap());
    let of_a: Vec<&str> = text.lines().filter(|line| line.contains("node=\"a\"")).collect();
    let has = |name: &str| of_a.iter().any(|line| line.starts_with(name));
    for gone in ["plimsoll_latency_p", "plimsoll_latency_window", "plimsoll_budget_window_samples{"]
    {
        assert!(!has(gone), "{gone}: {of_a:#?}");
    }
    for kept in ["plimsoll_latency_samples_total{", "plimsoll_node_merged_samples_total{"] {
        assert!(has(kept), "{kept}: {of_a:#?}");
    }
    assert!(of_a.contains(&"plimsoll_node_silent{node=\"a\"} 1"));

    core.on_bus_event(later.mono, &BusEvent::Disconnected);
    core.on_deadline(at(61));
    let text = fleet(&core.view(at(61).wall, "t"), &effective(&[]).unwrap());
    assert!(text.contains("\nplimsoll_node_silent{node=\"a\"} 0\n"), "the broker is away");
}

#[test]
fn gauges_of_a_silent_fleet_end_and_its_verdict_is_no_data() {
    let mut core = busy();
    let at = |second| start().after(std::time::Duration::from_secs(second));
    let page = |core: &Core, second| fleet(&core.view(at(second).wall, "jetstream"), &[]);
    let row = |name: &str| format!("\nplimsoll_{name}{{budget=\"kernel_fetch\",scope=\"fleet\"");
    let gauges = ["budget_value_seconds", "budget_window_samples", "budget_window_nodes"].map(row);
    let latency = "\nplimsoll_latency_p99_seconds{scope=\"fleet\"".to_owned();
    let verdict = |word| {
        let labels = "budget=\"kernel_fetch\",scope=\"fleet\",node=\"\",operation=\"kernel_fetch\"";
        format!("\nplimsoll_budget_verdict{{{labels},verdict=\"{word}\"}} 1\n")
    };
    let last = "\nplimsoll_nodes_last_seen_timestamp_seconds 1700000000\n".to_owned();
    (0..=9).for_each(|second| core.on_deadline(at(second)));
    let text = page(&core, 9);
    for shown in gauges.iter().chain([&latency, &last]) {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    assert!(text.contains("\nplimsoll_nodes_stale 0\n") && !text.contains(&verdict("no_data")));

    core.on_deadline(at(10));
    let text = page(&core, 10);
    for gone in gauges.iter().chain([&latency]) {
        assert!(!text.contains(gone), "{gone}: {text}");
    }
    let newest = row("budget_newest_sample_timestamp_seconds");
    for shown in [&verdict("no_data"), &last, &newest, "\nplimsoll_nodes_stale 1\n"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    assert!(text.contains("\nplimsoll_latency_samples_total{scope=\"fleet\""), "counters stay");
}

#[test]
fn groups_of_a_rollup_have_the_figures_of_the_fleet_under_their_labels() {
    let by = ["a.b", "a_b"].map(str::to_owned).to_vec();
    let definition = Definition { name: "r".to_owned(), by, ..Definition::default() };
    let mut core = core().measuring(Window::FiveMinutes, &[definition]);
    let nodes = [
        ("x", [("a.b", "1"), ("a_b", "2")]),
        ("y", [("a.b", "2"), ("a_b", "1")]),
        ("z", [("a.b", "3"), ("a_b", "")]),
        ("z_", [("a.b", ""), ("a_b", "3")]),
    ];
    for (node, of) in nodes {
        let mut samples = Histogram::default();
        samples.record_n(MS, 3);
        let operation = Operation::new("fetch").unwrap();
        let series = Series { operation, labels: Labels::new(of).unwrap() };
        let latency = Latency { histograms: vec![(series, samples)], ..Latency::default() };
        let message =
            Speaker::new(node).recorded(3).message(start(), Body::Latency(latency), false);
        deliver(&mut core, start(), &message);
    }
    let text = fleet(&core.view(start().wall, "t"), &[]);
    let of = |name: &str| -> Vec<&str> {
        let rows = text.lines().filter_map(|line| line.strip_prefix(name));
        rows.filter(|row| row.starts_with("{scope=\"rollup\"")).collect()
    };
    let set = |one, two| {
        format!("{{scope=\"rollup\",rollup=\"r\",operation=\"fetch\",a_b=\"{one}\",a_b_=\"{two}\"")
    };
    let samples = of("plimsoll_latency_samples_total");
    let only = |key| format!("{{scope=\"rollup\",rollup=\"r\",operation=\"fetch\",{key}=\"3\"}} 3");
    let both = |one, two| format!("{}}} 3", set(one, two));
    assert_eq!(samples, [only("a_b_"), both(1, 2), both(2, 1), only("a_b")]);
    assert_eq!(of("plimsoll_latency_window_samples").len(), 4 * Window::ALL.len());
    assert_eq!(of("plimsoll_latency_p99_seconds").len(), 4 * (Window::ALL.len() + 1));
    assert!(
        of("plimsoll_latency_seconds_bucket")
            .contains(&&*format!("{},le=\"0.001\"}} 3", set(1, 2)))
    );
    // The arithmetic of `ROLLUP_GROUPS_MAX`.
    let all = text.lines().filter(|line| line.contains("{scope=\"rollup\"")).count();
    assert_eq!(all, 4 * 53);
}

#[test]
fn default_roll_ups_change_no_page_of_a_fleet_without_their_labels() {
    let page = |rollups: &[Definition]| -> Vec<String> {
        let mut core = core().measuring(Window::FiveMinutes, rollups);
        let labels = Labels::new([("rack", "r1"), ("version", "2")]).unwrap();
        let mut speaker = Speaker::new("a").called(labels).recorded(5);
        deliver(&mut core, start(), &speaker.message(start(), shard_reads(), false));
        core.on_deadline(start().after(std::time::Duration::from_secs(1)));
        let text = String::from_utf8(rendered(&core, Format::Text)).unwrap();
        let of_mesh = text.lines().filter(|line| !line.starts_with("process_"));
        of_mesh.map(str::to_owned).collect()
    };
    let without = page(&[]);
    assert!(without.iter().any(|line| line.contains("shard_read")));
    assert_eq!(page(&Config::default().rollups()), without);
}

#[test]
fn names_of_jobs_that_become_equal_share_a_family_and_no_two_families_have_one_name() {
    let mut core = core();
    let number = |(name, value): (&str, f64)| (Series::plain(Operation::new(name).unwrap()), value);
    for node in ["x", "y"] {
        let counters = [("a.b", 1.0), ("a_b", 2.0), ("a_b_total", 4.0), ("depth", 8.0)];
        let gauges = [("a.b", 5.0), ("a/b", 6.0), ("depth", 7.0), ("depth_total", -1.0)];
        let latency = Latency {
            counters: counters.map(number).into(),
            gauges: gauges.map(number).into(),
            ..Latency::default()
        };
        let message = Speaker::new(node).message(start(), Body::Latency(latency), false);
        deliver(&mut core, start(), &message);
    }
    let text = String::from_utf8(rendered(&core, Format::OpenMetrics)).unwrap();
    let rows: Vec<&str> = text.lines().filter(|row| row.starts_with("plimsoll_job_")).collect();
    let wanted = [
        ("count_a_b_total", 7),
        ("count_depth_total", 8),
        ("value_a_b", 6),
        ("value_depth", 7),
        ("value_depth_total", -1),
    ];
    let of_nodes =
        |(name, n)| ["x", "y"].map(|node| format!("plimsoll_job_{name}{{node=\"{node}\"}} {n}"));
    assert_eq!(rows, wanted.map(of_nodes).concat());
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let names: Vec<&str> = names.iter().filter_map(|line| line.split(' ').next()).collect();
    let once: std::collections::BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(once.len(), names.len());
}

#[test]
fn a_counter_of_a_job_never_falls_and_what_lowers_it_is_counted_apart() {
    let (mut core, mut x) = (core(), Speaker::new("x"));
    let number = |(name, value): (&str, f64)| (Series::plain(Operation::new(name).unwrap()), value);
    let mut rows = |amounts: &[(&str, f64)]| -> Vec<String> {
        let counters = amounts.iter().copied().map(number).collect();
        let latency = Latency { counters, ..Latency::default() };
        deliver(&mut core, start(), &x.message(start(), Body::Latency(latency), false));
        let text = String::from_utf8(rendered(&core, Format::OpenMetrics)).unwrap();
        let rows = text.lines().filter_map(|row| row.strip_prefix("plimsoll_job_"));
        rows.map(|row| row.replace("{node=\"x\"}", "")).collect()
    };
    assert_eq!(rows(&[("jobs", -3.0)]), ["count_jobs_total 0", "lowered_jobs_total 3"]);
    assert_eq!(rows(&[("jobs", 5.0)]), ["count_jobs_total 5", "lowered_jobs_total 3"]);
    assert_eq!(rows(&[("jobs", -0.5)]), ["count_jobs_total 5", "lowered_jobs_total 3.5"]);
}

#[test]
fn a_counter_of_a_job_ends_in_total_once_and_is_no_part_of_another_one() {
    let mut core = core();
    let counters = [("x_total.total", 1.0), ("x", 2.0), ("y", 4.0), ("y.created", 8.0)];
    let counters = counters.map(|(name, n)| (Series::plain(Operation::new(name).unwrap()), n));
    let latency = Latency { counters: counters.into(), ..Latency::default() };
    let message = Speaker::new("n").message(start(), Body::Latency(latency), false);
    deliver(&mut core, start(), &message);
    let text = String::from_utf8(rendered(&core, Format::OpenMetrics)).unwrap();
    let of_jobs = |line: &&str| line.contains("plimsoll_job_") && !line.starts_with("# HELP");
    let wanted = [
        "# TYPE plimsoll_job_count_x counter",
        "plimsoll_job_count_x_total{node=\"n\"} 3",
        "# TYPE plimsoll_job_count_y_created_ counter",
        "plimsoll_job_count_y_created__total{node=\"n\"} 8",
        "# TYPE plimsoll_job_count_y counter",
        "plimsoll_job_count_y_total{node=\"n\"} 4",
    ];
    assert_eq!(text.lines().filter(of_jobs).collect::<Vec<_>>(), wanted);
}

#[test]
fn a_gauge_that_no_job_sends_any_more_is_not_exported() {
    let (mut core, mut n) = (core(), Speaker::new("n"));
    let mut rows = |second: u64, depth: Option<f64>| -> Vec<String> {
        let now = start().after(std::time::Duration::from_secs(second));
        let series = Series::plain(Operation::new("depth").unwrap());
        let gauges = depth.into_iter().map(|depth| (series.clone(), depth)).collect();
        let latency = Latency { gauges, ..Latency::default() };
        deliver(&mut core, now, &n.message(now, Body::Latency(latency), false));
        let text = fleet(&core.view(now.wall, "t"), &[]);
        let rows = text.lines().filter(|row| row.starts_with("plimsoll_job_value"));
        rows.map(str::to_owned).collect()
    };
    let row = ["plimsoll_job_value_depth{node=\"n\"} 9"];
    assert_eq!(rows(0, Some(9.0)), row);
    assert_eq!(rows(74, None), row, "some clients send theirs once a minute");
    assert_eq!(rows(75, None), [""; 0], "as for rules, its last value is not current");
    assert_eq!(rows(76, Some(9.0)), row);
}

#[test]
fn aliases_are_exported_when_configured() {
    let core = busy();
    let text = String::from_utf8(rendered(&core, Format::Text)).unwrap();
    let budgets = effective(&[]).unwrap();
    let without = fleet(&core.view(start().wall, "t"), &budgets);
    for name in [
        "tolaria_training_latency_ms",
        "kasmina_kernel_fetch_latency_ms",
        "oona_queue_depth_max",
        "publish_total",
        "publish_rerouted",
        "publish_dropped",
        "queue_depth_max",
        "profiler_function_duration_seconds",
        "profiler_function_calls_total",
        "oona_publish_latency_ms",
    ] {
        assert!(text.contains(&format!("\n# TYPE {name} ")), "{name}");
        assert!(!without.contains(&format!("\n# TYPE {name} ")), "{name}");
    }
    let calls = |function: &str| {
        let row = format!("profiler_function_calls_total{{function_name=\"{function}\",");
        text.lines().any(|line| line.starts_with(&row) && line.ends_with(" 1194"))
    };
    assert!(calls("epoch_hook") && calls("kernel_fetch"), "{text}");
    assert!(!text.contains("function_name=\"publish\""), "it is no function of a job");
    let hooks = "tolaria_training_latency_ms{scope=\"node\",node=\"a\",operation=\"epoch_hook\"} ";
    let ms = text.lines().find_map(|line| line.strip_prefix(hooks)).unwrap();
    assert!((5.9..6.0).contains(&ms.parse::<f64>().unwrap()), "{ms}");
}

/// Three reads of shards of one profiler and two of none, with their counters.
fn shard_reads() -> Body {
    let series = |name: &str, profiler: &str| {
        let labels = [("profiler", profiler)].into_iter().filter(|(_, value)| !value.is_empty());
        let operation = Operation::new(name).unwrap();
        Series { operation, labels: Labels::new(labels).unwrap() }
    };
    let samples = |n| {
        let mut histogram = Histogram::default();
        histogram.record_n(30 * MS, n);
        histogram
    };
    let histograms = [("", 2), ("loader", 3)];
    let histograms = histograms.map(|(by, n)| (series("shard_read", by), samples(n)));
    let counters = ["bytes", "rows", "slow", "errors"].into_iter().enumerate().map(|(n, what)| {
        let amount = f64::from(u32::try_from(n).unwrap() + 1);
        (series(&format!("shard_read.{what}"), "loader"), amount)
    });
    let (histograms, counters) = (histograms.into(), counters.collect());
    Body::Latency(Latency { histograms, counters, ..Latency::default() })
}

#[test]
fn aliases_of_functions_and_shards_carry_the_profiler_where_a_roll_up_groups_by_it() {
    let by = |name: &str, labels: &[&str]| Definition {
        name: name.to_owned(),
        by: labels.iter().map(|label| (*label).to_owned()).collect(),
        ..Definition::default()
    };
    // A part of the samples is no alias of all.
    let part = Definition::of_label("profiler");
    let rollups = [part, by("a", &["outcome"]), by("b", &["profiler"]), by("c", &["profiler"])];
    let all = (&rollups[..], &[("", 2), ("loader", 3)][..]);
    for (rollups, reads) in [(&rollups[..0], &[("", 5)][..]), (&rollups[..1], &[("", 5)]), all] {
        let mut core = core().measuring(Window::FiveMinutes, rollups);
        let mut speaker = Speaker::new("a");
        speaker.record(5);
        deliver(&mut core, start(), &speaker.message(start(), shard_reads(), false));
        let text = String::from_utf8(rendered(&core, Format::Text)).unwrap();
        let rows = |prefix: &str| -> Vec<String> {
            text.lines().filter(|row| row.starts_with(prefix)).map(str::to_owned).collect()
        };
        let of_all = |name: &str, function: &str| -> Vec<String> {
            let row =
                |(by, n): &(&str, u64)| format!("{name}{{{function}profiler_name=\"{by}\"}} {n}");
            reads.iter().map(row).collect()
        };
        let calls = "profiler_function_calls_total";
        assert_eq!(rows(calls), of_all(calls, "function_name=\"shard_read\","));
        for name in ["profiler_shard_reads_total", "profiler_shard_read_duration_seconds_count"] {
            assert_eq!(rows(name), of_all(name, ""), "{name}");
        }
        let counters = [("read_bytes", 1), ("read_rows", 2), ("slow_reads", 3), ("read_errors", 4)];
        for (name, n) in counters {
            let name = format!("profiler_shard_{name}_total");
            let row = format!("{name}{{node=\"a\",profiler_name=\"loader\"}} {n}");
            assert_eq!(rows(&name), [row]);
        }
        let errors = "profiler_function_errors_total";
        let labels = "node=\"a\",function_name=\"shard_read\",profiler_name=\"loader\"";
        assert_eq!(rows(errors), [format!("{errors}{{{labels}}} 4")]);
    }
}

#[test]
fn aliases_have_types_that_jobs_and_silent_nodes_cannot_break() {
    let mut core = core();
    let errors = Series::plain(Operation::new("fetch.errors").unwrap());
    let latency = Latency { counters: vec![(errors, -2.0)], ..Latency::default() };
    let mut speaker = Speaker::new("a");
    deliver(&mut core, start(), &speaker.message(start(), Body::Latency(latency), false));
    let text = String::from_utf8(rendered(&core, Format::OpenMetrics)).unwrap();
    assert!(text.contains("# TYPE profiler_function_errors_total unknown\n"), "{text}");
    let row = "profiler_function_errors_total{node=\"a\",function_name=\"fetch\",profiler_name=\"\"} -2\n";
    assert!(text.contains(row) && text.contains("\nqueue_depth_max{node=\"a\"} 0\n"), "{text}");
    let later = start().after(std::time::Duration::from_secs(60)).wall;
    let shown = PageOptions { budgets: &[], aliases: true };
    let page = page(&core.view(later, "t"), shown, &ServingStats::default(), Format::Text);
    let text = String::from_utf8(page).unwrap();
    assert!(!text.contains("queue_depth_max{") && text.contains("publish_rerouted{"), "{text}");
}

/// Prometheus' own linter. Old names break its rules, so they are left out.
#[test]
fn promtool_accepts_the_text() {
    let core = busy();
    let view = core.view(start().wall, "jetstream");
    let text = fleet(&view, &effective(&[]).unwrap()) + &own(&view);
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is installed; on Debian or Ubuntu: apt-get install prometheus");
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let complaints = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success() && complaints.is_empty(),
        "{}",
        String::from_utf8_lossy(&complaints)
    );
}

proptest! {
    #[test]
    fn no_label_value_can_break_out_of_its_quotes(value in "\\PC{0,20}|[\"\\\\\n}]{0,10}") {
        let mut writer = Writer::new(Format::Text);
        let labels = writer.labels([("k", value.as_str())]);
        writer.family(Family::gauge("m", "h"), |rows| rows.add(&[&labels], Value::Count(1)));
        let text = text(writer);
        prop_assert_eq!(text.lines().count(), 3);
        let row = text.lines().last().unwrap();
        let quoted = row.strip_prefix("m{k=\"").and_then(|r| r.strip_suffix("\"} 1")).unwrap();
        let read = quoted.replace("\\\\", "\u{0}").replace("\\n", "\n");
        prop_assert!(!read.replace("\\\"", "").contains('"'));
        prop_assert_eq!(read.replace("\\\"", "\"").replace('\u{0}', "\\"), value);
    }

    #[test]
    fn any_name_of_a_job_becomes_a_valid_one(name in "[A-Za-z0-9_.:/-]{1,20}") {
        let valid = valid_name(&name);
        prop_assert!(valid.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
        prop_assert_eq!(valid.len(), name.len());
    }

    #[test]
    fn any_valid_key_becomes_a_valid_one(key in "[A-Za-z0-9_.-]{1,20}|node|job") {
        let fixed = valid_key(&key);
        prop_assert!(fixed.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
        prop_assert!(!fixed.starts_with("__") && !fixed.as_bytes()[0].is_ascii_digit());
        prop_assert!(!["node", "job", "scope", "le"].contains(&&*fixed));
    }
}
