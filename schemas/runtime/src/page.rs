//! A page of metrics of a process about itself, built for each scrape from counts of its core.
//!
//! For some tens of series; fleet series have a writer of their own.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{CounterVec, Encoder, GaugeVec, Opts, Registry, TextEncoder};

use crate::process;

/// The metrics of one scrape.
pub struct Page(Registry);

/// A family whose help text is stated, before its name and rows.
#[derive(Clone, Copy)]
pub struct Described<'p> {
    page: &'p Page,
    help: &'static str,
}

/// The same of a family with one label.
#[derive(Clone, Copy)]
pub struct DescribedBy<'p, 'l> {
    family: Described<'p>,
    label: &'l str,
}

/// A number on a page, where all are floats. A span is in seconds.
pub trait PageValue {
    fn as_float(&self) -> f64;
}

impl PageValue for f64 {
    fn as_float(&self) -> f64 {
        *self
    }
}

impl PageValue for u64 {
    fn as_float(&self) -> f64 {
        *self as f64
    }
}

impl PageValue for usize {
    fn as_float(&self) -> f64 {
        *self as f64
    }
}

impl PageValue for bool {
    fn as_float(&self) -> f64 {
        f64::from(u8::from(*self))
    }
}

impl PageValue for Duration {
    fn as_float(&self) -> f64 {
        self.as_secs_f64()
    }
}

impl<V: PageValue> PageValue for &V {
    fn as_float(&self) -> f64 {
        (*self).as_float()
    }
}

impl Default for Page {
    fn default() -> Self {
        Self(Registry::new())
    }
}

impl Page {
    /// Begins a family with its help text.
    pub fn about(&self, help: &'static str) -> Described<'_> {
        Described { page: self, help }
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

    fn add(&self, name: &'static str, collector: impl Collector + 'static) {
        if self.0.register(Box::new(collector)).is_err() {
            invalid(name);
        }
    }
}

impl<'p> Described<'p> {
    /// One gauge without labels.
    pub fn gauge(self, name: &'static str, value: impl PageValue) {
        self.gauges(name, [], [([""; 0], value)]);
    }

    /// One counter without labels.
    pub fn counter(self, name: &'static str, value: impl PageValue) {
        self.counters(name, [], [([""; 0], value)]);
    }

    /// Continues with a family that has this one label.
    pub fn by<'l>(self, label: &'l str) -> DescribedBy<'p, 'l> {
        DescribedBy { family: self, label }
    }

    /// A gauge for each set of values of some labels.
    pub fn gauges<const N: usize>(
        self,
        name: &'static str,
        labels: [&str; N],
        rows: impl IntoIterator<Item = ([impl AsRef<str>; N], impl PageValue)>,
    ) {
        let Ok(gauges) = GaugeVec::new(Opts::new(name, self.help), &labels) else {
            return invalid(name);
        };
        for (of, value) in rows {
            match gauges.get_metric_with_label_values(&of.each_ref().map(AsRef::as_ref)) {
                Ok(gauge) => gauge.set(value.as_float()),
                Err(_) => invalid(name),
            }
        }
        self.page.add(name, gauges);
    }

    /// A counter for each set of values of some labels.
    pub fn counters<const N: usize>(
        self,
        name: &'static str,
        labels: [&str; N],
        rows: impl IntoIterator<Item = ([impl AsRef<str>; N], impl PageValue)>,
    ) {
        let Ok(counters) = CounterVec::new(Opts::new(name, self.help), &labels) else {
            return invalid(name);
        };
        for (of, value) in rows {
            match counters.get_metric_with_label_values(&of.each_ref().map(AsRef::as_ref)) {
                Ok(counter) => counter.inc_by(value.as_float()),
                Err(_) => invalid(name),
            }
        }
        self.page.add(name, counters);
    }
}

impl DescribedBy<'_, '_> {
    /// A gauge for each value of the label.
    pub fn gauges(
        self,
        name: &'static str,
        rows: impl IntoIterator<Item = (impl AsRef<str>, impl PageValue)>,
    ) {
        let rows = rows.into_iter().map(|(of, value)| ([of], value));
        self.family.gauges(name, [self.label], rows);
    }

    /// A counter for each value of the label.
    pub fn counters(
        self,
        name: &'static str,
        rows: impl IntoIterator<Item = (impl AsRef<str>, impl PageValue)>,
    ) {
        let rows = rows.into_iter().map(|(of, value)| ([of], value));
        self.family.counters(name, [self.label], rows);
    }
}

/// An invalid name or label is a programming error: the page lacks the metric, which tests detect.
fn invalid(metric: &'static str) {
    tracing::error!(metric, "invalid metric");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_what_was_put_on_it() {
        let page = Page::default();
        page.about("A share").gauge("a_ratio", 0.5);
        page.about("A count").by("reason").counters("b_total", [("x", 2_u64), ("y", 3)]);
        let text = page.render();
        for line in ["a_ratio 0.5", "b_total{reason=\"x\"} 2", "b_total{reason=\"y\"} 3"] {
            assert!(text.lines().any(|present| present == line), "{line} is not in {text}");
        }
        assert!(text.contains("process_resident_memory_bytes"));
    }
}
