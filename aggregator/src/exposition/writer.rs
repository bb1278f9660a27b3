//! Writes families of series in the format that was asked for: Prometheus text 0.0.4, OpenMetrics
//! 1.0.0, or delimited protobuf. Whoever describes a family knows nothing of formats.
//!
//! A writer of our own: fleet series are many and share few label sets, so these are rendered once
//! and then copied; counts and times are written without a detour over floats; nothing is
//! registered, sorted or kept.

use super::format::Format;
use super::labels::push_label;
use super::number::{push_seconds, push_value};
use super::protobuf::{self, Field};
use crate::core::fleet::Buckets;

/// What kind of number a family holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyType {
    /// Goes up and down.
    Gauge,
    /// Only grows; its name ends in `_total`.
    Counter,
    /// A counter beside another family of the same name: OpenMetrics, which names a counter's
    /// family without `_total`, must be told of another type.
    CounterBeside,
    /// Counts by bucket.
    Histogram,
    /// Nothing is promised; only for old names that break the rules.
    Unknown,
}

/// A family of series.
#[derive(Clone, Copy, Debug)]
pub struct Family<'a> {
    /// Full name: unit at the end, then `_total` for a counter.
    pub name: &'a str,
    /// What kind of number it holds.
    pub family_type: FamilyType,
    /// One line for people, without quotes and backslashes.
    pub help: &'a str,
}

/// Units that OpenMetrics is told of; each ends a family's name.
const UNITS: [&str; 9] =
    ["seconds", "bytes", "ratio", "celsius", "watts", "hertz", "volts", "joules", "percent"];

impl<'a> Family<'a> {
    /// A family of gauges.
    #[must_use]
    pub const fn gauge(name: &'a str, help: &'a str) -> Self {
        Self { name, family_type: FamilyType::Gauge, help }
    }

    /// A family of counters.
    #[must_use]
    pub const fn counter(name: &'a str, help: &'a str) -> Self {
        Self { name, family_type: FamilyType::Counter, help }
    }

    /// The name that OpenMetrics gives to the family: a counter's without `_total`.
    fn base_name(&self) -> &'a str {
        match self.family_type {
            FamilyType::Counter => self.name.strip_suffix("_total").unwrap_or(self.name),
            _ => self.name,
        }
    }

    fn unit(&self) -> Option<&'static str> {
        let base = self.base_name();
        let ends = |unit: &&str| base.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_'));
        UNITS.into_iter().find(|unit| ends(unit))
    }
}

/// A number to show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A count.
    Count(u64),
    /// A time in nanoseconds, shown in seconds.
    Nanos(u128),
    /// Anything else.
    Float(f64),
}

impl Value {
    /// 1 or 0.
    #[must_use]
    pub fn flag(is_so: bool) -> Self {
        Self::Count(u64::from(is_so))
    }

    /// A time in nanoseconds, shown in seconds.
    #[must_use]
    pub fn nanos(ns: u64) -> Self {
        Self::Nanos(u128::from(ns))
    }
}

/// Labels as one format writes them, rendered once for all families that share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSet(Vec<u8>);

/// No labels.
pub const NONE: &LabelSet = &LabelSet(Vec::new());

/// A page under construction.
pub struct Writer {
    format: Format,
    out: Vec<u8>,
    /// The family at hand, where its length stands before it.
    family: Vec<u8>,
    /// The series at hand, where its length stands before it.
    series: Vec<u8>,
}

impl Writer {
    /// An empty page.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self { format, out: Vec::new(), family: Vec::new(), series: Vec::new() }
    }

    /// The page's format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Renders labels for this page.
    #[must_use]
    pub fn labels<'a>(&self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> LabelSet {
        let mut set = Vec::new();
        for (key, value) in pairs {
            match self.format {
                Format::Protobuf => protobuf::push_label(&mut set, key, value),
                Format::Text | Format::OpenMetrics => push_label(&mut set, key, value),
            }
        }
        LabelSet(set)
    }

    /// Writes a family with the series that `rows` adds; nothing when it adds none.
    pub fn family(&mut self, family: Family<'_>, rows: impl FnOnce(&mut Rows<'_>)) {
        self.family.clear();
        let mut begun = Rows { writer: self, family, empty: true };
        rows(&mut begun);
        if self.format == Format::Protobuf && !self.family.is_empty() {
            protobuf::push_varint(&mut self.out, self.family.len() as u64);
            self.out.extend_from_slice(&self.family);
        }
    }

    /// The finished page.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        if self.format == Format::OpenMetrics {
            self.out.extend_from_slice(b"# EOF\n");
        }
        // It grew by doubling, and whoever asked may take long to read it.
        self.out.shrink_to_fit();
        self.out
    }

    fn begin(&mut self, family: Family<'_>) {
        match self.format {
            Format::Text => self.begin_text(family.name, family),
            Format::OpenMetrics => self.begin_text(family.base_name(), family),
            Format::Protobuf => {
                let kind = match family.family_type {
                    FamilyType::Counter | FamilyType::CounterBeside => 0,
                    FamilyType::Gauge => 1,
                    FamilyType::Unknown => 3,
                    FamilyType::Histogram => 4,
                };
                let out = &mut self.family;
                protobuf::push_text(out, Field::FAMILY_NAME, family.name);
                protobuf::push_text(out, Field::FAMILY_HELP, family.help);
                protobuf::push_uint(out, Field::FAMILY_TYPE, kind);
                if let Some(unit) = family.unit() {
                    protobuf::push_text(out, Field::FAMILY_UNIT, unit);
                }
            }
        }
    }

    fn begin_text(&mut self, name: &str, family: Family<'_>) {
        let family_type = match (family.family_type, self.format) {
            (FamilyType::Gauge, _) => "gauge",
            (FamilyType::Histogram, _) => "histogram",
            (FamilyType::Unknown, Format::Text) => "untyped",
            (FamilyType::Unknown | FamilyType::CounterBeside, Format::OpenMetrics) => "unknown",
            (FamilyType::Counter | FamilyType::CounterBeside, _) => "counter",
            (FamilyType::Unknown, Format::Protobuf) => return,
        };
        let out = &mut self.out;
        let mut line = |what: &str, text: &str| {
            for part in ["# ", what, " ", name, " ", text, "\n"] {
                out.extend_from_slice(part.as_bytes());
            }
        };
        line("HELP", family.help);
        line("TYPE", family_type);
        let unit = family.unit().filter(|_| self.format == Format::OpenMetrics);
        if let Some(unit) = unit {
            line("UNIT", unit);
        }
    }
}

