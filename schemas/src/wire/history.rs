//! What an aggregator requests of a node's own history, and the node's response: one MessagePack
//! map with named fields each.
//!
//! A request names a range; its response covers the newest part of it that fits, and states from
//! when on. The aggregator requests the rest in turn, so a node does nothing for one that is gone,
//! and remembers nothing between two requests. The node responds on a subject of its own, which its
//! credentials allow to no other.
//!
//! DESIGN S34, S92.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::error::{SCHEMA, WireError};
use super::messagepack;
use crate::histogram::Packed;
use crate::ids::{Labels, Operation};
use crate::limits::wire::{
    COUNT_MAX, HISTORY_METRICS_ASKED_MAX, HISTORY_OPERATIONS_MAX, HISTORY_REQUEST_BYTES_MAX,
    HISTORY_RESPONSE_BYTES_MAX, HISTORY_SLOTS_MAX, INTERVAL_NS_MAX, OPERATION_BYTES_MAX,
    TOKEN_BYTES_MAX,
};
use crate::straggler::CLASSES;
use crate::time::Wall;

/// Shortest slot of a response.
const STEP_NS_MIN: u64 = 1_000_000;

/// What is requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRequest {
    /// Chosen by the aggregator; the response repeats it.
    pub number: u64,
    /// Last token of the subject of the response.
    pub asker: String,
    /// Latencies, hardware readings, metrics or times of operations.
    pub of: HistoryOf,
    /// From when until when, by the node's clock; both are multiples of the step.
    pub range: Range<Wall>,
    /// Length of a slot in nanoseconds.
    pub step_ns: u64,
}

/// Of what the history is requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryOf {
    /// Latencies of an operation under series with all of these labels; a label may also be one
    /// of the node.
    Latency {
        /// The operation.
        operation: Operation,
        /// The labels.
        labels: Labels,
    },
    /// Hardware readings; of one sensor, or of all.
    Hardware {
        /// The sensor's name.
        sensor: Option<String>,
    },
    /// Counters and gauges of jobs, under series with all of these labels.
    Metric {
        /// Their names, at most [`HISTORY_METRICS_ASKED_MAX`].
        names: Vec<Operation>,
        /// The operation whose time is added up beside them.
        operation: Option<Operation>,
        /// The labels.
        labels: Labels,
    },
    /// The time of each operation of jobs, by class.
    Operations,
}

/// A node's response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistoryResponse {
    /// As in the request.
    pub number: u64,
    /// From when on the slots cover the requested range; equal to its begin when all of it is
    /// covered. Earlier than its end, unless the request is refused.
    pub from: Wall,
    /// Since when the node's history has intervals; `None` when it has none.
    pub kept_from: Option<Wall>,
    /// Intervals that the history lacks although the node had them: its disk was slow or full.
    pub missing: u64,
    /// Slots that have something, each once, in any order.
    pub slots: Vec<HistorySlot>,
    /// Why there is no answer; empty when there is one.
    pub refused: String,
}

/// What a node has of one slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistorySlot {
    /// When it begins.
    pub begin_ns: u64,
    /// Lengths of all intervals of the node that ended in it, whatever is in them.
    pub covered_ns: u64,
    /// Samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<Packed>,
    /// Readings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readings: Vec<ReadingRange>,
    /// What counters grew by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<MetricValues>,
    /// Values of gauges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gauges: Vec<MetricValues>,
    /// Times of operations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<OperationTime>,
}

/// Values of one reading in a slot; finite, at least one, and the least is not above the greatest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadingRange {
    /// A [`Sensor::name`](crate::hardware::Sensor::name).
    pub sensor: String,
    /// Which one.
    #[serde(default)]
    pub labels: Labels,
    /// The least value.
    pub min: f64,
    /// The mean of all.
    pub mean: f64,
    /// The greatest value.
    pub max: f64,
    /// Values.
    pub count: u64,
}

/// Values of one metric in a slot, one of each series and interval; finite, at least one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricValues {
    /// Its name.
    pub metric: Operation,
    /// Values.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The least value.
    pub min: f64,
    /// The highest value.
    pub max: f64,
    /// The mean over the series of the latest interval.
    pub last: f64,
}

/// The samples of an operation in one class of time, or without one; at least one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationTime {
    /// The operation.
    pub operation: Operation,
    /// One of [`CLASSES`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Samples.
    pub count: u64,
    /// Their sum in nanoseconds.
    pub sum_ns: u64,
    /// The largest.
    pub max_ns: u64,
}

