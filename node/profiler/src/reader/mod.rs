//! Reads the stacks of one process: what its threads run, as far as its memory shows it.
//!
//! `threads` lists the threads of its interpreters, `stack` follows the frames of one, `code`
//! names them. The target runs on meanwhile. A stack is *whole* when its bytes prove that its
//! frames were there at one instant; otherwise it is read again, and after a bounded number of
//! tries it counts as *torn*. Nothing is guessed.
//!
//! DESIGN N90, N91, N92.

mod calls;
mod code;
mod frame;
mod lines;
mod objects;
mod parts;
mod single;
mod stack;
mod text;
mod threads;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use code::{Codes, Step};
use frame::Chain;
use plimsoll_profile::Frame;
use single::Listed;
use stack::{Attempt, Calls, Plan};
use threads::ThreadState;

pub use code::Paths;
pub use single::PythonStack;

use crate::layout::{Layout, ThreadNumber};
use crate::limits::ATTEMPTS_MAX;
use crate::memory::{Address, Memory, ReadError, Span, half, mapped};

/// Reads one process, and keeps between samples what need not be read again.
#[derive(Debug)]
pub struct Reader<M> {
    memory: M,
    layout: Layout,
    runtime: Address,
    plans: HashMap<Address, Plan>,
    listed: Listed,
    codes: Codes,
    step: Step,
    calls: Calls,
}

/// What was read of one thread.
#[derive(Debug, PartialEq, Eq)]
pub struct ThreadReading {
    /// The thread's number as its own pid namespace has it.
    pub native_id: u64,
    /// The lock that the thread needs to run.
    pub gil: Address,
    pub holds_gil: bool,
    /// While it collects garbage, which needs the lock.
    pub is_collecting: bool,
    pub stack: Option<WholeStack>,
}

/// Frames that were there at one instant, root first; none of a thread that runs no Python
/// function. Of a stack that is too deep there is one frame more than a profile keeps.
pub type WholeStack = Vec<Arc<Frame>>;

/// All threads of one instant, as far as they could be listed.
#[derive(Debug, Default)]
pub struct Readings {
    pub threads: Vec<ThreadReading>,
    /// The list changed while it was read, so threads may be absent.
    pub is_list_torn: bool,
}

/// Since 3.12 the file, by name, of the code that calls `__init__`.
const CLASS_CALL: &str = "__init__";

/// A chain, and when it was read.
struct DatedChain {
    chain: Chain,
    at: Step,
}

impl<M: Memory> Reader<M> {
    /// Of the process whose interpreter keeps its state at `runtime`.
    pub fn new(memory: M, layout: Layout, runtime: Address, paths: Paths) -> Self {
        Self {
            memory,
            layout,
            runtime,
            plans: HashMap::new(),
            listed: Listed::new(),
            codes: Codes::new(paths),
            step: Step::default(),
            calls: Calls::default(),
        }
    }

    /// Reads every thread once.
    ///
    /// # Errors
    /// When the process has ended, or its memory may not be read.
    pub fn sample(&mut self) -> Result<Readings, ReadError> {
        self.calls = Calls::of_sample();
        let listed = threads::list(&self.memory, &self.layout, self.runtime)?;
        let mut readings = Readings { is_list_torn: listed.is_torn, ..Readings::default() };

        // All stacks first: they are of nearly one instant, and one call checks the code objects of
        // all.
        let mut plans = std::mem::take(&mut self.plans);
        let mut chains = Vec::with_capacity(listed.threads.len());
        for thread in &listed.threads {
            let mut plan = plans.remove(&thread.address).unwrap_or_default();
            plan.start(thread);
            chains.push(self.chain(thread, &mut plan)?);
            self.plans.insert(thread.address, plan);
        }
        self.check(chains.iter().flatten())?;

        self.listed.clear();
        for (thread, chain) in listed.threads.into_iter().zip(chains) {
            let stack = match chain {
                Some(chain) => self.stack(&thread, chain)?,
                None => None,
            };
            let native_id = self.native_id(&thread)?;
            let lock = thread.lock;
            let holds_gil = lock.holder == Some(thread.address);
            let is_collecting = holds_gil && lock.is_collecting;
            let gil = lock.gil;
            readings.threads.push(ThreadReading {
                native_id,
                gil,
                holds_gil,
                is_collecting,
                stack,
            });
            self.listed.insert(native_id, thread);
        }
        Ok(readings)
    }

