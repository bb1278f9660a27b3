//! Families of counters with one label.

use plimsoll_runtime::page::{Family, Page};

/// Adds a family of counters with one label.
#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
pub(super) fn counters_by<'a>(
    page: &Page,
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str; 1],
    rows: impl IntoIterator<Item = (&'a str, u64)>,
) {
    let rows: Vec<_> = rows.into_iter().map(|(value, n)| ([value], n as f64)).collect();
    let rows = rows.iter().map(|(values, n)| (&values[..], *n));
    page.counters(Family { name, help, labels }, rows);
}
