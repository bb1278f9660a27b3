//! Memory of the thread of profiles over a day: four processes whose functions change all the
//! time, a profile of each every 10 s, and a minute of the past read each hour.
//!
//! `cargo bench -p plimsoll-node --bench past_day`

use anyhow::{Context, Result, ensure};
use plimsoll_clock::Clock;
use plimsoll_node::config::ProfileSettings;
use plimsoll_node::core::captures::CaptureStart;
use plimsoll_node::core::continuous::KeptProfile;
use plimsoll_node::io::profiles::{ProfileEvent, Profiles};
use plimsoll_profile::{Frame, Profile, SampleLabels, Stack, ValueType, pprof};
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::capture::{CaptureId, CaptureKind, PastRange, ProfilerOrder};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000;
const HOURS: u64 = 24;
const TURNS_AN_HOUR: u64 = 360;
const PROCESSES: u32 = 4;
/// From the third hour to the last.
const GROWTH_KIB_MAX: u64 = 1_024;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let directory = dir.path().to_owned();
    let settings = ProfileSettings { continuous: true, directory, ..ProfileSettings::default() };
    let mut profiles = Profiles::open(&settings, &NodeName::new("n1")?, Clock::start())?;

    println!("| hour | KiB resident | bytes on disk |\n|---|---|---|");
    let mut resident = Vec::new();
    for hour in 0..HOURS {
        for turn in hour * TURNS_AN_HOUR..(hour + 1) * TURNS_AN_HOUR {
            for pid in 1..=PROCESSES {
                profiles.store(ten_seconds(pid, turn)?, at(turn + 1));
                let stored = profiles.next().await;
                ensure!(matches!(stored, ProfileEvent::Stored(Ok(()))), "{stored:?}");
            }
        }
        profiles.read(minute_of(hour));
        let read = profiles.next().await;
        ensure!(matches!(&read, ProfileEvent::Read(end) if !end.profile.is_empty()), "{read:?}");
        resident.push(resident_kib()?);
        println!(
            "| {} | {} | {} |",
            hour + 1,
            resident[resident.len() - 1],
            profiles.stats().bytes
        );
    }

    let grown = resident[resident.len() - 1].saturating_sub(resident[2]);
    println!("\n{grown} KiB more than after the third hour, at most {GROWTH_KIB_MAX}");
    ensure!(grown <= GROWTH_KIB_MAX, "memory grows");
    Ok(())
}

fn at(turn: u64) -> Wall {
    Wall((START + 10 * turn) * SECOND)
}

/// Stacks of some 40 frames, of which one has a new name each time.
fn ten_seconds(pid: u32, turn: u64) -> Result<KeptProfile> {
    let mut profile = Profile::new(ValueType::wall(), SECOND / 19);
    (profile.started_at, profile.duration_ns) = (at(turn), 10 * SECOND);
    for n in 0..20 {
        let frame = |level| Frame::new(&format!("f{}_{level}", n % 8), "package/module.py", level);
        let new = Frame::new(&format!("g{turn}_{n}"), "package/generated.py", 1);
        let stack = (0..40).map(frame).chain([new]);
        profile.add(Stack::new(stack.collect()), SampleLabels::default(), 1 + n);
    }
    let profile = pprof::encode(&profile)?.into();
    Ok(KeptProfile { pid, command: "python3".to_owned(), profile })
}

fn minute_of(hour: u64) -> CaptureStart {
    let from = at(hour * TURNS_AN_HOUR);
    let order = ProfilerOrder {
        kind: CaptureKind::Past,
        native: false,
        pid: 0,
        seconds: 1,
        hz: 1,
        full_paths: false,
        alive_at: None,
    };
    let past = Some(PastRange { from, to: Wall(from.0 + 60 * SECOND) });
    CaptureStart {
        id: CaptureId::derived(&[&hour.to_be_bytes()]),
        order,
        past,
        from_outside: false,
    }
}

fn resident_kib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
