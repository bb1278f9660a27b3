//! Records one sample: from a handle to the counts of the calling thread.
//!
//! The warm path reads which half is open, finds the thread's recorder and writes. Everything else
//! is cold and takes the lock of the registry.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::limits::OPERATIONS_MAX;

use crate::process;
use crate::registry::{self, Recorder};
use crate::side::{COLD, OFF, SIDE};
use crate::switches::Profiler;

const BLOCK: usize = 32;
const BLOCKS: usize = OPERATIONS_MAX.div_ceil(BLOCK);
type Block = [OnceCell<Arc<Recorder>>; BLOCK];

/// The recorders of one thread, by the numbers of their operations.
struct ThreadRecorders {
    blocks: [OnceCell<Box<Block>>; BLOCKS],
}

thread_local! {
    static RECORDERS: ThreadRecorders = const {
        ThreadRecorders { blocks: [const { OnceCell::new() }; BLOCKS] }
    };
}

impl ThreadRecorders {
    #[inline]
    fn recorder(&self, index: usize) -> Option<&Recorder> {
        let block = self.blocks.get(index / BLOCK)?.get()?;
        block[index % BLOCK].get().map(|recorder| &**recorder)
    }

    /// Keeps a recorder that was just made for this thread.
    fn keep(&self, index: usize, recorder: Arc<Recorder>) {
        let Some(block) = self.blocks.get(index / BLOCK) else { return };
        let empty = || Box::new([const { OnceCell::new() }; BLOCK]);
        let _kept_before = block.get_or_init(empty)[index % BLOCK].set(recorder);
    }
}

impl Drop for ThreadRecorders {
    fn drop(&mut self) {
        registry::end_thread();
    }
}

/// Records one sample of the operation with this number.
#[inline]
pub(crate) fn record(index: u32, ns: u64) {
    // A writer that still sees the half before is no loss: each flush reads that one again.
    let side = SIDE.load(Relaxed);
    if side > 1 {
        if side != OFF {
            record_cold(index, ns);
        }
        return;
    }

    let recorded = RECORDERS.try_with(|recorders| {
        let recorder = recorders.recorder(index as usize)?;
        recorder[side].record(ns);
        Some(())
    });

    if recorded != Ok(Some(())) {
        record_cold(index, ns);
    }
}

/// The first sample in this process, or of this operation in this thread, or after the thread's
/// own variables were taken down.
#[cold]
#[inline(never)]
fn record_cold(index: u32, ns: u64) {
    if !ready() {
        return;
    }

    let known = RECORDERS.try_with(|recorders| {
        if recorders.recorder(index as usize).is_none() {
            recorders.keep(index as usize, registry::enlist(index));
        }
        let side = SIDE.load(Relaxed);
        let half = recorders.recorder(index as usize).and_then(|recorder| recorder.get(side));
        half.map(|half| half.record(ns))
    });

    if known != Ok(Some(())) {
        registry::record_of_ended(index, ns);
    }
}

/// True when values are taken; the first call in a process finds out and starts the flush.
#[inline]
pub(crate) fn ready() -> bool {
    match SIDE.load(Relaxed) {
        0 | 1 => true,
        COLD => process::start(),
        _ => false,
    }
}

/// True when a profiler records.
#[inline]
pub(crate) fn is_on(profiler: Profiler) -> bool {
    ready() && profiler.is_on()
}
