//! The command line, read once into values that cannot be wrong.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::statsd::Destination;

const EXAMPLES: &str = "\
Examples:
  plimsoll-workload --seconds 60
      train for a minute and report to a node on udp://127.0.0.1:8125
  plimsoll-workload --statsd unix:///run/plimsoll/statsd.sock --raw raw.txt --epochs 1000
      send without loss, and write every latency that was sent
  plimsoll-workload --commands commands.txt &
  echo 'extra-work-ms 25' >> commands.txt
      make every later end-of-epoch hook 25 ms longer, by real work

Commands, one a line: extra-work-ms N, stop.

Exit codes: 0 done or ended by a signal, 1 a file could not be written, 2 wrong usage.";

/// Train a small model on the CPU and report latencies to a node: the example job.
#[derive(Clone, Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
pub struct Args {
    /// Where to send samples: unix:///PATH loses none, udp://IP:PORT may.
    #[arg(
        long,
        value_name = "URL",
        env = "PLIMSOLL_STATSD",
        default_value = "udp://127.0.0.1:8125"
    )]
    pub statsd: Destination,
    /// Write every latency that was sent to this file, in nanoseconds.
    #[arg(long, value_name = "FILE")]
    pub raw: Option<PathBuf>,
    /// Read commands from lines appended to this file; it need not exist yet.
    #[arg(long, value_name = "FILE")]
    pub commands: Option<PathBuf>,
    /// Epochs started each second, however long they take; 0 for as many as possible.
    #[arg(long, value_name = "RATE", default_value = "20", value_parser = rate)]
    pub epochs_per_second: f64,
    /// End after this time.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<Duration>,
    /// End after this many epochs.
    #[arg(long, value_name = "COUNT")]
    pub epochs: Option<u64>,
    /// Seed of the data and the kernels.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Directory of the kernels, for this run alone [default: a temporary directory that is
    /// removed at exit].
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Print the summary as one line of JSON.
    #[arg(long)]
    pub json: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate >= 0.0);
    rate.ok_or_else(|| "must be a number of at least 0, such as 20".into())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
    seconds.ok_or_else(|| "must be a number of seconds of at least 0, such as 60".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(flags: &[&str]) -> Result<Args, String> {
        let all = std::iter::once("plimsoll-workload").chain(flags.iter().copied());
        Args::try_parse_from(all).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_are_read() {
        let flags = ["--epochs-per-second", "0", "--seconds", "1.5", "--epochs", "7", "--json"];
        let args = parse(&flags).unwrap();
        assert_eq!(args.epochs_per_second, 0.0);
        assert_eq!(args.seconds, Some(Duration::from_millis(1_500)));
        assert_eq!((args.epochs, args.seed, args.json), (Some(7), 1, true));
    }

    #[test]
    fn a_wrong_value_names_its_flag_and_the_fix() {
        let table = [
            (["--epochs-per-second", "-1"], "at least 0"),
            (["--epochs-per-second", "NaN"], "at least 0"),
            (["--seconds", "inf"], "a number of seconds"),
            (["--epochs", "x"], "invalid digit"),
            (["--statsd", "tcp://x"], "such as udp://127.0.0.1:8125"),
            (["--statsd", "unix://x"], "absolute path"),
        ];
        for ([flag, value], fix) in table {
            let got = parse(&[&format!("{flag}={value}")]).unwrap_err();
            assert!(got.contains(flag) && got.contains(fix), "{flag} {value}: {got}");
        }
    }
}
