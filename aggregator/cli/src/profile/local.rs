//! `plimsoll profile cpu --pid`: a process of this machine, without a mesh.

use anyhow::{Context, Result};
use plimsoll_profiler::capture;
use plimsoll_profiler::order::Order;
use plimsoll_profiler::output::{End, Facts};
use plimsoll_profiler::profile::Paths;
use plimsoll_profiler::refusal::Refusal;
use plimsoll_profiler::sampler::Cancel;
use plimsoll_runtime::exit::{Exit, fail};

use super::{Captured, CpuArgs, text};

/// Samples on a thread of its own. An interrupt ends the capture, not the program.
pub(super) async fn captured(args: &CpuArgs) -> Result<Result<Captured, Exit>> {
    let pid = args.pid.context("--pid or --node")?;
    let order = Order::new(pid, args.rate, args.seconds)?;
    eprintln!("plimsoll: {} s at {} Hz of process {pid}", args.seconds, args.rate);

    let cancel = Cancel::default();
    let stop = cancel.clone();
    let sampling = tokio::task::spawn_blocking(move || capture(&order, &cancel));
    tokio::pin!(sampling);
    let sampled = tokio::select! {
        sampled = &mut sampling => sampled,
        _ = tokio::signal::ctrl_c() => {
            stop.cancel();
            sampling.await
        }
    };

    let capture = match sampled.context("the sampler failed")? {
        Ok(capture) => capture,
        Err(refusal) => {
            let is_denied = matches!(refusal, Refusal::Denied { .. });
            let exit = if is_denied { Exit::Denied } else { Exit::Failure };
            fail("plimsoll", exit, &refusal);
            return Ok(Err(exit));
        }
    };
    let profile = capture.profile(if args.full_paths { Paths::Full } else { Paths::Short });
    let Facts { python, readings, ticks, .. } = &capture.facts;
    let lost = readings.overflowed + ticks.missed;
    let (ended, stacks) =
        (ended(&capture.facts), text::stacks(readings.whole, readings.torn, lost));
    Ok(Ok(Captured {
        title: format!("process {pid}, {ended}"),
        facts: format!("CPython {python}, {ended}: {stacks}"),
        profile,
    }))
}

/// For how long and how often a process was sampled, and why no longer.
fn ended(facts: &Facts) -> String {
    let end = match facts.ended {
        End::Complete => "",
        End::Cancelled => ", interrupted",
        End::Exited => ", until the process ended",
        End::Replaced => ", until it executed another program",
        End::Denied => ", until its memory could no longer be read",
    };
    format!("{:.1} s at {:.1} Hz{end}", facts.seconds, facts.reached_hz)
}
