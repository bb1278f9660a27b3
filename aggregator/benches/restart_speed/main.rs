//! Time of a restart from stored state, part by part, and whether it is exact: a core that has read
//! ten minutes of a fleet is written by the real store several times, read back, and compared with
//! the one that was written. No budget is judged and no stream is read.
//!
//! `cargo bench -p plimsoll-aggregator --bench restart_speed -- 1000 usual`

mod fleet;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use plimsoll_aggregator::core::Core;
use plimsoll_aggregator::core::durable::{Changes, StoredRecords};
use plimsoll_aggregator::io::store::{Opened, Store};
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::rule::file::effective;
use plimsoll_schemas::time::Now;

use fleet::{Shape, mesh};

/// Times that everything is written: the file must not grow without end.
const WRITES: usize = 6;
const MEBIBYTE: f64 = 1_048_576.0;

fn main() -> Result<()> {
    // `cargo bench` adds an argument of its own.
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let nodes: usize = arguments.next().map_or(Ok(1_000), |n| n.parse()).context("nodes")?;
    let shape: Shape = arguments.next().as_deref().unwrap_or("usual").parse()?;
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("state.redb");
    let (mut core, now) = timed("made", || fleet::live(nodes, shape));
    println!("{nodes} nodes, {} MiB resident", resident("VmRSS")?);
    write(&path, &mut core, now)?;
    let restored = restart(&path, now)?;
    compare(&mut core, restored, now)?;
    println!("every record, ledger and window is the same");
    Ok(())
}

fn write(path: &Path, core: &mut Core, now: Now) -> Result<()> {
    let Opened { mut store, .. } = Store::open(path, &mesh(), now.wall)?;
    for _ in 0..WRITES {
        std::fs::write("/proc/self/clear_refs", "5").context("cannot reset the peak")?;
        let before = resident("VmRSS")?;
        let changes = timed("taken", || all(core, now))?;
        let confirmations = timed("confirmed", || changes.confirmations(now.mono));
        let stored = timed("written", || store.write(changes))?;
        let (size, peak) = (std::fs::metadata(path)?.len(), resident("VmHWM")?);
        println!(
            "{} confirmations, {:.1} MiB of records, file of {:.1} MiB, {} MiB more memory",
            confirmations.len(),
            stored.bytes as f64 / MEBIBYTE,
            size as f64 / MEBIBYTE,
            peak.saturating_sub(before),
        );
    }
    timed("closed", || drop(store));
    Ok(())
}

fn restart(path: &Path, now: Now) -> Result<Core> {
    let watch = Stopwatch::start();
    let before = resident("VmRSS")?;
    let opened = timed("opened, checked and read", || Store::open(path, &mesh(), now.wall))?;
    let checkpoint = opened.checkpoint.context("nothing was stored")?;
    let budgets = effective(&[])?;
    let core = timed("restored", || Core::restore(mesh(), budgets, now, checkpoint));
    println!(
        "restarted in {:.3} s, with {} MiB more memory",
        watch.elapsed().as_secs_f64(),
        resident("VmHWM")?.saturating_sub(before)
    );
    Ok(core)
}

/// Whether both cores would store the same, byte by byte, and answer the same.
fn compare(core: &mut Core, mut restored: Core, now: Now) -> Result<()> {
    let (mut ours, mut theirs) = (StoredRecords::default(), StoredRecords::default());
    ours.write(all(core, now)?);
    theirs.write(all(&mut restored, now)?);
    ensure!(ours.0.len() == theirs.0.len(), "not the same records");
    for (name, record) in &ours.0 {
        ensure!(theirs.0.get(name) == Some(record), "{name} differs");
    }
    for name in fleet::names(ours.0.len()) {
        let (Some(one), Some(other)) = (core.node(&name), restored.node(&name)) else { continue };
        ensure!(one.account.ledger() == other.account.ledger(), "the ledger of {name} differs");
        fleet::compare(&one.operations, &other.operations, now).context(name)?;
    }
    Ok(())
}

/// All that a core has to store.
fn all(core: &mut Core, now: Now) -> Result<Changes> {
    core.on_changes_lost();
    core.take_changes(now.wall).context("nothing to store")
}

fn timed<T>(what: &str, act: impl FnOnce() -> T) -> T {
    let watch = Stopwatch::start();
    let done = act();
    println!("{what:>24}: {:.3} s", watch.elapsed().as_secs_f64());
    done
}

/// A figure of this process's memory, in MiB.
fn resident(figure: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'));
    let kibibytes = line.and_then(|line| line.split_whitespace().next());
    Ok(kibibytes.context("no such figure")?.parse::<u64>()? / 1024)
}
