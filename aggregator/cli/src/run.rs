//! `plimsoll run`: starts a command whose samples carry the label of a run, and reports to the node
//! when it began, when it ended and how.

use std::io::IsTerminal;
use std::net::{Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use plimsoll_clock::Stopwatch;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

const LABELS: &str = "PLIMSOLL_LABELS";
/// Switches of the clients that are set unless the environment has them.
const SWITCHES: [&str; 2] = ["PLIMSOLL_ENABLE", "PLIMSOLL_ENABLE_TIMERS"];
const DEFAULT_SOCKET: &str = "/run/plimsoll/node.sock";
const DEFAULT_UDP: &str = "127.0.0.1:8125";
const NAME_CHARS_MAX: usize = 64;
/// A node that does not read its socket must not hold up a run.
const SEND_WAIT: Duration = Duration::from_millis(500);

/// Run a command as a named run: its samples have the label `run`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll run --name v42 -- python train.py
  plimsoll run --name v42 --label rank=3 -- ./serve --port 8080
  plimsoll query epoch_hook --rollup run --value v42 --last 1d

The command gets PLIMSOLL_LABELS with run=NAME, which the Python package and the Rust crate put on
every series, and PLIMSOLL_ENABLE=1 and PLIMSOLL_ENABLE_TIMERS=1 unless they are set. The node gets an
event at the begin and at the end, with the exit code. The exit code is the command's own, or 128 and
the signal that killed it; SIGTERM and SIGINT are passed on.")]
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
    let labels = labels(&args.name, &args.label, std::env::var(LABELS).ok().as_deref())?;
    let socket = socket(args.socket.clone().or_else(|| std::env::var("PLIMSOLL_SOCKET").ok()));
    let mut signals = PassedOn::listen().context("signals")?;
    let Some((program, arguments)) = args.command.split_first() else { bail!("no command") };
    let mut command = Command::new(program);
    command.args(arguments).env(LABELS, &labels);
    for switch in SWITCHES.iter().filter(|switch| std::env::var_os(switch).is_none()) {
        command.env(switch, "1");
    }
    let watch = Stopwatch::start();
    let mut child = command.spawn().with_context(|| format!("{program:?} cannot be started"))?;
    report(&socket, &args.name, "started", &args.command.join(" "), "info");
    let status = wait(&mut child, &mut signals).await?;
    let (words, code) = ended(status);
    let text = format!("{words} after {:.1} s", watch.elapsed().as_secs_f64());
    let kind = if status.success() { "success" } else { "error" };
    report(&socket, &args.name, "ended", &text, kind);
    Ok(ExitCode::from(code))
}

/// The signals that are passed on to the command.
struct PassedOn {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    /// None under `nohup`: the command ignores it too.
    hangup: Option<tokio::signal::unix::Signal>,
    /// At a terminal the command gets its interrupt from there.
    has_terminal: bool,
}

impl PassedOn {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: (!is_ignored(Signal::HUP)).then(|| signal(SignalKind::hangup())).transpose()?,
            has_terminal: std::io::stdin().is_terminal(),
        })
    }

    /// The next signal for the command.
    async fn next(&mut self) -> Signal {
        loop {
            let hangup = async {
                match &mut self.hangup {
                    Some(hangup) => hangup.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.terminate.recv() => return Signal::TERM,
                _ = hangup => return Signal::HUP,
                _ = self.interrupt.recv() => if !self.has_terminal { return Signal::INT },
            }
        }
    }
}

/// Whether this process was started with a signal ignored.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1)
}

