//! What a rule of bottlenecks measures: a value with what it was measured from, or why there is
//! none.

use std::collections::BTreeMap;

use plimsoll_schemas::figure::{counted, number, percent, span};
use plimsoll_schemas::hardware::Sensor;
use plimsoll_schemas::ids::{Labels, NodeName, Operation};
use plimsoll_schemas::rule::{BottleneckRule, Bottlenecks, CounterCondition, Measure};
use plimsoll_schemas::straggler::step_of;
use plimsoll_schemas::summary::{CycleShares, OperationShare};
use plimsoll_schemas::unit::Unit;

use super::shares::Shares;

/// What rules measure.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    pub shares: &'a Shares,
    /// The share of the nodes' time that was received; `None` if it is not known.
    pub completeness: Option<f64>,
    /// Length of the range.
    pub wall_seconds: f64,
    /// `None` where they are not read: of one node.
    pub counters: Option<&'a Counters>,
    pub machines: &'a MachineReadings,
    pub profiles: &'a ProfileShares,
}

/// What the profiles of the range have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProfileShares {
    /// Profiles of stacks that were read.
    pub profiles: u64,
    /// Samples of threads that ran, or waited for the interpreter's lock.
    pub samples: u64,
    /// Time of threads that ran.
    pub running_ns: u64,
    /// Time of threads that waited for the interpreter's lock.
    pub waiting_for_gil_ns: u64,
    /// The functions that ran, the longest first.
    pub functions: Vec<FunctionTime>,
}

/// Time for which one function ran itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionTime {
    /// With its file.
    pub function: String,
    pub ns: u64,
}

/// What each counter of jobs grew by.
pub type Counters = BTreeMap<Operation, CounterGrowth>;

/// Growth of one counter over the range.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CounterGrowth {
    pub amount: f64,
    /// Intervals of nodes in which it grew.
    pub intervals: u64,
}

/// The readings of the nodes over the range.
#[derive(Clone, Debug, Default)]
pub struct MachineReadings {
    pub readings: Vec<MachineReading>,
    /// Nodes without readings for all of the range, and why.
    pub missing: BTreeMap<NodeName, String>,
    /// Why no node has any.
    pub none: Option<String>,
}

/// One reading of one node over the range.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineReading {
    pub node: NodeName,
    pub sensor: String,
    /// Which one, if a node has several.
    pub labels: Labels,
    pub mean: f64,
    pub max: f64,
    pub count: u64,
}

/// What is measured: a cycle, a node, or with neither the time of all nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) cycle: Option<String>,
    pub(super) node: Option<NodeName>,
}

#[derive(Debug)]
pub(super) struct Measurement {
    pub(super) of: Measured,
    pub(super) value: f64,
    /// The value and what it was measured from.
    pub(super) words: String,
}

#[derive(Debug)]
pub(super) struct NotMeasured {
    pub(super) of: Measured,
    pub(super) why: String,
}

type Outcome = Result<Measurement, NotMeasured>;

/// What one rule measures of each cycle or node.
pub(super) fn measure(
    rules: &Bottlenecks,
    rule: &BottleneckRule,
    inputs: Inputs<'_>,
) -> Vec<Outcome> {
    let measuring = Measuring { rules, inputs };
    if let Some(condition) = &rule.only_if
        && let Err(unmet) = measuring.holds(condition)
    {
        return unmet.map(Err).into_iter().collect();
    }
    if rule.while_working && measuring.samples_of_jobs() < rules.samples_min {
        let samples = counted(measuring.samples_of_jobs(), "sample");
        let why = format!("{samples} of jobs in the range, fewer than {}", rules.samples_min);
        return vec![Err(NotMeasured { of: Measured::default(), why })];
    }

    match &rule.measure {
        Measure::Share(class) => measuring.share(class),
        Measure::CycleSpread => measuring.spread(),
        Measure::Operation(operation) => vec![measuring.mean(operation)],
        Measure::Time(operation) => vec![measuring.time(operation)],
        Measure::Functions => measuring.functions(),
        Measure::Gil => vec![measuring.gil()],
        Measure::Rate(name) => measuring.rates(name),
        Measure::Mean(sensor) => measuring.readings(sensor, |of| Ok((of.mean, "mean"))),
        Measure::MaxRatio { part, whole } => {
            measuring.readings(part, |of| Ok((measuring.ratio(of, whole)?, "highest")))
        }
    }
}

