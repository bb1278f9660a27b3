//! Rules key by key, while the layers of files are laid over each other.

use super::fault::{LocatedValue, RuleError};
use super::rules::{Baseline, Threshold};
use super::table::{AnnotationsDraft, Table, keys_with_about, overlay_key, titled, value};
use super::values;
use crate::budget::{Budget, Selector, Window};
use crate::ids::{Labels, Operation, RuleName};
use crate::limits::rules::BURN_SUFFIX_BYTES;
use crate::limits::wire::TOKEN_BYTES_MAX;
use crate::metric::{Comparison, Metric};
use crate::scope::Scopes;

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
pub(super) trait Draft: Sized {
    /// What it becomes.
    type Rule;
    /// How an error calls it.
    const KIND: &'static str;

    fn read(table: &Table<'_>) -> Result<Self, RuleError>;
    fn name(&self) -> &LocatedValue<RuleName>;
    fn about(&self) -> &AnnotationsDraft;
    /// Lays another of the same name over it.
    fn overlay(&mut self, above: Self);
    fn build(&self) -> Result<Self::Rule, RuleError>;

    /// What is wrong where it is named.
    fn fault(&self, key: Option<&str>, problem: impl Into<String>) -> RuleError {
        let name = self.name();
        name.position.fault(titled(Self::KIND, name.value.as_str()), key, problem)
    }

    /// A value that there must be.
    fn needed<T: Clone>(&self, given: &Option<LocatedValue<T>>, key: &str) -> Result<T, RuleError> {
        let missing = || {
            let problem = format!("{key} is missing, and no {} of this name is known", Self::KIND);
            self.fault(None, problem)
        };
        value(given).ok_or_else(missing)
    }
}

/// A budget.
#[derive(Clone, Debug)]
pub(super) struct BudgetDraft {
    name: LocatedValue<RuleName>,
    operation: Option<LocatedValue<Operation>>,
    labels: Option<LocatedValue<Labels>>,
    node_labels: Option<LocatedValue<Labels>>,
    quantile: Option<LocatedValue<f64>>,
    limit: Option<LocatedValue<u64>>,
    window: Option<LocatedValue<Window>>,
    min_samples: Option<LocatedValue<u64>>,
    confidence: Option<LocatedValue<f64>>,
    fire_after: Option<LocatedValue<u32>>,
    clear_after: Option<LocatedValue<u32>>,
    /// Outer option: whether the key is set; inner option: whether there is an objective.
    objective: Option<LocatedValue<Option<f64>>>,
    scopes: Option<LocatedValue<Scopes>>,
    about: AnnotationsDraft,
}

impl Draft for BudgetDraft {
    type Rule = Budget;
    const KIND: &'static str = "budget";

    fn read(table: &Table<'_>) -> Result<Self, RuleError> {
        let mut draft = Self::named(table.name.clone());
        for entry in table.entries() {
            match entry.key {
                "operation" => draft.operation = entry.read(values::operation)?,
                "labels" => draft.labels = entry.read(values::labels)?,
                "node_labels" => draft.node_labels = entry.read(values::labels)?,
                "quantile" => draft.quantile = entry.read(values::quantile)?,
                "limit" => draft.limit = entry.read(values::limit)?,
                "window" => draft.window = entry.read(values::window)?,
                "min_samples" => draft.min_samples = entry.read(values::samples)?,
                "confidence" => draft.confidence = entry.read(values::confidence)?,
                "fire_after" => draft.fire_after = entry.read(values::evaluations)?,
                "clear_after" => draft.clear_after = entry.read(values::evaluations)?,
                "objective" => draft.objective = entry.read(values::objective)?,
                "scopes" => draft.scopes = entry.read(values::scopes)?,
                _ if draft.about.read_key(&entry)? => {}
                _ => return Err(entry.unknown(BUDGET_KEYS)),
            }
        }
        Ok(draft)
    }

    fn name(&self) -> &LocatedValue<RuleName> {
        &self.name
    }

    fn about(&self) -> &AnnotationsDraft {
        &self.about
    }

