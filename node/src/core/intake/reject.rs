//! Reasons of rejections. Each is a counter's label, so that the owner of a job can see why its
//! values are missing.

use plimsoll_schemas::ids::LossReason;

/// Why a line, a datagram, a point or a span was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reject {
    /// Too many bytes in a line or a name.
    TooLong,
    /// Invalid UTF-8.
    Encoding,
    /// Not of the form `name:value|type`; a span without valid ids.
    Shape,
    /// A name that is not a valid operation.
    Name,
    /// A type other than `ms`, `h`, `d`, `c` and `g`.
    Type,
    /// A set, which cannot be merged, or another unsupported type.
    Unsupported,
    /// A value that is not a finite number.
    Number,
    /// A latency below zero.
    Negative,
    /// A sample rate outside of (0, 1].
    Rate,
    /// A timestamp that is not a whole number of seconds since 1970; a point without one, or whose
    /// start is after its end.
    Timestamp,
    /// A value whose unit is not a unit of time.
    Unit,
    /// A malformed event or service check.
    Event,
    /// An event for which the interval has no room.
    EventsCap,
    /// A sequence line that is malformed, or states an impossible loss.
    Sequence,
    /// A datagram whose number, or a point whose time, was recorded before.
    Duplicate,
    /// A gauge of a new series while the series cap is reached.
    SeriesCap,
    /// Latencies beyond what a series of a message, or an incarnation, may count.
    SamplesCap,
    /// A datagram or a page that was cut off.
    Truncated,
    /// A point older than the last one recorded of its stream.
    OutOfOrder,
    /// Bucket bounds that are not finite, not ascending, or too many.
    Bounds,
    /// Bucket counts that do not add up, or that decreased without a restart.
    Counts,
    /// A point without temporality (delta or cumulative).
    Temporality,
    /// A latency under a name that the system itself records under.
    Reserved,
    /// A datagram of a user who may not send any.
    NotAllowed,
}

impl Reject {
    pub const ALL: [Self; 24] = [
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
        Self::Reserved,
        Self::NotAllowed,
    ];

    /// The reason as a label.
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
            Self::Reserved => "reserved",
            Self::NotAllowed => "not_allowed",
        }
    }

    /// The reason as it is sent to the aggregator.
    ///
    /// # Panics
    /// Never: the names above are valid, which a test checks.
    pub fn reason(self) -> LossReason {
        // Cannot fail: constants, which a test checks.
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
