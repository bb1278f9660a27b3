//! The mesh of a drill, with a subscription to its notifications. It is always drained, compared
//! with the jobs' raw samples and ended, whatever the outcome; dropped early, it is killed.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_mesh::stack::{Stack, StackOptions, Workload, bin_dir};
use plimsoll_schemas::alert::{AlertKey, AlertState, Scope};
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::figure::counted;
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::rule::file::shipped;
use plimsoll_schemas::summary::Summary;

use super::expectation::{Drill, Expectation, Look, Span};
use super::ledger::{self, Comparison, Raw};
use super::mesh_name::MESH;
use super::notifications::{Arrival, Notifications};
use super::report::Report;
use super::steady::Steady;

/// How long a mesh may take to calm down after its start.
const STEADY_WAIT: Duration = Duration::from_secs(60);

/// Three nodes, each with the example workload, below `dir`.
///
/// # Errors
/// When the mesh's programs are not built.
pub fn options(dir: &Path) -> Result<StackOptions> {
    let workload = Workload::at(bin_dir()?.join("plimsoll-workload"));
    Ok(StackOptions::new(dir).with_workload(workload))
}

/// Tables of settings that make the limit of each built-in budget save `disturbed` forty times as
/// wide: on a busy machine an undisturbed mesh breaches the narrow ones, and rightly. DESIGN D15.
pub fn wide_limits(disturbed: &str) -> String {
    const TIMES: u64 = 40;
    let undisturbed =
        shipped().budgets.into_iter().filter(|budget| budget.name.as_str() != disturbed);
    let table = |budget: Budget| {
        let limit = Duration::from_nanos(budget.limit_ns * TIMES);
        format!("[[budget]]\nname = \"{}\"\nlimit = \"{}ms\"\n", budget.name, limit.as_millis())
    };
    undisturbed.map(table).collect()
}

/// Tables of settings that disable each built-in budget save `judged`: whether they are met depends
/// on the other load of the machine.
pub fn no_budgets_but(judged: &str) -> String {
    let others = shipped().budgets.into_iter().filter(|budget| budget.name.as_str() != judged);
    let table =
        |budget: Budget| format!("[[budget]]\nname = \"{}\"\nenabled = false\n", budget.name);
    others.map(table).collect()
}

pub struct Mesh {
    pub stack: Stack,
    /// The notifications published on its bus.
    pub notifications: Notifications,
    name: MeshName,
    nodes: Vec<NodeName>,
}

impl Mesh {
    /// Starts three nodes with their jobs, and listens for notifications. Rules about this machine
    /// are disabled (DESIGN D15).
    ///
    /// # Errors
    /// When a process does not start.
    pub async fn start(drill: &Drill, dir: &Path, aggregator_settings: &str) -> Result<Self> {
        let aggregator_settings = aggregator_settings.to_owned();
        let options = StackOptions { aggregator_settings, ..options(dir)? };
        Self::start_with(drill, options.without_machine_rules()).await
    }

    /// The same with other options, save the mesh's name.
    ///
    /// # Errors
    /// When a process does not start.
    pub async fn start_with(drill: &Drill, options: StackOptions) -> Result<Self> {
        let nodes = counted(options.nodes as u64, "node");
        eprintln!("starting a broker, an aggregator and {nodes}, each with a job");
        let name = MeshName::new(MESH)?;
        let options = StackOptions { mesh: name.clone(), ..options };
        let mut stack = Stack::start(options).await?;
        let mut notifications = Notifications::default();
        notifications.listen(&stack.broker().url(), &name, drill.watch()).await?;
        let names = stack.stations().iter().map(|station| NodeName::new(&station.name));
        let nodes = names.collect::<Result<_, _>>()?;
        Ok(Self { stack, notifications, name, nodes })
    }

    /// Its nodes, in the order of its stations.
    pub fn nodes(&self) -> &[NodeName] {
        &self.nodes
    }

    /// The fleet and every node.
    pub fn scopes(&self) -> Vec<Scope> {
        let nodes = self.nodes.iter().cloned().map(Scope::Node);
        std::iter::once(Scope::Fleet).chain(nodes).collect()
    }

    /// Listens for notifications on a new connection.
    ///
    /// # Errors
    /// When there is no connection in time.
    pub async fn listen_again(&mut self, drill: &Drill) -> Result<()> {
        let url = self.stack.broker().url();
        self.notifications.listen(&url, &self.name, drill.watch()).await
    }

    /// Waits until the mesh is calm.
    pub async fn expect_steady(
        &self,
        drill: &mut Drill,
        operation: &'static str,
        samples_min: u64,
    ) {
        let steady = Steady { operation, samples_min, scopes: self.scopes() };
        let expectation = Expectation::new("steady state", steady.expected());
        let span = Span { since: drill.elapsed(), within: STEADY_WAIT };
        drill
            .expect(expectation, span, async || self.look(|summary| steady.look(summary)).await)
            .await;
    }

