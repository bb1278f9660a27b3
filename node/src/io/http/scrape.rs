//! Metrics of the scraped targets, each under its address.

use plimsoll_runtime::page::{Family, Page};

use crate::core::intake::promtext::{Failure, ScrapeStats};

const TARGET: &[&str] = &["target"];

pub(super) fn add(page: &Page, targets: &[ScrapeStats]) {
    if targets.is_empty() {
        return;
    }
    add_latest(page, targets);
    add_totals(page, targets);
    let failures = targets.iter().flat_map(|of| {
        let row = |(failure, n): (&Failure, &u64)| ([of.target.as_str(), failure.as_str()], *n);
        of.failures.iter().map(row)
    });
    let family = Family {
        name: "plimsoll_agent_scrape_failures_total",
        help: "Failed scrapes of a target, per reason",
        labels: &["target", "reason"],
    };
    counters(page, family, failures);
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn add_latest(page: &Page, targets: &[ScrapeStats]) {
    type Of = fn(&ScrapeStats) -> f64;
    let latest: [(_, _, Of); 3] = [
        (
            "plimsoll_agent_scrape_up",
            "1 when the latest scrape of a target succeeded, 0 otherwise",
            |of| f64::from(u8::from(of.is_up)),
        ),
        (
            "plimsoll_agent_scrape_duration_seconds",
            "Duration of the latest scrape of a target, until its last byte or its failure",
            |of| of.took.as_secs_f64(),
        ),
        (
            "plimsoll_agent_scrape_series",
            "Series accepted from the latest page of a target",
            |of| of.series as f64,
        ),
    ];
    for (name, help, value) in latest {
        let rows: Vec<_> = targets.iter().map(|of| ([of.target.as_str()], value(of))).collect();
        let rows = rows.iter().map(|(labels, value)| (&labels[..], *value));
        page.gauges(Family { name, help, labels: TARGET }, rows);
    }
}

fn add_totals(page: &Page, targets: &[ScrapeStats]) {
    type Of = fn(&ScrapeStats) -> u64;
    let totals: [(_, _, Of); 4] = [
        ("plimsoll_agent_scrape_pages_total", "Successful scrapes of a target", |of| of.pages),
        ("plimsoll_agent_scrape_points_total", "Values accepted from a target", |of| of.recorded),
        (
            "plimsoll_agent_scrape_rejected_series_total",
            "Lines and series of a target rejected; plimsoll_agent_rejected_lines_total has the reasons",
            |of| of.rejected,
        ),
        (
            "plimsoll_agent_scrape_filtered_series_total",
            "Rows of a target excluded by its allow list",
            |of| of.excluded,
        ),
    ];
    for (name, help, value) in totals {
        let rows = targets.iter().map(|of| ([of.target.as_str()], value(of)));
        counters(page, Family { name, help, labels: TARGET }, rows);
    }
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn counters<'a, const N: usize>(
    page: &Page,
    family: Family,
    rows: impl Iterator<Item = ([&'a str; N], u64)>,
) {
    let rows: Vec<_> = rows.collect();
    page.counters(family, rows.iter().map(|(labels, n)| (&labels[..], *n as f64)));
}
