//! `plimsoll-profiler`: carries out one order from its command line, or those of a node.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use plimsoll_profile::{folded, pprof};
use plimsoll_profiler::args::{Args, Command, Format};
use plimsoll_profiler::capture;
use plimsoll_profiler::order::{Order, ProcessId};
use plimsoll_profiler::output::{Capture, Facts};
use plimsoll_profiler::probe::{Closed, Probe, probe};
use plimsoll_profiler::profile::Paths;
use plimsoll_profiler::refusal::Refusal;
use plimsoll_profiler::sampler::Cancel;
use plimsoll_profiler::serve::settings::{EXAMPLE, Settings};
use plimsoll_profiler::serve::{ServeError, serve};
use plimsoll_runtime::exit::{Exit, fail};
use plimsoll_runtime::logs;
use plimsoll_runtime::settings::{SettingsArgs, log_warnings, print_origins};
use plimsoll_runtime::stdout::{print, print_line};

const PROGRAM: &str = "plimsoll-profiler";

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(Command::Serve(settings)) = &args.command {
        return serve_by(settings);
    }
    let order = match Order::new(args.pid.unwrap_or_default(), args.rate, args.seconds) {
        Ok(order) => order,
        Err(error) => return fail(PROGRAM, Exit::Usage, &error),
    };
    if args.probe {
        return print_probe(order.pid);
    }

    // First: an order whose result cannot be kept is not carried out.
    let mut out: Box<dyn Write> = match args.output.as_ref().map(File::create) {
        None => Box::new(io::stdout().lock()),
        Some(Ok(file)) => Box::new(file),
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

fn serve_by(args: &SettingsArgs) -> ExitCode {
    if args.print_config {
        print(EXAMPLE);
        return Exit::Success.into();
    }
    let resolved = match args.load::<Settings>("PLIMSOLL_PROFILER_", &[]) {
        Ok(resolved) => resolved,
        Err(error) => return fail(PROGRAM, Exit::Configuration, &error),
    };
    let settings = &resolved.value;
    if let Err(problem) = settings.check() {
        return fail(PROGRAM, Exit::Configuration, &resolved.located(&problem));
    }
    if args.check_config {
        print_origins(&resolved);
        return Exit::Success.into();
    }

    if let Err(problem) = logs::start(&settings.log) {
        return fail(PROGRAM, Exit::Configuration, &problem);
    }
    log_warnings(&resolved);
    match serve(settings) {
        Ok(()) => Exit::Success.into(),
        Err(error @ ServeError::Settings(_)) => fail(PROGRAM, Exit::Configuration, &error),
        Err(error) => fail(PROGRAM, Exit::Listen, &error),
    }
}

fn written(capture: &Capture, format: Format, out: &mut impl Write) -> io::Result<()> {
    let profile = capture.profile(Paths::Full);
    match format {
        Format::Folded => out.write_all(folded::write(&profile, None).as_bytes())?,
        Format::Pprof => {
            out.write_all(&pprof::encode(&profile).map_err(io::Error::other)?)?;
        }
    }
    out.flush()
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