    /// What the aggregator's summary shows.
    pub async fn look(&self, look: impl Fn(&Summary) -> Look) -> Look {
        match self.stack.api().summary().await {
            Ok(summary) => look(&summary),
            Err(error) => Look::from(error.context("no summary")),
        }
    }

    /// Waits for a notification of this state on the bus whose evidence supports it.
    pub async fn expect_notification(
        &mut self,
        drill: &mut Drill,
        key: &AlertKey,
        state: AlertState,
        samples_min: u64,
        span: Span,
    ) -> bool {
        let notifications = &mut self.notifications;
        let look = async || match notifications.find(span.since, key, state) {
            Some(arrival) => judge_arrival(arrival, samples_min),
            None => Look::new(false, "no such notification"),
        };
        drill.expect(notification(key, state, samples_min, span.within), span, look).await
    }

    /// Waits for the notification that an alert is over; what never fired cannot clear.
    pub async fn expect_clear(
        &mut self,
        drill: &mut Drill,
        (key, fired): (&AlertKey, bool),
        samples_min: u64,
        span: Span,
    ) {
        let state = AlertState::Resolved;
        if fired {
            self.expect_notification(drill, key, state, samples_min, span).await;
        } else {
            drill.skip(notification(key, state, samples_min, span.within), "it never fired");
        }
    }

    /// Judges that nothing fired beside the expected alerts, and those once each.
    pub fn judge_alerts(&mut self, drill: &mut Drill, since: Duration, expected: &[AlertKey]) {
        let expectation = Expectation::new(
            "no other alert",
            format!("none fires beside the {} expected ones, and none twice", expected.len()),
        );
        let unexpected = self.notifications.unexpected(since, expected);
        let seen = if unexpected.is_empty() { "none".to_owned() } else { unexpected.join("; ") };
        drill.judge(expectation, since, Look::new(unexpected.is_empty(), seen));
    }

    /// Drains the mesh, compares what was merged with what was sent, and ends everything. A
    /// disturbance that could not be carried through is a miss too.
    pub async fn settle(mut self, mut drill: Drill, disturbed: Result<()>) -> Report {
        let comparisons = match self.drain(&mut drill, disturbed).await {
            Ok((raw, summary)) => judge_ledger(&mut drill, &raw, &summary),
            Err(error) => {
                let reason = format!("{error:#}");
                let reason = reason.lines().next().unwrap_or_default();
                for expectation in ledger_expectations() {
                    drill.skip(expectation, reason);
                }
                Vec::new()
            }
        };
        let received = self.end(&mut drill).await;
        Report::new(&drill, received, comparisons)
    }

    /// Drains the mesh: what the jobs sent, and the aggregator's final summary. A disturbance that
    /// could not be carried through is a miss.
    ///
    /// # Errors
    /// When there is no final summary, or a job's file cannot be read.
    pub async fn drain(
        &mut self,
        drill: &mut Drill,
        disturbed: Result<()>,
    ) -> Result<(Raw, Summary)> {
        let summary = self.drain_processes(drill, disturbed).await?;
        Ok((self.raw()?, summary))
    }

    /// The same without the jobs' files, for a mesh without jobs.
    ///
    /// # Errors
    /// When there is no final summary.
    pub async fn drain_processes(
        &mut self,
        drill: &mut Drill,
        disturbed: Result<()>,
    ) -> Result<Summary> {
        if let Err(error) = disturbed {
            let expectation = Expectation::new("carried through", "every part of the mesh answers");
            drill.judge(expectation, Duration::ZERO, Look::from(error));
        }
        eprintln!("draining");
        let since = drill.elapsed();
        let drained = self.stack.drain().await;
        let look = match &drained {
            Ok(_) => {
                Look::new(true, "every process ended with code 0, every final message received")
            }
            Err(error) => Look::new(false, format!("{error:#}")),
        };
        let expectation = Expectation::new(
            "drained",
            "jobs and nodes end with exit code 0, the aggregator receives every final message",
        );
        drill.judge(expectation, since, look);
        drained
    }

    /// Ends the aggregator and the broker; returns the notifications received.
    pub async fn end(mut self, drill: &mut Drill) -> Vec<Arrival> {
        let received = self.notifications.received().to_vec();
        let (since, ended) = (drill.elapsed(), self.stack.end().await);
        let seen = ended.as_ref().map_or_else(|error| format!("{error:#}"), |()| "ended".into());
        let expectation = Expectation::new("ended", "aggregator and broker end on a signal");
        drill.judge(expectation, since, Look::new(ended.is_ok(), seen));
        received
    }

