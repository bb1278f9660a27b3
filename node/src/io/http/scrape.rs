//! Metrics of the scraped targets, each under its address.

use plimsoll_runtime::page::{Page, PageValue};

use crate::core::intake::promtext::ScrapeStats;

pub(super) fn add(page: &Page, targets: &[ScrapeStats]) {
    if targets.is_empty() {
        return;
    }
    page.about("1 when the latest scrape of a target succeeded, 0 otherwise")
        .by("target")
        .gauges("plimsoll_agent_scrape_up", of_each(targets, |of| of.is_up));
    page.about("Duration of the latest scrape of a target, until its last byte or its failure")
        .by("target")
        .gauges("plimsoll_agent_scrape_duration_seconds", of_each(targets, |of| of.took));
    page.about("Series accepted from the latest page of a target")
        .by("target")
        .gauges("plimsoll_agent_scrape_series", of_each(targets, |of| of.series));
    page.about("Successful scrapes of a target")
        .by("target")
        .counters("plimsoll_agent_scrape_pages_total", of_each(targets, |of| of.pages));
    page.about("Values accepted from a target")
        .by("target")
        .counters("plimsoll_agent_scrape_points_total", of_each(targets, |of| of.recorded));
    page.about("Lines and series of a target rejected; plimsoll_agent_rejected_lines_total has the reasons")
        .by("target")
        .counters("plimsoll_agent_scrape_rejected_series_total", of_each(targets, |of| of.rejected));

    page.about("Rows of a target excluded by its allow list").by("target").counters(
        "plimsoll_agent_scrape_filtered_series_total",
        of_each(targets, |of| of.excluded),
    );

    let failures = targets.iter().flat_map(|of| {
        of.failures.iter().map(|(failure, n)| ([of.target.as_str(), failure.as_str()], n))
    });

    page.about("Failed scrapes of a target, per reason").counters(
        "plimsoll_agent_scrape_failures_total",
        ["target", "reason"],
        failures,
    );
}

fn of_each<V: PageValue>(
    targets: &[ScrapeStats],
    value: fn(&ScrapeStats) -> V,
) -> impl Iterator<Item = (&str, V)> {
    targets.iter().map(move |of| (of.target.as_str(), value(of)))
}