    fn overlay(&mut self, above: Self) {
        self.name = above.name;
        overlay_key(&mut self.operation, above.operation);
        overlay_key(&mut self.labels, above.labels);
        overlay_key(&mut self.node_labels, above.node_labels);
        overlay_key(&mut self.quantile, above.quantile);
        overlay_key(&mut self.limit, above.limit);
        overlay_key(&mut self.window, above.window);
        overlay_key(&mut self.min_samples, above.min_samples);
        overlay_key(&mut self.confidence, above.confidence);
        overlay_key(&mut self.fire_after, above.fire_after);
        overlay_key(&mut self.clear_after, above.clear_after);
        overlay_key(&mut self.objective, above.objective);
        overlay_key(&mut self.scopes, above.scopes);
        self.about.overlay(above.about);
    }

    fn build(&self) -> Result<Budget, RuleError> {
        let labels = |given: &Option<LocatedValue<Labels>>| value(given).unwrap_or_default();
        let budget = Budget {
            name: self.name.value.clone(),
            operation: self.needed(&self.operation, "operation")?,
            selector: Selector { series: labels(&self.labels), nodes: labels(&self.node_labels) },
            quantile: self.needed(&self.quantile, "quantile")?,
            limit_ns: self.needed(&self.limit, "limit")?,
            window: value(&self.window).unwrap_or(Window::OneMinute),
            min_samples: value(&self.min_samples).unwrap_or(3),
            confidence: value(&self.confidence).unwrap_or(0.95),
            fire_after: value(&self.fire_after).unwrap_or(EVALUATIONS),
            clear_after: value(&self.clear_after).unwrap_or(EVALUATIONS),
            objective: value(&self.objective).flatten(),
            scopes: value(&self.scopes).unwrap_or(Scopes::ALL),
            is_built_in: self.name.position.is_shipped(),
            about: self.about.build(),
        };
        self.check_objective(&budget)?;
        Ok(budget)
    }
}

impl BudgetDraft {
    fn named(name: LocatedValue<RuleName>) -> Self {
        Self {
            name,
            operation: None,
            labels: None,
            node_labels: None,
            quantile: None,
            limit: None,
            window: None,
            min_samples: None,
            confidence: None,
            fire_after: None,
            clear_after: None,
            objective: None,
            scopes: None,
            about: AnnotationsDraft::default(),
        }
    }

    fn check_objective(&self, budget: &Budget) -> Result<(), RuleError> {
        let Some(objective) = budget.objective else { return Ok(()) };
        let quantile = budget.quantile;
        if objective > quantile {
            let problem = format!(
                "objective {objective:?} needs more than quantile {quantile:?}, which lets \
                 more samples be over the limit; write `objective = {quantile:?}` or less, \
                 `objective = false` for no error budget, or raise the quantile"
            );
            return Err(self.against_objective("quantile", &self.quantile, problem));
        }
        if !budget.scopes.fleet {
            let problem = "an error budget is the fleet's, which scopes leave out; write \
                           `scopes = [\"fleet\", \"nodes\"]`, or `objective = false` for none";
            return Err(self.against_objective("scopes", &self.scopes, problem.to_owned()));
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
        let own = self.objective.as_ref().map(|given| &given.position);
        let (key, position) = match (own.filter(|position| !position.is_shipped()), other) {
            (None, Some(given)) => (key, &given.position),
            (position, _) => ("objective", position.unwrap_or(&self.name.position)),
        };
        position.fault(titled(Self::KIND, self.name.value.as_str()), Some(key), problem)
    }
}

/// A threshold.
#[derive(Clone, Debug)]
pub(super) struct ThresholdDraft {
    name: LocatedValue<RuleName>,
    metric: Option<LocatedValue<Metric>>,
    labels: Option<LocatedValue<Labels>>,
    compared: Option<LocatedValue<(Comparison, f64)>>,
    baseline: Option<LocatedValue<String>>,
    window: Option<LocatedValue<Window>>,
    fire_after: Option<LocatedValue<u32>>,
    clear_after: Option<LocatedValue<u32>>,
    about: AnnotationsDraft,
}

impl Draft for ThresholdDraft {
    type Rule = Threshold;
    const KIND: &'static str = "rule";

