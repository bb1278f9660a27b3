//! Writes metric families in one of three formats: Prometheus text 0.0.4, OpenMetrics 1.0.0, or
//! delimited protobuf.
//!
//! [`Writer`] owns the page under construction, or a [`Part`] of it, which [`join`] joins with
//! others. A family is described once ([`Family`]) and its series are added through [`Rows`]; the
//! callers are independent of formats. It does not decide what is exported, and it registers and
//! sorts nothing.
//!
//! Client libraries are slower here: fleet series are many and share few label sets, so these are
//! rendered once ([`LabelSet`]) and then copied.

mod family;
mod labels;
mod part;
mod protobuf;
mod value;

use plimsoll_schemas::unit::Unit;

use crate::core::fleet::Buckets;

use labels::push_label;
use part::PartFamily;
use protobuf::Field;
use value::{push_seconds, push_value};

pub use family::{Family, FamilyType, Format};
pub use part::{Part, join};
pub use value::Value;

/// Labels in one format, rendered once for all families that share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSet(Vec<u8>);

pub const NONE: &LabelSet = &LabelSet(Vec::new());

/// A page under construction.
pub struct Writer {
    format: Format,
    out: Vec<u8>,
    families: Vec<PartFamily>,
    /// The current protobuf series, which is written behind its length.
    series: Vec<u8>,
}

impl Writer {
    pub fn new(format: Format) -> Self {
        Self::with_capacity(format, 0)
    }

    /// An empty page with room for this many bytes: one that grows is copied again and again.
    pub fn with_capacity(format: Format, bytes: usize) -> Self {
        let out = Vec::with_capacity(bytes);
        Self { format, out, families: Vec::new(), series: Vec::new() }
    }

