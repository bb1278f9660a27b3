//! The lines of the commands file. Every line is a command or an error; blank lines are skipped.

use std::time::Duration;

use crate::limits::EXTRA_WORK_MS_MAX;
use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Command {
    /// Repeat validation passes in every hook for this long; zero switches off.
    ExtraWork(Duration),
    /// End after this epoch.
    Stop,
}

/// Why a line is no command.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CommandError {
    /// The first word is unknown.
    #[error("command {0:?} is neither extra-work-ms nor stop")]
    Unknown(String),
    /// The word after `extra-work-ms`.
    #[error("extra-work-ms {0:?} must be a whole number of 0 to {EXTRA_WORK_MS_MAX}")]
    ExtraWork(String),
}

impl std::str::FromStr for Command {
    type Err = CommandError;

    fn from_str(line: &str) -> Result<Self, CommandError> {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match (word, rest) {
            ("extra-work-ms", _) => extra_work(rest),
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
    fn commands_are_parsed_and_others_rejected_with_why() {
        let table = [
            ("extra-work-ms 25", Ok(Command::ExtraWork(Duration::from_millis(25)))),
            ("  extra-work-ms\t0 \r", Ok(Command::ExtraWork(Duration::ZERO))),
            ("extra-work-ms 10001", Err(CommandError::ExtraWork("10001".into()))),
            ("extra-work-ms -1", Err(CommandError::ExtraWork("-1".into()))),
            ("extra-work-ms", Err(CommandError::ExtraWork(String::new()))),
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
        let parsed: Vec<_> = parse(b"\n \nstop\n\nextra-work-ms 5\n").collect();
        assert_eq!(parsed, [Ok(Command::Stop), Ok(Command::ExtraWork(Duration::from_millis(5)))]);
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
            line in "extra-work-ms [-+.e0-9]{1,9}",
        ) {
            match line.parse() {
                Ok(Command::ExtraWork(work)) => {
                    prop_assert!(work <= Duration::from_millis(EXTRA_WORK_MS_MAX));
                }
                Ok(other) => prop_assert!(false, "{other:?}"),
                Err(_) => {}
            }
        }
    }
}
