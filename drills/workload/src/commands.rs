//! The lines that change a running job, as they stand in the commands file.
//!
//! Parsing is total: whatever a line holds, the answer is a command or a reason, never a
//! panic. Blank lines are no lines.

use std::time::Duration;

use crate::limits::EXTRA_WORK_MS_MAX;
use thiserror::Error;

/// What a line asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Command {
    /// Repeat validation passes in every hook for this long; zero switches off.
    ExtraWork(Duration),
    /// Descend in steps of this size from now on.
    LearningRate(f32),
    /// Write the network to disk.
    Checkpoint,
    /// End after this epoch.
    Stop,
}

/// Why a line was no command.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CommandError {
    /// The first word is none that this version knows.
    #[error("command {0:?} is none of extra-work-ms, learning-rate, checkpoint, stop")]
    Unknown(String),
    /// The word after `extra-work-ms`.
    #[error("extra-work-ms {0:?} must be a whole number of 0 to {EXTRA_WORK_MS_MAX}")]
    ExtraWork(String),
    /// The word after `learning-rate`.
    #[error("learning-rate {0:?} must be a number above 0 and at most 1")]
    LearningRate(String),
}

impl std::str::FromStr for Command {
    type Err = CommandError;

    fn from_str(line: &str) -> Result<Self, CommandError> {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match (word, rest) {
            ("extra-work-ms", _) => extra_work(rest),
            ("learning-rate", _) => learning_rate(rest),
            ("checkpoint", "") => Ok(Self::Checkpoint),
            ("stop", "") => Ok(Self::Stop),
            _ => Err(CommandError::Unknown(line.to_owned())),
        }
    }
}

fn extra_work(text: &str) -> Result<Command, CommandError> {
    let millis = text.parse().ok().filter(|millis| *millis <= EXTRA_WORK_MS_MAX);
    let millis = millis.ok_or_else(|| CommandError::ExtraWork(text.to_owned()))?;
    Ok(Command::ExtraWork(Duration::from_millis(millis)))
}

fn learning_rate(text: &str) -> Result<Command, CommandError> {
    let rate = text.parse().ok().filter(|rate: &f32| *rate > 0.0 && *rate <= 1.0);
    rate.map(Command::LearningRate).ok_or_else(|| CommandError::LearningRate(text.to_owned()))
}

/// The commands in `text`, which ends with a whole line; bytes that are not UTF-8 make a line
/// unknown.
pub fn parse(text: &[u8]) -> impl Iterator<Item = Result<Command, CommandError>> {
    let lines = text.split(|byte| *byte == b'\n').map(String::from_utf8_lossy);
    lines.filter(|line| !line.trim().is_empty()).map(|line| line.parse())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn commands_are_read_and_everything_else_is_told_why_not() {
        let table = [
            ("extra-work-ms 25", Ok(Command::ExtraWork(Duration::from_millis(25)))),
            ("  extra-work-ms\t0 \r", Ok(Command::ExtraWork(Duration::ZERO))),
            ("extra-work-ms 10001", Err(CommandError::ExtraWork("10001".into()))),
            ("extra-work-ms -1", Err(CommandError::ExtraWork("-1".into()))),
            ("extra-work-ms", Err(CommandError::ExtraWork(String::new()))),
            ("learning-rate 0.05", Ok(Command::LearningRate(0.05))),
            ("learning-rate 0", Err(CommandError::LearningRate("0".into()))),
            ("learning-rate NaN", Err(CommandError::LearningRate("NaN".into()))),
            ("learning-rate inf", Err(CommandError::LearningRate("inf".into()))),
            ("checkpoint", Ok(Command::Checkpoint)),
            ("stop", Ok(Command::Stop)),
            ("stop now", Err(CommandError::Unknown("stop now".into()))),
            ("Stop", Err(CommandError::Unknown("Stop".into()))),
        ];
        for (line, expected) in table {
            assert_eq!(line.parse::<Command>(), expected, "{line:?}");
        }
    }

    #[test]
    fn blank_lines_are_passed_over() {
        let parsed: Vec<_> = parse(b"\n \nstop\n\ncheckpoint\n").collect();
        assert_eq!(parsed, [Ok(Command::Stop), Ok(Command::Checkpoint)]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_a_panic_one_answer_a_line(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let lines = String::from_utf8_lossy(&bytes).into_owned();
            let lines = lines.split('\n').filter(|line| !line.trim().is_empty()).count();
            prop_assert_eq!(parse(&bytes).count(), lines);
        }

        #[test]
        fn accepted_figures_are_in_their_range(
            line in "(extra-work-ms|learning-rate) [-+.e0-9]{1,9}",
        ) {
            match line.parse() {
                Ok(Command::ExtraWork(work)) => {
                    prop_assert!(work <= Duration::from_millis(EXTRA_WORK_MS_MAX));
                }
                Ok(Command::LearningRate(rate)) => prop_assert!(rate > 0.0 && rate <= 1.0),
                Ok(other) => prop_assert!(false, "{other:?}"),
                Err(_) => {}
            }
        }
    }
}
