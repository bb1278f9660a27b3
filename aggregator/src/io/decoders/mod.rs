//! Decodes what a lane brings before the driver takes it: several batches at a time, each on a
//! thread of its own, and all in the order of the stream.
//!
//! A batch is what has arrived. A small one is decoded on the spot, since handing it to another
//! thread would take longer. A batch whose decoding panics ends its lane, as does a closed cursor.
//!
//! DESIGN A66.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use futures_util::FutureExt;
use plimsoll_bus::{Cursor, CursorEvent};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::core::ingest::Decoded;
use crate::limits::{
    DECODE_THREADS_MAX, DECODED_APART_BYTES_MIN, DECODED_APART_MIN, DECODED_BATCH_BYTES_MAX,
    DECODED_BATCH_MESSAGES_MAX,
};

#[derive(Debug)]
pub enum LaneEvent {
    Message(Box<Decoded>),
    /// Anything else that its cursor reports.
    Cursor(CursorEvent),
}

impl LaneEvent {
    fn of(event: CursorEvent) -> Self {
        match event {
            CursorEvent::Message(message) => Self::Message(Box::new(Decoded::of(message))),
            other => Self::Cursor(other),
        }
    }
}

/// The threads that decode, which all lanes share.
#[derive(Clone, Debug)]
pub struct Decoders {
    threads: usize,
    free: Arc<Semaphore>,
}

impl Decoders {
    /// This many threads; without a number, one for each core.
    pub fn new(threads: Option<usize>) -> Self {
        let cores = || available_parallelism().map_or(1, NonZero::get);
        let threads = threads.unwrap_or_else(cores).clamp(1, DECODE_THREADS_MAX);
        Self { threads, free: Arc::new(Semaphore::new(threads)) }
    }
}

/// Where the events of a lane come from: a cursor, or a test.
pub trait Source: Send + 'static {
    /// The next event; `None` once there are no more. Cancel safe.
    fn next(&mut self) -> impl Future<Output = Option<CursorEvent>> + Send;
    /// An event that is there already.
    fn ready(&mut self) -> Option<CursorEvent>;
}

impl Source for Cursor {
    async fn next(&mut self) -> Option<CursorEvent> {
        Self::next(self).await
    }

    fn ready(&mut self) -> Option<CursorEvent> {
        Self::ready(self)
    }
}

/// Events that came together.
enum Batch {
    Decoded(Vec<LaneEvent>),
    InWork(JoinHandle<Vec<LaneEvent>>),
}

/// A lane whose messages come decoded.
#[derive(Debug)]
pub struct DecodedLane {
    batches: mpsc::Receiver<Batch>,
    /// The oldest batch, while another thread decodes it.
    in_work: Option<JoinHandle<Vec<LaneEvent>>>,
    events: VecDeque<LaneEvent>,
    /// The decoding of a batch has panicked, so what follows it must not be taken.
    has_failed: bool,
    task: JoinHandle<()>,
}

impl DecodedLane {
    /// Reads ahead of its owner: for each thread one batch, and one more.
    pub fn start(source: impl Source, decoders: &Decoders) -> Self {
        let (sender, batches) = mpsc::channel(decoders.threads);
        let task = tokio::spawn(read(source, decoders.clone(), sender));
        Self { batches, in_work: None, events: VecDeque::new(), has_failed: false, task }
    }

    /// The next event; `None` once the lane has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<LaneEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }

            if let Some(in_work) = &mut self.in_work {
                let decoded = in_work.await;
                self.in_work = None;
                self.has_failed = decoded.is_err();
                self.events = decoded.unwrap_or_default().into();
                continue;
            }

            if self.has_failed {
                return None;
            }

            match self.batches.recv().await? {
                Batch::Decoded(events) => self.events = events.into(),
                Batch::InWork(in_work) => self.in_work = Some(in_work),
            }
        }
    }

    /// An event that is there already; `None` when there is none, or the lane has ended.
    pub fn ready(&mut self) -> Option<LaneEvent> {
        self.next().now_or_never().flatten()
    }
}

impl Drop for DecodedLane {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read(mut source: impl Source, decoders: Decoders, batches: mpsc::Sender<Batch>) {
    while let Some(first) = source.next().await {
        // A place first: what is taken from the cursor without one would be within no bound.
        let Ok(place) = batches.reserve().await else { return };
        let (events, bytes) = arrived(first, &mut source);

        if events.len() < DECODED_APART_MIN && bytes < DECODED_APART_BYTES_MIN {
            place.send(Batch::Decoded(decoded(events)));
            continue;
        }

        // Taken here and not on the thread: the runtime would
        // start a thread for each batch that only waits.
        let Ok(thread) = Arc::clone(&decoders.free).acquire_owned().await else { return };

        place.send(Batch::InWork(spawn_blocking(move || {
            let events = decoded(events);
            drop(thread);
            events
        })));
    }
}

/// This event and those that are there already, as many as one batch takes, and their bytes.
fn arrived(first: CursorEvent, source: &mut impl Source) -> (Vec<CursorEvent>, usize) {
    let (mut bytes, mut events) = (bytes_of(&first), vec![first]);
    while events.len() < DECODED_BATCH_MESSAGES_MAX && bytes < DECODED_BATCH_BYTES_MAX {
        let Some(event) = source.ready() else { break };
        bytes += bytes_of(&event);
        events.push(event);
    }
    (events, bytes)
}

fn bytes_of(event: &CursorEvent) -> usize {
    match event {
        CursorEvent::Message(message) => message.payload.len(),
        _ => 0,
    }
}

fn decoded(events: Vec<CursorEvent>) -> Vec<LaneEvent> {
    events.into_iter().map(LaneEvent::of).collect()
}

#[cfg(test)]
mod tests;
