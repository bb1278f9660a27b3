//! A process's resident memory over time, as the kernel reports it.

use std::fmt::Write;
use std::path::Path;
use std::slice::SliceIndex;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_clock::Stopwatch;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::processes::usage;

const SAMPLE_EVERY: Duration = Duration::from_millis(200);
/// Columns of a drawn curve.
const COLUMNS: usize = 60;
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Resident bytes at points in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Curve(Vec<Resident>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Resident {
    /// Since the watch began.
    at: Duration,
    bytes: u64,
}

/// Samples a process until stopped.
pub(super) struct Watch {
    stop: oneshot::Sender<()>,
    curve: JoinHandle<Curve>,
}

impl Watch {
    pub(super) fn begin(id: u32) -> Self {
        let (stop, stopped) = oneshot::channel();
        Self { stop, curve: tokio::spawn(follow(id, stopped)) }
    }

    /// What was seen; fails when the process was not to be seen even once.
    pub(super) async fn end(self) -> Result<Curve> {
        drop(self.stop);
        let curve = self.curve.await?;
        (!curve.0.is_empty()).then_some(curve).context("no resident memory was to be read")
    }
}

async fn follow(id: u32, mut stopped: oneshot::Receiver<()>) -> Curve {
    let (since, mut curve) = (Stopwatch::start(), Curve::default());
    let mut ticks = interval(SAMPLE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = &mut stopped => return curve,
            _ = ticks.tick() => {}
        }
        if let Some(usage) = usage(id) {
            curve.0.push(Resident { at: since.elapsed(), bytes: usage.resident_bytes });
        }
    }
}

impl Curve {
    pub(super) fn peak(&self) -> u64 {
        self.highest(..)
    }

    /// Its part up to `end`, which is measured from its first point.
    pub(super) fn until(&self, end: Duration) -> Self {
        Self(self.0.iter().copied().take_while(|point| point.at <= end).collect())
    }

    /// The highest of the middle third, and of the last: a level has both alike.
    pub(super) fn later_thirds(&self) -> (u64, u64) {
        let third = self.0.len() / 3;
        (self.highest(third..2 * third), self.highest(2 * third..))
    }

    fn highest(&self, range: impl SliceIndex<[Resident], Output = [Resident]>) -> u64 {
        self.0.get(range).map_or(0, highest)
    }

    /// A line of text from zero to the peak.
    pub(super) fn drawn(&self) -> String {
        let (peak, width) = (self.peak().max(1), self.0.len().div_ceil(COLUMNS).max(1));
        let column = |points: &[Resident]| {
            let level =
                highest(points).saturating_mul(LEVELS.len() as u64).saturating_sub(1) / peak;
            LEVELS[usize::try_from(level).unwrap_or(0).min(LEVELS.len() - 1)]
        };
        self.0.chunks(width).map(column).collect()
    }

    /// Writes `seconds,resident_bytes` lines.
    pub(super) fn write(&self, file: &Path) -> Result<()> {
        let mut text = String::from("seconds,resident_bytes\n");
        for Resident { at, bytes } in &self.0 {
            writeln!(text, "{:.3},{bytes}", at.as_secs_f64())?;
        }
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
    }
}

fn highest(points: &[Resident]) -> u64 {
    points.iter().map(|point| point.bytes).max().unwrap_or(0)
}

/// Bytes in MiB, to a tenth.
pub(super) fn mib(bytes: u64) -> String {
    let tenths = bytes / (1024 * 1024 / 10);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(bytes: &[u64]) -> Curve {
        let at = |place: usize| SAMPLE_EVERY * u32::try_from(place).unwrap();
        let point = |(place, bytes): (usize, &u64)| Resident { at: at(place), bytes: *bytes };
        Curve(bytes.iter().enumerate().map(point).collect())
    }

    #[test]
    fn a_curve_is_drawn_from_zero_to_its_peak() {
        assert_eq!(curve(&[0, 1, 2, 4, 8]).drawn(), "▁▁▂▄█");
        assert_eq!(curve(&[7; 3]).drawn(), "███");
        assert_eq!(curve(&[1; 600]).drawn().chars().count(), COLUMNS);
        assert_eq!(curve(&[]).drawn(), "");
    }

    #[test]
    fn thirds_separate_level_and_slope() {
        assert_eq!(curve(&[0, 0, 5, 4, 5, 4]).later_thirds(), (5, 5));
        assert_eq!(curve(&[0, 1, 2, 3, 4, 5]).later_thirds(), (3, 5));
        assert_eq!(curve(&[]).later_thirds(), (0, 0));
        let outage = curve(&[0, 0, 5, 5, 5, 5, 9, 9]).until(SAMPLE_EVERY * 5);
        assert_eq!(outage.later_thirds(), (5, 5), "what follows the outage is no slope in it");
    }

    #[test]
    fn a_curve_can_be_read_back() {
        let file = tempfile::NamedTempFile::new().unwrap();
        curve(&[7, 8]).write(file.path()).unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(text, "seconds,resident_bytes\n0.000,7\n0.200,8\n");
        assert_eq!(mib(3 * 1024 * 1024 / 2), "1.5 MiB");
    }
}
