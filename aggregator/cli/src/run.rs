//! `plimsoll run`: starts a command whose samples carry the label of a run, and reports its start,
//! its end and its outcome to the node. `run_profile` profiles it meanwhile.

use std::net::{Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::figure::span;
use plimsoll_schemas::limits::wire::LABELS_MAX;
use plimsoll_schemas::run::{BEGUN, ENDED, EXIT_CODE_LABEL, REPORT_LABEL, RUN_LABEL, run_name};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Cause;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use crate::run_profile::{RunProfile, RunProfiler, TRACE_DIR, TRACE_SECONDS};
use crate::run_results::{Recording, RunResults, VARIABLE};
use crate::terminal_text::safe;

const LABELS: &str = "PLIMSOLL_LABELS";
const SOCKET: &str = "PLIMSOLL_SOCKET";
/// Switches of the clients that are set unless the environment has them.
const SWITCHES: [&str; 2] = ["PLIMSOLL_ENABLE", "PLIMSOLL_ENABLE_TIMERS"];
const DEFAULT_SOCKET: &str = "/run/plimsoll/node.sock";
const DEFAULT_UDP: &str = "127.0.0.1:8125";
const LABEL_CHARS_MAX: usize = 64;
/// A node that does not read its socket must not hold up a run.
const SEND_WAIT: Duration = Duration::from_millis(500);

/// Run a command as a named run: its samples have the label `run`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll run --name v42 -- python train.py
  plimsoll run --name v42 --label rank=3 -- ./serve --port 8080
  plimsoll run --name v42 --results v42.json -- python train.py
  plimsoll run --name v42 --profile cpu,trace --trace-dir ./traces -- python train.py
  plimsoll report run:v42 --results v42.json --output report.html
  plimsoll query epoch_hook --rollup run --value v42 --last 1d
  plimsoll runs

The command gets PLIMSOLL_LABELS with run=NAME, which the Python package and the Rust crate put on
every series, PLIMSOLL_SOCKET if --socket is given, and PLIMSOLL_ENABLE=1 and
PLIMSOLL_ENABLE_TIMERS=1 unless they are set. With --results also PLIMSOLL_EPOCHS_FILE, to which the
Python package writes each epoch and cycle as recorded. With --profile cpu, up to 16 Python processes of
the command are sampled from outside 100 times a second for as long as they run, into DIR/NAME.cpu.pb.gz
and DIR/NAME.cpu.svg. With --profile trace the command gets PLIMSOLL_TRACE_DIR, and what it leaves there
(*.trace.json, compressed or not, as torch.profiler.tensorboard_trace_handler(DIR) does) is read.
DIR/NAME.json has the epochs, and as top_ops the operators of PyTorch that take most, without a trace the
functions. The node gets an event at the start, with the name of
the program but not its arguments, which may hold secrets, and at the end, with the exit code. The
exit code is the command's own, or 128 plus the signal that killed it. Signals that would end this
program are passed on (HUP, INT, QUIT, TERM, USR1, USR2, ALRM and others).")]
pub struct RunArgs {
    /// Name of the run: letters, digits, '_', '-' and '.'
    #[arg(long)]
    name: String,
    /// Another label, as KEY=VALUE; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<String>,
    /// Socket of the node: a path, or udp://HOST:PORT [default: $PLIMSOLL_SOCKET, else
    /// /run/plimsoll/node.sock, else udp://127.0.0.1:8125]
    #[arg(long)]
    socket: Option<String>,
    /// Write the exit code, each epoch as recorded and the peak of memory to this file, as JSON
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// What to profile
    #[arg(long, value_enum, value_delimiter = ',', requires = "trace_dir", value_name = "WHAT")]
    profile: Vec<RunProfile>,
    /// Folder for profiles and traces
    #[arg(long, value_name = "DIR", requires = "profile")]
    trace_dir: Option<PathBuf>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Runs the command to its end.
///
/// # Errors
/// When the name is invalid, or the command cannot be started. A node that does not answer is
/// reported and costs the run nothing else.
pub async fn run(args: &RunArgs) -> Result<ExitCode> {
    let pairs = pairs(&args.name, &args.label)?;
    let labels = labels(&pairs, std::env::var(LABELS).ok().as_deref());
    let socket = socket(args.socket.clone().or_else(|| std::env::var(SOCKET).ok()));
    // Before the command starts: a signal in between would stop this
    // process and leave the command behind without an end on record.
    let mut signals = passed_on().context("signals")?;

    let Some((program, arguments)) = args.command.split_first() else { bail!("no command") };
    let mut command = Command::new(program);
    command.args(arguments).env(LABELS, &labels);
    if let Some(socket) = &args.socket {
        command.env(SOCKET, socket);
    }
    // The clients do nothing unless they are switched on, and a run without samples is not what was
    // asked for; a switch that was set, also to off, is left.
    for switch in SWITCHES.iter().filter(|switch| std::env::var_os(switch).is_none()) {
        command.env(switch, "1");
    }

    let results = args.results.as_deref();
    let mut profiler = args.trace_dir.as_deref().map(RunProfiler::prepare).transpose()?;
    let is_recorded = results.is_some() || profiler.is_some();
    let recording = is_recorded.then(|| Recording::start(results)).transpose()?;
    if let Some(recording) = &recording {
        command.env(VARIABLE, recording.lines());
    }
    let trace_dir = args.trace_dir.as_deref().filter(|_| args.profile.contains(&RunProfile::Trace));
    if let Some(dir) = trace_dir {
        // The command may run elsewhere.
        command.env(TRACE_DIR, std::path::absolute(dir)?);
        if std::env::var_os(TRACE_SECONDS.0).is_none() {
            command.env(TRACE_SECONDS.0, TRACE_SECONDS.1);
        }
    }

    let watch = Stopwatch::start();
    let mut child = command.spawn().with_context(|| format!("{program:?} cannot be started"))?;
    if let Some(profiler) = profiler.as_mut().filter(|_| args.profile.contains(&RunProfile::Cpu)) {
        let root = child.id().and_then(|id| i32::try_from(id).ok());
        let sampled = root.map(|root| profiler.sample(root));
        if let Some(Err(error)) = sampled {
            eprintln!("plimsoll: {error:#}");
        }
    }
    let what = Report { run: &args.name, what: "started", kind: "info" };
    // Not its arguments, which may hold secrets: everyone who may read the page sees events.
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    report(&socket, &what, &name, &tags(&pairs, BEGUN, None));

    let status = wait(&mut child, &mut signals).await?;
    let (words, code) = ended(status);
    let seconds = watch.elapsed().as_secs_f64();
    let text = format!("{words} after {}", span(seconds));
    let kind = if status.success() { "success" } else { "error" };
    let what = Report { run: &args.name, what: "ended", kind };
    report(&socket, &what, &text, &tags(&pairs, ENDED, Some(code)));
    // The exit code stays the command's own.
    if let Some(recording) = recording {
        let found = recording.end(&args.name, code, seconds);
        if let Err(error) = write_results(args, found, profiler) {
            eprintln!("plimsoll: {error:#}");
        }
    }
    Ok(ExitCode::from(code))
}

/// Writes the results to each file that was asked for.
fn write_results(
    args: &RunArgs,
    mut found: RunResults,
    profiler: Option<RunProfiler<'_>>,
) -> Result<()> {
    if let Some(profiler) = profiler {
        let operators = profiler.end(&args.name);
        operators.missing.iter().for_each(|why| eprintln!("plimsoll: profile: {}", safe(why)));
        (found.top_ops, found.top_ops_missing) = (Some(operators.top), operators.missing);
    }
    let beside = args.trace_dir.as_ref().map(|dir| dir.join(format!("{}.json", args.name)));
    beside.iter().try_for_each(|path| found.write("--trace-dir", path))?;
    args.results.iter().try_for_each(|path| found.write("--results", path))
}

/// The signals that are passed on: all that would end this process, and others that people send.
/// What stops a job, and faults, keep their meaning.
const PASSED_ON: [Signal; 11] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::TERM,
    Signal::VTALARM,
    Signal::PROF,
    Signal::IO,
    Signal::POWER,
];

/// The signals for the command, as they come. What this process was started to ignore, as under
/// `nohup`, the command ignores too.
fn passed_on() -> std::io::Result<mpsc::UnboundedReceiver<Signal>> {
    let wanted = PASSED_ON.iter().filter(|signal| !is_ignored(**signal));
    let mut signals = SignalsInfo::<WithOrigin>::new(wanted.map(|signal| signal.as_raw()))?;
    let (sender, received) = mpsc::unbounded_channel();

    let pass_on = move || {
        for origin in signals.forever() {
            // A terminal interrupts the command too. A hangup may reach this process alone.
            let is_for_us = matches!(origin.cause, Cause::Sent(_)) || origin.signal == SIGHUP;
            let signal = Signal::from_named_raw(origin.signal).filter(|_| is_for_us);
            if signal.is_some_and(|signal| sender.send(signal).is_err()) {
                return;
            }
        }
    };

    std::thread::Builder::new().name("signals".to_owned()).spawn(pass_on)?;
    Ok(received)
}

/// Whether this process was started with a signal ignored.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    // From the kernel, since asking with `sigaction`
    // takes unsafe code, which the workspace forbids.
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1)
}

