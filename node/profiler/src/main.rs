//! `plimsoll-profiler`: carries out one order from its command line.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser;
use plimsoll_profiler::args::{Args, Format};
use plimsoll_profiler::order::{Order, ProcessId};
use plimsoll_profiler::output::{Capture, Facts};
use plimsoll_profiler::probe::{Closed, Probe, probe};
use plimsoll_profiler::refusal::Refusal;
use plimsoll_profiler::sampler::Cancel;
use plimsoll_profiler::{capture, write};
use plimsoll_runtime::exit::{Exit, fail};
use plimsoll_runtime::stdout::print_line;

const PROGRAM: &str = "plimsoll-profiler";

fn main() -> ExitCode {
    let args = Args::parse();
    let order = match Order::new(args.pid, args.rate, args.seconds) {
        Ok(order) => order,
        Err(error) => return fail(PROGRAM, Exit::Usage, &error),
    };
    if args.probe {
        return print_probe(order.pid);
    }

    // First: an order whose result cannot be kept is not carried out.
    let mut out: Box<dyn Write> = match args.output.as_ref().map(File::create) {
        None => Box::new(BufWriter::new(io::stdout().lock())),
        Some(Ok(file)) => Box::new(BufWriter::new(file)),
        Some(Err(error)) => return fail(PROGRAM, Exit::Failure, &format!("--output: {error}")),
    };
    let captured = match capture(&order, &Cancel::default()) {
        Ok(captured) => captured,
        Err(refusal) => return fail(PROGRAM, exit(&refusal), &refusal),
    };

    print_facts(&captured.facts);
    match written(&captured, args.format, &mut out) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            fail(PROGRAM, Exit::Failure, &format!("the output cannot be written: {error}"))
        }
        _ => Exit::Success.into(),
    }
}

fn written(capture: &Capture, format: Format, out: &mut impl Write) -> io::Result<()> {
    match format {
        Format::Folded => write::folded(capture, out),
        Format::Json => write::json(capture, out),
    }
}

fn exit(refusal: &Refusal) -> Exit {
    match refusal {
        Refusal::Denied { .. } => Exit::Denied,
        _ => Exit::Failure,
    }
}

fn print_facts(facts: &Facts) {
    let Facts { ticks, readings, .. } = facts;
    eprintln!(
        "{PROGRAM}: CPython {} for {:.1} s at {:.1} Hz ({:?}): {} samples taken, {} missed; stacks: \
         {} whole, {} torn, {} over the limits",
        facts.python,
        facts.seconds,
        facts.reached_hz,
        facts.ended,
        ticks.taken,
        ticks.missed,
        readings.whole,
        readings.torn,
        readings.overflowed,
    );
}

fn print_probe(pid: ProcessId) -> ExitCode {
    let Probe { states, memory, stacks } = probe(pid);
    print_rung("states of threads", states.err());
    print_rung("memory", memory.err());
    match &stacks {
        None => print_line("Python stacks: unknown while the memory is closed"),
        Some(Err(refusal)) => print_rung("Python stacks", Some(refusal)),
        Some(Ok(version)) => print_line(format_args!("Python stacks: open (CPython {version})")),
    }

    match (memory, stacks) {
        (Ok(()), Some(Ok(_))) => Exit::Success.into(),
        (Err(Closed::NoProcess) | Ok(()), _) => Exit::Failure.into(),
        (Err(_), _) => Exit::Denied.into(),
    }
}

fn print_rung(rung: &str, closed: Option<impl Display>) {
    match closed {
        None => print_line(format_args!("{rung}: open")),
        Some(closed) => print_line(format_args!("{rung}: closed: {closed}")),
    }
}
