//! Native stacks between the ticks: when they are taken, and what of Python goes with each.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_profile::{Frame, Name};

use crate::limits::{EVENTS_AT_ONCE_MAX, STRIDE_MAX};
use crate::memory::Address;
use crate::native::{Event, NativeSample, Ready};
use crate::output::Counts;
use crate::reader::{PythonStack, Readings, ThreadReading};
use crate::target::Target;

/// What a thread ran when the kernel sampled it; no frames if Python's are of another instant.
pub(super) struct NativeStack {
    pub(super) label: Name,
    pub(super) frames: Option<Vec<Arc<Frame>>>,
}

/// The only frame of a native thread that does not run.
const OFF_CPU: &str = "[off CPU]";
/// Half of what native samples are lost at most of a process that ends.
const TICK_MAX: Duration = Duration::from_millis(50);

/// Takes the samples of the threads that have some.
pub(super) fn take(
    target: &mut Target,
    ready: Vec<Ready>,
    counts: &mut Counts,
    taken: &mut Vec<NativeStack>,
) {
    for ready in ready {
        for _ in 0..EVENTS_AT_ONCE_MAX {
            match target.native.as_mut().and_then(|native| native.next(ready)) {
                Some(Event::Sample(sample)) => taken.push(stack(target, &sample)),
                Some(Event::Lost(lost)) => counts.missed += lost,
                Some(Event::Unreadable) => counts.torn += 1,
                Some(Event::Other) => {}
                None => break,
            }
        }
    }
}

fn stack(target: &mut Target, sample: &NativeSample) -> NativeStack {
    let Target { native, python, .. } = target;
    // At once: unwinding takes longer than many a function does.
    let stack = match python {
        Some(python) if sample.is_fresh() => python.reader.thread(sample.thread.native_id),
        Some(_) => Ok(PythonStack::Torn),
        None => Ok(PythonStack::Absent),
    };
    // That the process ended, or may not be read any more, is what the next tick finds.
    let stack = stack.unwrap_or(PythonStack::Torn);
    let frames = native.as_mut().and_then(|native| native.stack(sample, &stack));
    NativeStack { label: sample.thread.label.clone(), frames }
}

/// Periods from one tick to the next. Where no interpreter is read, a tick takes longer than a
/// native sample, and a ring keeps some of these.
pub(super) fn stride(target: &Target, period: Duration) -> u32 {
    let is_native_alone = target.native.is_some() && target.python.is_none();
    let mut strides = (1..=STRIDE_MAX).rev().filter(|_| is_native_alone);
    strides.find(|stride| period * *stride <= TICK_MAX).unwrap_or(1)
}

/// What threads are shown to do while they do not run, where no interpreter has more.
pub(super) fn off_cpu(threads: impl Iterator<Item = u64>) -> Readings {
    let off: Arc<[Arc<Frame>]> = [Frame::marker(OFF_CPU)].into();
    let reading = |native_id| ThreadReading {
        native_id,
        gil: Address::default(),
        holds_gil: false,
        is_collecting: false,
        stack: Some(off.clone()),
    };
    Readings { threads: threads.map(reading).collect(), ..Readings::default() }
}
