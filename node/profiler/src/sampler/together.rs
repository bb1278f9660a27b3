//! Captures that one thread takes together: what is due at the same instants wakes an idle machine
//! once, and finds its caches warm.
//!
//! DESIGN N102.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::{io, thread};

use plimsoll_runtime::exit::Exit;

use super::{CANCEL_STEP, CLOCK, Cancel, Sampler};
use crate::limits::TOGETHER_HZ_MAX;
use crate::order::Order;
use crate::output::Capture;

/// The thread, which ends with the value once its captures have.
pub(crate) struct Together(Sender<Seat>);

/// A capture among others.
struct Seat {
    sampler: Sampler,
    cancel: Cancel,
    done: SyncSender<Capture>,
}

/// Whether a capture takes samples so seldom that it delays no other one.
pub(crate) fn is_for_all(order: &Order) -> bool {
    !order.native && order.hz() <= TOGETHER_HZ_MAX
}

impl Together {
    pub(crate) fn start() -> io::Result<Self> {
        let (seats, incoming) = channel();
        thread::Builder::new().name("captures".to_owned()).spawn(move || take(&incoming))?;
        Ok(Self(seats))
    }

    /// Waits until a capture has ended.
    pub(crate) fn run(&self, sampler: Sampler, cancel: &Cancel) -> Capture {
        let (done, captured) = sync_channel(1);
        let sent = self.0.send(Seat { sampler, cancel: cancel.clone(), done });
        sent.ok().and_then(|()| captured.recv().ok()).unwrap_or_else(|| {
            tracing::error!("the thread of captures has ended: the service ends");
            std::process::exit(Exit::Failure as i32)
        })
    }
}

/// Takes captures as they come, until no more can come and all have ended.
fn take(incoming: &Receiver<Seat>) {
    let mut seats: Vec<Seat> = Vec::new();
    loop {
        let received = match seats.iter().map(|seat| seat.sampler.due()).min() {
            None => incoming.recv().map_err(RecvTimeoutError::from),
            Some(due) => incoming.recv_timeout(due.since(CLOCK.now().mono).min(CANCEL_STEP)),
        };
        match received {
            Ok(seat) => seats.push(seat),
            Err(RecvTimeoutError::Disconnected) if seats.is_empty() => return,
            Err(_) => {}
        }
        seats = seats.into_iter().filter_map(step).collect();
    }
}

/// Does what is due of a capture; `None` once it has ended.
fn step(mut seat: Seat) -> Option<Seat> {
    let is_cancelled = seat.cancel.is_cancelled();
    if !is_cancelled && seat.sampler.due() > CLOCK.now().mono {
        return Some(seat);
    }
    let Some(ended) = seat.sampler.step(is_cancelled) else { return Some(seat) };
    // There is room: it is the only one.
    let _sent = seat.done.send(seat.sampler.finish(ended));
    None
}
