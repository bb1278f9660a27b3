//! What is evaluated: latency budgets, their error budgets, thresholds on any other metric, and
//! stragglers among peers; and what nodes send before other messages.
//!
//! Owns how rule files are read, layered and checked, and the built-in rules; also those of
//! bottlenecks, which raise no alerts. Refuses to open
//! files (the caller passes a function) and to evaluate anything. Every alert follows from one
//! rule, which also states its severity, receivers, runbook and summary. A [`Rule`] is a budget, a
//! burn rate, a threshold or about stragglers; `Rule::severity` has the severity of each.

mod advice;
mod bottlenecks;
mod drafts;
mod fault;
pub mod file;
mod limit;
mod priorities;
mod rules;
mod stragglers;
mod table;
#[cfg(test)]
mod tests;
mod values;

pub use crate::annotations::{RuleAnnotations, Severity};
pub use crate::metric::Comparison;
pub use crate::scope::Scopes;
pub use crate::straggler::StragglerMethod;
pub use bottlenecks::{
    BottleneckRule, BottleneckSeverity, Bottlenecks, CounterCondition, Measure, PassedLimit,
    SeverityLimits,
};
pub use drafts::{BUDGET_KEYS, RULE_KEYS};
pub use fault::{RuleError, RuleTables, RuleText};
pub use limit::WrittenLimit;
pub use priorities::PRIORITY_KEYS;
pub use rules::{Baseline, Rule, Rules, Straggler, Threshold};
pub use stragglers::STRAGGLER_KEYS;
