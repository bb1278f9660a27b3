//! Reads the stacks of a process from outside, without pausing it: of CPython, and of native code.
//!
//! [`order`] is what to capture, [`capture`] does it, [`output`] is what comes back, [`Refusal`]
//! why nothing does; [`probe`] finds what this machine allows. Inside, [`target`] finds the
//! interpreter in a process and watches that it stays the same one, [`layout`] has the offsets of
//! each version, [`reader`] turns bytes into stacks, [`native`] those of compiled code, [`sampler`]
//! does that on a schedule.
//! [`serve()`](serve::serve) takes orders over a socket. The crate writes nothing into the target,
//! sends it no signal and never uses ptrace.

#![forbid(unsafe_code)]

pub mod args;
pub mod layout;
pub mod limits;
pub mod memory;
pub mod native;
pub mod order;
pub mod output;
pub mod probe;
pub mod reader;
pub mod refusal;
pub mod sampler;
pub mod schedule;
pub mod serve;
pub mod target;

use order::Order;
use output::Capture;
use refusal::Refusal;
use sampler::{Cancel, Sampler, Steps};
use target::Target;
use target::presence::Pin;

/// Samples the process of `order` until its time is over, the process ends or `cancel` is used.
///
/// # Errors
/// When nothing can be captured; what was captured before the process ended is a [`Capture`].
pub fn capture(order: &Order, cancel: &Cancel) -> Result<Capture, Refusal> {
    let target = Target::open(Pin::new(order.pid)?, order)?;
    Ok(Sampler::new(target, order).run(cancel))
}
