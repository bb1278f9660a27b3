//! `plimsoll profile cpu --pid`: a process of this machine, without a mesh.

use anyhow::{Context, Result};
use plimsoll_profiler::capture;
use plimsoll_profiler::order::{Order, Threads};
use plimsoll_profiler::output::{Capture, End};
use plimsoll_profiler::reader::Paths;
use plimsoll_profiler::refusal::Refusal;
use plimsoll_profiler::sampler::Cancel;
use plimsoll_runtime::exit::{Exit, fail};
use tokio::signal::unix::{SignalKind, signal};

use super::captured::Captured;
use super::{CpuArgs, text};

/// Samples on a thread of its own. An interrupt ends the capture, not the program.
pub(super) async fn captured(args: &CpuArgs) -> Result<Result<Captured, Exit>> {
    let pid = args.pid.context("--pid or --node")?;
    let paths = if args.full_paths { Paths::Full } else { Paths::Short };
    let mut order = Order::new(pid, args.rate, args.seconds, paths)?;
    if args.is_of_gil_holder() {
        order.threads = Threads::GilHolder;
    }
    order.native = args.native;
    eprintln!("plimsoll: {} s at {} Hz of process {pid}", args.seconds, args.rate);

    let cancel = Cancel::default();
    let stop = cancel.clone();
    let sampling = tokio::task::spawn_blocking(move || capture(&order, &cancel));
    tokio::pin!(sampling);
    let mut terminated = signal(SignalKind::terminate())?;
    let sampled = tokio::select! {
        sampled = &mut sampling => sampled,
        _ = tokio::signal::ctrl_c() => {
            stop.cancel();
            sampling.await
        }
        _ = terminated.recv() => {
            stop.cancel();
            sampling.await
        }
    };

    let capture = match sampled.context("the sampler failed")? {
        Ok(capture) => capture,
        Err(refusal) => {
            let is_denied = matches!(refusal, Refusal::Denied { .. } | Refusal::NotSampled { .. });
            let exit = if is_denied { Exit::Denied } else { Exit::Failure };
            fail("plimsoll", exit, &refusal);
            return Ok(Err(exit));
        }
    };
    let ended = ended(&capture);
    let Capture { profile, python, native, counts, .. } = capture;
    let python = python.map(|version| format!("CPython {version}"));
    let native = native.map(|native| format!("native stacks of {native}"));
    let read = python.into_iter().chain(native).collect::<Vec<_>>().join(", ");
    let stacks = text::stacks(counts.whole, counts.torn, counts.missed);
    Ok(Ok(Captured {
        title: format!("process {pid}, {ended}"),
        id: None,
        facts: format!("{read}, {ended}: {stacks}"),
        profile,
    }))
}

/// For how long and how often a process was sampled, and why no longer.
fn ended(capture: &Capture) -> String {
    let end = match capture.ended {
        End::Complete => "",
        End::Cancelled => ", interrupted",
        End::Exited => ", until the process ended",
        End::Replaced => ", until it executed another program",
        End::Denied => ", until its memory could no longer be read",
    };
    let seconds = capture.profile.duration_ns as f64 / 1e9;
    let reached_hz = capture.counts.ticks as f64 / seconds.max(f64::MIN_POSITIVE);
    format!("{seconds:.1} s at {reached_hz:.1} Hz{end}")
}
