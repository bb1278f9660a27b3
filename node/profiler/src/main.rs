//! `plimsoll-profiler`: carries out the orders of a node.

use std::process::ExitCode;

use clap::Parser;
use plimsoll_profiler::args::{Args, Command};
use plimsoll_profiler::serve::serve;
use plimsoll_profiler::serve::settings::{EXAMPLE, Settings};
use plimsoll_runtime::exit::{Exit, fail};
use plimsoll_runtime::logs;
use plimsoll_runtime::settings::{log_warnings, print_origins};
use plimsoll_runtime::stdout::print;

const PROGRAM: &str = "plimsoll-profiler";

fn main() -> ExitCode {
    let Args { command: Command::Serve(args) } = Args::parse();
    if args.print_config {
        print(EXAMPLE);
        return Exit::Success.into();
    }
    let resolved = match args.load::<Settings>("PLIMSOLL_PROFILER_", &[]) {
        Ok(resolved) => resolved,
        Err(error) => return fail(PROGRAM, Exit::Configuration, &error),
    };
    let settings = &resolved.value;
    let permitted = match settings.check() {
        Ok(permitted) => permitted,
        Err(problem) => return fail(PROGRAM, Exit::Configuration, &resolved.located(&problem)),
    };
    if args.check_config {
        print_origins(&resolved);
        return Exit::Success.into();
    }

    if let Err(problem) = logs::start(&settings.log) {
        return fail(PROGRAM, Exit::Configuration, &problem);
    }
    log_warnings(&resolved);
    match serve(settings.socket.as_deref(), permitted) {
        Ok(()) => Exit::Success.into(),
        Err(error) => fail(PROGRAM, Exit::Listen, &error),
    }
}
