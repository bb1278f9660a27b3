//! The expectations of a drill and their outcomes. Each expectation comes with its own check of
//! the mesh.

use std::time::Duration;

use anyhow::Result;
use plimsoll_clock::{Deadline, Stopwatch};
use serde::{Serialize, Serializer};

const CHECK_EVERY: Duration = Duration::from_millis(50);
/// Interval of progress lines.
const PROGRESS_EVERY: Duration = Duration::from_secs(3);

/// How an expectation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It was seen in time.
    Met,
    /// It was not, or too late.
    Missed,
    /// It no longer applied.
    Skipped,
}

impl Verdict {
    /// The verdict as it is printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "MISSED",
            Self::Skipped => "skipped",
        }
    }
}

/// One expectation with what was seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// A few words to call it by.
    pub name: String,
    pub expected: String,
    /// What was; the reason when it was skipped.
    pub seen: String,
    /// Time from the event that the expectation counts from.
    #[serde(rename = "took_seconds", serialize_with = "in_seconds")]
    pub took: Duration,
    pub verdict: Verdict,
}

#[derive(Clone, Debug)]
pub struct Expectation {
    /// A few words to call it by.
    pub name: String,
    pub expected: String,
}

impl Expectation {
    /// An expectation with its name.
    pub fn new(name: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { name: name.into(), expected: expected.into() }
    }
}

/// The wait for an expectation: both count from the drill's beginning.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The event that it counts from.
    pub since: Duration,
    /// How long it may take from there.
    pub within: Duration,
}

/// One observation of the mesh.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// Whether the observation meets the expectation.
    pub met: bool,
    pub seen: String,
    /// When the observed state began, if that is earlier than the observation.
    pub at: Option<Duration>,
}

impl Look {
    /// An observation of the present state.
    pub fn new(met: bool, seen: impl Into<String>) -> Self {
        Self { met, seen: seen.into(), at: None }
    }

    /// Whether a step succeeded: `done` in words, or its error.
    pub fn of<T>(step: &Result<T>, done: &str) -> Self {
        let seen = step.as_ref().map_or_else(|error| format!("{error:#}"), |_| done.to_owned());
        Self::new(step.is_ok(), seen)
    }
}

impl From<Result<Self>> for Look {
    /// A process that does not answer does not meet the expectation.
    fn from(look: Result<Self>) -> Self {
        look.unwrap_or_else(|error| Self::new(false, format!("{error:#}")))
    }
}

/// A drill in progress: its clock and its outcomes so far.
#[derive(Debug)]
pub struct Drill {
    /// What the drill is called.
    pub name: String,
    /// Whether it is to miss an expectation, to be seen failing.
    plants_miss: bool,
    watch: Stopwatch,
    outcomes: Vec<Outcome>,
}

impl Drill {
    /// Starts the drill's clock.
    pub fn begin(name: impl Into<String>) -> Self {
        let (plants_miss, watch) = (false, Stopwatch::start());
        Self { name: name.into(), plants_miss, watch, outcomes: Vec::new() }
    }

    /// The same, made to miss an expectation if `plants_miss`.
    pub fn planting(self, plants_miss: bool) -> Self {
        Self { plants_miss, ..self }
    }

    /// Whether a miss is to be planted; true at most once, for the part that plants it.
    pub fn take_planted_miss(&mut self) -> bool {
        std::mem::take(&mut self.plants_miss)
    }

    pub fn watch(&self) -> Stopwatch {
        self.watch
    }

    /// Time since the drill began.
    pub fn elapsed(&self) -> Duration {
        self.watch.elapsed()
    }

    /// What became of the expectations so far.
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// Checks until a check shows what is expected or the time is over; returns whether it was met
    /// in time. Checks at least once.
    pub async fn expect(
        &mut self,
        expectation: Expectation,
        Span { since, within }: Span,
        mut look: impl AsyncFnMut() -> Result<Look>,
    ) -> bool {
        let deadline = Deadline::within((since + within).saturating_sub(self.elapsed()));
        let mut log_at = self.elapsed() + PROGRESS_EVERY;

        loop {
            let last = deadline.has_passed();
            let seen = Look::from(look().await);

            if seen.met || last {
                let at = seen.at.unwrap_or_else(|| self.elapsed()).saturating_sub(since);
                return self.close(expectation, seen.seen, at, seen.met && at <= within);
            }

            if self.elapsed() >= log_at {
                log_at += PROGRESS_EVERY;
                let (now, of) = (self.elapsed().saturating_sub(since).as_secs(), within.as_secs());
                eprintln!("waiting for {}: {now} s of {of} s ({})", expectation.name, seen.seen);
            }

            tokio::time::sleep(CHECK_EVERY.min(deadline.remaining())).await;
        }
    }