#[derive(Serialize, Deserialize)]
struct RequestMap<'a> {
    schema: u16,
    number: u64,
    #[serde(borrow)]
    asker: Cow<'a, str>,
    of: HistoryOf,
    from_ns: u64,
    to_ns: u64,
    step_ns: u64,
}

/// What is read of a request of a later version.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct UnknownRequest {
    schema: u16,
    /// As in [`HistoryRequest`].
    pub number: u64,
    /// As in [`HistoryRequest`].
    pub asker: String,
}

#[derive(Serialize, Deserialize)]
struct ResponseMap<'a> {
    schema: u16,
    number: u64,
    from_ns: u64,
    #[serde(default)]
    kept_from_ns: Option<u64>,
    #[serde(default)]
    missing: u64,
    #[serde(default)]
    slots: Vec<HistorySlot>,
    #[serde(default, borrow)]
    refused: Cow<'a, str>,
}

impl HistoryRequest {
    /// The bytes of the request.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Self { number, asker, of, range, step_ns } = self;
        named(&RequestMap {
            schema: SCHEMA,
            number: *number,
            asker: asker.as_str().into(),
            of: of.clone(),
            from_ns: range.start.0,
            to_ns: range.end.0,
            step_ns: *step_ns,
        })
    }

    /// Reads a request.
    ///
    /// # Errors
    /// On anything that is not exactly one well-formed request.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let map: RequestMap<'_> =
            read(bytes, HISTORY_REQUEST_BYTES_MAX, |map: &RequestMap<'_>| map.schema)?;
        let RequestMap { number, asker, of, from_ns, to_ns, step_ns, .. } = map;
        if !is_asker(&asker) {
            return Err(WireError::Bounds { field: "asker" });
        }
        if step_ns < STEP_NS_MIN
            || !from_ns.is_multiple_of(step_ns)
            || !to_ns.is_multiple_of(step_ns)
        {
            return Err(WireError::Bounds { field: "step_ns" });
        }
        if from_ns >= to_ns {
            return Err(WireError::Bounds { field: "from_ns" });
        }
        if matches!(&of, HistoryOf::Metric { names, .. } if names.len() > HISTORY_METRICS_ASKED_MAX)
        {
            return Err(WireError::Bounds { field: "names" });
        }
        let range = Wall(from_ns)..Wall(to_ns);
        Ok(Self { number, asker: asker.into_owned(), of, range, step_ns })
    }

    /// Number and asker of a request that asks for what this version does not know: it can be
    /// refused, so that the asker need not wait for a node that is there.
    #[must_use]
    pub fn unknown(bytes: &[u8]) -> Option<UnknownRequest> {
        let request = |map: &UnknownRequest| map.schema;
        let known = read(bytes, HISTORY_REQUEST_BYTES_MAX, request).ok();
        known.filter(|map: &UnknownRequest| is_asker(&map.asker))
    }

    /// The begin of the slot that a time lies in.
    #[must_use]
    pub fn slot_of(&self, at: Wall) -> u64 {
        at.0 / self.step_ns * self.step_ns
    }
}

impl HistoryResponse {
    /// The response to a request that is refused.
    #[must_use]
    pub fn refusal(number: u64, why: impl Into<String>) -> Self {
        Self { number, refused: why.into(), ..Self::default() }
    }

