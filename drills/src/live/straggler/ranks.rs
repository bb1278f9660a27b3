//! Ranks that wait for each other at each step, each on a thread of its own with a socket to its
//! node. One of them may compute longer. Notes every sample that its socket has taken.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, anyhow};
use plimsoll_clock::{Deadline, Stopwatch};
use plimsoll_mesh::statsd::StatsdSender;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::random::SplitMix64;

use crate::live::ledger::Raw;

pub(super) const STEP: &str = "train_step";
const INPUT_US: u64 = 5_000;
const COMPUTE_US: u64 = 75_000;
/// A twentieth, as steps of real jobs vary.
const VARIES_US: u64 = 4_000;
const NS_PER_US: u64 = 1_000;

/// Operation and nanoseconds of each.
type Samples = Vec<(String, u64)>;

/// What all ranks share.
struct Shared {
    barrier: Barrier,
    stop: AtomicBool,
    goes_on: AtomicBool,
    /// By how much the slow rank computes longer, while it does.
    is_slow: AtomicBool,
    longer: Duration,
}

/// Where a rank runs.
pub(super) struct Place {
    pub(super) node: NodeName,
    pub(super) socket: PathBuf,
}

/// Threads that make steps until they are stopped.
pub(super) struct Ranks {
    shared: Arc<Shared>,
    threads: Vec<(NodeName, JoinHandle<Result<Samples>>)>,
}

impl Ranks {
    /// Starts one rank at each place; the one with the number `slow` may become slower.
    pub(super) fn start(places: Vec<Place>, slow: usize, longer: Duration) -> Result<Self> {
        let shared = Arc::new(Shared {
            barrier: Barrier::new(places.len()),
            stop: AtomicBool::new(false),
            goes_on: AtomicBool::new(true),
            is_slow: AtomicBool::new(false),
            longer,
        });

        let links = places
            .into_iter()
            .map(|Place { node, socket }| Ok((node, StatsdSender::unix(&socket)?)));
        // All of them first: a thread without the others would wait for ever.
        let links: Vec<(NodeName, StatsdSender)> = links.collect::<Result<_>>()?;

        let threads = links.into_iter().enumerate().map(|(number, (node, link))| {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name(format!("rank-{number}"));
            let may_be_slow = number == slow;
            let started = thread.spawn(move || run(number, may_be_slow, &link, &shared))?;
            Ok((node, started))
        });
        let threads = threads.collect::<Result<_>>()?;
        Ok(Self { shared, threads })
    }

    pub(super) fn set_slow(&self, is_slow: bool) {
        self.shared.is_slow.store(is_slow, Ordering::Relaxed);
    }

    /// Stops all of them after the step that they make, and notes what each node was sent.
    pub(super) fn stop(self, sent: &mut Raw) -> Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        for (node, thread) in self.threads {
            let samples = thread.join().map_err(|_| anyhow!("a rank panicked"))??;
            sent.entry(node).or_default().extend(samples);
        }
        Ok(())
    }
}

fn run(number: usize, may_be_slow: bool, link: &StatsdSender, shared: &Shared) -> Result<Samples> {
    let mut random = SplitMix64(number as u64);
    let mut sent = Vec::new();
    let mut failed = None;

    while shared.goes_on.load(Ordering::Relaxed) {
        let phases = step(may_be_slow, &mut random, shared);
        // A rank that failed still takes part: the others wait for it.
        match send(number, phases, link) {
            Ok(samples) => sent.extend(samples),
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(sent), Err)
}

/// One step: the microseconds of each class.
fn step(may_be_slow: bool, random: &mut SplitMix64, shared: &Shared) -> [(&'static str, u64); 3] {
    let mut varied = |us: u64| Duration::from_micros(us + random.bits() % VARIES_US);
    let input = spent(|| work(varied(INPUT_US)));
    let is_slow = may_be_slow && shared.is_slow.load(Ordering::Relaxed);
    let longer = if is_slow { shared.longer } else { Duration::ZERO };
    let compute = spent(|| work(varied(COMPUTE_US) + longer));

    let sync = spent(|| {
        // One decides for all whether there is another step, before any of them begins it.
        if shared.barrier.wait().is_leader() {
            shared.goes_on.store(!shared.stop.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        shared.barrier.wait();
    });
    [("input", input), ("compute", compute), ("sync", sync)]
}

/// What a rank does in this time needs no processor.
fn work(span: Duration) {
    let _over = Deadline::within(span).pause(span);
}

fn spent(work: impl FnOnce()) -> u64 {
    let watch = Stopwatch::start();
    work();
    u64::try_from(watch.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Sends a step with its phases; returns its samples.
fn send(rank: usize, phases: [(&'static str, u64); 3], link: &StatsdSender) -> Result<Samples> {
    let of_step = (STEP.to_owned(), format!("#rank:{rank}"), phases.map(|(_, us)| us).iter().sum());
    let of_phases = phases
        .map(|(class, us)| (format!("{STEP}.{class}"), format!("#class:{class},rank:{rank}"), us));

    let mut sent = Vec::new();
    for (operation, tags, us) in [of_step].into_iter().chain(of_phases) {
        let us: u64 = us;
        link.send(format!("{operation}:{}.{:03}|ms|{tags}", us / 1_000, us % 1_000))?;
        sent.push((operation, us * NS_PER_US));
    }
    Ok(sent)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn ranks_step_together_and_note_what_they_sent() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("sock");
        let node = UnixDatagram::bind(&socket).unwrap();
        node.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let (first, was_read) = std::sync::mpsc::channel();
        // Read all the time: the kernel holds ten datagrams.
        let reader = std::thread::spawn(move || {
            let (mut buffer, mut lines) = ([0; 256], Vec::new());
            while let Ok(read) = node.recv(&mut buffer) {
                lines.push(std::str::from_utf8(&buffer[..read]).unwrap().to_owned());
                let _read_before = first.send(());
            }
            lines
        });

        let name = NodeName::new("n").unwrap();
        let place = || Place { node: name.clone(), socket: socket.clone() };
        let ranks = Ranks::start(vec![place(), place()], 1, Duration::from_millis(20)).unwrap();
        was_read.recv().unwrap();
        let mut sent = Raw::new();
        ranks.stop(&mut sent).unwrap();

        let lines = reader.join().unwrap();
        assert!(
            lines[0].starts_with("train_step:") && lines[0].contains("|ms|#rank:"),
            "{lines:?}"
        );
        let steps = sent[&name].iter().filter(|(operation, _)| operation == STEP).count();
        assert_eq!((steps % 2, lines.len()), (0, 4 * steps), "both made as many");
        assert_eq!(sent[&name].len(), lines.len());
    }
}
