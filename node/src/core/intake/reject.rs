//! Reasons of rejections. Each is a counter's label, so that the owner of a job can see why its
//! values are missing.

use plimsoll_schemas::ids::LossReason;
use plimsoll_schemas::labelled;

labelled! {
    /// Why a line, a datagram, a point or a span was rejected.
    pub enum Reject {
        /// Too many bytes in a line or a name.
        TooLong = "too_long",
        Encoding = "encoding",
        /// Not of the form `name:value|type`; a span without valid ids.
        Shape = "shape",
        /// A name that is not a valid operation.
        Name = "name",
        /// A type other than `ms`, `h`, `d`, `c` and `g`.
        Type = "type",
        /// A set, which cannot be merged, or another unsupported type.
        Unsupported = "unsupported",
        /// A value that is not a finite number.
        Number = "number",
        /// A latency below zero.
        Negative = "negative",
        /// A sample rate outside of (0, 1].
        Rate = "rate",
        /// A timestamp that is not a whole number of seconds since 1970; a point without one, or
        /// whose start is after its end.
        Timestamp = "timestamp",
        /// A value whose unit is not a unit of time.
        Unit = "unit",
        Event = "event",
        /// An event for which the interval has no room.
        EventsCap = "events_cap",
        /// A sequence line that is malformed, or states an impossible loss.
        Sequence = "sequence",
        /// A datagram whose number, or a point whose time, was recorded before.
        Duplicate = "duplicate",
        /// A gauge of a new series while the series cap is reached.
        SeriesCap = "series_cap",
        /// Latencies beyond what a series of a message, or an incarnation, may count.
        SamplesCap = "samples_cap",
        /// A datagram or a page that was cut off.
        Truncated = "truncated",
        /// A point older than the last one recorded of its stream.
        OutOfOrder = "out_of_order",
        /// Bucket bounds that are not finite, not ascending, or too many.
        Bounds = "bounds",
        /// Bucket counts that do not add up, or that decreased without a restart.
        Counts = "counts",
        /// A point without temporality (delta or cumulative).
        Temporality = "temporality",
        /// A latency under a name that the system itself records under.
        Reserved = "reserved",
        /// A datagram of a user who may not send any.
        NotAllowed = "not_allowed",
    }
}

impl Reject {
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