struct Measuring<'a> {
    rules: &'a Bottlenecks,
    inputs: Inputs<'a>,
}

impl Measuring<'_> {
    fn samples_of_jobs(&self) -> u64 {
        let operations = &self.inputs.shares.operations;
        operations.iter().fold(0, |all, of| all.saturating_add(of.count))
    }

    /// Why too little of the nodes' time or too few samples are known.
    fn lacks(&self, count: u64, noun: &str) -> Option<String> {
        let Bottlenecks { samples_min, coverage_min, .. } = self.rules;
        if count < *samples_min {
            return Some(format!("{}, fewer than {samples_min}", counted(count, noun)));
        }
        match self.inputs.completeness {
            Some(share) if share >= *coverage_min => None,
            Some(share) => Some(format!(
                "{} of the nodes' time was received, less than {}",
                percent(share),
                percent(*coverage_min)
            )),
            None => Some("it is not known how much of the nodes' time was received".to_owned()),
        }
    }

    /// Whether a condition holds; why nothing is measured otherwise, if there is a reason to state.
    fn holds(&self, condition: &CounterCondition) -> Result<(), Option<NotMeasured>> {
        let Some(counters) = self.inputs.counters else { return Err(Some(not_read())) };
        let growth = |name: &Operation| counters.get(name).copied();
        let all: Vec<CounterGrowth> = condition.share.iter().filter_map(growth).collect();
        let whole: f64 = all.iter().map(|of| of.amount).sum();
        let part = condition.share.first().and_then(growth).unwrap_or_default();
        if whole > 0.0 {
            return if part.amount / whole < condition.less { Ok(()) } else { Err(None) };
        }
        let names: Vec<&str> = condition.share.iter().map(Operation::as_str).collect();
        let why = format!("no counter of {} grew", names.join(", "));
        Err(Some(NotMeasured { of: Measured::default(), why }))
    }

    /// The mean of an operation, in nanoseconds or finer.
    fn mean(&self, operation: &Operation) -> Outcome {
        let name = operation.as_str();
        let of = || Measured::default();
        let in_picoseconds = Unit::Picoseconds.named(name);
        let is_it = |of: &&OperationShare| of.operation == name || of.operation == in_picoseconds;
        let err = |why: String| Err(NotMeasured { of: of(), why });
        let Some(found) = self.inputs.shares.operations.iter().find(is_it) else {
            return err(format!("no samples of {name}"));
        };
        if let Some(why) = self.lacks(found.count, "sample") {
            return err(why);
        }
        let value = found.seconds / found.count as f64;
        let words = format!("mean {} in {}", span(value), counted(found.count, "sample"));
        Ok(Measurement { of: of(), value, words })
    }

    /// The time of an operation by that of the nodes.
    fn time(&self, operation: &Operation) -> Outcome {
        let err = |why: String| Err(NotMeasured { of: Measured::default(), why });
        let name = operation.as_str();
        let operations = &self.inputs.shares.operations;
        let Some(found) = operations.iter().find(|of| of.operation == name) else {
            return err(format!("no samples of {name}"));
        };
        if let Some(why) = self.lacks(found.count, "sample") {
            return err(why);
        }
        let Some(value) = found.share else {
            return err("the nodes of the group are not known".to_owned());
        };
        let (share, took) = (percent(value), span(found.seconds));
        let samples = counted(found.count, "sample");
        let words = format!("{share} of the time of the nodes, {took} in {samples}");
        Ok(Measurement { of: Measured::default(), value, words })
    }

    /// The share of each function in the samples of threads that ran.
    fn functions(&self) -> Vec<Outcome> {
        let ProfileShares { running_ns, functions, .. } = self.inputs.profiles;
        if let Some(why) = self.lacks_profiles() {
            return vec![Err(NotMeasured { of: Measured::default(), why })];
        }
        let measured = functions.iter().map(|FunctionTime { function, ns }| {
            let value = *ns as f64 / *running_ns as f64;
            let of = Measured { cycle: Some(function.clone()), node: None };
            let words = format!("{} of {}", percent(value), self.profiled());
            Ok(Measurement { of, value, words })
        });
        measured.collect()
    }

    fn gil(&self) -> Outcome {
        let ProfileShares { running_ns, waiting_for_gil_ns, .. } = self.inputs.profiles;
        let of = Measured::default();
        if let Some(why) = self.lacks_profiles() {
            return Err(NotMeasured { of, why });
        }
        let value = *waiting_for_gil_ns as f64 / (running_ns + waiting_for_gil_ns) as f64;
        let words = format!("{} of {}", percent(value), self.profiled());
        Ok(Measurement { of, value, words })
    }

    fn profiled(&self) -> String {
        let ProfileShares { profiles, samples, .. } = self.inputs.profiles;
        format!("{} in {}", counted(*samples, "sample"), counted(*profiles, "profile"))
    }

    /// Why the profiles of the range are too few.
    fn lacks_profiles(&self) -> Option<String> {
        let ProfileShares { profiles, samples, .. } = self.inputs.profiles;
        if *profiles == 0 {
            return Some("no profile was taken; plimsoll profile cpu takes one".to_owned());
        }
        let min = self.rules.samples_min;
        (*samples < min).then(|| format!("{}, fewer than {min}", self.profiled()))
    }

    /// How fast each counter of a name grows.
    fn rates(&self, name: &str) -> Vec<Outcome> {
        let Some(counters) = self.inputs.counters else { return vec![Err(not_read())] };
        let is_named = |of: &Operation| of.as_str().rsplit('.').next() == Some(name);
        let found = counters.iter().filter(|(of, _)| is_named(of));
        let mut rates: Vec<Outcome> = found.map(|(of, growth)| self.rate(of, *growth)).collect();
        if rates.is_empty() {
            let why = format!("no counter of {name}");
            rates.push(Err(NotMeasured { of: Measured::default(), why }));
        }
        rates
    }

    fn rate(&self, counter: &Operation, growth: CounterGrowth) -> Outcome {
        let of = || Measured { cycle: Some(counter.to_string()), node: None };
        if let Some(why) = self.lacks(growth.intervals, "interval") {
            return Err(NotMeasured { of: of(), why });
        }
        let step = step_of(counter.as_str());
        let operation =
            self.inputs.shares.operations.iter().find(|of| Some(&*of.operation) == step);
        let (seconds, time) = operation.map_or_else(
            || (self.inputs.wall_seconds, "wall time".to_owned()),
            |of| (of.seconds, of.operation.clone()),
        );
        if seconds <= 0.0 {
            return Err(NotMeasured { of: of(), why: format!("no time of {time}") });
        }

        let value = growth.amount / seconds;
        let amount = number(growth.amount);
        let words = format!("{}/s, {amount} in {} of {time}", number(value), span(seconds));
        Ok(Measurement { of: of(), value, words })
    }

    fn share(&self, class: &str) -> Vec<Outcome> {
        let Shares { cycles, .. } = self.inputs.shares;
        if cycles.is_empty() {
            return vec![self.share_of_nodes(class)];
        }

        let measured = cycles.iter().map(|cycle| {
            self.of_cycle(cycle, || {
                let found = cycle.classes.iter().find(|of| of.class == class);
                // A cycle without time of the class: its phases are all of it.
                let value = found.map_or(Some(0.0), |of| of.share)?;
                let took = span(found.map_or(0.0, |of| of.seconds));
                let (cycles, all) = (counted(cycle.count, "cycle"), span(cycle.seconds));
                Some((value, format!("{}, {took} of {all} in {cycles}", percent(value))))
            })
        });
        measured.collect()
    }

    fn share_of_nodes(&self, class: &str) -> Outcome {
        let Shares { classes, operations, .. } = self.inputs.shares;
        let err = |why: String| Err(NotMeasured { of: Measured::default(), why });
        let Some(found) = classes.iter().find(|of| of.class == class) else {
            return err(format!("no step has phases, and no operation has the class {class}"));
        };

        let of_class = operations.iter().filter(|of| of.class.as_deref() == Some(class));
        let count = of_class.fold(0, |all: u64, of| all.saturating_add(of.count));
        if let Some(why) = self.lacks(count, "sample") {
            return err(why);
        }
        let Some(value) = found.share else {
            return err("the nodes of the group are not known; name a cycle".to_owned());
        };
        let (share, took, samples) =
            (percent(value), span(found.seconds), counted(count, "sample"));
        let words = format!("{share} of the time of the nodes, {took} in {samples}");
        Ok(Measurement { of: Measured::default(), value, words })
    }

    fn spread(&self) -> Vec<Outcome> {
        let Shares { cycles, .. } = self.inputs.shares;
        if cycles.is_empty() {
            let why = "no step has phases; name a cycle".to_owned();
            return vec![Err(NotMeasured { of: Measured::default(), why })];
        }

        let measured = cycles.iter().map(|cycle| {
            self.of_cycle(cycle, || {
                let (p99, mean) = cycle.p99.zip(cycle.mean.filter(|mean| *mean > 0.0))?;
                let (value, cycles) = (p99 / mean, counted(cycle.count, "cycle"));
                let [p99, mean] = [p99, mean].map(span);
                let words = format!("p99 {p99} is {} times the mean {mean}", number(value));
                Some((value, format!("{words} of {cycles}")))
            })
        });
        measured.collect()
    }

    fn of_cycle(
        &self,
        cycle: &CycleShares,
        value: impl FnOnce() -> Option<(f64, String)>,
    ) -> Outcome {
        let of = Measured { cycle: Some(cycle.operation.clone()), node: None };
        if let Some(why) = self.lacks(cycle.count, "cycle") {
            return Err(NotMeasured { of, why });
        }
        match value() {
            Some((value, words)) => Ok(Measurement { of, value, words }),
            None => Err(NotMeasured { of, why: "their time or p99 is not known".to_owned() }),
        }
    }

    /// A value of each reading of a sensor, and of which kind it is.
    fn readings(
        &self,
        sensor: &Sensor,
        value: impl Fn(&MachineReading) -> Result<(f64, &'static str), String>,
    ) -> Vec<Outcome> {
        let MachineReadings { readings, missing, none } = self.inputs.machines;
        let err = |node: Option<&NodeName>, why: String| {
            Err(NotMeasured { of: Measured { cycle: None, node: node.cloned() }, why })
        };

        if let Some(why) = none {
            return vec![err(None, why.clone())];
        }
        let of_sensor = readings.iter().filter(|of| of.sensor == sensor.name);
        let measured = of_sensor.filter(|of| !missing.contains_key(&of.node)).map(|of| {
            if of.count < self.rules.samples_min {
                let (found, min) = (counted(of.count, "reading"), self.rules.samples_min);
                let why = format!("{found} of {}, fewer than {min}", sensor.name);
                return err(Some(&of.node), why);
            }

            match value(of) {
                Ok((value, kind)) => {
                    let words = reading_words(of, value, kind);
                    let of = Measured { cycle: None, node: Some(of.node.clone()) };
                    Ok(Measurement { of, value, words })
                }
                Err(why) => err(Some(&of.node), why),
            }
        });

        let gone = missing.iter().map(|(node, why)| err(Some(node), why.clone()));
        let mut outcomes: Vec<Outcome> = measured.chain(gone).collect();
        if outcomes.is_empty() {
            outcomes.push(err(None, format!("no node has the sensor {}", sensor.name)));
        }
        outcomes
    }

    /// The highest value by that of another sensor with the same labels.
    fn ratio(&self, part: &MachineReading, whole: &Sensor) -> Result<f64, String> {
        let is_whole = |of: &&MachineReading| {
            of.sensor == whole.name && of.node == part.node && of.labels == part.labels
        };
        let found = self.inputs.machines.readings.iter().find(is_whole);
        let found = found.filter(|of| of.max > 0.0);
        let found = found.ok_or_else(|| format!("{} has no value above 0", whole.name))?;
        Ok(part.max / found.max)
    }
}

fn not_read() -> NotMeasured {
    let why = "the counters of a single node are not read".to_owned();
    NotMeasured { of: Measured::default(), why }
}

fn reading_words(of: &MachineReading, value: f64, kind: &str) -> String {
    let labels: String = of.labels.iter().map(|(key, value)| format!(" {key}={value}")).collect();
    let readings = counted(of.count, "reading");
    format!("{kind} {}{labels} {} in {readings}", of.sensor, percent(value))
}