/// Waits for the command, and passes signals on to it.
async fn wait(
    child: &mut Child,
    signals: &mut mpsc::UnboundedReceiver<Signal>,
) -> Result<ExitStatus> {
    loop {
        tokio::select! {
            status = child.wait() => return status.context("the command cannot be waited for"),
            Some(signal) = signals.recv() => {
                let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
                // The command may have ended meanwhile.
                let _sent = id.map(|id| kill_process(id, signal));
            }
        }
    }
}

/// How it ended, in words and as the exit code of a shell.
fn ended(status: ExitStatus) -> (String, u8) {
    match (status.code(), status.signal()) {
        (Some(code), _) => (format!("exit code {code}"), u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(signal)) => {
            (format!("killed by signal {signal}"), u8::try_from(128 + signal).unwrap_or(u8::MAX))
        }
        (None, None) => ("ended".to_owned(), u8::MAX),
    }
}

type Pair = (String, String);

/// The labels of the run, its name first.
fn pairs(name: &str, more: &[String]) -> Result<Vec<Pair>> {
    let is_valid = |text: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        !text.is_empty() && text.len() <= LABEL_CHARS_MAX && text.chars().all(allowed)
    };

    run_name(name).map_err(|error| anyhow!("--name {name:?}: {error}"))?;
    let mut pairs = vec![(RUN_LABEL.to_owned(), name.to_owned())];

    for pair in more {
        let split = pair.split_once('=').filter(|(key, value)| is_valid(key) && is_valid(value));
        let (key, value) =
            split.with_context(|| format!("--label {pair:?}: write KEY=VALUE, such as rank=3"))?;
        ensure!(pairs.iter().all(|(other, _)| other != key), "label {key:?} is given twice");
        pairs.push((key.to_owned(), value.to_owned()));
    }

    Ok(pairs)
}

