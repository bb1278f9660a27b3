//! Metrics of the targets whose pages are read, each under its address.

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
        help: "Looks at a target that brought no page, by reason",
        labels: &["target", "reason"],
    };
    counters(page, family, failures);
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn add_latest(page: &Page, targets: &[ScrapeStats]) {
    type Of = fn(&ScrapeStats) -> f64;
    let latest: [(_, _, Of); 3] = [
        ("plimsoll_agent_scrape_up", "1 when the latest look at a target brought a page", |of| {
            f64::from(u8::from(of.is_up))
        }),
        (
            "plimsoll_agent_scrape_duration_seconds",
            "Time that the latest look at a target took, to the last byte or its failure",
            |of| of.took.as_secs_f64(),
        ),
        ("plimsoll_agent_scrape_series", "Series taken of a target's latest page", |of| {
            of.series as f64
        }),
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
        ("plimsoll_agent_scrape_pages_total", "Pages of a target read", |of| of.pages),
        ("plimsoll_agent_scrape_points_total", "Values of series taken", |of| of.recorded),
        (
            "plimsoll_agent_scrape_refused_total",
            "Lines and series of a target refused; why stands among rejected lines",
            |of| of.rejected,
        ),
        (
            "plimsoll_agent_scrape_left_out_total",
            "Rows of a target that its list of names leaves out",
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
