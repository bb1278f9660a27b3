//! Rules key by key, while the layers of files are laid over each other.

use super::fault::{LocatedValue, RuleError, TextPosition};
use super::limit::WrittenLimit;
use super::rules::{Baseline, Threshold};
use super::table::{AnnotationsDraft, Entry, Table, keys_with_about, overlay_keys, titled, value};
use super::values;
use crate::budget::{Budget, Selector, Window};
use crate::ids::{Labels, Operation, RuleName};
use crate::limits::rules::BURN_SUFFIX_BYTES;
use crate::limits::wire::TOKEN_BYTES_MAX;
use crate::metric::{Comparison, Metric};
use crate::scope::Scopes;
use crate::unit::Unit;

/// Keys of a `[[budget]]`.
pub const BUDGET_KEYS: &[&str] = keys_with_about![
    "operation",
    "labels",
    "node_labels",
    "quantile",
    "limit",
    "window",
    "min_samples",
    "confidence",
    "fire_after",
    "clear_after",
    "objective",
    "scopes"
];

/// Keys of a `[[rule]]`.
pub const RULE_KEYS: &[&str] = keys_with_about![
    "metric",
    "labels",
    "greater",
    "less",
    "equal",
    "baseline",
    "window",
    "for",
    "clear_for"
];

/// Default of consecutive evaluations.
const EVALUATIONS: u32 = 3;

/// A rule whose keys are collected from several files.
#[derive(Clone, Debug)]
pub(super) struct Draft<K> {
    pub(super) name: LocatedValue<RuleName>,
    pub(super) keys: K,
    pub(super) about: AnnotationsDraft,
}

/// The keys that rules of one kind have beside those that all have, as far as they are set.
pub(super) trait Keys: Default {
    /// What the rule becomes.
    type Rule;
    /// How an error calls it.
    const KIND: &'static str;
    /// What it is, in the error about a name that two rules have.
    const TITLE: &'static str;
    /// All keys of its table.
    const KNOWN: &'static [&'static str];

    /// Takes one key; false when it is none of these.
    fn read_key(&mut self, entry: &Entry<'_>) -> Result<bool, RuleError>;
    /// Lays others over these.
    fn overlay(&mut self, above: Self);
    fn build(draft: &Draft<Self>) -> Result<Self::Rule, RuleError>;
}

impl<K: Keys> Draft<K> {
    pub(super) fn read(table: &Table<'_>) -> Result<Self, RuleError> {
        let (name, about) = (table.name.clone(), AnnotationsDraft::default());
        let mut draft = Self { name, keys: K::default(), about };
        for entry in table.entries() {
            let is_known = K::KNOWN.contains(&entry.key)
                && (draft.keys.read_key(&entry)? || draft.about.read_key(&entry)?);
            if !is_known {
                return Err(entry.unknown(K::KNOWN));
            }
        }
        Ok(draft)
    }

    /// Lays another of the same name over it.
    pub(super) fn overlay(&mut self, above: Self) {
        self.name = above.name;
        self.keys.overlay(above.keys);
        self.about.overlay(above.about);
    }

    /// What is wrong where it is named.
    pub(super) fn fault(&self, key: Option<&str>, problem: impl Into<String>) -> RuleError {
        self.fault_at(&self.name.position, key, problem)
    }

    pub(super) fn fault_at(
        &self,
        position: &TextPosition,
        key: Option<&str>,
        problem: impl Into<String>,
    ) -> RuleError {
        position.fault(titled(K::KIND, self.name.value.as_str()), key, problem)
    }

    /// A value that there must be.
    pub(super) fn needed<T: Clone>(
        &self,
        given: &Option<LocatedValue<T>>,
        key: &str,
    ) -> Result<T, RuleError> {
        let missing = || {
            let problem = format!("{key} is missing, and no {} of this name is known", K::KIND);
            self.fault(None, problem)
        };
        value(given).ok_or_else(missing)
    }
}

/// Those of a budget.
#[derive(Clone, Debug, Default)]
pub(super) struct BudgetKeys {
    operation: Option<LocatedValue<Operation>>,
    labels: Option<LocatedValue<Labels>>,
    node_labels: Option<LocatedValue<Labels>>,
    quantile: Option<LocatedValue<f64>>,
    limit: Option<LocatedValue<WrittenLimit>>,
    window: Option<LocatedValue<Window>>,
    min_samples: Option<LocatedValue<u64>>,
    confidence: Option<LocatedValue<f64>>,
    fire_after: Option<LocatedValue<u32>>,
    clear_after: Option<LocatedValue<u32>>,
    /// Outer option: whether the key is set; inner option: whether there is an objective.
    objective: Option<LocatedValue<Option<f64>>>,
    scopes: Option<LocatedValue<Scopes>>,
}

