//! One order: which process may be read, the capture, and what became of it.

use std::fs;

use plimsoll_profile::pprof::encode;
use plimsoll_schemas::limits::wire::CAPTURE_PROFILE_BYTES_MAX;
use plimsoll_schemas::remote_text::one_line;
use plimsoll_schemas::time::nanos;
use plimsoll_schemas::wire::capture::{
    CaptureFacts, CaptureFailure, CaptureRefusal, CaptureState, ProfilerOrder,
};
use std::time::Duration;

use super::settings::Users;
use crate::order::{Order, ProcessId};
use crate::output::{Capture, End};
use crate::profile::Paths;
use crate::refusal::Refusal;
use crate::sampler::{Cancel, Sampler};
use crate::target::Target;
use crate::target::presence::{Pin, Presence};

/// The rung of this program's captures.
const RUNG: &str = "profiler";

pub(super) struct Outcome {
    pub(super) state: CaptureState,
    pub(super) facts: CaptureFacts,
    /// As compressed pprof; empty unless the state has one.
    pub(super) profile: Vec<u8>,
}

/// Captures if the process may be read: one that sent the node a sample, or one of these owners.
pub(super) fn carry_out(order: &ProfilerOrder, owners: &Users, cancel: &Cancel) -> Outcome {
    let command = fs::read_to_string(format!("/proc/{}/comm", order.pid)).unwrap_or_default();
    let command = one_line(&command);
    let facts = CaptureFacts { rung: RUNG.into(), pid: order.pid, command, ..Default::default() };
    match captured(order, owners, cancel) {
        Ok(captured) => kept(&captured, order, facts),
        Err(Fault { state, fix }) => {
            Outcome { state, facts: CaptureFacts { fix, ..facts }, profile: Vec::new() }
        }
    }
}

struct Fault {
    state: CaptureState,
    fix: String,
}

fn captured(order: &ProfilerOrder, owners: &Users, cancel: &Cancel) -> Result<Capture, Fault> {
    let pid = i32::try_from(order.pid).unwrap_or(0);
    let sampled = Order::new(pid, order.hz, order.seconds).map_err(|error| Fault {
        state: CaptureState::Failed(CaptureFailure::Other),
        fix: error.to_string(),
    })?;

    // Before its memory is touched, and of the process that is then opened.
    let pin = Pin::new(sampled.pid).map_err(|_| Refusal::NoProcess(sampled.pid))?;
    permit(order, &pin, owners)?;
    let target = Target::open(sampled.pid)?;
    if pin.presence() != Presence::Same {
        return Err(Refusal::NoProcess(sampled.pid).into());
    }
    Ok(Sampler::new(target, &sampled).run(cancel))
}

fn permit(order: &ProfilerOrder, pin: &Pin, owners: &Users) -> Result<(), Fault> {
    if let Some(sent_ms_ago) = order.sent_ms_ago {
        let is_sender = pin.age().is_some_and(|age| age >= Duration::from_millis(sent_ms_ago));
        return is_sender.then_some(()).ok_or_else(|| Fault {
            state: CaptureState::Refused(CaptureRefusal::ProcessNotFound),
            fix: "the process that sent has ended, and another one has its number".to_owned(),
        });
    }

    let users = users_of(ProcessId(order.pid.cast_signed()));
    let is_permitted =
        users.as_ref().is_some_and(|users| users.iter().all(|user| owners.contains(user)));
    is_permitted.then_some(()).ok_or_else(|| Fault {
        state: CaptureState::Refused(CaptureRefusal::ProcessNotPermitted),
        fix: format!(
            "the process is of user {}: add it to allow_users of plimsoll-profiler, or send over \
             the node's Unix socket",
            users.as_ref().and_then(Users::last).map_or("?".to_owned(), u32::to_string),
        ),
    })
}

/// The users that a process acts for: a program may have changed some of them.
fn users_of(pid: ProcessId) -> Option<Users> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_ascii_whitespace().map(|user| user.parse().ok()).collect()
}

fn kept(captured: &Capture, order: &ProfilerOrder, facts: CaptureFacts) -> Outcome {
    let paths = if order.full_paths { Paths::Full } else { Paths::Short };
    let (of, profile) = (&captured.facts, captured.profile(paths));
    let facts = CaptureFacts {
        python: of.python.clone(),
        samples: profile.facts.samples_taken,
        torn: profile.facts.samples_torn,
        lost: profile.facts.samples_lost,
        duration_ns: nanos(Duration::try_from_secs_f64(of.seconds).unwrap_or_default()),
        ..facts
    };

    let state = match of.ended {
        End::Complete => CaptureState::Kept,
        End::Cancelled => CaptureState::Failed(CaptureFailure::Cancelled),
        End::Exited | End::Replaced if of.ticks.taken == 0 => {
            CaptureState::Failed(CaptureFailure::ProcessEnded)
        }
        End::Denied if of.ticks.taken == 0 => CaptureState::Failed(CaptureFailure::Denied),
        End::Exited | End::Replaced | End::Denied => CaptureState::Torn,
    };
    if !state.has_profile() {
        return Outcome { state, facts, profile: Vec::new() };
    }

    match encode(&profile).ok().filter(|bytes| bytes.len() <= CAPTURE_PROFILE_BYTES_MAX) {
        Some(profile) => Outcome { state, facts, profile },
        None => {
            let state = CaptureState::Failed(CaptureFailure::TooLarge);
            let fix = "the profile is too large: order a shorter capture".to_owned();
            Outcome { state, facts: CaptureFacts { fix, ..facts }, profile: Vec::new() }
        }
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        let failure = match &refusal {
            Refusal::NoProcess(_) => {
                let state = CaptureState::Refused(CaptureRefusal::ProcessNotFound);
                return Self { state, fix: refusal.to_string() };
            }
            Refusal::Denied { .. } => CaptureFailure::Denied,
            Refusal::NotPython { .. } | Refusal::Version { .. } | Refusal::FreeThreaded { .. } => {
                CaptureFailure::NotSupported
            }
            Refusal::FileReplaced { .. } | Refusal::NotRunning(_) | Refusal::Unreadable { .. } => {
                CaptureFailure::Unreadable
            }
        };
        Self { state: CaptureState::Failed(failure), fix: refusal.to_string() }
    }
}