/// The series of one family.
pub struct Rows<'w> {
    writer: &'w mut Writer,
    family: Family<'w>,
    empty: bool,
}

impl Rows<'_> {
    /// Renders labels for this page.
    #[must_use]
    pub fn labels<'a>(&self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> LabelSet {
        self.writer.labels(pairs)
    }

    /// Adds one series; its labels are those of all sets.
    pub fn add(&mut self, sets: &[&LabelSet], value: Value) {
        self.begin_once();
        let writer = &mut *self.writer;
        if writer.format != Format::Protobuf {
            push_series(&mut writer.out, self.family.name, "", sets, None);
            push_value(&mut writer.out, value);
            return writer.out.push(b'\n');
        }
        let kind = match self.family.family_type {
            FamilyType::Gauge => Field::GAUGE,
            FamilyType::Unknown => Field::UNTYPED,
            _ => Field::COUNTER,
        };
        writer.series.clear();
        sets.iter().for_each(|set| writer.series.extend_from_slice(&set.0));
        protobuf::push_number(&mut writer.series, kind, value);
        protobuf::push_bytes(&mut writer.family, Field::METRIC, &writer.series);
    }

    /// Adds one histogram. In text it is its classic buckets, and nothing without them.
    pub fn add_buckets(&mut self, sets: &[&LabelSet], buckets: &Buckets) {
        if self.writer.format == Format::Protobuf {
            self.begin_once();
            let Writer { series, family, .. } = &mut *self.writer;
            series.clear();
            sets.iter().for_each(|set| series.extend_from_slice(&set.0));
            protobuf::push_histogram(series, buckets);
            return protobuf::push_bytes(family, Field::METRIC, series);
        }
        if buckets.classic.is_empty() {
            return;
        }
        self.begin_once();
        let (out, name) = (&mut self.writer.out, self.family.name);
        for (limit_ns, n) in &buckets.classic {
            push_series(out, name, "_bucket", sets, Some(*limit_ns));
            push_value(out, Value::Count(*n));
            out.push(b'\n');
        }
        push_series(out, name, "_bucket", sets, Some(u64::MAX));
        push_value(out, Value::Count(buckets.count));
        for (suffix, value) in
            [("_sum", Value::Nanos(buckets.sum_ns)), ("_count", Value::Count(buckets.count))]
        {
            out.push(b'\n');
            push_series(out, name, suffix, sets, None);
            push_value(out, value);
        }
        out.push(b'\n');
    }

    fn begin_once(&mut self) {
        if std::mem::take(&mut self.empty) {
            self.writer.begin(self.family);
        }
    }
}

/// A series' name and labels up to the blank before its value; `le_ns` is the upper end of a
/// bucket, the greatest number standing for infinity.
fn push_series(
    out: &mut Vec<u8>,
    name: &str,
    suffix: &str,
    sets: &[&LabelSet],
    le_ns: Option<u64>,
) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(suffix.as_bytes());
    let mut separator = b'{';
    for LabelSet(set) in sets {
        if !set.is_empty() {
            out.push(separator);
            out.extend_from_slice(set);
            separator = b',';
        }
    }
    if let Some(le_ns) = le_ns {
        out.push(separator);
        out.extend_from_slice(b"le=\"");
        push_limit(out, le_ns);
        out.push(b'"');
        separator = b',';
    }
    if separator == b',' {
        out.push(b'}');
    }
    out.push(b' ');
}

/// A bucket's upper end as every client library of Prometheus writes it: it is part of the
/// series' name, so `1.0` and never `1`.
fn push_limit(out: &mut Vec<u8>, le_ns: u64) {
    const EXPONENT_BELOW_NS: u64 = 100_000;
    const SECOND: u64 = 1_000_000_000;
    if le_ns == u64::MAX {
        return out.extend_from_slice(b"+Inf");
    }
    if le_ns > 0 && le_ns < EXPONENT_BELOW_NS {
        let digits = 9 - le_ns.ilog10();
        let scaled = u128::from(le_ns) * 10_u128.pow(digits);
        push_seconds(out, scaled);
        out.extend_from_slice(format!("e-{digits:02}").as_bytes());
        return;
    }
    push_seconds(out, u128::from(le_ns));
    if le_ns.is_multiple_of(SECOND) {
        out.extend_from_slice(b".0");
    }
}
