//! Reads the stacks of one process: what its threads run, as far as its memory shows it.
//!
//! `threads` lists the threads of its interpreters, in one call if `ahead` knows them, `stack`
//! follows the frames of one, `code` names them. The target runs on meanwhile. A stack is *whole*
//! when its bytes prove that its frames were there at one instant; otherwise it is read again, and
//! after a bounded number of tries it counts as *torn*. Nothing is guessed.
//!
//! DESIGN N90, N91, N92, N102.

mod ahead;
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

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use ahead::Ahead;
use code::{Codes, Step};
use frame::Chain;
use plimsoll_profile::Frame;
use stack::{Attempt, Calls, Plan};
use threads::ThreadState;

pub use code::Paths;
pub use single::{PythonStack, WholeStack};

use crate::layout::Layout;
use crate::limits::ATTEMPTS_MAX;
use crate::memory::{Address, Memory, ReadError, Span};

/// Reads one process, and keeps between samples what need not be read again.
#[derive(Debug)]
pub struct Reader<M> {
    memory: M,
    layout: Layout,
    runtime: Address,
    plans: HashMap<Address, Plan>,
    /// The threads of the last sample, and what was read to list them.
    listed: Vec<ThreadState>,
    ahead: Vec<Span>,
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

impl ThreadReading {
    fn of(thread: &ThreadState, stack: Option<WholeStack>) -> Self {
        let ThreadState { native_id, lock, .. } = *thread;
        let holds_gil = lock.holder == Some(thread.address);
        let is_collecting = holds_gil && lock.is_collecting;
        Self { native_id, gil: lock.gil, holds_gil, is_collecting, stack }
    }
}

impl<M: Memory> Reader<M> {
    /// Of the process whose interpreter keeps its state at `runtime`.
    pub fn new(memory: M, layout: Layout, runtime: Address, paths: Paths) -> Self {
        Self {
            memory,
            layout,
            runtime,
            plans: HashMap::new(),
            listed: Vec::new(),
            ahead: Vec::new(),
            codes: Codes::new(paths),
            step: Step::default(),
            calls: Calls::default(),
        }
    }

    /// Reads every thread once, but for those that by `stands` have not run since the last
    /// sample: their frames are the same, and keep their code objects alive. A thread that has
    /// states in several interpreters may run any of them, and is always read.
    ///
    /// # Errors
    /// When the process has ended, or its memory may not be read.
    pub fn sample(&mut self, mut stands: impl FnMut(u64) -> bool) -> Result<Readings, ReadError> {
        self.calls = Calls::of_sample();
        let ahead = Ahead::new(&self.memory, std::mem::take(&mut self.ahead));
        let listed = threads::list(&ahead, &self.layout, self.runtime)?;
        self.ahead = ahead.into_asked();

        // All stacks first: they are of nearly one instant, and one call checks the code objects of
        // all.
        let count = listed.threads.len();
        let mut numbers = HashSet::with_capacity(count);
        let again = listed.threads.iter().map(|thread| thread.native_id);
        let shared: Vec<u64> = again.filter(|number| !numbers.insert(*number)).collect();
        let mut plans = std::mem::replace(&mut self.plans, HashMap::with_capacity(count));
        let mut chains = Vec::with_capacity(count);
        for thread in &listed.threads {
            let mut plan = plans.remove(&thread.address).unwrap_or_default();
            let stands = !shared.contains(&thread.native_id) && stands(thread.native_id);
            plan.named.take_if(|(native_id, _)| !stands || *native_id != thread.native_id);
            chains.push(match plan.named {
                Some(_) => None,
                None => {
                    plan.start(thread);
                    self.chain(thread, &mut plan)?
                }
            });
            self.plans.insert(thread.address, plan);
        }
        self.check(chains.iter().flatten())?;

        let mut readings = Readings { is_list_torn: listed.is_torn, ..Readings::default() };
        for (thread, chain) in listed.threads.iter().zip(chains) {
            let read = chain.map(|chain| self.stack(thread, chain)).transpose()?.flatten();
            let plan = self.plans.entry(thread.address).or_default();
            plan.named = read.map(|stack| (thread.native_id, stack)).or(plan.named.take());
            let stack = plan.named.as_ref().map(|(_, stack)| stack.clone());
            readings.threads.push(ThreadReading::of(thread, stack));
        }
        self.listed = listed.threads;
        Ok(readings)
    }

    /// Reads one thread that the last sample had.
    ///
    /// # Errors
    /// When the process has ended, or its memory may not be read.
    pub fn thread(&mut self, native_id: u64) -> Result<PythonStack, ReadError> {
        let thread = self.listed.iter().find(|thread| thread.native_id == native_id).cloned();
        let Some(thread) = thread else { return Ok(PythonStack::Absent) };
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
                return Ok(PythonStack::whole(frames.iter().cloned().zip(marks)));
            }
        }
        Ok(PythonStack::Torn)
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
        let named = named.filter(|frame| frame.as_ref().is_none_or(|frame| !is_own(frame)));
        Ok(named.collect())
    }

    fn next_step(&mut self) -> Step {
        self.step.0 += 1;
        self.step
    }
}
