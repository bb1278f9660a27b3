//! Why input was refused: every refusal has a reason that becomes a counter, so that a job's
//! owner can see why its numbers do not arrive.

use plimsoll_schemas::ids::LossReason;

/// Why a line, or a datagram, was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reject {
    /// More bytes than a line may have.
    TooLong,
    /// Not UTF-8.
    Encoding,
    /// Not `name:value|type`; a span without ids.
    Shape,
    /// A name that is no operation.
    Name,
    /// A type that is none of `ms h d c g`.
    Type,
    /// A set: what a set counts cannot be merged.
    Unsupported,
    /// A value that is no finite number.
    Number,
    /// A latency below zero.
    Negative,
    /// A sample rate that is not above 0 and at most 1.
    Rate,
    /// A timestamp that is no whole number of seconds since 1970; a point without one, or that
    /// began after it ended.
    Timestamp,
    /// A value whose unit is none of time, so that it is no latency.
    Unit,
    /// An event or a service check that is malformed.
    Event,
    /// An event beyond what one interval holds.
    EventsCap,
    /// A sequence line that is malformed, or tells of a loss that cannot be.
    Sequence,
    /// A datagram whose number was counted before, or a point whose time was; nothing of it is
    /// taken.
    Duplicate,
    /// A gauge of a new series when the series cap is reached.
    SeriesCap,
    /// Latencies beyond what one series of a message, or one incarnation, may count.
    SamplesCap,
    /// A datagram too long to be read whole; nothing of it is taken.
    Truncated,
    /// A point that held before the last one taken of its stream.
    OutOfOrder,
    /// Bounds of buckets that are no finite numbers in ascending order, or too many.
    Bounds,
    /// Counts of buckets that do not add up, or that went down though nothing began anew.
    Counts,
    /// A point that does not say since when it counts: since the one before it, or since a start.
    Temporality,
}

impl Reject {
    /// Every reason.
    pub const ALL: [Self; 22] = [
        Self::TooLong,
        Self::Encoding,
        Self::Shape,
        Self::Name,
        Self::Type,
        Self::Unsupported,
        Self::Number,
        Self::Negative,
        Self::Rate,
        Self::Timestamp,
        Self::Unit,
        Self::Event,
        Self::EventsCap,
        Self::Sequence,
        Self::Duplicate,
        Self::SeriesCap,
        Self::SamplesCap,
        Self::Truncated,
        Self::OutOfOrder,
        Self::Bounds,
        Self::Counts,
        Self::Temporality,
    ];

    /// The reason's value as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Encoding => "encoding",
            Self::Shape => "shape",
            Self::Name => "name",
            Self::Type => "type",
            Self::Unsupported => "unsupported",
            Self::Number => "number",
            Self::Negative => "negative",
            Self::Rate => "rate",
            Self::Timestamp => "timestamp",
            Self::Unit => "unit",
            Self::Event => "event",
            Self::EventsCap => "events_cap",
            Self::Sequence => "sequence",
            Self::Duplicate => "duplicate",
            Self::SeriesCap => "series_cap",
            Self::SamplesCap => "samples_cap",
            Self::Truncated => "truncated",
            Self::OutOfOrder => "out_of_order",
            Self::Bounds => "bounds",
            Self::Counts => "counts",
            Self::Temporality => "temporality",
        }
    }

    /// The reason as it travels to the aggregator.
    ///
    /// # Panics
    /// Never: the names above are plain letters, which a test checks.
    #[must_use]
    pub fn reason(self) -> LossReason {
        LossReason::new(self.as_str()).expect("a constant of letters and underscores")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use plimsoll_schemas::limits::wire::LOSS_REASONS_MAX;

    use super::*;

    #[test]
    fn every_reason_is_a_valid_label_of_its_own_and_all_fit_into_one_message() {
        assert!(Reject::ALL.len() <= LOSS_REASONS_MAX);
        for reject in Reject::ALL {
            assert_eq!(reject.reason().as_str(), reject.as_str());
        }
        let names: BTreeSet<_> = Reject::ALL.map(Reject::as_str).into();
        assert_eq!(names.len(), Reject::ALL.len());
    }
}
