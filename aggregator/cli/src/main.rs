//! `plimsoll`: reads its arguments and runs the command.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use plimsoll_cli::advise::advise;
use plimsoll_cli::alerts::{acknowledge, alerts, silence};
use plimsoll_cli::args::{Cli, Command};
use plimsoll_cli::baseline::baseline;
use plimsoll_cli::blame::blame;
use plimsoll_cli::bottlenecks::bottlenecks;
use plimsoll_cli::compare::compare;
use plimsoll_cli::doctor::doctor;
use plimsoll_cli::hlog::hlog;
use plimsoll_cli::ledger::ledger;
use plimsoll_cli::manual::{completions, man};
use plimsoll_cli::metrics::metrics;
use plimsoll_cli::nats_config::nats_config;
use plimsoll_cli::nodes::nodes;
use plimsoll_cli::profile::profile;
use plimsoll_cli::query::query;
use plimsoll_cli::report::report;
use plimsoll_cli::run::run;
use plimsoll_cli::runs::runs;
use plimsoll_cli::statistics::statistics;
use plimsoll_cli::top::top;
use plimsoll_cli::up::up;
use plimsoll_runtime::block_on;
use plimsoll_runtime::exit::{Exit, fail};

fn main() -> ExitCode {
    let ran = block_on(async {
        let exit = match Cli::parse().command {
            Command::Run(args) => return run(&args).await,
            Command::Up(args) => up(&args).await,
            Command::Top(args) => top(&args).await,
            Command::Doctor(args) => doctor(&args).await,
            Command::Runs(args) => runs(&args).await,
            Command::Alerts(args) => alerts(&args).await,
            Command::Statistics(args) => statistics(&args).await,
            Command::Query(args) => query(&args).await,
            Command::Metrics(args) => metrics(&args).await,
            Command::Advise(args) => advise(&args).await,
            Command::Bottlenecks(args) => bottlenecks(&args).await,
            Command::Compare(args) => compare(&args).await,
            Command::Baseline(args) => baseline(&args).await,
            Command::Hlog(args) => hlog(&args),
            Command::Report(args) => report(&args).await,
            Command::Profile(args) => profile(args).await,
            Command::Nodes(args) => nodes(&args).await,
            Command::Blame(args) => blame(&args).await,
            Command::Ledger(args) => ledger(&args).await,
            Command::Silence(args) => silence(&args).await,
            Command::Acknowledge(args) => acknowledge(&args).await,
            Command::NatsConfig(args) => nats_config(&args),
            Command::Completions(args) => Ok(completions(&args, &Cli::command())),
            Command::Man(args) => man(&args, &Cli::command()),
        };
        exit.map(ExitCode::from)
    });
    ran.unwrap_or_else(|error| fail("plimsoll", Exit::Failure, &format!("{error:#}")))
}
