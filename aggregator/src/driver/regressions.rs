//! Comparisons of operations with their baselines, once a minute on a thread of their own.
//!
//! DESIGN A83.

use std::collections::BTreeMap;
use std::future::pending;

use plimsoll_schemas::ids::RuleName;
use plimsoll_schemas::rule::{Rules, Threshold};
use plimsoll_schemas::time::{Mono, Now};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::core::rules::Value;
use crate::io::baselines::{Regression, judge};
use crate::io::history::HistoryReader;
use crate::limits::REGRESSION_EVERY;

/// At most one comparison at a time.
#[derive(Default)]
pub(super) struct Regressions {
    running: Option<JoinHandle<BTreeMap<RuleName, Regression>>>,
    next_at: Mono,
    /// Why rules could not be judged, as last logged.
    reasons: BTreeMap<RuleName, String>,
}

impl Regressions {
    /// Starts one if it is time and a rule needs it.
    pub(super) fn start_if_due(
        &mut self,
        now: Now,
        rules: &Rules,
        reader: impl FnOnce() -> Option<HistoryReader>,
    ) {
        if self.running.is_some() || now.mono < self.next_at {
            return;
        }
        let with_baseline = rules.thresholds.iter().filter(|rule| rule.baseline.is_some());
        let rules: Vec<Threshold> = with_baseline.cloned().collect();
        if rules.is_empty() {
            return;
        }
        let Some(reader) = reader() else { return };
        self.next_at = now.mono.plus(REGRESSION_EVERY);
        self.running = Some(spawn_blocking(move || judge(&rules, &reader, now.wall)));
    }

    /// What was found, of each rule that was compared; nothing of a comparison that panicked. While
    /// there is none, never. Cancel safe.
    pub(super) async fn next(&mut self) -> BTreeMap<RuleName, Option<Value>> {
        let Some(running) = &mut self.running else { return pending().await };
        let found = running.await;
        self.running = None;
        let found = found.unwrap_or_else(|error| {
            tracing::error!(%error, "regressions cannot be judged");
            BTreeMap::new()
        });
        found.into_iter().map(|(rule, found)| self.judged(rule, found)).collect()
    }

    /// Logs why a rule cannot be judged, once.
    fn judged(&mut self, rule: RuleName, found: Regression) -> (RuleName, Option<Value>) {
        match found {
            Ok(value) => {
                self.reasons.remove(&rule);
                (rule, Some(value))
            }
            Err(reason) => {
                if self.reasons.get(&rule) != Some(&reason) {
                    tracing::warn!(rule = rule.as_str(), reason, "regression cannot be judged");
                    self.reasons.insert(rule.clone(), reason);
                }
                (rule, None)
            }
        }
    }

    /// The next comparison does not wait: rules have changed.
    pub(super) fn on_rules(&mut self) {
        self.next_at = Mono(0);
        self.reasons.clear();
    }
}