/// The labels of the run, beside those that the environment has.
fn labels(pairs: &[Pair], before: Option<&str>) -> String {
    // Of the same key the run's own label counts: a run within a run is another run.
    let kept = before.unwrap_or_default().split(',').filter(|pair| {
        let key = pair.split('=').next().unwrap_or_default().trim();
        !key.is_empty() && pairs.iter().all(|(own, _)| own != key)
    });
    let kept: Vec<String> = kept.map(|pair| pair.trim().to_owned()).collect();
    let own = pairs.iter().map(|(key, value)| format!("{key}={value}"));
    own.chain(kept).collect::<Vec<_>>().join(",")
}

/// The tags by which an aggregator finds what an event reports.
fn tags(pairs: &[Pair], change: &str, exit_code: Option<u8>) -> String {
    let own = [
        (REPORT_LABEL, Some(change.to_owned())),
        (EXIT_CODE_LABEL, exit_code.map(|code| code.to_string())),
    ];
    let own = own.into_iter().filter_map(|(key, value)| Some(format!("{key}:{}", value?)));
    // Further labels find no room in an event.
    let labels = pairs.iter().take(LABELS_MAX - 2).map(|(key, value)| format!("{key}:{value}"));
    labels.chain(own).collect::<Vec<_>>().join(",")
}

