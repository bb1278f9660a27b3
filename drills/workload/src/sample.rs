//! What the job reports, as a DogStatsD datagram and as a line of the raw file.
//!
//! Latencies are written in milliseconds with six decimals, so that not a nanosecond is lost.

use std::fmt;
use std::time::Duration;

use plimsoll_schemas::time::nanos;
use serde::Serialize;

/// How a kernel was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was in memory, and intact.
    Hit,
    /// It was read from disk.
    Miss,
    /// It could not be read, or its checksum was wrong.
    Error,
}

impl Outcome {
    /// The value of the label `outcome`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Error => "error",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sample {
    /// Time of one end-of-epoch hook.
    EpochHook(Duration),
    /// Time of one kernel fetch.
    KernelFetch(Duration, Outcome),
    /// One epoch is done.
    Epoch,
    /// Mean loss of the last training pass.
    TrainingLoss(f32),
}

/// Displays as the datagram.
impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EpochHook(took) => write!(f, "epoch_hook:{}|ms", Millis(*took)),
            Self::KernelFetch(took, outcome) => {
                write!(f, "kernel_fetch:{}|ms|#outcome:{}", Millis(*took), outcome.as_str())
            }
            Self::Epoch => f.write_str("epochs:1|c"),
            Self::TrainingLoss(loss) => write!(f, "training_loss:{loss}|g"),
        }
    }
}

impl Sample {
    /// The line of the raw file; only latencies have one.
    pub fn raw_line(&self) -> Option<String> {
        match self {
            Self::EpochHook(took) => Some(format!("epoch_hook {}\n", nanos(*took))),
            Self::KernelFetch(took, outcome) => {
                Some(format!("kernel_fetch {} outcome={}\n", nanos(*took), outcome.as_str()))
            }
            Self::Epoch | Self::TrainingLoss(_) => None,
        }
    }
}

struct Millis(Duration);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = nanos(self.0);
        write!(f, "{}.{:06}", nanos / 1_000_000, nanos % 1_000_000)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    pub epoch_hook: u64,
    /// Fetches, however they ended.
    pub kernel_fetch: u64,
    /// Increments of the counter of epochs.
    pub epochs: u64,
    /// Values of the gauge.
    pub training_loss: u64,
}

impl Tally {
    pub fn count(&mut self, sample: &Sample) {
        *match sample {
            Sample::EpochHook(_) => &mut self.epoch_hook,
            Sample::KernelFetch(..) => &mut self.kernel_fetch,
            Sample::Epoch => &mut self.epochs,
            Sample::TrainingLoss(_) => &mut self.training_loss,
        } += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn samples_are_written_as_the_protocol_has_them() {
        let took = Duration::from_nanos(1_234_567);
        let table = [
            (Sample::EpochHook(took), "epoch_hook:1.234567|ms", Some("epoch_hook 1234567\n")),
            (
                Sample::KernelFetch(Duration::from_nanos(123_456), Outcome::Hit),
                "kernel_fetch:0.123456|ms|#outcome:hit",
                Some("kernel_fetch 123456 outcome=hit\n"),
            ),
            (
                Sample::KernelFetch(Duration::from_secs(2), Outcome::Error),
                "kernel_fetch:2000.000000|ms|#outcome:error",
                Some("kernel_fetch 2000000000 outcome=error\n"),
            ),
            (Sample::Epoch, "epochs:1|c", None),
            (Sample::TrainingLoss(0.25), "training_loss:0.25|g", None),
            (Sample::TrainingLoss(1e-9), "training_loss:0.000000001|g", None),
        ];
        for (sample, datagram, raw) in table {
            assert_eq!(sample.to_string(), datagram);
            assert_eq!(sample.raw_line().as_deref(), raw);
        }
    }

    proptest! {
        #[test]
        fn not_a_nanosecond_is_lost(nanos: u64) {
            let text = Millis(Duration::from_nanos(nanos)).to_string();
            let (whole, part) = text.split_once('.').unwrap();
            prop_assert_eq!(part.len(), 6);
            let read: u128 = format!("{whole}{part}").parse().unwrap();
            prop_assert_eq!(read, u128::from(nanos));
        }
    }
}