    pub fn format(&self) -> Format {
        self.format
    }

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
        rows(&mut Rows { writer: self, family, empty: true });
    }

    /// Writes a gauge without labels.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Into<Value>) {
        self.family(Family::gauge(name, help), |rows| rows.add(&[NONE], value.into()));
    }

    /// Writes a counter without labels.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Into<Value>) {
        self.family(Family::counter(name, help), |rows| rows.add(&[NONE], value.into()));
    }

    /// Writes a family with one label.
    pub fn by_label<'a, V: Into<Value>>(
        &mut self,
        family: Family<'_>,
        key: &str,
        all: impl IntoIterator<Item = (&'a str, V)>,
    ) {
        self.family(family, |rows| {
            for (label, value) in all {
                rows.add(&[&rows.labels([(key, label)])], value.into());
            }
        });
    }

    /// Writes a family with a series for each of these that has a value.
    pub fn each<'a, T, V: Into<Value>>(
        &mut self,
        family: Family<'_>,
        all: impl Iterator<Item = (&'a LabelSet, T)>,
        of: impl Fn(T) -> Option<V>,
    ) {
        self.family(family, |rows| {
            for (labels, of_one) in all {
                if let Some(value) = of(of_one) {
                    rows.add(&[labels], value.into());
                }
            }
        });
    }

    /// Writes a family with series for each of these, by a further label.
    pub fn each_by<'a, 't, T, I: IntoIterator<Item = (&'t str, u64)>>(
        &mut self,
        family: Family<'_>,
        all: impl Iterator<Item = (&'a LabelSet, T)>,
        key: &str,
        of: impl Fn(T) -> I,
    ) {
        self.family(family, |rows| {
            for (labels, of_one) in all {
                for (label, n) in of(of_one) {
                    rows.add(&[labels, &rows.labels([(key, label)])], Value::Count(n));
                }
            }
        });
    }

    /// The families written, to be joined with those of other nodes.
    pub fn part(self) -> Part {
        Part { bytes: self.out, families: self.families }
    }

    pub fn finish(self) -> Vec<u8> {
        let format = self.format;
        join(format, vec![self.part()])
    }

    fn begin(&mut self, family: Family<'_>) {
        let begin = self.out.len();
        self.write_head(family);
        let series = self.out.len();
        self.families.push(PartFamily { name: family.name.to_owned(), begin, series });
    }

    fn write_head(&mut self, family: Family<'_>) {
        match self.format {
            Format::Text => self.begin_text(family.name, family),
            Format::OpenMetrics => self.begin_text(family.base_name(), family),
            Format::Protobuf => {
                let family_type = match family.family_type {
                    FamilyType::Counter => 0,
                    FamilyType::Gauge => 1,
                    FamilyType::Unknown => 3,
                    FamilyType::Histogram => 4,
                };

                let out = &mut self.out;
                protobuf::push_text(out, Field::FAMILY_NAME, family.name);
                protobuf::push_text(out, Field::FAMILY_HELP, family.help);
                protobuf::push_uint(out, Field::FAMILY_TYPE, family_type);
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
            (FamilyType::Unknown, Format::OpenMetrics) => "unknown",
            (FamilyType::Counter, _) => "counter",
            (FamilyType::Unknown, Format::Protobuf) => return,
        };

        let out = &mut self.out;
        let mut line = |keyword: &str, text: &str| {
            for part in ["# ", keyword, " ", name, " ", text, "\n"] {
                out.extend_from_slice(part.as_bytes());
            }
        };

        line("HELP", family.help);
        line("TYPE", family_type);
        // Only OpenMetrics has units, and it requires that the name ends in them.
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

        let field = match self.family.family_type {
            FamilyType::Gauge => Field::GAUGE,
            FamilyType::Unknown => Field::UNTYPED,
            _ => Field::COUNTER,
        };

        // One buffer for all series: a page has 100 000 of them (A38).
        writer.series.clear();
        sets.iter().for_each(|set| writer.series.extend_from_slice(&set.0));
        protobuf::push_number(&mut writer.series, field, value);
        protobuf::push_bytes(&mut writer.out, Field::METRIC, &writer.series);
    }

    /// Adds one histogram. Text formats hold its classic buckets, and nothing without them.
    pub fn add_buckets(&mut self, sets: &[&LabelSet], buckets: &Buckets, unit: Unit) {
        if buckets.classic.is_empty() && buckets.native.is_none() {
            return;
        }
        if self.writer.format == Format::Protobuf {
            self.begin_once();
            let Writer { series, out, .. } = &mut *self.writer;
            series.clear();
            sets.iter().for_each(|set| series.extend_from_slice(&set.0));
            protobuf::push_histogram(series, buckets, unit);
            return protobuf::push_bytes(out, Field::METRIC, series);
        }

        if buckets.classic.is_empty() {
            return;
        }
        self.begin_once();
        let (out, name) = (&mut self.writer.out, self.family.name);

        for (limit_ns, n) in &buckets.classic {
            push_series(out, name, "_bucket", sets, Some((*limit_ns, unit)));
            push_value(out, Value::Count(*n));
            out.push(b'\n');
        }

        push_series(out, name, "_bucket", sets, Some((u64::MAX, unit)));
        push_value(out, Value::Count(buckets.count));
        for (suffix, value) in
            [("_sum", Value::of(unit, buckets.sum_ns)), ("_count", Value::Count(buckets.count))]
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

/// A series' name and labels up to the blank before its value. `le` is the upper end of a bucket,
/// `u64::MAX` means infinity.
fn push_series(
    out: &mut Vec<u8>,
    name: &str,
    suffix: &str,
    sets: &[&LabelSet],
    le: Option<(u64, Unit)>,
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

    if let Some((le, unit)) = le {
        out.push(separator);
        out.extend_from_slice(b"le=\"");
        push_limit(out, le, unit);
        out.push(b'"');
        separator = b',';
    }

    if separator == b',' {
        out.push(b'}');
    }
    out.push(b' ');
}

/// A bucket's upper end, spelled as Prometheus client libraries do: it is part of the series'
/// identity, so `1.0` and never `1`.
fn push_limit(out: &mut Vec<u8>, le_ns: u64, unit: Unit) {
    const EXPONENT_BELOW_NS: u64 = 100_000;
    const SECOND: u64 = 1_000_000_000;
    if le_ns == u64::MAX {
        return out.extend_from_slice(b"+Inf");
    }
    if unit != Unit::Nanoseconds {
        return out
            .extend_from_slice(ryu::Buffer::new().format_finite(unit.shown(le_ns)).as_bytes());
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