fn socket(given: Option<String>) -> String {
    given.unwrap_or_else(|| match Path::new(DEFAULT_SOCKET).exists() {
        true => DEFAULT_SOCKET.to_owned(),
        false => format!("udp://{DEFAULT_UDP}"),
    })
}

/// What an event is about.
struct Report<'a> {
    run: &'a str,
    what: &'a str,
    kind: &'a str,
}

/// Sends an event about the run to the node, and warns if that fails.
fn report(socket: &str, Report { run, what, kind }: &Report<'_>, text: &str, tags: &str) {
    let event = event(&format!("run {run} {what}"), text, kind, tags);
    if let Err(error) = send(socket, event.as_bytes()) {
        eprintln!("plimsoll: cannot tell the node at {socket} about the run: {error}");
    }
}

/// A DogStatsD event; line breaks are escaped as the format has them.
fn event(title: &str, text: &str, kind: &str, tags: &str) -> String {
    let mut text: String = text.replace('\n', "\\n");
    text.truncate(text.floor_char_boundary(1_000));
    format!("_e{{{},{}}}:{title}|{text}|t:{kind}|#{tags}", title.len(), text.len())
}

fn send(socket: &str, datagram: &[u8]) -> std::io::Result<()> {
    match socket.strip_prefix("udp://") {
        Some(address) => {
            let target = address.to_socket_addrs()?.next();
            let target = target.ok_or_else(|| std::io::Error::other("the host has no address"))?;
            let sender = match target.is_ipv4() {
                true => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?,
                false => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?,
            };
            sender.send_to(datagram, target).map(drop)
        }
        None => {
            let sender = UnixDatagram::unbound()?;
            sender.set_write_timeout(Some(SEND_WAIT))?;
            sender.send_to(datagram, socket).map(drop)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(name: &str, more: &[&str]) -> Result<Vec<Pair>> {
        let more: Vec<String> = more.iter().map(|text| (*text).to_owned()).collect();
        pairs(name, &more)
    }

    #[test]
    fn the_run_and_its_labels_replace_those_of_the_environment() {
        assert_eq!(labels(&given("v42", &[]).unwrap(), None), "run=v42");
        let all = labels(&given("v42", &["rank=3"]).unwrap(), Some("run=old, role=train,rank=9"));
        assert_eq!(all, "run=v42,rank=3,role=train");
        let refused = |name: &str, more: &[&str]| given(name, more).unwrap_err().to_string();
        let error = refused("v42", &["rank"]);
        assert_eq!(error, "--label \"rank\": write KEY=VALUE, such as rank=3");
        assert_eq!(refused("v42", &["run=b"]), "label \"run\" is given twice");
        assert!(refused("a b", &[]).starts_with("--name \"a b\": run name contains a space"));
        assert!(refused("last", &[]).contains("is reserved"));
    }

    #[test]
    fn an_event_states_the_bytes_of_its_title_and_text() {
        let tags = tags(&given("v42", &["rank=3"]).unwrap(), ENDED, Some(3));
        let found = event("run v42 ended", "exit code 3\nafter 2 s", "error", &tags);
        let head = "_e{13,22}:run v42 ended|exit code 3\\nafter 2 s|t:error|";
        assert_eq!(found, format!("{head}#run:v42,rank:3,run_report:ended,exit_code:3"));
        let long = event("t", &"é".repeat(900), "info", "run:v");
        assert!(long.starts_with("_e{1,1000}:t|"), "{long}");
    }

    #[test]
    fn more_labels_than_an_event_has_room_for_leave_its_report_whole() {
        let many: Vec<String> = (0..40).map(|n| format!("k{n}=v")).collect();
        let tags = tags(&pairs("v", &many).unwrap(), ENDED, Some(0));
        let found: Vec<&str> = tags.split(',').collect();
        assert_eq!((found.len(), found[0]), (LABELS_MAX, "run:v"));
        assert_eq!(found[LABELS_MAX - 2..], ["run_report:ended", "exit_code:0"]);
    }

    #[test]
    fn an_end_has_the_exit_code_of_a_shell() {
        assert_eq!(ended(ExitStatus::from_raw(3 << 8)), ("exit code 3".to_owned(), 3));
        assert_eq!(ended(ExitStatus::from_raw(9)), ("killed by signal 9".to_owned(), 137));
    }
}
