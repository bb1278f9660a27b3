//! Writes Protocol Buffers for tests, as a producer does; has no part in the reader.

/// A message being written.
#[derive(Clone, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

pub(super) fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
    bytes
}

impl Writer {
    fn tag(mut self, number: u64, wire: u64) -> Self {
        self.0.extend(varint(number << 3 | wire));
        self
    }

    pub(super) fn varint(self, number: u64, value: u64) -> Self {
        let mut writer = self.tag(number, 0);
        writer.0.extend(varint(value));
        writer
    }

    /// A `sint32`.
    pub(super) fn signed(self, number: u64, value: i32) -> Self {
        self.varint(number, ((value << 1) ^ (value >> 31)).cast_unsigned().into())
    }

    pub(super) fn fixed(self, number: u64, value: u64) -> Self {
        let mut writer = self.tag(number, 1);
        writer.0.extend(value.to_le_bytes());
        writer
    }

    pub(super) fn double(self, number: u64, value: f64) -> Self {
        self.fixed(number, value.to_bits())
    }

    pub(super) fn bytes(self, number: u64, bytes: &[u8]) -> Self {
        let mut writer = self.tag(number, 2);
        writer.0.extend(varint(bytes.len() as u64));
        writer.0.extend(bytes);
        writer
    }

    pub(super) fn text(self, number: u64, text: &str) -> Self {
        self.bytes(number, text.as_bytes())
    }

    pub(super) fn message(self, number: u64, message: &Self) -> Self {
        self.bytes(number, &message.0)
    }

    /// Packed numbers of eight bytes.
    pub(super) fn packed(self, number: u64, values: impl IntoIterator<Item = u64>) -> Self {
        let bytes: Vec<u8> = values.into_iter().flat_map(u64::to_le_bytes).collect();
        self.bytes(number, &bytes)
    }

    /// Packed numbers of few bytes.
    pub(super) fn packed_varints(self, number: u64, values: &[u64]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| varint(*value)).collect();
        self.bytes(number, &bytes)
    }

    /// An attribute whose value is text.
    pub(super) fn attribute(self, number: u64, key: &str, value: &str) -> Self {
        let value = Self::default().text(1, value);
        self.message(number, &Self::default().text(1, key).message(2, &value))
    }
}

/// A body of metrics of one scope of a producer with these attributes.
pub(super) fn metrics(resource: &[(&str, &str)], metrics: &[Writer]) -> Vec<u8> {
    let resource = resource
        .iter()
        .fold(Writer::default(), |resource, (key, value)| resource.attribute(1, key, value));
    let scope = metrics.iter().fold(Writer::default(), |scope, metric| scope.message(2, metric));
    let all = Writer::default().message(1, &resource).message(2, &scope);
    Writer::default().message(1, &all).0
}

/// A metric of one kind: what it is called, in which unit, the number of its kind, its points
/// and its temporality.
pub(super) fn metric(
    (name, unit): (&str, &str),
    kind: u64,
    points: &[Writer],
    temporality: u64,
) -> Writer {
    let data = points.iter().fold(Writer::default(), |data, point| data.message(1, point));
    let data = if temporality > 0 { data.varint(2, temporality) } else { data };
    // Only sums have the field: they are monotonic.
    let data = if kind == SUM { data.varint(3, 1) } else { data };
    Writer::default().text(1, name).text(3, unit).message(kind, &data)
}

pub(super) const GAUGE: u64 = 5;
pub(super) const SUM: u64 = 7;
pub(super) const HISTOGRAM: u64 = 9;
pub(super) const EXPONENTIAL: u64 = 10;
pub(super) const SUMMARY: u64 = 11;
pub(super) const DELTA: u64 = 1;
pub(super) const CUMULATIVE: u64 = 2;

/// A number point that counts from `start` to `time`, in nanoseconds.
pub(super) fn number(start: u64, time: u64, value: f64) -> Writer {
    Writer::default().fixed(2, start).fixed(3, time).double(4, value)
}

/// A histogram point with these bounds and counts.
pub(super) fn histogram(start: u64, time: u64, bounds: &[f64], counts: &[u64]) -> Writer {
    Writer::default()
        .fixed(2, start)
        .fixed(3, time)
        .fixed(4, counts.iter().sum())
        .packed(6, counts.iter().copied())
        .packed(7, bounds.iter().map(|bound| bound.to_bits()))
}

/// A span with ids made of a number, and its latency in nanoseconds.
pub(super) fn span(name: &str, id: u8, start: u64, latency: u64) -> Writer {
    Writer::default()
        .bytes(1, &[id; 16])
        .bytes(2, &[id; 8])
        .text(5, name)
        .fixed(7, start)
        .fixed(8, start + latency)
}

/// A body of spans of one scope of a producer with these attributes.
pub(super) fn traces(resource: &[(&str, &str)], spans: &[Writer]) -> Vec<u8> {
    metrics(resource, spans)
}