    /// The bytes of the response.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Self { number, from, kept_from, missing, slots, refused } = self;
        named(&ResponseMap {
            schema: SCHEMA,
            number: *number,
            from_ns: from.0,
            kept_from_ns: kept_from.map(|at| at.0),
            missing: *missing,
            slots: slots.clone(),
            refused: refused.as_str().into(),
        })
    }

    /// Reads a response and checks it against its request: a node may not answer for another time
    /// than it was asked for, nor for the same slot twice.
    ///
    /// # Errors
    /// On anything that is not exactly one well-formed response to this request.
    pub fn decode(request: &HistoryRequest, bytes: &[u8]) -> Result<Self, WireError> {
        let map: ResponseMap<'_> =
            read(bytes, HISTORY_RESPONSE_BYTES_MAX, |map: &ResponseMap<'_>| map.schema)?;
        let ResponseMap { number, from_ns, kept_from_ns, missing, mut slots, refused, .. } = map;
        // First: what answers another request is checked against the wrong one below.
        if number != request.number {
            return Err(WireError::Bounds { field: "number" });
        }
        if refused.len() > TOKEN_BYTES_MAX * 4 {
            return Err(WireError::Bounds { field: "refused" });
        }
        let (from, range) = (Wall(from_ns), &request.range);
        if refused.is_empty()
            && (!range.contains(&from) || !from_ns.is_multiple_of(request.step_ns))
        {
            return Err(WireError::Bounds { field: "from_ns" });
        }
        if slots.len() > HISTORY_SLOTS_MAX {
            return Err(WireError::Bounds { field: "slots" });
        }
        slots.sort_by_key(|slot| slot.begin_ns);
        let is_distinct = slots.windows(2).all(|pair| pair[0].begin_ns < pair[1].begin_ns);

        let is_within = |slot: &HistorySlot| {
            (from_ns..range.end.0).contains(&slot.begin_ns)
                && slot.begin_ns.is_multiple_of(request.step_ns)
                // An interval counts in the slot in which it ended, and may have begun before it.
                && slot.covered_ns <= request.step_ns.saturating_add(INTERVAL_NS_MAX)
        };

        if !is_distinct || !slots.iter().all(is_within) {
            return Err(WireError::Bounds { field: "slots" });
        }
        slots.iter().try_for_each(|slot| slot.check(&request.of))?;
        let kept_from = kept_from_ns.map(Wall);
        Ok(Self { number, from, kept_from, missing, slots, refused: refused.into_owned() })
    }

    /// The number in bytes that may be a response, to find its request by.
    #[must_use]
    pub fn number_in(bytes: &[u8]) -> Option<u64> {
        #[derive(Deserialize)]
        struct Numbered {
            number: u64,
        }
        let mut rest = bytes.get(..bytes.len().min(HISTORY_RESPONSE_BYTES_MAX))?;
        messagepack::read::<Numbered>(&mut rest).ok().map(|of| of.number)
    }
}

impl HistorySlot {
    /// Refuses what was not requested, and numbers that no node counts.
    fn check(&self, of: &HistoryOf) -> Result<(), WireError> {
        let may_sample = matches!(of, HistoryOf::Latency { .. });
        let is_sound = |samples: &Packed| may_sample && samples.exact().count <= COUNT_MAX;
        if !self.samples.as_ref().is_none_or(is_sound) {
            return Err(WireError::Bounds { field: "samples" });
        }

        let is_sound = |reading: &ReadingRange| {
            let ReadingRange { sensor, labels: _, min, mean, max, count } = reading;

            let is_wanted = match of {
                HistoryOf::Hardware { sensor: Some(wanted) } => sensor == wanted,
                HistoryOf::Hardware { sensor: None } => sensor.len() <= OPERATION_BYTES_MAX,
                HistoryOf::Latency { .. } | HistoryOf::Metric { .. } | HistoryOf::Operations => {
                    false
                }
            };

            let is_finite = [min, mean, max].iter().all(|value| value.is_finite());
            is_wanted && is_finite && min <= max && (1..=COUNT_MAX).contains(count)
        };

        if !self.readings.iter().all(is_sound) {
            return Err(WireError::Bounds { field: "readings" });
        }

        let is_sound = |values: &MetricValues| {
            let is_wanted =
                matches!(of, HistoryOf::Metric { names, .. } if names.contains(&values.metric));
            is_wanted && values.is_sound()
        };
        for (field, values) in [("counters", &self.counters), ("gauges", &self.gauges)] {
            if values.len() > HISTORY_METRICS_ASKED_MAX || !values.iter().all(is_sound) {
                return Err(WireError::Bounds { field });
            }
        }

        let is_wanted = |time: &OperationTime| match of {
            HistoryOf::Operations => true,
            HistoryOf::Metric { operation, .. } => operation.as_ref() == Some(&time.operation),
            HistoryOf::Latency { .. } | HistoryOf::Hardware { .. } => false,
        };
        if self.operations.len() > HISTORY_OPERATIONS_MAX
            || !self.operations.iter().all(|time| is_wanted(time) && time.is_sound())
        {
            return Err(WireError::Bounds { field: "operations" });
        }
        Ok(())
    }
}

