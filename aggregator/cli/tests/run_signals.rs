//! `plimsoll run` passes signals on to its command and ends as the command does.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A command that states its parent, and the signal that ends it with code 7. On a terminal words
/// of the wrapper may stand before and behind its own, also in the same line.
const COMMAND: &str =
    "for s in HUP INT QUIT USR1 USR2 ALRM TERM; do trap \"echo got=$s.; exit 7\" $s; done
    echo parent=$PPID.; while :; do sleep 0.02; done";

/// What the command states under `key`.
fn stated(lines: &mut Lines<BufReader<ChildStdout>>, key: &str) -> String {
    let stated = lines.find_map(|line| {
        let line = line.unwrap();
        let (_, behind) = line.split_once(&format!("{key}="))?;
        Some(behind.split_once('.')?.0.to_owned())
    });
    stated.unwrap()
}

struct Run {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    wrapper: Pid,
}

impl Run {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let wrapper = Pid::from_raw(stated(&mut lines, "parent").parse().unwrap()).unwrap();
        Self { child, lines, wrapper }
    }

    /// What the command received, and the exit code.
    fn end_by(mut self, signal: Signal) -> (String, Option<i32>) {
        kill_process(self.wrapper, signal).unwrap();
        (stated(&mut self.lines, "got"), self.child.wait().unwrap().code())
    }
}

#[test]
fn signals_reach_the_command_and_its_exit_code_comes_back() {
    for (signal, name) in [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::ALARM, "ALRM"),
        (Signal::TERM, "TERM"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(["run", "--name", "v", "--socket", "/nowhere", "--", "sh", "-c", COMMAND]);
        let ended = Run::start(command).end_by(signal);
        assert_eq!(ended, (name.to_owned(), Some(7)));
    }
}

#[test]
fn an_interrupt_that_is_sent_reaches_the_command_although_there_is_a_terminal() {
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let run = format!("{program} run --name v --socket /nowhere -- sh -c '{COMMAND}'");
    // It gives the command a terminal.
    let mut command = Command::new("script");
    command.args(["-qefc", &run, "/dev/null"]);
    let ended = Run::start(command).end_by(Signal::INT);
    assert_eq!(ended, ("INT".to_owned(), Some(7)));
}