    fn read(table: &Table<'_>) -> Result<Self, RuleError> {
        let mut draft = Self {
            name: table.name.clone(),
            metric: None,
            labels: None,
            compared: None,
            baseline: None,
            window: None,
            fire_after: None,
            clear_after: None,
            about: AnnotationsDraft::default(),
        };
        for entry in table.entries() {
            let comparison = match entry.key {
                "greater" => Some(Comparison::Greater),
                "less" => Some(Comparison::Less),
                "equal" => Some(Comparison::Equal),
                _ => None,
            };
            if let Some(comparison) = comparison {
                if draft.compared.is_some() {
                    return Err(
                        entry.fault("a second comparison; write one of greater, less, equal")
                    );
                }
                let given = entry.read(values::threshold)?;
                draft.compared = given.map(|LocatedValue { value, position }| LocatedValue {
                    value: (comparison, value),
                    position,
                });
                continue;
            }
            match entry.key {
                "metric" => draft.metric = entry.read(values::metric)?,
                "labels" => draft.labels = entry.read(values::labels)?,
                "baseline" => draft.baseline = entry.read(values::path)?,
                "window" => draft.window = entry.read(values::regression_window)?,
                "for" => draft.fire_after = entry.read(values::evaluations)?,
                "clear_for" => draft.clear_after = entry.read(values::evaluations)?,
                _ if draft.about.read_key(&entry)? => {}
                _ => return Err(entry.unknown(RULE_KEYS)),
            }
        }
        Ok(draft)
    }

    fn name(&self) -> &LocatedValue<RuleName> {
        &self.name
    }

    fn about(&self) -> &AnnotationsDraft {
        &self.about
    }

    fn overlay(&mut self, above: Self) {
        self.name = above.name;
        overlay_key(&mut self.metric, above.metric);
        overlay_key(&mut self.labels, above.labels);
        overlay_key(&mut self.compared, above.compared);
        overlay_key(&mut self.baseline, above.baseline);
        overlay_key(&mut self.window, above.window);
        overlay_key(&mut self.fire_after, above.fire_after);
        overlay_key(&mut self.clear_after, above.clear_after);
        self.about.overlay(above.about);
    }

    fn build(&self) -> Result<Threshold, RuleError> {
        let metric = self.needed(&self.metric, "metric")?;
        let (comparison, threshold) = self.needed(&self.compared, "greater, less or equal")?;
        let fire_after = value(&self.fire_after).unwrap_or(EVALUATIONS);
        let baseline = self.baseline(&metric, comparison)?;
        Ok(Threshold {
            name: self.name.value.clone(),
            metric,
            labels: value(&self.labels).unwrap_or_default(),
            comparison,
            value: threshold,
            baseline,
            fire_after,
            clear_after: value(&self.clear_after).unwrap_or(fire_after),
            about: self.about.build(),
        })
    }
}

impl ThresholdDraft {
    /// What a regression is measured against, which no other metric is.
    fn baseline(
        &self,
        metric: &Metric,
        comparison: Comparison,
    ) -> Result<Option<Baseline>, RuleError> {
        if !matches!(metric, Metric::Regression(_)) {
            let given = [
                ("baseline", self.baseline.as_ref().map(|given| &given.position)),
                ("window", self.window.as_ref().map(|given| &given.position)),
            ];
            let given = given.into_iter().find_map(|(key, at)| Some((key, at?)));
            let Some((key, position)) = given else { return Ok(None) };
            let problem = "belongs to the metric regression:<operation> only; remove it";
            return Err(position.fault(
                titled(Self::KIND, self.name.value.as_str()),
                Some(key),
                problem,
            ));
        }
        let Some(path) = value(&self.baseline) else {
            let problem = "baseline is missing: name a file that `plimsoll compare --baseline \
                           save` wrote";
            return Err(self.fault(None, problem));
        };
        if comparison != Comparison::Greater {
            let problem = "a regression is a shift upwards; write `greater`, such as 0.05 for 5 %";
            return Err(self.fault(Some(comparison.as_str()), problem));
        }
        if value(&self.labels).is_some_and(|labels| !labels.is_empty()) {
            let problem = "a regression covers all samples of an operation; remove labels";
            return Err(self.fault(Some("labels"), problem));
        }
        let window = value(&self.window).unwrap_or(Window::HalfHour);
        Ok(Some(Baseline { path, window }))
    }
}
