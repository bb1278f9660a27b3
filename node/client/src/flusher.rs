//! The thread in the background: takes what all threads recorded and sends it.
//!
//! It alone talks to the node, so no thread of the job ever waits for a socket.

use std::io::Read;
use std::thread;

use crate::limits::{FLUSHER_STACK_BYTES, RETRY_PAUSE_MIN};
use nix::sys::signal::{SigSet, SigmaskHow};
use plimsoll_clock::Clock;

use crate::gate::{self, Orders};
use crate::sender::{Outcome, Sender};
use crate::settings::Settings;

/// Bytes of chance in a client's name.
const NAME_BYTES: usize = 12;

/// Starts the thread; false when the system has none to spare.
pub(crate) fn spawn(settings: Settings) -> bool {
    // A job may wait for its signals in threads of its choice: this one is never among them.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK);
    let builder = thread::Builder::new().name("plimsoll-flush".into());
    let spawned = builder.stack_size(FLUSHER_STACK_BYTES).spawn(move || run(settings));
    if let Ok(before) = before {
        let _restored = before.thread_set_mask();
    }
    spawned.is_ok()
}

fn run(settings: Settings) {
    let every = settings.flush_every;
    let mut sender = Sender::new(settings.stream, client_name());
    let (mut served, mut span) = (0, every);
    loop {
        let mut state = gate::wait_for_order(served, span);
        let is_whole = state.take_into(&mut sender.held);
        let Orders { wanted, waiting, .. } = state.orders;
        drop(state);
        let outcome = match sender.send(waiting > 0) {
            // Whoever waits, at the process's exit above all, waits for the rest as well.
            Outcome::Answered if !is_whole => Outcome::Waiting,
            outcome => outcome,
        };
        gate::report(sender.account(), wanted, outcome);
        let is_owed = waiting > 0 && outcome != Outcome::Answered;
        (served, span) = (wanted, if is_owed { RETRY_PAUSE_MIN } else { every });
    }
}

/// Unlike any other client's, also after a fork.
fn client_name() -> String {
    let mut bytes = [0; NAME_BYTES];
    let random = std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bytes));
    if random.is_err() {
        // Without the device the time and the process must do.
        let now = Clock::start().now().wall.0;
        bytes[..8].copy_from_slice(&now.to_be_bytes());
    }
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{hex}", std::process::id())
}
