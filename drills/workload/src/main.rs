//! `plimsoll-workload`: reads the command line, listens for signals, prints the summary.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use clap::Parser;
use plimsoll_workload::args::Args;
use plimsoll_workload::job;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        flag::register(signal, Arc::clone(&stop)).context("signals cannot be listened for")?;
    }
    let summary = job::run(&args, &stop)?;
    let text = if args.json { summary.json() } else { summary.to_string() };
    writeln!(std::io::stdout(), "{text}").context("the summary cannot be written")
}
