//! `plimsoll-node`: reads arguments and settings, starts logging, runs the driver.

use plimsoll_runtime::stdout::print;
use std::process::ExitCode;

use clap::Parser;
use plimsoll_node::args::Args;
use plimsoll_node::config::{Config, EXAMPLE};
use plimsoll_node::driver;
use plimsoll_runtime::exit::{Exit, fail};
use plimsoll_runtime::settings::{log_warnings, print_origins};
use plimsoll_runtime::{block_on, logs};

const PROGRAM: &str = "plimsoll-node";

fn main() -> ExitCode {
    let args = Args::parse();
    if args.settings.print_config {
        print(EXAMPLE);
        return Exit::Success.into();
    }

    let resolved = match args.settings.load::<Config>("PLIMSOLL_NODE_", &args.flags()) {
        Ok(resolved) => resolved,
        Err(error) => return fail(PROGRAM, Exit::Configuration, &error),
    };

    let config = &resolved.value;
    if let Err(problem) = config.check() {
        return fail(PROGRAM, Exit::Configuration, &resolved.located(&problem));
    }

    if args.settings.check_config {
        print_origins(&resolved);
        return Exit::Success.into();
    }

    if let Err(problem) = logs::start(&config.log) {
        return fail(PROGRAM, Exit::Configuration, &problem);
    }
    log_warnings(&resolved);

    match block_on(driver::run(config)) {
        Ok(exit) => exit.into(),
        Err(error) => fail(PROGRAM, error.exit, &error.message),
    }
}
