//! One order: which process may be read, the capture, and what became of it.

use std::fs;

use plimsoll_profile::pprof::encode;
use plimsoll_schemas::limits::wire::CAPTURE_PROFILE_BYTES_MAX;
use plimsoll_schemas::remote_text::one_line;
use plimsoll_schemas::wire::capture::{
    CaptureFacts, CaptureFailure, CaptureKind, CaptureRefusal, CaptureState, ProfilerOrder,
};

use super::settings::{ROOT, Users};
use crate::order::{Order, OrderError};
use crate::output::{Capture, End};
use crate::probe::users;
use crate::reader::Paths;
use crate::refusal::Refusal;
use crate::sampler::together::{self, Together};
use crate::sampler::{Cancel, RUNG, Sampler, Steps};
use crate::target::Target;
use crate::target::presence::Pin;

pub(super) struct Outcome {
    pub(super) state: CaptureState,
    pub(super) facts: CaptureFacts,
    /// As compressed pprof; empty unless the state has one.
    pub(super) profile: Vec<u8>,
}

/// Captures if the process may be read: one that sent the node a sample, or one of these owners.
pub(super) fn carry_out(
    order: &ProfilerOrder,
    owners: &Users,
    together: &Together,
    cancel: &Cancel,
) -> Outcome {
    let command = fs::read_to_string(format!("/proc/{}/comm", order.pid)).unwrap_or_default();
    let command = one_line(&command);
    let facts = CaptureFacts { rung: RUNG.into(), pid: order.pid, command, ..Default::default() };
    match captured(order, owners, together, cancel) {
        Ok(captured) => kept(&captured, facts),
        Err(Fault { state, fix }) => {
            Outcome { state, facts: CaptureFacts { fix, ..facts }, profile: Vec::new() }
        }
    }
}

struct Fault {
    state: CaptureState,
    fix: String,
}

fn captured(
    order: &ProfilerOrder,
    owners: &Users,
    together: &Together,
    cancel: &Cancel,
) -> Result<Capture, Fault> {
    if order.kind != CaptureKind::Cpu {
        let state = CaptureState::Failed(CaptureFailure::NotSupported);
        let fix = format!("from outside no {} is seen", order.kind.as_str());
        return Err(Fault { state, fix });
    }
    let paths = if order.full_paths { Paths::Full } else { Paths::Short };
    let pid = i32::try_from(order.pid).unwrap_or(0);
    let mut sampled = Order::new(pid, order.hz, order.seconds, paths)?;
    sampled.native = order.native;

    // Before its memory is touched, and of the process that is then opened.
    let pin = Pin::new(sampled.pid)?;
    permit(order, &sampled, &pin, owners)?;
    let sampler = Sampler::new(Target::open(pin, &sampled)?, &sampled);
    Ok(if together::is_for_all(&sampled) {
        together.run(sampler, cancel)
    } else {
        sampler.run(cancel)
    })
}

fn permit(order: &ProfilerOrder, sampled: &Order, pin: &Pin, owners: &Users) -> Result<(), Fault> {
    if order.alive_at.is_some_and(|alive_at| pin.started_by() > alive_at) {
        return Err(Fault {
            state: CaptureState::Refused(CaptureRefusal::ProcessNotFound),
            fix: "the process that sent has ended, and another one has its number".to_owned(),
        });
    }

    let is_sender = order.alive_at.is_some();
    let fix = match users(sampled.pid).map(|users| unlisted(&users, owners, is_sender)) {
        Some(None) => return Ok(()),
        Some(Some(user)) => {
            let or = if is_sender { "" } else { ", or send over the node's Unix socket" };
            format!("the process is of user {user}: add it to allow_users of plimsoll-profiler{or}")
        }
        None => "its users cannot be read".to_owned(),
    };
    Err(Fault { state: CaptureState::Refused(CaptureRefusal::ProcessNotPermitted), fix })
}

/// A user who must be listed for a process that acts for these, and is not. A sender may be of any
/// user but root: who gets a process of root to send has no right to see into it.
fn unlisted(users: &[u32], owners: &Users, is_sender: bool) -> Option<u32> {
    let needs_list = |user: u32| !is_sender || user == ROOT;
    users.iter().copied().find(|user| needs_list(*user) && !owners.contains(user))
}

fn kept(captured: &Capture, facts: CaptureFacts) -> Outcome {
    let Capture { profile, python, native, ended, counts } = captured;
    let facts = CaptureFacts {
        native: native.is_some(),
        python: python.map(|version| version.to_string()).unwrap_or_default(),
        samples: counts.whole,
        torn: counts.torn,
        lost: counts.missed,
        ..facts
    };

    let state = match ended {
        // A profile without a stack explains nothing, and must not look as if nothing was done.
        End::Complete if counts.whole == 0 => CaptureState::Failed(CaptureFailure::Unreadable),
        End::Complete => CaptureState::Kept,
        End::Cancelled if counts.whole == 0 => CaptureState::Failed(CaptureFailure::Cancelled),
        End::Denied if counts.ticks == 0 => CaptureState::Failed(CaptureFailure::Denied),
        End::Exited | End::Replaced if counts.ticks == 0 => {
            CaptureState::Failed(CaptureFailure::ProcessEnded)
        }
        End::Cancelled | End::Exited | End::Replaced | End::Denied => CaptureState::Torn,
    };
    if !state.has_profile() {
        return Outcome { state, facts, profile: Vec::new() };
    }

    match encode(profile).ok().filter(|bytes| bytes.len() <= CAPTURE_PROFILE_BYTES_MAX) {
        Some(profile) => Outcome { state, facts, profile },
        None => {
            let state = CaptureState::Failed(CaptureFailure::TooLarge);
            let fix = "the profile is too large: order a shorter capture".to_owned();
            Outcome { state, facts: CaptureFacts { fix, ..facts }, profile: Vec::new() }
        }
    }
}

impl From<OrderError> for Fault {
    fn from(error: OrderError) -> Self {
        Self { state: CaptureState::Failed(CaptureFailure::Other), fix: error.to_string() }
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        use CaptureFailure::{Denied, NotSupported, Unreadable};
        let state = match &refusal {
            Refusal::NoProcess(_) => CaptureState::Refused(CaptureRefusal::ProcessNotFound),
            Refusal::Denied { .. } | Refusal::NotSampled { .. } => CaptureState::Failed(Denied),
            Refusal::NotPython { .. }
            | Refusal::Version { .. }
            | Refusal::FreeThreaded { .. }
            | Refusal::ThreadNumbers(_) => CaptureState::Failed(NotSupported),
            Refusal::FileReplaced { .. } | Refusal::NotRunning(_) | Refusal::Unreadable { .. } => {
                CaptureState::Failed(Unreadable)
            }
        };
        Self { state, fix: refusal.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_needs_no_list_unless_it_acts_for_root() {
        for (users, owners, of_sender, of_number) in [
            (&[5][..], &[][..], None, Some(5)),
            (&[5], &[5], None, None),
            (&[5, 7], &[5], None, Some(7)),
            (&[0], &[], Some(0), Some(0)),
            (&[0, 5], &[5], Some(0), Some(0)),
            (&[0, 5], &[0], None, Some(5)),
            (&[0, 5], &[0, 5], None, None),
        ] {
            let owners = owners.iter().copied().collect::<Users>();
            assert_eq!(unlisted(users, &owners, true), of_sender, "{users:?} {owners:?}");
            assert_eq!(unlisted(users, &owners, false), of_number, "{users:?} {owners:?}");
        }
    }
}
