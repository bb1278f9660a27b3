//! One order from its arrival until it is no longer kept.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use plimsoll_schemas::ids::{Labels, Series};
use plimsoll_schemas::limits::wire::CAPTURE_CHUNK_BYTES_MAX;
use plimsoll_schemas::time::{BootMillis, Mono, Now, Wall};
use plimsoll_schemas::wire::capture::{
    CaptureFacts, CaptureFailure, CaptureKind, CaptureOrder, CaptureRefusal, CaptureState,
    PastRange, ProfilerOrder,
};

use crate::core::Identity;
use crate::limits::{
    CAPTURE_CHUNK_PAUSE, CAPTURE_KEPT_FOR, CAPTURE_RESPONSE_WAIT, CAPTURE_SEARCH_AFTER,
    CAPTURE_SENDERS_MAX, RECORDED_READ_AFTER,
};

/// The label that an aggregator adds to the series of a node.
const NODE_LABEL: &str = "node";

/// A process that the kernel states as a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendingProcess {
    pub pid: u32,
    /// When it was there: one that started later has taken over its number.
    pub alive_at: BootMillis,
}

#[derive(Debug)]
pub(super) struct KnownOrder {
    pub(super) order: CaptureOrder,
    pub(super) facts: CaptureFacts,
    pub(super) profile: Bytes,
    /// When each chunk of the profile was last sent.
    sent_chunks: BTreeMap<u32, Mono>,
    start_at: Mono,
    expires_at: Mono,
    /// When a recording starts.
    from: Wall,
    /// What its process sends; `None` when the order has the number of the process.
    series: Option<Series>,
    /// Processes that send it, and the first instant that each was there; or the one of the order.
    found: BTreeMap<u32, Option<BootMillis>>,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Waiting,
    /// Of what is watched; read as the past once it is over.
    Recording {
        until: Mono,
    },
    /// The last profiles of the range are stored by then.
    Recorded {
        range: PastRange,
        read_at: Mono,
    },
    Running {
        until: Mono,
    },
    Ended {
        state: CaptureState,
        kept_until: Mono,
    },
}

/// Why an order that is due ends without a capture.
pub(super) struct Unstarted {
    pub(super) state: CaptureState,
    pub(super) fix: String,
}

impl KnownOrder {
    pub(super) fn new(now: Now, order: CaptureOrder, identity: &Identity) -> Self {
        let searched = order.process.operation.clone().filter(|_| order.past.is_none());
        let series = searched.map(|operation| {
            let own = |key: &str, value: &str| {
                let node = identity.node.as_str();
                identity.labels.get(key) == Some(value) || (key == NODE_LABEL && value == node)
            };
            let sent = order.process.labels.iter().filter(|(key, value)| !own(key, value));
            Series { operation, labels: Labels::new(sent).unwrap_or_default() }
        });
        Self {
            // From here on by the clock that does not jump.
            start_at: now.mono.plus(order.start_at.since(now.wall)),
            expires_at: now.mono.plus(order.expires_at.since(now.wall)),
            from: order.start_at.max(now.wall),
            series,
            found: order.process.pid.map(|pid| (pid, None)).into_iter().collect(),
            order,
            facts: CaptureFacts::default(),
            profile: Bytes::new(),
            sent_chunks: BTreeMap::new(),
            phase: Phase::Waiting,
        }
    }