    /// What the jobs have sent; complete once they have ended.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn raw(&self) -> Result<Raw> {
        let stations = self.nodes.iter().zip(self.stack.stations());
        stations
            .map(|(node, station)| Ok((node.clone(), station.raw_samples()?)))
            .collect::<Result<_>>()
            .context("a job's raw file cannot be read")
    }
}

fn notification(
    key: &AlertKey,
    state: AlertState,
    samples_min: u64,
    within: Duration,
) -> Expectation {
    let bound = match state {
        AlertState::Firing => "lower bound over the limit",
        _ => "lower bound not over the limit",
    };
    let within = within.as_secs();
    Expectation::new(
        format!("{} {} ({})", key.rule, state.as_str(), key.scope),
        format!(
            "a notification on the bus within {within} s, {bound}, from at least {samples_min} samples"
        ),
    )
}

/// Judges a notification by its own evidence.
fn judge_arrival(Arrival { at, notification }: &Arrival, samples_min: u64) -> Look {
    let Some(evidence) = notification.evidence.latency() else {
        return Look { at: Some(*at), ..Look::new(false, "no evidence of a latency") };
    };
    let over = evidence.lower_seconds > evidence.limit_seconds;
    let supported = over == (notification.state == AlertState::Firing);
    let met = supported && evidence.samples >= samples_min;
    let seen = format!(
        "{}, value {:.1} ms, lower bound {:.1} ms, limit {:.1} ms, {} samples in {}",
        notification.state.as_str(),
        evidence.value_seconds * 1e3,
        evidence.lower_seconds * 1e3,
        evidence.limit_seconds * 1e3,
        evidence.samples,
        evidence.window,
    );
    Look { at: Some(*at), ..Look::new(met, seen) }
}

fn ledger_expectations() -> [Expectation; 3] {
    [
        Expectation::new(
            "ledger exact",
            "every sample recorded is merged; none held, unaccounted or lost",
        ),
        Expectation::new(
            "merged equals raw",
            "count, mean, minimum and maximum of every operation equal the jobs' own files",
        ),
        Expectation::new(
            "quantiles within resolution",
            "every p50 and p99 in the bucket of the raw sample of that rank",
        ),
    ]
}

fn judge_ledger(drill: &mut Drill, raw: &Raw, summary: &Summary) -> Vec<Comparison> {
    let comparisons = ledger::compare(raw, summary);
    let looks = [
        ledger::settled(raw, summary),
        ledger::exact(&comparisons),
        ledger::within_resolution(&comparisons),
    ];
    let since = drill.elapsed();
    for (expectation, look) in ledger_expectations().into_iter().zip(looks) {
        drill.judge(expectation, since, look);
    }
    comparisons
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::alert::{Evidence, LatencyEvidence, Notification};
    use plimsoll_schemas::budget::Window;

    use super::*;
    use crate::live::notifications::built_in_alert;

    fn arrival(state: AlertState, lower_seconds: f64, samples: u64) -> Arrival {
        let evidence = Evidence::Latency(LatencyEvidence {
            quantile: 0.99,
            value_seconds: 0.03,
            lower_seconds,
            limit_seconds: 0.018,
            window: Window::TenSeconds,
            samples,
            upper_seconds: None,
            over: 0,
            uncertain: 0,
            stretch: None,
            within_seconds: None,
            overdispersion: 1.0,
            learning: false,
        });
        let notification = Notification::new(
            MeshName::new("drill").unwrap(),
            built_in_alert("epoch_hook", Scope::Fleet),
            (AlertState::Pending, state),
            1.0,
            evidence,
        );
        Arrival { at: Duration::from_secs(7), notification }
    }

    #[test]
    fn a_notification_counts_only_if_its_own_evidence_supports_it() {
        use AlertState::{Firing, Resolved};
        for (state, lower_seconds, samples, met) in [
            (Firing, 0.02, 100, true),
            (Firing, 0.02, 99, false),
            (Firing, 0.018, 100, false),
            (Resolved, 0.018, 100, true),
            (Resolved, 0.018, 0, false),
            (Resolved, 0.02, 100, false),
        ] {
            let look = judge_arrival(&arrival(state, lower_seconds, samples), 100);
            assert_eq!(look.met, met, "{state:?} {lower_seconds} {samples}");
            assert_eq!(look.at, Some(Duration::from_secs(7)));
        }
    }

    #[test]
    fn what_is_skipped_has_the_text_of_what_would_have_been_awaited() {
        let key = built_in_alert("epoch_hook", Scope::Fleet);
        let wait = Duration::from_secs(45);
        let Expectation { name, expected } = notification(&key, AlertState::Resolved, 100, wait);
        assert_eq!(name, "epoch_hook resolved (fleet)");
        assert_eq!(
            expected,
            "a notification on the bus within 45 s, lower bound not over the limit, from at least 100 \
             samples"
        );
    }
}
