//! The benchmark of false pages plays Prometheus itself; here the real one checks the part.

#[path = "../benches/false_pages/load.rs"]
mod load;
#[path = "../benches/false_pages/prometheus.rs"]
mod prometheus;

use std::fmt::Write;
use std::process::Command;

use load::{Dice, Load, Source};
use prometheus::{DEFAULT_BUCKETS, EVERY, Prometheus, histogram_quantile, rate};

const LIMIT: f64 = 0.018;
const P99_NS: f64 = 17.1e6;
const SECONDS: u64 = 3_600;
const P99: &str = "histogram_quantile(0.99, rate(job_bucket[1m]))";

/// What promtool is to find in an hour of which the third quarter is slow.
#[derive(Default)]
struct Hour {
    /// Values of each bucket's series, one a second, `_` between scrapes.
    series: Vec<String>,
    /// Every evaluation, and whether the alert fires then.
    evaluations: Vec<(u64, bool)>,
    quantiles: Vec<(u64, f64)>,
}

fn hour(seed: u64, buckets: &[f64]) -> Hour {
    let mut dice = Dice::new(seed);
    let phases = (1 + dice.below(EVERY - 1), 0);
    let calm = Load {
        per_minute: 600,
        sigma: 0.4,
        p99_ns: P99_NS,
        correlation: 0.0,
        has_season: false,
        bursts: 0.0,
        shared: 0.0,
    };
    let mut source = Source::new(calm);
    let mut prometheus = Prometheus::new(LIMIT, buckets, phases);
    let mut samples = Vec::new();
    let mut counts = vec![0; buckets.len() + 1];
    let mut hour = Hour { series: vec![String::new(); counts.len()], ..Hour::default() };
    for second in 0..SECONDS {
        let slow = (SECONDS / 2..SECONDS * 3 / 4).contains(&second);
        source.load = calm.times(if slow { 1.5 } else { 1.0 });
        source.draw(second, &mut dice, &mut samples);
        prometheus.observe(&samples);
        for (number, count) in counts.iter_mut().enumerate() {
            let edge = buckets.get(number).copied().unwrap_or(f64::INFINITY);
            *count += samples.iter().filter(|sample| seconds(**sample) <= edge).count();
            let scraped = second % EVERY == phases.0;
            let value = if scraped { count.to_string() } else { "_".to_owned() };
            write!(hour.series[number], "{value} ").unwrap();
        }
        let fires = prometheus.fires(second);
        if second % EVERY == phases.1 {
            hour.evaluations.push((second, fires));
            hour.quantiles.extend(prometheus.quantile(second).map(|quantile| (second, quantile)));
        }
    }
    hour
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

const RULES: &str = "groups:
- name: slow
  rules:
  - alert: Slow
    expr: histogram_quantile(0.99, rate(job_bucket[1m])) > 0.018
    for: 1m
";

fn test_file(hour: &Hour, buckets: &[f64]) -> String {
    let mut text = String::from("rule_files: [rules.yml]\nevaluation_interval: 15s\ntests:\n");
    text += "- interval: 1s\n  input_series:\n";
    for (number, values) in hour.series.iter().enumerate() {
        let edge = buckets.get(number).map_or("+Inf".to_owned(), f64::to_string);
        writeln!(text, "    - {{series: 'job_bucket{{le=\"{edge}\"}}', values: '{values}'}}")
            .unwrap();
    }
    text += "  alert_rule_test:\n";
    for (second, fires) in &hour.evaluations {
        let alerts = if *fires { "[{exp_labels: {}}]" } else { "[]" };
        writeln!(text, "    - {{eval_time: {second}s, alertname: Slow, exp_alerts: {alerts}}}")
            .unwrap();
    }
    text += "  promql_expr_test:\n";
    for (second, quantile) in &hour.quantiles {
        writeln!(text, "    - expr: abs({P99} / {quantile:e} - 1) < bool 1e-9").unwrap();
        writeln!(text, "      eval_time: {second}s").unwrap();
        writeln!(text, "      exp_samples: [{{labels: '{{}}', value: 1}}]").unwrap();
    }
    text
}

fn promtool(tests: &str) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rules.yml"), RULES).unwrap();
    std::fs::write(folder.path().join("test.yml"), tests).unwrap();
    let got = Command::new("promtool")
        .args(["test", "rules", "test.yml"])
        .current_dir(folder.path())
        .output()
        .expect("promtool is installed; on Debian or Ubuntu: apt-get install prometheus");
    let words = [got.stdout, got.stderr].concat();
    (got.status.success(), String::from_utf8_lossy(&words).into_owned())
}

#[test]
fn every_quantile_and_alert_of_the_benchmarks_prometheus_equals_the_real_ones() {
    let mut with_edge = [&DEFAULT_BUCKETS[..], &[LIMIT]].concat();
    with_edge.sort_by(f64::total_cmp);
    let (mut alerts, mut calm) = (0, 0);
    for (seed, buckets) in [(1, &with_edge[..]), (2, &with_edge[..]), (3, &DEFAULT_BUCKETS[..])] {
        let hour = hour(seed, buckets);
        let (right, words) = promtool(&test_file(&hour, buckets));
        assert!(right, "seed {seed}: {}", &words[..words.len().min(4_000)]);
        let firing = hour.evaluations.iter().filter(|(_, fires)| *fires).count();
        alerts += firing;
        calm += hour.evaluations.len() - firing;
    }
    assert!(alerts > 200 && calm > 200, "both happen: {alerts} and {calm}");
}

#[test]
fn a_wrong_quantile_would_be_noticed() {
    let hour = hour(1, &[LIMIT]);
    let wrong = test_file(&hour, &[LIMIT])
        .replace("rate(job_bucket[1m])) / ", "rate(job_bucket[1m])) / 1.001 / ");
    assert!(!promtool(&wrong).0);
}

#[test]
fn a_counter_is_not_extrapolated_below_zero_and_an_empty_histogram_has_no_quantile() {
    let points = [(10.0, 1.0), (25.0, 31.0)];
    let at = rate(&points, 30.0, 60.0).unwrap();
    assert!((at - 30.0 * (15.0 + 0.5 + 5.0) / 15.0 / 60.0).abs() < 1e-12, "{at}");
    assert_eq!(rate(&points[..1], 30.0, 60.0), None);
    assert!(histogram_quantile(0.99, &[(1.0, 0.0), (f64::INFINITY, 0.0)]).is_nan());
}