impl MetricValues {
    fn is_sound(&self) -> bool {
        let Self { metric: _, count, sum, min, max, last } = self;
        let is_finite = [sum, min, max, last].iter().all(|value| value.is_finite());
        is_finite && min <= last && last <= max && (1..=COUNT_MAX).contains(count)
    }
}

impl OperationTime {
    fn is_sound(&self) -> bool {
        let is_known = |class: &String| CLASSES.contains(&class.as_str());
        self.class.as_ref().is_none_or(is_known)
            && self.max_ns <= self.sum_ns
            && (1..=COUNT_MAX).contains(&self.count)
    }
}

/// Whether a text may be the last token of a response's subject.
pub(super) fn is_asker(text: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric();
    !text.is_empty() && text.len() <= TOKEN_BYTES_MAX && text.bytes().all(is_token)
}

pub(super) fn named<T: Serialize>(map: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(map)
        // Cannot fail: MessagePack expresses numbers, text and bytes.
        .expect("a request and its response hold only numbers, text and bytes")
}

pub(super) fn read<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    max: usize,
    schema: impl Fn(&T) -> u16,
) -> Result<T, WireError> {
    if bytes.len() > max {
        return Err(WireError::TooLarge { bytes: bytes.len(), max });
    }
    let mut rest = bytes;
    let map: T =
        messagepack::read(&mut rest).map_err(|error| WireError::Shape(error.to_string()))?;
    if schema(&map) != SCHEMA {
        return Err(WireError::Schema(schema(&map)));
    }
    if rest.is_empty() { Ok(map) } else { Err(WireError::Trailing(rest.len())) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::histogram::Histogram;

    const SECOND: u64 = 1_000_000_000;

    fn request() -> HistoryRequest {
        HistoryRequest {
            number: 7,
            asker: "0f".to_owned(),
            of: HistoryOf::Latency {
                operation: Operation::new("epoch_hook").unwrap(),
                labels: Labels::new([("rank", "3")]).unwrap(),
            },
            range: Wall(10 * SECOND)..Wall(60 * SECOND),
            step_ns: SECOND,
        }
    }

    fn hardware(sensor: Option<&str>) -> HistoryRequest {
        let of = HistoryOf::Hardware { sensor: sensor.map(str::to_owned) };
        HistoryRequest { of, ..request() }
    }

    fn samples(count: u64) -> Option<Packed> {
        let mut samples = Histogram::default();
        samples.record_n(12_000_000, count);
        Some(Packed::from(&samples))
    }

    fn slot(begin: u64) -> HistorySlot {
        let (begin_ns, covered_ns) = (begin * SECOND, SECOND);
        HistorySlot { begin_ns, covered_ns, samples: samples(3), ..HistorySlot::default() }
    }

    fn of_metrics() -> HistoryRequest {
        let names = ["step.tokens", "memory"].map(|name| Operation::new(name).unwrap());
        let operation = Operation::new("step").ok();
        let of = HistoryOf::Metric { names: names.into(), operation, labels: Labels::default() };
        HistoryRequest { of, ..request() }
    }

    fn of_operations() -> HistoryRequest {
        HistoryRequest { of: HistoryOf::Operations, ..request() }
    }

    fn values(metric: &str) -> MetricValues {
        let metric = Operation::new(metric).unwrap();
        MetricValues { metric, count: 3, sum: 6.0, min: 1.0, max: 3.0, last: 2.0 }
    }

    fn time(operation: &str) -> OperationTime {
        let (operation, class) = (Operation::new(operation).unwrap(), Some("input".to_owned()));
        OperationTime { operation, class, count: 3, sum_ns: 30, max_ns: 20 }
    }

    fn empty() -> HistorySlot {
        HistorySlot { samples: None, ..slot(30) }
    }

    fn usage() -> ReadingRange {
        let (sensor, labels) = ("cpu_usage_ratio".to_owned(), Labels::default());
        ReadingRange { sensor, labels, min: 0.1, mean: 0.2, max: 0.4, count: 3 }
    }

    fn slot_of(reading: ReadingRange) -> HistorySlot {
        HistorySlot { samples: None, readings: vec![reading], ..slot(30) }
    }

    fn response(slots: Vec<HistorySlot>) -> HistoryResponse {
        let (from, kept_from) = (Wall(20 * SECOND), Some(Wall(1)));
        HistoryResponse { number: 7, from, kept_from, missing: 4, slots, refused: String::new() }
    }

    #[test]
    fn requests_and_responses_come_back_as_they_were() {
        for request in [request(), hardware(Some("gpu_power_watts")), hardware(None)] {
            assert_eq!(HistoryRequest::decode(&request.encode()), Ok(request));
        }
        let response = response(vec![slot(20), slot(59)]);
        assert_eq!(HistoryResponse::decode(&request(), &response.encode()), Ok(response.clone()));
        let of_usage = self::response(vec![slot_of(usage())]);
        for request in [hardware(None), hardware(Some("cpu_usage_ratio"))] {
            assert_eq!(HistoryResponse::decode(&request, &of_usage.encode()), Ok(of_usage.clone()));
        }
        assert_eq!(HistoryResponse::number_in(&response.encode()), Some(7));
        let (counters, gauges) = (vec![values("step.tokens")], vec![values("memory")]);
        let slot = HistorySlot { counters, gauges, operations: vec![time("step")], ..empty() };
        let of_metrics = (of_metrics(), self::response(vec![slot]));
        let slot = HistorySlot { operations: vec![time("step"), time("other")], ..empty() };
        for (request, response) in [of_metrics, (of_operations(), self::response(vec![slot]))] {
            assert_eq!(HistoryRequest::decode(&request.encode()), Ok(request.clone()));
            assert_eq!(HistoryResponse::decode(&request, &response.encode()), Ok(response));
        }
        let refusal = HistoryResponse::refusal(7, "no history is kept");
        assert_eq!(HistoryResponse::decode(&request(), &refusal.encode()), Ok(refusal));
    }

    #[test]
    fn a_node_answers_for_what_it_was_asked_and_for_nothing_else() {
        let refused = |response: HistoryResponse| {
            HistoryResponse::decode(&request(), &response.encode()).unwrap_err().to_string()
        };
        let of = |slots| refused(response(slots));
        assert!(of(vec![slot(20), slot(20)]).contains("slots"));
        assert!(of(vec![slot(19)]).contains("slots"), "before what it states to cover");
        assert!(of(vec![slot(60)]).contains("slots"));
        let long = HistorySlot { covered_ns: u64::MAX, ..slot(30) };
        assert!(of(vec![long]).contains("slots"));
        let many = HistorySlot { samples: samples(COUNT_MAX + 1), ..slot(30) };
        assert!(of(vec![many]).contains("samples"));
        assert!(of(vec![slot_of(usage())]).contains("readings"), "not asked for");
        assert!(refused(HistoryResponse { number: 8, ..response(vec![]) }).contains("number"));
        // One that claims to cover nothing would be asked for ever.
        let from = Wall(60 * SECOND);
        assert!(refused(HistoryResponse { from, ..response(vec![]) }).contains("from_ns"));
    }

    #[test]
    fn a_reading_has_at_least_one_value_in_an_orderly_range_and_is_of_the_requested_sensor() {
        let refused = |request: HistoryRequest, slot: HistorySlot| {
            let bytes = response(vec![slot]).encode();
            HistoryResponse::decode(&request, &bytes).unwrap_err().to_string()
        };
        for wrong in [
            ReadingRange { max: f64::INFINITY, ..usage() },
            ReadingRange { mean: f64::NAN, ..usage() },
            ReadingRange { min: 0.5, ..usage() },
            ReadingRange { count: 0, ..usage() },
            ReadingRange { count: COUNT_MAX + 1, ..usage() },
            ReadingRange { sensor: "x".repeat(OPERATION_BYTES_MAX + 1), ..usage() },
        ] {
            assert!(refused(hardware(None), slot_of(wrong)).contains("readings"));
        }
        let other = refused(hardware(Some("load1")), slot_of(usage()));
        assert!(other.contains("readings"), "{other}");
        assert!(refused(hardware(None), slot(30)).contains("samples"), "not asked for");
    }

    #[test]
    fn values_and_times_are_those_requested_and_in_order() {
        let refused = |request: HistoryRequest, slot: HistorySlot| {
            let bytes = response(vec![slot]).encode();
            HistoryResponse::decode(&request, &bytes).unwrap_err().to_string()
        };
        for wrong in [
            values("another"),
            MetricValues { sum: f64::INFINITY, ..values("memory") },
            MetricValues { min: f64::NAN, ..values("memory") },
            MetricValues { last: 3.5, ..values("memory") },
            MetricValues { count: 0, ..values("memory") },
        ] {
            let gauges = HistorySlot { gauges: vec![wrong.clone()], ..empty() };
            assert!(refused(of_metrics(), gauges).contains("gauges"));
            let counters = HistorySlot { counters: vec![wrong], ..empty() };
            assert!(refused(of_metrics(), counters).contains("counters"));
        }
        for wrong in [
            OperationTime { class: Some("own word".to_owned()), ..time("step") },
            OperationTime { max_ns: 31, ..time("step") },
            OperationTime { count: COUNT_MAX + 1, ..time("step") },
        ] {
            let slot = HistorySlot { operations: vec![wrong], ..empty() };
            assert!(refused(of_operations(), slot).contains("operations"));
        }
        let other = HistorySlot { operations: vec![time("other")], ..empty() };
        assert!(refused(of_metrics(), other.clone()).contains("operations"));
        assert!(refused(request(), other).contains("operations"));
        let many = vec![time("step"); HISTORY_OPERATIONS_MAX + 1];
        let many = HistorySlot { operations: many, ..empty() };
        assert!(refused(of_operations(), many).contains("operations"));
        let counters = vec![values("memory"); HISTORY_METRICS_ASKED_MAX + 1];
        assert!(refused(of_metrics(), HistorySlot { counters, ..empty() }).contains("counters"));
    }

    /// What a later version may ask for, as bytes.
    fn later(of: &str) -> Vec<u8> {
        let mut map = rmp_serde::from_slice::<serde_json::Value>(&request().encode()).unwrap();
        map["of"] = serde_json::from_str(of).unwrap();
        rmp_serde::to_vec_named(&map).unwrap()
    }

    #[test]
    fn a_request_of_a_later_version_can_be_refused_by_its_number() {
        let bytes = later(r#"{"stacks": {"of": ["x", 1]}}"#);
        assert!(HistoryRequest::decode(&bytes).is_err());
        let unknown = HistoryRequest::unknown(&bytes).unwrap();
        assert_eq!((unknown.number, unknown.asker.as_str()), (7, "0f"));
        assert_eq!(HistoryRequest::unknown(b"no request"), None);
        let asker = "a.b".to_owned();
        assert_eq!(HistoryRequest::unknown(&HistoryRequest { asker, ..request() }.encode()), None);
    }

    #[test]
    fn a_version_without_metrics_reads_their_requests_as_unknown() {
        #[derive(Debug, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[expect(dead_code, reason = "only whether it is read matters")]
        enum EarlierOf {
            Latency { operation: Operation, labels: Labels },
            Hardware { sensor: Option<String> },
        }
        #[derive(Debug, Deserialize)]
        struct EarlierMap {
            #[expect(dead_code, reason = "only whether it is read matters")]
            of: EarlierOf,
        }
        let is_read = |request: HistoryRequest| {
            rmp_serde::from_slice::<EarlierMap>(&request.encode()).is_ok()
        };
        assert!(is_read(request()) && is_read(hardware(None)));
        assert!(!is_read(of_metrics()) && !is_read(of_operations()));
    }

    #[test]
    fn a_request_of_another_shape_is_refused() {
        let of = |request: HistoryRequest| HistoryRequest::decode(&request.encode()).unwrap_err();
        let step_ns = 7 * SECOND;
        assert!(of(HistoryRequest { step_ns, ..request() }).to_string().contains("step"));
        let asker = "a.b".to_owned();
        assert!(of(HistoryRequest { asker, ..request() }).to_string().contains("asker"));
        let range = Wall(60 * SECOND)..Wall(60 * SECOND);
        assert!(of(HistoryRequest { range, ..request() }).to_string().contains("from_ns"));
        let names = vec![Operation::new("a").unwrap(); HISTORY_METRICS_ASKED_MAX + 1];
        let metric = HistoryOf::Metric { names, operation: None, labels: Labels::default() };
        assert!(of(HistoryRequest { of: metric, ..request() }).to_string().contains("names"));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _request = HistoryRequest::decode(&bytes);
            let _response = HistoryResponse::decode(&request(), &bytes);
            let _number = HistoryResponse::number_in(&bytes);
            let _unknown = HistoryRequest::unknown(&bytes);
        }

        #[test]
        fn damaged_responses_never_panic(at in 0_usize..300, byte in any::<u8>()) {
            let mut bytes = response(vec![slot(20), slot(59)]).encode();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _response = HistoryResponse::decode(&request(), &bytes);
        }
    }
}
