//! The cost of the node: time per stage of its driver.
//!
//! A stage ends where the next begins, so each costs one clock read for many samples; what the
//! connection to the broker and the pages do in tasks of their own is in
//! `process_cpu_seconds_total` alone, which is on every page.

use std::time::Duration;

use plimsoll_clock::Stopwatch;

/// A part of a driver's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Taking datagrams from the kernel.
    Receive,
    /// Reading them and recording their samples.
    Intake,
    /// Taking frames and recording them.
    Frames,
    /// Recording bodies of OTLP.
    Otlp,
    /// Sealing intervals and whatever else is due.
    Decide,
    /// Handing messages to the connection.
    Publish,
    /// Handing changes to the spool's thread.
    Spool,
}

impl Stage {
    /// All of them, in the order of a turn.
    pub const ALL: [Self; 7] = [
        Self::Receive,
        Self::Intake,
        Self::Frames,
        Self::Otlp,
        Self::Decide,
        Self::Publish,
        Self::Spool,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Intake => "intake",
            Self::Frames => "frames",
            Self::Otlp => "otlp",
            Self::Decide => "decide",
            Self::Publish => "publish",
            Self::Spool => "spool",
        }
    }
}

/// Time spent by stage.
#[derive(Debug)]
pub struct Cost {
    watch: Stopwatch,
    spent: [Duration; Stage::ALL.len()],
}

impl Default for Cost {
    fn default() -> Self {
        Self { watch: Stopwatch::start(), spent: [Duration::ZERO; Stage::ALL.len()] }
    }
}

impl Cost {
    /// Starts a stage; the time since the last one counts for none.
    pub fn begin(&mut self) {
        let _waited = self.watch.lap();
    }

    /// Ends a stage and starts the next.
    pub fn end(&mut self, stage: Stage) {
        self.spent[stage as usize] += self.watch.lap();
    }

    /// Time spent in each stage so far.
    pub fn by_stage(&self) -> [(Stage, Duration); Stage::ALL.len()] {
        Stage::ALL.map(|stage| (stage, self.spent[stage as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_to_the_stage_that_ends() {
        let mut cost = Cost::default();
        let total = Stopwatch::start();
        cost.begin();
        cost.end(Stage::Receive);
        cost.end(Stage::Intake);
        cost.end(Stage::Receive);
        let by_stage = cost.by_stage();
        let spent: Duration = by_stage.iter().map(|(_, spent)| *spent).sum();
        assert!(spent <= total.elapsed());
        assert!(by_stage[0].1 > Duration::ZERO && by_stage[2].1 == Duration::ZERO, "{by_stage:?}");
    }
}