    pub(super) fn state(&self) -> CaptureState {
        match self.phase {
            Phase::Waiting => CaptureState::Waiting,
            Phase::Recording { .. } | Phase::Recorded { .. } | Phase::Running { .. } => {
                CaptureState::Running
            }
            Phase::Ended { state, .. } => state,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }

    pub(super) fn is_recording(&self) -> bool {
        matches!(self.phase, Phase::Recording { .. })
    }

    /// Starts and ends a recording that is due.
    pub(super) fn record(&mut self, now: Mono) {
        let length = Duration::from_secs(self.order.seconds.into());
        match self.phase {
            Phase::Waiting
                if self.order.kind == CaptureKind::Continuous
                    && (self.start_at..self.expires_at).contains(&now) =>
            {
                self.phase = Phase::Recording { until: now.plus(length) };
            }
            Phase::Recording { until } if now >= until => self.stop(now),
            _ => {}
        }
    }

    /// Ends a recording early.
    pub(super) fn stop(&mut self, now: Mono) {
        if self.is_recording() {
            let to = self.from.plus(now.since(self.start_at));
            let range = PastRange { from: self.from, to };
            self.phase = Phase::Recorded { range, read_at: now.plus(RECORDED_READ_AFTER) };
        }
    }

    /// The stretch that is to be read.
    pub(super) fn past(&self) -> Option<PastRange> {
        match self.phase {
            Phase::Recorded { range, .. } => Some(range),
            _ => self.order.past,
        }
    }

    pub(super) fn has_found(&self, pid: u32) -> bool {
        self.found.contains_key(&pid)
    }

    /// Whether both are an alert's, for one instant, and none has started.
    pub(super) fn is_of_one_pair(&self, other: &CaptureOrder) -> bool {
        let CaptureOrder { rule, start_at, .. } = &self.order;
        let is_waiting = matches!(self.phase, Phase::Waiting);
        is_waiting && rule.is_some() && (rule, start_at) == (&other.rule, &other.start_at)
    }

    /// A chunk of the profile; none when it was sent just now.
    pub(super) fn chunk(&mut self, now: Mono, chunk: u32) -> Option<Vec<u8>> {
        let bytes = self.profile.chunks(CAPTURE_CHUNK_BYTES_MAX).nth(chunk as usize);
        // A request may be recorded and sent again, at any rate; one without bytes costs no more.
        let Some(bytes) = bytes else { return Some(Vec::new()) };
        let before = self.sent_chunks.get(&chunk);
        if before.is_some_and(|before| now.since(*before) < CAPTURE_CHUNK_PAUSE) {
            return None;
        }
        self.sent_chunks.insert(chunk, now);
        Some(bytes.to_vec())
    }

    pub(super) fn searched(&self) -> Option<&Series> {
        self.series.as_ref().filter(|_| matches!(self.phase, Phase::Waiting))
    }

    pub(super) fn on_sender(&mut self, SendingProcess { pid, alive_at }: SendingProcess) {
        if self.found.len() < CAPTURE_SENDERS_MAX || self.found.contains_key(&pid) {
            // The process must be as old as all that was sent under its number.
            let first = self.found.entry(pid).or_insert(Some(alive_at));
            *first = (*first).min(Some(alive_at));
        }
    }

    pub(super) fn next_deadline(&self) -> Mono {
        match self.phase {
            // A sender that is found later starts it on the turn that finds it.
            // What was recorded needs neither.
            Phase::Waiting if self.order.past.is_some() => Mono(0),
            Phase::Recorded { read_at, .. } => read_at,
            Phase::Waiting if self.order.kind == CaptureKind::Continuous => self.start_at,
            Phase::Waiting if self.found.is_empty() => {
                self.start_at.plus(CAPTURE_SEARCH_AFTER).min(self.expires_at)
            }
            Phase::Waiting => self.start_at,
            Phase::Recording { until } | Phase::Running { until } => until,
            Phase::Ended { kept_until, .. } => kept_until,
        }
    }

    /// What is to be captured now, or why nothing is; `None` while there is nothing to do.
    pub(super) fn due(&self, now: Mono) -> Option<Result<ProfilerOrder, Unstarted>> {
        let (state, fix) = match self.phase {
            Phase::Waiting if now >= self.expires_at => (CaptureState::Expired, String::new()),
            Phase::Waiting if self.order.past.is_some() => return Some(self.of_past()),
            Phase::Recorded { read_at, .. } if now >= read_at => return Some(self.of_past()),
            Phase::Waiting if now >= self.start_at => return self.due_of_found(now),
            Phase::Running { until } if now >= until => (
                CaptureState::Failed(CaptureFailure::ProfilerTimeout),
                "the profiler does not respond: see its log".to_owned(),
            ),
            Phase::Waiting
            | Phase::Recording { .. }
            | Phase::Recorded { .. }
            | Phase::Running { .. }
            | Phase::Ended { .. } => return None,
        };
        Some(Err(Unstarted { state, fix }))
    }

    fn of_past(&self) -> Result<ProfilerOrder, Unstarted> {
        let CaptureOrder { kind, native, seconds, hz, ref process, .. } = self.order;
        if process.operation.is_some() {
            return Err(Unstarted {
                state: CaptureState::Refused(CaptureRefusal::ProcessNotFound),
                fix: "the past is kept by the numbers of processes: name one, or none".to_owned(),
            });
        }
        let (pid, full_paths, alive_at) = (process.pid.unwrap_or(0), false, None);
        Ok(ProfilerOrder { pid, kind, native, seconds, hz, full_paths, alive_at })
    }

    fn due_of_found(&self, now: Mono) -> Option<Result<ProfilerOrder, Unstarted>> {
        let mut found = self.found.iter();
        let (refusal, fix) = match (found.next(), found.next()) {
            (Some((&pid, &alive_at)), None) => {
                let CaptureOrder { kind, native, seconds, hz, .. } = self.order;
                let full_paths = false;
                let order = ProfilerOrder { pid, kind, native, seconds, hz, full_paths, alive_at };
                return Some(Ok(order));
            }
            (Some(_), Some(_)) => {
                let pids: Vec<String> = self.found.keys().map(u32::to_string).collect();
                let fix = format!("processes {} send it: order with more labels", pids.join(", "));
                (CaptureRefusal::ProcessAmbiguous, fix)
            }
            (None, _) if now >= self.start_at.plus(CAPTURE_SEARCH_AFTER) => {
                (CaptureRefusal::ProcessNotFound, self.not_found())
            }
            (None, _) => return None,
        };
        Some(Err(Unstarted { state: CaptureState::Refused(refusal), fix }))
    }

    fn not_found(&self) -> String {
        let sent = self.series.as_ref().map(Series::to_string).unwrap_or_default();
        format!(
            "no process sends {sent} over a Unix socket of the node: /metrics of the node lists \
             what is sent; set listen.unix, listen.stream, or order by the number of the process"
        )
    }

    pub(super) fn start(&mut self, now: Mono) {
        let is_read = self.past().is_some();
        let length = Duration::from_secs(if is_read { 0 } else { self.order.seconds.into() });
        self.phase = Phase::Running { until: now.plus(length + CAPTURE_RESPONSE_WAIT) };
    }

    pub(super) fn end(&mut self, now: Mono, state: CaptureState) {
        self.phase = Phase::Ended { state, kept_until: now.plus(CAPTURE_KEPT_FOR) };
    }

    pub(super) fn is_over(&self, now: Mono) -> bool {
        matches!(self.phase, Phase::Ended { kept_until, .. } if now >= kept_until)
    }
}
