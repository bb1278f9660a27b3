//! Early ends of `plimsoll up`: a process that dies, and a second signal. Each has exit code 1 and
//! an error message, prints no report and leaves no process behind.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use plimsoll_mesh::child::{free_port, until};
use plimsoll_runtime::client::Api;
use plimsoll_tests::program::{
    ProgramOutput, RunningProgram, ScratchDir, await_no_processes, processes_naming, program,
};

/// Each end has its own error message, so a deadline only ends a hang.
const WAIT: Duration = Duration::from_secs(30);

struct Up {
    running: RunningProgram,
    api: Api,
    scratch: ScratchDir,
}

impl Up {
    fn start() -> Self {
        let scratch = ScratchDir::new().unwrap();
        let http = format!("127.0.0.1:{}", free_port().unwrap());
        let mut command = program("plimsoll").unwrap();
        command.args(["up", "--json", "--nodes", "1", "--http", &http, "--dir"]);
        command.arg(scratch.path());
        let running = RunningProgram::start(command).unwrap();
        Self { running, api: Api::at(&http).unwrap(), scratch }
    }

    /// Waits until the whole mesh runs and has merged something.
    async fn await_samples(&self) {
        let merged = async || {
            let summary = self.api.summary().await.ok()?;
            summary.operations.iter().any(|row| row.operation == "epoch_hook").then_some(())
        };
        until("a hook is merged", WAIT, merged).await.unwrap();
    }

    /// Waits for the end; its error message must contain `message`.
    async fn ends_with(self, message: &str) -> ProgramOutput {
        let outcome = self.running.end(WAIT).await.unwrap();
        assert_eq!((outcome.code, &*outcome.stdout), (Some(1), ""), "{outcome:?}");
        assert!(outcome.stderr.contains(message), "{message} is not in {outcome:?}");
        await_no_processes(&self.scratch.path()).await.unwrap();
        outcome
    }
}

fn process(dir: &Path, program: &str) -> Option<Pid> {
    let named = |line: &str| line.split(' ').next().is_some_and(|word| word.ends_with(program));
    let found = processes_naming(dir).into_iter().find(|(_, line)| named(line));
    found.map(|(id, _)| Pid::from_raw(id))
}

#[tokio::test]
async fn a_part_that_dies_ends_the_run_with_the_end_of_its_log() {
    for (program, name) in [
        ("nats-server", "nats-server"),
        ("plimsoll-workload", "node-1-job"),
        ("plimsoll-node", "node-1"),
        ("plimsoll-aggregator", "aggregator"),
    ] {
        let up = Up::start();
        up.await_samples().await;
        kill(process(&up.scratch.path(), program).unwrap(), Signal::SIGKILL).unwrap();
        let outcome = up.ends_with(&format!("{name} ended early with signal: 9")).await;
        assert!(outcome.stderr.contains(&format!("end of the log of {name}")), "{outcome:?}");
    }
}

#[tokio::test]
async fn any_signal_during_the_start_ends_it() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let up = Up::start();
        let begun = async || process(&up.scratch.path(), "nats-server");
        until("the broker is started", WAIT, begun).await.unwrap();
        up.running.signal(signal);
        up.ends_with("interrupted while the mesh was starting").await;
    }
}

#[tokio::test]
async fn a_second_signal_ends_at_once_and_reports_an_unsettled_ledger() {
    let up = Up::start();
    up.await_samples().await;
    let dir = up.scratch.path();
    // A node waits long for a broker that does not respond.
    kill(process(&dir, "nats-server").unwrap(), Signal::SIGSTOP).unwrap();
    up.running.signal(Signal::SIGINT);
    let draining = async || process(&dir, "plimsoll-workload").is_none().then_some(());
    until("the job has ended", WAIT, draining).await.unwrap();
    up.running.signal(Signal::SIGINT);
    up.ends_with("the ledger was not settled").await;
}
