//! `plimsoll-aggregator`: reads arguments, settings and rules, starts logging, and runs the driver.

use plimsoll_runtime::stdout::{print, print_line};
use std::process::ExitCode;

use clap::Parser;
use plimsoll_aggregator::args::Args;
use plimsoll_aggregator::config::EXAMPLE;
use plimsoll_aggregator::core::blame;
use plimsoll_aggregator::core::rules::Judge;
use plimsoll_aggregator::driver;
use plimsoll_aggregator::io::rules::{Loaded, Sources, Watch};
use plimsoll_runtime::exit::{Exit, fail};
use plimsoll_runtime::settings::{log_warnings, print_origins};
use plimsoll_runtime::supervision::Supervisor;
use plimsoll_runtime::{block_on_apart, logs};
use plimsoll_schemas::budget::BUILT_IN;
use plimsoll_schemas::rule::file::DEFAULTS;

const PROGRAM: &str = "plimsoll-aggregator";

/// What one thread decodes another one frees, some hundred thousand times a second: DESIGN A69.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The allocator asks for huge pages, which the kernel makes resident as a whole for a little of
    // them in use: DESIGN A69. A kernel without them refuses, and has none.
    let _refused = nix::sys::prctl::set_thp_disable(true);
    let args = Args::parse();

    if args.settings.print_config {
        print(EXAMPLE);
        return Exit::Success.into();
    }

    if args.print_rules {
        print(format_args!("{BUILT_IN}\n{DEFAULTS}"));
        return Exit::Success.into();
    }

    let sources = Sources::new(args.settings.clone(), args.flags());
    let (loaded, stamps) = sources.load();

    let Loaded { resolved, rules } = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return fail(PROGRAM, Exit::Configuration, &error),
    };

    let config = &resolved.value;
    if args.settings.check_config {
        print_origins(&resolved);
        for advice in config.advice(&rules) {
            print_line(format_args!("warning: {advice}"));
        }
        for budget in &rules.budgets {
            Judge::new(budget).reach().iter().for_each(print_line);
        }
        rules.stragglers.iter().map(blame::reach).for_each(print_line);
        return Exit::Success.into();
    }

    if let Err(problem) = logs::start(&config.log) {
        return fail(PROGRAM, Exit::Configuration, &problem);
    }
    log_warnings(&resolved);
    let supervisor = Supervisor::default();

    let watch = match Watch::start(sources, config.clone(), stamps, &supervisor) {
        Ok(watch) => watch,
        Err(error) => return fail(PROGRAM, Exit::Failure, &error),
    };

    match block_on_apart(driver::run(config, rules, watch, supervisor)) {
        Ok(exit) => exit.into(),
        Err(error) => fail(PROGRAM, error.exit, &error.message),
    }
}
