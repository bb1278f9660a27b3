//! The background thread: takes the samples of all threads and sends them.
//!
//! Only this thread uses the connection to the node, so no thread of the job waits for a socket.
//!
//! DESIGN N41, N49, N50.

use std::io::Read;

use crate::limits::{FLUSHER_STACK_BYTES, RETRY_PAUSE_MIN};
use nix::sys::signal::{SigSet, SigmaskHow};
use plimsoll_clock::Clock;

use crate::delivery::SendOutcome;
use crate::registry::{self, FlushRequests};
use crate::sender::{SendTerms, Sender};
use crate::settings::Settings;
use crate::thread;

/// Random bytes in the name of a client.
const NAME_BYTES: usize = 12;

/// Starts the thread; false when the system has none to spare.
pub(crate) fn spawn(settings: Settings) -> bool {
    // A job chooses the threads that handle its signals; this thread blocks all of them.
    // Here and not in `run`: a thread inherits the mask, and a signal could come before it sets its
    // own.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK);

    let is_started = thread::spawn(c"plimsoll-flush", FLUSHER_STACK_BYTES, move || run(settings));
    if let Ok(before) = before {
        let _restored = before.thread_set_mask();
    }
    is_started
}

fn run(settings: Settings) {
    let every = settings.flush_every;
    let mut sender = Sender::new(settings.stream, client_name(), settings.labels);
    let (mut served, mut span) = (0, every);

    loop {
        let mut state = registry::wait_for_request(served, span);
        let is_whole = state.take_into(&mut sender.unsent);
        let FlushRequests { wanted, waiting, is_ending, .. } = state.requests;
        // No thread of the job may wait for a socket, so the lock goes before anything is sent.
        drop(state);

        // A final frame promises that nothing follows, and the sample of a stopped writer does.
        let terms = SendTerms { is_awaited: waiting > 0, is_ending: is_ending && is_whole };
        let outcome = match sender.send(terms) {
            // A thread that waits, above all at the exit of the process, waits for the rest too.
            SendOutcome::Complete if !is_whole => SendOutcome::Waiting,
            outcome => outcome,
        };

        registry::report(sender.delivery(), wanted, outcome);
        // A thread waits, so the next attempt is not left to the next period.
        let is_overdue = waiting > 0 && outcome != SendOutcome::Complete;
        (served, span) = (wanted, if is_overdue { RETRY_PAUSE_MIN } else { every });
    }
}

/// A unique name, also after a fork.
fn client_name() -> String {
    let mut bytes = [0; NAME_BYTES];
    let random = std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bytes));
    if random.is_err() {
        // Without the device the time and the process id make the name unique.
        let now = Clock::start().now().wall.0;
        bytes[..8].copy_from_slice(&now.to_be_bytes());
    }
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{hex}", std::process::id())
}
