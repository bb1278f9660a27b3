//! The way of one sample: from a handle to the counts of the thread that records it.
//!
//! Warm, it reads which half is open, finds the thread's recorder and writes; everything else is
//! cold and goes through the gate.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use crate::limits::OPERATIONS_MAX;

use crate::gate;
use crate::half::Half;

/// The half that writers use: 0, 1, or neither while it is [`COLD`] or [`OFF`].
pub(crate) static SIDE: AtomicUsize = AtomicUsize::new(COLD);
/// Nothing was recorded in this process yet; a forked child is such a one.
pub(crate) const COLD: usize = 2;
/// `PLIMSOLL_ENABLE` says no.
pub(crate) const OFF: usize = 3;

/// One operation as recorded by one thread.
pub(crate) type Recorder = [Half; 2];

const BLOCK: usize = 32;
const BLOCKS: usize = OPERATIONS_MAX.div_ceil(BLOCK);
type Block = [OnceCell<Arc<Recorder>>; BLOCK];

/// What a thread knows: its recorders, by the numbers of their operations.
pub(crate) struct Local {
    blocks: [OnceCell<Box<Block>>; BLOCKS],
    /// The thread's number among those that recorded; zero before it did.
    pub(crate) thread: Cell<u64>,
}

thread_local! {
    static LOCAL: Local = const {
        Local { blocks: [const { OnceCell::new() }; BLOCKS], thread: Cell::new(0) }
    };
}

impl Local {
    #[inline]
    fn recorder(&self, index: usize) -> Option<&Recorder> {
        let block = self.blocks.get(index / BLOCK)?.get()?;
        block[index % BLOCK].get().map(|recorder| &**recorder)
    }

    /// Keeps a recorder that was just made for this thread.
    pub(crate) fn keep(&self, index: usize, recorder: Arc<Recorder>) {
        let Some(block) = self.blocks.get(index / BLOCK) else { return };
        let empty = || Box::new([const { OnceCell::new() }; BLOCK]);
        let _kept_before = block.get_or_init(empty)[index % BLOCK].set(recorder);
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if self.thread.get() != 0 {
            gate::end_thread(self.thread.get());
        }
    }
}

/// The calling thread's number; zero before it recorded, and once its own variables have gone.
pub(crate) fn thread() -> u64 {
    LOCAL.try_with(|local| local.thread.get()).unwrap_or_default()
}

/// Records one sample of the operation with this number.
#[inline]
pub(crate) fn record(index: u32, ns: u64) {
    let side = SIDE.load(Relaxed);
    if side > 1 {
        return record_cold(index, ns);
    }
    let recorded = LOCAL.try_with(|local| {
        let recorder = local.recorder(index as usize)?;
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
    let known = LOCAL.try_with(|local| {
        if local.recorder(index as usize).is_none() {
            gate::enlist(local, index);
        }
        let side = SIDE.load(Relaxed);
        let half = local.recorder(index as usize).and_then(|recorder| recorder.get(side));
        half.map(|half| half.record(ns))
    });
    if known != Ok(Some(())) {
        gate::record_late(index, ns);
    }
}

/// True when values are taken; the first call in a process finds out and starts the flush.
#[inline]
pub(crate) fn ready() -> bool {
    match SIDE.load(Relaxed) {
        0 | 1 => true,
        COLD => gate::start(),
        _ => false,
    }
}
