//! The formats of a page, with their names as a metric label and as a content type.

/// Format of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Prometheus text 0.0.4.
    Text,
    /// OpenMetrics text 1.0.0.
    OpenMetrics,
    /// `io.prometheus.client.MetricFamily` messages, each behind its length.
    Protobuf,
}

impl Format {
    pub const ALL: [Self; 3] = [Self::Text, Self::OpenMetrics, Self::Protobuf];

    /// The format as a label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::OpenMetrics => "openmetrics",
            Self::Protobuf => "protobuf",
        }
    }

    /// The format as a content type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                 encoding=delimited"
            }
        }
    }
}