    /// Reads one thread that the last sample had.
    ///
    /// # Errors
    /// When the process has ended, or its memory may not be read.
    pub fn thread(&mut self, native_id: u64) -> Result<PythonStack, ReadError> {
        let Some(thread) = self.listed.get(&native_id).cloned() else {
            return Ok(PythonStack::Absent);
        };
        self.calls = Calls::of_sample();
        for _ in 0..ATTEMPTS_MAX {
            let mut plan = self.plans.remove(&thread.address).unwrap_or_default();
            plan.start(&thread);
            let chain = self.chain(&thread, &mut plan);
            self.plans.insert(thread.address, plan);
            let Some(dated) = chain? else { break };
            self.check([&dated])?;
            if let Some(frames) = self.name(&dated)? {
                let marks = dated.chain.links.iter().map(|link| link.is_called_by_c);
                return Ok(PythonStack::whole(frames.into_iter().zip(marks)));
            }
        }
        Ok(PythonStack::Torn)
    }

    /// The thread's number in the kernel; 0 of one that ended.
    fn native_id(&self, thread: &ThreadState) -> Result<u64, ReadError> {
        let ThreadNumber::ByHandle { number, .. } = self.layout.thread_number else {
            return Ok(thread.number);
        };
        let at = Address(thread.number).plus(number);
        let bytes = mapped(self.memory.read_span(Span { start: at, bytes: 4 }))?;
        Ok(bytes.map_or(0, |bytes| half(&bytes, 0).into()))
    }

    /// Reads a stack until it holds still; `None` when it does not, or the thread has ended.
    fn chain(
        &mut self,
        thread: &ThreadState,
        plan: &mut Plan,
    ) -> Result<Option<DatedChain>, ReadError> {
        for _ in 0..ATTEMPTS_MAX {
            match plan.attempt(&self.memory, &self.layout, thread, &mut self.calls)? {
                Attempt::Whole(chain) => {
                    return Ok(Some(DatedChain { chain, at: self.next_step() }));
                }
                Attempt::Again => {}
                Attempt::Ended => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Names a chain whose code objects were checked; when they do not fit, reads another one.
    fn stack(
        &mut self,
        thread: &ThreadState,
        first: DatedChain,
    ) -> Result<Option<WholeStack>, ReadError> {
        let mut dated = first;
        for _ in 0..ATTEMPTS_MAX {
            let stack = self.name(&dated)?;
            if stack.is_some() {
                return Ok(stack);
            }

            let mut plan = self.plans.remove(&thread.address).unwrap_or_default();
            let chain = self.chain(thread, &mut plan)?;
            self.plans.insert(thread.address, plan);
            let Some(chain) = chain else { break };
            self.check([&chain])?;
            dated = chain;
        }
        Ok(None)
    }

    fn check<'a>(
        &mut self,
        chains: impl IntoIterator<Item = &'a DatedChain>,
    ) -> Result<(), ReadError> {
        let links = chains.into_iter().flat_map(|dated| &dated.chain.links);
        let codes: BTreeSet<Address> = links.map(|link| link.code).collect();
        let now = self.next_step();
        self.calls.take(codes.len());
        self.codes.check(&self.memory, &self.layout, &codes, now)
    }

    /// The named frames of a chain; `None` when a frame contradicts its code object.
    fn name(
        &mut self,
        DatedChain { chain, at }: &DatedChain,
    ) -> Result<Option<WholeStack>, ReadError> {
        // What was known before and is unchanged after was so in between. What is new counts only
        // if the frames still hold their code objects: otherwise these may have been freed in
        // between.
        let has_new = chain.links.iter().any(|link| self.codes.is_new_since(link.code, *at));
        if has_new && !chain.still_holds(&self.memory, &self.layout)? {
            return Ok(None);
        }

        let leaf = chain.links.len().saturating_sub(1);
        // The frame through which a class is called is the interpreter's own.
        let is_own = |frame: &Arc<Frame>| frame.file.as_str() == CLASS_CALL;
        let named = chain.links.iter().enumerate().map(|(depth, link)| {
            // The leaf moves on all the time; its line is that of the first copy.
            let is_line_known = link.stood || depth == leaf;
            self.codes.frame(link, *at, is_line_known)
        });
        let named: Option<WholeStack> = named.collect();
        Ok(named.map(|mut frames| {
            frames.retain(|frame| !is_own(frame));
            frames
        }))
    }

    fn next_step(&mut self) -> Step {
        self.step.0 += 1;
        self.step
    }
}
