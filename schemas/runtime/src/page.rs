//! A page of metrics of a process about itself, built for each scrape from counts of its core.
//!
//! For some tens of series; fleet series have a writer of their own.

use prometheus::core::Collector;
use prometheus::{CounterVec, Encoder, GaugeVec, Opts, Registry, TextEncoder};

use crate::process;

/// A metric's name, help and label names.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Full name, unit at the end.
    pub name: &'static str,
    pub help: &'static str,
    /// Names of its labels.
    pub labels: &'static [&'static str],
}

/// The metrics of one scrape.
pub struct Page(Registry);

impl Default for Page {
    fn default() -> Self {
        Self(Registry::new())
    }
}

impl Page {
    /// Adds a family of gauges: label values, then the value.
    pub fn gauges<'a>(&self, family: Family, rows: impl IntoIterator<Item = (&'a [&'a str], f64)>) {
        let Ok(gauges) = GaugeVec::new(Opts::new(family.name, family.help), family.labels) else {
            return invalid(family);
        };
        for (labels, value) in rows {
            match gauges.get_metric_with_label_values(labels) {
                Ok(gauge) => gauge.set(value),
                Err(_) => invalid(family),
            }
        }
        self.add(family, gauges);
    }

    /// Adds a family of counters: label values, then the value so far.
    pub fn counters<'a>(
        &self,
        family: Family,
        rows: impl IntoIterator<Item = (&'a [&'a str], f64)>,
    ) {
        let Ok(counters) = CounterVec::new(Opts::new(family.name, family.help), family.labels)
        else {
            return invalid(family);
        };
        for (labels, value) in rows {
            match counters.get_metric_with_label_values(labels) {
                Ok(counter) => counter.inc_by(value),
                Err(_) => invalid(family),
            }
        }
        self.add(family, counters);
    }

    /// Adds one gauge without labels.
    pub fn gauge(&self, name: &'static str, help: &'static str, value: f64) {
        self.gauges(Family { name, help, labels: &[] }, [(&[][..], value)]);
    }

    /// Adds one counter without labels.
    pub fn counter(&self, name: &'static str, help: &'static str, value: f64) {
        self.counters(Family { name, help, labels: &[] }, [(&[][..], value)]);
    }

    fn add(&self, family: Family, collector: impl Collector + 'static) {
        if self.0.register(Box::new(collector)).is_err() {
            invalid(family);
        }
    }

    /// The page as Prometheus text, with the process's own CPU, memory and file handles.
    pub fn render(&self) -> String {
        let mut families = self.0.gather();
        families.extend(process::families());
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&families, &mut text) {
            tracing::error!(%error, "cannot encode metrics");
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// An invalid name or label is a programming error: the page lacks the metric, which tests detect.
fn invalid(family: Family) {
    tracing::error!(metric = family.name, "invalid metric");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_what_was_put_on_it() {
        let page = Page::default();
        page.gauge("a_ratio", "A share", 0.5);
        let family = Family { name: "b_total", help: "A count", labels: &["reason"] };
        page.counters(family, [(&["x"][..], 2.0), (&["y"][..], 3.0)]);
        let text = page.render();
        for line in ["a_ratio 0.5", "b_total{reason=\"x\"} 2", "b_total{reason=\"y\"} 3"] {
            assert!(text.lines().any(|present| present == line), "{line} is not in {text}");
        }
        assert!(text.contains("process_resident_memory_bytes"));
    }
}
