//! What one run did, as words for people or as one line of JSON for scripts.

use std::fmt;

use serde::Serialize;

use crate::sample::Tally;

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The requested number of epochs is done.
    Epochs,
    /// The requested time is over.
    Seconds,
    /// The command `stop`.
    Command,
    Signal,
}

/// The totals of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub epochs: u64,
    /// Why there were no more.
    pub ended_by: Ending,
    /// Samples whose datagrams were accepted.
    pub sent: Tally,
    /// Samples that could not be sent, of all names together.
    pub unsent: u64,
    /// Mean loss of the last training pass; null before the first, or when training diverged.
    pub training_loss: Option<f32>,
    /// Share of the held-back points that the last validation pass classified correctly.
    pub validation_accuracy: Option<f32>,
    /// Lines of the commands file that were no commands.
    pub unknown_commands: u64,
}

impl Summary {
    /// One line of JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("numbers and fixed names have a JSON form")
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { epochs, sent, unsent, unknown_commands, .. } = self;
        write!(f, "{epochs} epochs")?;
        if let (Some(loss), Some(accuracy)) = (self.training_loss, self.validation_accuracy) {
            write!(f, ", training loss {loss:.4}, validation accuracy {accuracy:.4}")?;
        }
        let Tally { epoch_hook, kernel_fetch, .. } = sent;
        write!(f, "; sent {epoch_hook} epoch_hook and {kernel_fetch} kernel_fetch samples")?;
        write!(f, ", {unsent} samples unsent; {unknown_commands} unknown commands")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        Summary {
            epochs: 2,
            ended_by: Ending::Command,
            sent: Tally { epoch_hook: 2, kernel_fetch: 1, epochs: 2, training_loss: 2 },
            unsent: 1,
            training_loss: Some(0.5),
            validation_accuracy: Some(0.75),
            unknown_commands: 3,
        }
    }

    #[test]
    fn a_summary_is_one_line_of_json() {
        assert_eq!(
            summary().json(),
            r#"{"epochs":2,"ended_by":"command","sent":{"epoch_hook":2,"kernel_fetch":1,"#
                .to_owned()
                + r#""epochs":2,"training_loss":2},"unsent":1,"training_loss":0.5,"#
                + r#""validation_accuracy":0.75,"unknown_commands":3}"#
        );
    }

    #[test]
    fn a_summary_is_one_line_of_words() {
        assert_eq!(
            summary().to_string(),
            "2 epochs, training loss 0.5000, validation accuracy 0.7500; sent 2 epoch_hook and \
             1 kernel_fetch samples, 1 samples unsent; 3 unknown commands"
        );
    }
}
