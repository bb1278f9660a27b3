//! `plimsoll`: reads its arguments and runs the command.

use std::process::ExitCode;

use clap::Parser;
use plimsoll_cli::args::{Cli, Command};
use plimsoll_cli::up::up;
use plimsoll_process::block_on;
use plimsoll_process::exit::{Exit, fail};

fn main() -> ExitCode {
    let Command::Up(args) = Cli::parse().command;
    match block_on(up(&args)) {
        Ok(exit) => exit.into(),
        Err(error) => fail("plimsoll", Exit::Failure, &format!("{error:#}")),
    }
}