impl Keys for BudgetKeys {
    type Rule = Budget;
    const KIND: &'static str = "budget";
    const TITLE: &'static str = "a budget";
    const KNOWN: &'static [&'static str] = BUDGET_KEYS;

    fn read_key(&mut self, entry: &Entry<'_>) -> Result<bool, RuleError> {
        match entry.key {
            "operation" => self.operation = entry.read(values::operation)?,
            "labels" => self.labels = entry.read(values::labels)?,
            "node_labels" => self.node_labels = entry.read(values::labels)?,
            "quantile" => self.quantile = entry.read(values::quantile)?,
            "limit" => self.limit = entry.read(values::limit)?,
            "window" => self.window = entry.read(values::window)?,
            "min_samples" => self.min_samples = entry.read(values::samples)?,
            "confidence" => self.confidence = entry.read(values::confidence)?,
            "fire_after" => self.fire_after = entry.read(values::evaluations)?,
            "clear_after" => self.clear_after = entry.read(values::evaluations)?,
            "objective" => self.objective = entry.read(values::objective)?,
            "scopes" => self.scopes = entry.read(values::scopes)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn overlay(&mut self, above: Self) {
        overlay_keys!(self, above: operation, labels, node_labels, quantile, limit, window);
        overlay_keys!(self, above: min_samples, confidence, fire_after, clear_after);
        overlay_keys!(self, above: objective, scopes);
    }

    fn build(draft: &Draft<Self>) -> Result<Budget, RuleError> {
        let keys = &draft.keys;
        let labels = |given: &Option<LocatedValue<Labels>>| value(given).unwrap_or_default();

        let operation = draft.needed(&keys.operation, "operation")?;
        let quantile = draft.needed(&keys.quantile, "quantile")?;
        let limit = draft.needed(&keys.limit, "limit")?;
        let limit_ns = limit.raw(Unit::of(operation.as_str())).map_err(|problem| {
            let position =
                keys.limit.as_ref().map_or(&draft.name.position, |given| &given.position);
            draft.fault_at(position, Some("limit"), problem)
        })?;

        let budget = Budget {
            name: draft.name.value.clone(),
            operation,
            selector: Selector { series: labels(&keys.labels), nodes: labels(&keys.node_labels) },
            quantile,
            limit_ns,
            window: value(&keys.window).unwrap_or(Window::OneMinute),
            min_samples: value(&keys.min_samples).unwrap_or(3),
            confidence: value(&keys.confidence).unwrap_or(0.95),
            fire_after: value(&keys.fire_after).unwrap_or(EVALUATIONS),
            clear_after: value(&keys.clear_after).unwrap_or(EVALUATIONS),
            objective: value(&keys.objective).flatten(),
            scopes: value(&keys.scopes).unwrap_or(Scopes::ALL),
            is_built_in: draft.name.position.is_shipped(),
            about: draft.about.build(),
        };

        draft.check_objective(&budget)?;
        Ok(budget)
    }
}

impl Draft<BudgetKeys> {
    fn check_objective(&self, budget: &Budget) -> Result<(), RuleError> {
        let Some(objective) = budget.objective else { return Ok(()) };
        let quantile = budget.quantile;

        if objective > quantile {
            let problem = format!(
                "objective {objective:?} needs more than quantile {quantile:?}, which lets \
                 more samples be over the limit; write `objective = {quantile:?}` or less, \
                 `objective = false` for no error budget, or raise the quantile"
            );
            return Err(self.against_objective("quantile", &self.keys.quantile, problem));
        }

        if !budget.scopes.fleet {
            let problem = "an error budget is the fleet's, which scopes leave out; write \
                           `scopes = [\"fleet\", \"nodes\"]`, or `objective = false` for none";
            return Err(self.against_objective("scopes", &self.keys.scopes, problem.to_owned()));
        }

        let bytes_max = TOKEN_BYTES_MAX - BURN_SUFFIX_BYTES;
        if budget.name.as_str().len() > bytes_max {
            let problem = format!(
                "more than {bytes_max} bytes leave no room for the names of its error budget's \
                 rules; shorten it, or take the objective out"
            );
            return Err(self.fault(Some("name"), problem));
        }

        if budget.burn_rates(1).is_empty() {
            let problem = format!("no burn rate can be reached with {objective:?}; raise it");
            return Err(self.fault(Some("objective"), problem));
        }

        Ok(())
    }

    /// An objective and another key contradict each other. The error points at the one that is not
    /// built in.
    fn against_objective<T>(
        &self,
        key: &str,
        other: &Option<LocatedValue<T>>,
        problem: String,
    ) -> RuleError {
        let own = self.keys.objective.as_ref().map(|given| &given.position);
        let (key, position) = match (own.filter(|position| !position.is_shipped()), other) {
            (None, Some(given)) => (key, &given.position),
            (position, _) => ("objective", position.unwrap_or(&self.name.position)),
        };
        self.fault_at(position, Some(key), problem)
    }
}

/// Those of a threshold.
#[derive(Clone, Debug, Default)]
pub(super) struct ThresholdKeys {
    metric: Option<LocatedValue<Metric>>,
    labels: Option<LocatedValue<Labels>>,
    compared: Option<LocatedValue<(Comparison, f64)>>,
    baseline: Option<LocatedValue<String>>,
    window: Option<LocatedValue<Window>>,
    fire_after: Option<LocatedValue<u32>>,
    clear_after: Option<LocatedValue<u32>>,
}

impl Keys for ThresholdKeys {
    type Rule = Threshold;
    const KIND: &'static str = "rule";
    const TITLE: &'static str = "a threshold";
    const KNOWN: &'static [&'static str] = RULE_KEYS;

    fn read_key(&mut self, entry: &Entry<'_>) -> Result<bool, RuleError> {
        match entry.key {
            "greater" | "less" | "equal" if self.compared.is_some() => {
                let problem = "a second comparison; write one of greater, less, equal";
                return Err(entry.fault(problem));
            }
            "greater" => self.compared = entry.read(values::greater)?,
            "less" => self.compared = entry.read(values::less)?,
            "equal" => self.compared = entry.read(values::equal)?,
            "metric" => self.metric = entry.read(values::metric)?,
            "labels" => self.labels = entry.read(values::labels)?,
            "baseline" => self.baseline = entry.read(values::path)?,
            "window" => self.window = entry.read(values::regression_window)?,
            "for" => self.fire_after = entry.read(values::evaluations)?,
            "clear_for" => self.clear_after = entry.read(values::evaluations)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn overlay(&mut self, above: Self) {
        overlay_keys!(self, above: metric, labels, compared, baseline, window);
        overlay_keys!(self, above: fire_after, clear_after);
    }

    fn build(draft: &Draft<Self>) -> Result<Threshold, RuleError> {
        let keys = &draft.keys;
        let metric = draft.needed(&keys.metric, "metric")?;
        let (comparison, threshold) = draft.needed(&keys.compared, "greater, less or equal")?;
        let fire_after = value(&keys.fire_after).unwrap_or(EVALUATIONS);
        let baseline = draft.baseline(&metric, comparison)?;

        Ok(Threshold {
            name: draft.name.value.clone(),
            metric,
            labels: value(&keys.labels).unwrap_or_default(),
            comparison,
            value: threshold,
            baseline,
            fire_after,
            clear_after: value(&keys.clear_after).unwrap_or(fire_after),
            about: draft.about.build(),
        })
    }
}

impl Draft<ThresholdKeys> {
    /// What a regression is measured against, which no other metric is.
    fn baseline(
        &self,
        metric: &Metric,
        comparison: Comparison,
    ) -> Result<Option<Baseline>, RuleError> {
        let keys = &self.keys;
        if !matches!(metric, Metric::Regression(_)) {
            let given = [
                ("baseline", keys.baseline.as_ref().map(|given| &given.position)),
                ("window", keys.window.as_ref().map(|given| &given.position)),
            ];

            let given = given.into_iter().find_map(|(key, at)| Some((key, at?)));
            let Some((key, position)) = given else { return Ok(None) };
            let problem = "belongs to the metric regression:<operation> only; remove it";
            return Err(self.fault_at(position, Some(key), problem));
        }

        let Some(path) = value(&keys.baseline) else {
            let problem = "baseline is missing: name a file that `plimsoll compare --baseline \
                           save` wrote";
            return Err(self.fault(None, problem));
        };

        if comparison != Comparison::Greater {
            let problem = "a regression is a shift upwards; write `greater`, such as 0.05 for 5 %";
            return Err(self.fault(Some(comparison.as_str()), problem));
        }

        if value(&keys.labels).is_some_and(|labels| !labels.is_empty()) {
            let problem = "a regression covers all samples of an operation; remove labels";
            return Err(self.fault(Some("labels"), problem));
        }

        let window = value(&keys.window).unwrap_or(Window::HalfHour);
        Ok(Some(Baseline { path, window }))
    }
}
