//! The outcome of a drill: for people, for scripts, for build servers.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use super::account::{self, Account};
use super::expectation::{Drill, Outcome, Verdict, in_seconds};
use super::ledger::Comparison;
use super::mesh_name::MESH;
use super::notifications::Arrival;
use crate::fleet::figures::FleetStats;
use crate::load::LoadStats;

/// The outcome of a drill.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub drill: String,
    pub version: String,
    /// The mesh it ran on.
    pub mesh: String,
    /// True when no expectation was missed, and at least one was met.
    pub passed: bool,
    /// How long it took.
    #[serde(rename = "seconds", serialize_with = "in_seconds")]
    pub took: Duration,
    /// Every expectation, in the order in which they were judged.
    pub expectations: Vec<Outcome>,
    /// Every notification received from the bus, oldest first.
    pub notifications: Vec<Arrival>,
    /// The jobs' raw samples beside what was merged.
    pub comparisons: Vec<Comparison>,
    /// Where the samples of each node went, in drills with jobs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<Account>,
    /// What a fleet of simulated nodes cost, in the drill that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetStats>,
    /// What a load measured, in the drill that sends one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadStats>,
}

impl Report {
    /// What became of the expectations of a drill, and nothing beside them.
    pub fn new(drill: &Drill) -> Self {
        let expectations = drill.outcomes().to_vec();
        let any = |verdict| expectations.iter().any(|outcome| outcome.verdict == verdict);

        Self {
            drill: drill.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mesh: MESH.to_owned(),
            passed: any(Verdict::Met) && !any(Verdict::Missed),
            took: drill.elapsed(),
            expectations,
            notifications: Vec::new(),
            comparisons: Vec::new(),
            accounts: Vec::new(),
            fleet: None,
            load: None,
        }
    }

    /// Several drills' reports as one. Each drill's name precedes its expectations.
    pub fn joined(drill: &Drill, parts: Vec<Self>) -> Self {
        let mut whole = Self::new(drill);
        // One that proved nothing, because it cannot run here, does not fail the others.
        whole.passed = parts.iter().any(|part| part.passed)
            && parts.iter().all(|part| part.count(Verdict::Missed) == 0);

        for mut part in parts {
            for outcome in &mut part.expectations {
                outcome.name = format!("{}: {}", part.drill, outcome.name);
            }
            whole.expectations.append(&mut part.expectations);
            whole.notifications.append(&mut part.notifications);
            whole.comparisons.append(&mut part.comparisons);
            whole.accounts.append(&mut part.accounts);
        }

        whole
    }

    /// How many expectations ended in this way.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.expectations.iter().filter(|outcome| outcome.verdict == verdict).count()
    }

    /// The report for people: one entry for each expectation, then the verdict.
    pub fn words(&self) -> String {
        let mut text = format!("{:<8} {:>7}  EXPECTATION\n", "VERDICT", "TOOK s");
        for Outcome { name, expected, seen, took, verdict } in &self.expectations {
            let (verdict, took) = (verdict.as_str(), took.as_secs_f64());
            let indent = " ".repeat(18);

            // Writing to a string cannot fail.
            let _written = writeln!(
                text,
                "{verdict:<8} {took:>7.1}  {name}\n{indent}expected  {expected}\n{indent}seen      \
                 {seen}"
            );
        }

        text.push_str(&account::table(&self.accounts));
        text.push_str(&self.fleet.as_ref().map_or_else(String::new, FleetStats::table));
        text.push_str(&self.load.as_ref().map_or_else(String::new, LoadStats::table));
        let [met, missed, skipped] =
            [Verdict::Met, Verdict::Missed, Verdict::Skipped].map(|verdict| self.count(verdict));
        let verdict = if self.passed { "passed" } else { "FAILED" };

        let _written = write!(
            text,
            "{} {verdict} in {:.0} s: {met} met, {missed} missed, {skipped} skipped",
            self.drill,
            self.took.as_secs_f64()
        );

        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::expectation::{Expectation, Look};
    use super::*;

    fn report(verdicts: &[Verdict]) -> Report {
        let mut drill = Drill::begin("drill-test");
        for verdict in verdicts {
            let expectation = Expectation::new("fires", "an alert");
            let look = Look::new(*verdict == Verdict::Met, "no alert");
            if *verdict == Verdict::Skipped {
                drill.skip(expectation, "no alert");
            } else {
                drill.judge(expectation, drill.elapsed(), look);
            }
        }
        Report::new(&drill)
    }

    #[test]
    fn one_miss_fails_a_drill_and_so_does_proving_nothing() {
        use Verdict::{Met, Missed, Skipped};
        for (verdicts, passed) in [
            (&[Met, Met][..], true),
            (&[Met, Skipped], true),
            (&[Met, Missed, Met], false),
            (&[Skipped], false),
            (&[], false),
        ] {
            assert_eq!(report(verdicts).passed, passed, "{verdicts:?}");
        }
    }

    #[test]
    fn a_miss_in_one_of_several_drills_fails_all_and_names_the_drill() {
        use Verdict::{Met, Missed, Skipped};
        let drill = Drill::begin("drill-all");
        for (parts, passed) in [
            (vec![report(&[Met]), report(&[Met])], true),
            (vec![report(&[Met]), report(&[Skipped])], true),
            (vec![report(&[Met]), report(&[Met, Missed])], false),
            (vec![report(&[Skipped])], false),
            (Vec::new(), false),
        ] {
            let count: usize = parts.iter().map(|part| part.expectations.len()).sum();
            let whole = Report::joined(&drill, parts);
            assert_eq!((whole.passed, whole.expectations.len()), (passed, count));
            assert!(whole.expectations.iter().all(|one| one.name == "drill-test: fires"));
        }
    }

    #[test]
    fn text_states_expected_seen_and_the_verdict() {
        let words = report(&[Verdict::Met, Verdict::Missed]).words();
        assert!(words.contains("MISSED       0.0  fires\n"), "{words}");
        assert!(words.contains("expected  an alert\n"), "{words}");
        assert!(words.contains("seen      no alert\n"), "{words}");
        assert!(words.ends_with("FAILED in 0 s: 1 met, 1 missed, 0 skipped"), "{words}");
    }

    #[test]
    fn json_names_verdicts_and_seconds() {
        let json = serde_json::to_value(report(&[Verdict::Missed])).unwrap();
        assert_eq!(json["passed"], false);
        assert_eq!(json["mesh"], "drill");
        assert_eq!(json["expectations"][0]["verdict"], "missed");
        assert!(json["expectations"][0]["took_seconds"].is_f64());
    }
}
