//! `plimsoll-aggregator`: reads arguments and settings, starts logging, runs the driver.

use std::process::ExitCode;

use clap::Parser;
use plimsoll_aggregator::args::Args;
use plimsoll_aggregator::config::{Config, EXAMPLE};
use plimsoll_aggregator::driver;
use plimsoll_process::exit::{Exit, fail};
use plimsoll_process::settings::print_origins;
use plimsoll_process::{block_on, logs};

const PROGRAM: &str = "plimsoll-aggregator";

fn main() -> ExitCode {
    let args = Args::parse();
    if args.settings.print_config {
        print!("{EXAMPLE}");
        return Exit::Success.into();
    }
    let resolved = match args.settings.load::<Config>("PLIMSOLL_AGGREGATOR_", &args.flags()) {
        Ok(resolved) => resolved,
        Err(error) => return fail(PROGRAM, Exit::Configuration, &error),
    };
    let config = &resolved.value;
    let budgets = match config.check() {
        Ok(budgets) => budgets,
        Err(error) => return fail(PROGRAM, Exit::Configuration, &error),
    };
    if args.settings.check_config {
        print_origins(&resolved);
        return Exit::Success.into();
    }
    if let Err(problem) = logs::start(&config.log) {
        return fail(PROGRAM, Exit::Configuration, &problem);
    }
    match block_on(driver::run(config, budgets)) {
        Ok(exit) => exit.into(),
        Err(error) => fail(PROGRAM, error.exit, &error.message),
    }
}
