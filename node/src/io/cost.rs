//! The cost of the node: time per stage of its driver.
//!
//! A stage ends where the next begins, so each costs one clock read for many samples; what the
//! connection to the broker and the pages do in tasks of their own is in
//! `process_cpu_seconds_total` alone, which is on every page.

use std::time::Duration;

use plimsoll_clock::Stopwatch;
use plimsoll_schemas::labelled;

labelled! {
    /// A part of a driver's turn.
    pub enum Stage {
        /// Taking datagrams from the kernel.
        Receive = "receive",
        /// Reading them and recording their samples.
        Intake = "intake",
        /// Taking frames and recording them.
        Frames = "frames",
        /// Recording bodies of OTLP.
        Otlp = "otlp",
        /// Sealing intervals and whatever else is due.
        Decide = "decide",
        /// Handing messages to the connection.
        Publish = "publish",
        /// Handing changes to the spool's thread.
        Spool = "spool",
    }
}

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