/// Waits for the command, and passes signals on to it.
async fn wait(child: &mut Child, signals: &mut PassedOn) -> Result<ExitStatus> {
    loop {
        tokio::select! {
            status = child.wait() => return status.context("the command cannot be waited for"),
            signal = signals.next() => {
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

/// The labels of the run, beside those that the environment has.
fn labels(name: &str, more: &[String], before: Option<&str>) -> Result<String> {
    let is_valid = |text: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        !text.is_empty() && text.len() <= NAME_CHARS_MAX && text.chars().all(allowed)
    };
    ensure!(
        is_valid(name),
        "--name {name:?}: use up to {NAME_CHARS_MAX} letters, digits, '_', '-' and '.'"
    );
    let mut pairs = vec![("run".to_owned(), name.to_owned())];
    for pair in more {
        let split = pair.split_once('=').filter(|(key, value)| is_valid(key) && is_valid(value));
        let (key, value) =
            split.with_context(|| format!("--label {pair:?}: write KEY=VALUE, such as rank=3"))?;
        ensure!(pairs.iter().all(|(other, _)| other != key), "label {key:?} is given twice");
        pairs.push((key.to_owned(), value.to_owned()));
    }
    let kept = before.unwrap_or_default().split(',').filter(|pair| {
        let key = pair.split('=').next().unwrap_or_default().trim();
        !key.is_empty() && pairs.iter().all(|(own, _)| own != key)
    });
    let kept: Vec<String> = kept.map(|pair| pair.trim().to_owned()).collect();
    let own = pairs.iter().map(|(key, value)| format!("{key}={value}"));
    Ok(own.chain(kept).collect::<Vec<_>>().join(","))
}

fn socket(given: Option<String>) -> String {
    given.unwrap_or_else(|| match Path::new(DEFAULT_SOCKET).exists() {
        true => DEFAULT_SOCKET.to_owned(),
        false => format!("udp://{DEFAULT_UDP}"),
    })
}

/// Sends an event about the run to the node, and warns if there is none.
fn report(socket: &str, name: &str, what: &str, text: &str, kind: &str) {
    let event = event(&format!("run {name} {what}"), text, kind, name);
    if let Err(error) = send(socket, event.as_bytes()) {
        eprintln!("plimsoll: the node at {socket} gets no event of the run: {error}");
    }
}

/// A DogStatsD event; line breaks are escaped as the format has them.
fn event(title: &str, text: &str, kind: &str, run: &str) -> String {
    let mut text: String = text.replace('\n', "\\n");
    text.truncate(text.floor_char_boundary(1_000));
    format!("_e{{{},{}}}:{title}|{text}|t:{kind}|#run:{run}", title.len(), text.len())
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

    #[test]
    fn the_run_and_its_labels_replace_those_of_the_environment() {
        let of = |more: &[&str], before| {
            let more: Vec<String> = more.iter().map(|text| (*text).to_owned()).collect();
            labels("v42", &more, before)
        };
        assert_eq!(of(&[], None).unwrap(), "run=v42");
        let all = of(&["rank=3"], Some("run=old, role=train,rank=9")).unwrap();
        assert_eq!(all, "run=v42,rank=3,role=train");
        let error = of(&["rank"], None).unwrap_err().to_string();
        assert_eq!(error, "--label \"rank\": write KEY=VALUE, such as rank=3");
        assert_eq!(of(&["run=b"], None).unwrap_err().to_string(), "label \"run\" is given twice");
        assert!(labels("a b", &[], None).unwrap_err().to_string().starts_with("--name \"a b\""));
    }

    #[test]
    fn an_event_states_the_bytes_of_its_title_and_text() {
        let found = event("run v42 ended", "exit code 3\nafter 2 s", "error", "v42");
        assert_eq!(found, "_e{13,22}:run v42 ended|exit code 3\\nafter 2 s|t:error|#run:v42");
        let long = event("t", &"é".repeat(900), "info", "v");
        assert!(long.starts_with("_e{1,1000}:t|"), "{long}");
    }

    #[test]
    fn an_end_has_the_exit_code_of_a_shell() {
        assert_eq!(ended(ExitStatus::from_raw(3 << 8)), ("exit code 3".to_owned(), 3));
        assert_eq!(ended(ExitStatus::from_raw(9)), ("killed by signal 9".to_owned(), 137));
    }
}