    /// Judges an observation that was already made.
    pub fn judge(
        &mut self,
        expectation: Expectation,
        since: Duration,
        look: impl Into<Look>,
    ) -> bool {
        let look = look.into();
        let took = look.at.unwrap_or_else(|| self.elapsed()).saturating_sub(since);
        self.close(expectation, look.seen, took, look.met)
    }

    /// Judges how what the drill has started ended.
    pub fn judge_end(&mut self, expected: &str, since: Duration, ended: &Result<()>) {
        self.judge(Expectation::new("ended", expected), since, Look::of(ended, "ended"));
    }

    /// Skips an expectation that no longer applies.
    pub fn skip(&mut self, Expectation { name, expected }: Expectation, reason: &str) {
        eprintln!("skipped: {name}: {reason}");
        let (seen, took, verdict) = (reason.to_owned(), Duration::ZERO, Verdict::Skipped);
        self.outcomes.push(Outcome { name, expected, seen, took, verdict });
    }

    fn close(
        &mut self,
        Expectation { name, expected }: Expectation,
        seen: String,
        took: Duration,
        met: bool,
    ) -> bool {
        let seconds = took.as_secs_f64();
        match met {
            true => eprintln!("met: {name} after {seconds:.1} s ({seen})"),
            false => eprintln!("MISSED: {name}: expected {expected}; seen {seen}"),
        }
        let verdict = if met { Verdict::Met } else { Verdict::Missed };
        self.outcomes.push(Outcome { name, expected, seen, took, verdict });
        met
    }
}

/// Seconds to the millisecond, for people who read JSON.
pub(crate) fn in_seconds<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((span.as_secs_f64() * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expectation() -> Expectation {
        Expectation::new("x", "it happens")
    }

    fn span(within_ms: u64) -> Span {
        Span { since: Duration::ZERO, within: Duration::from_millis(within_ms) }
    }

    fn verdict_of(within_ms: u64, look: impl AsyncFnMut() -> Result<Look>) -> Outcome {
        let mut drill = Drill::begin("test");
        plimsoll_runtime::block_on(drill.expect(expectation(), span(within_ms), look));
        drill.outcomes()[0].clone()
    }

    #[test]
    fn what_comes_at_the_third_look_is_met() {
        let mut polls = 0;
        let outcome = verdict_of(60_000, async || {
            polls += 1;
            Ok(Look::new(polls == 3, format!("look {polls}")))
        });
        assert_eq!((outcome.verdict, outcome.seen.as_str()), (Verdict::Met, "look 3"));
    }

    #[test]
    fn what_never_comes_is_missed_with_what_was_seen_last() {
        let outcome = verdict_of(1, async || Ok(Look::new(false, "nothing")));
        assert_eq!((outcome.verdict, outcome.seen.as_str()), (Verdict::Missed, "nothing"));
        assert!(outcome.took >= Duration::from_millis(1));
    }

    #[test]
    fn what_came_in_time_is_met_even_if_polled_later() {
        for (at_ms, verdict) in [(0, Verdict::Met), (5, Verdict::Missed)] {
            let at = Duration::from_millis(at_ms);
            let outcome = verdict_of(0, async || Ok(Look { at: Some(at), ..Look::new(true, "") }));
            assert_eq!((outcome.verdict, outcome.took), (verdict, at));
        }
    }

    #[test]
    fn a_skipped_expectation_is_neither_met_nor_missed() {
        let mut drill = Drill::begin("test");
        drill.skip(expectation(), "it never fired");
        assert_eq!(drill.outcomes()[0].verdict, Verdict::Skipped);
        assert_eq!(drill.outcomes()[0].seen, "it never fired");
    }
}
