//! A mesh under load and the drill that it is for. It is always drained, its samples are accounted
//! for and it is ended, whatever the outcome; dropped early, it is killed.

use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_mesh::proxy::NetworkConditions;
use plimsoll_mesh::stack::{Stack, StackOptions};
use plimsoll_schemas::alert::{AlertKey, AlertState, Scope};
use plimsoll_schemas::figure::counted;
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::summary::{Presence, Summary};

use super::account::{self, Terms};
use super::alerts::ProvokedAlert;
use super::expectation::{Drill, Expectation, Look, Span};
use super::ledger::{self, Raw};
use super::mesh_name::MESH;
use super::notifications::Notifications;
use super::report::Report;
use super::steady::Steady;
use super::tally::{DEPTH, metric};

/// Samples of each node that show that load flows: more than a second's.
const FLOW: u64 = 150;
const FLOW_WAIT: Duration = Duration::from_secs(30);
/// How long a mesh may take to calm down after its start.
const STEADY_WAIT: Duration = Duration::from_secs(60);
/// An open breaker lasts 30 s, and beside other work on the machine a recovery takes twice as long.
const RECOVER_WAIT: Duration = Duration::from_secs(120);
/// Messages in the outbox of a node without a backlog: those of one interval, and one more.
const DEPTH_CALM_MAX: f64 = 4.0;
/// More than any scenario may leave unexplained.
const PHANTOMS: u64 = 1_000;
/// Interval of progress lines.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Samples merged of each node, in the order of the mesh's nodes.
pub type Merged = Vec<u64>;

/// See the module.
pub struct Rig {
    pub drill: Drill,
    pub stack: Stack,
    /// The notifications published on its bus.
    pub notifications: Notifications,
    /// Samples that were not sent by a job.
    pub fed: Raw,
    nodes: Vec<NodeName>,
}

impl Rig {
    /// Runs a drill: starts a mesh, waits until its load flows, disturbs it, and judges where every
    /// sample ended up. Rules about this machine are disabled (DESIGN D15).
    ///
    /// # Errors
    /// When a process does not start.
    pub async fn run(
        drill: Drill,
        options: StackOptions,
        terms: Terms,
        disturb: impl AsyncFnOnce(&mut Self) -> Result<()>,
    ) -> Result<Report> {
        let mut rig = Self::start(drill, options.without_machine_rules()).await?;
        rig.expect_flow().await;
        let disturbed = disturb(&mut rig).await;
        Ok(rig.settle(disturbed, terms).await)
    }

    /// Starts the mesh of `options`, save its name, and listens for notifications.
    ///
    /// # Errors
    /// When a process does not start.
    pub async fn start(drill: Drill, options: StackOptions) -> Result<Self> {
        let nodes = counted(options.nodes as u64, "node");
        eprintln!("starting a broker, an aggregator and {nodes}, each with a job");
        let options = StackOptions { mesh: MeshName::new(MESH)?, ..options };
        let stack = Stack::start(options).await?;
        let names = stack.stations().iter().map(|station| NodeName::new(&station.name));
        let nodes = names.collect::<Result<_, _>>()?;
        let (notifications, fed) = (Notifications::default(), Raw::new());
        let mut rig = Self { drill, stack, notifications, fed, nodes };
        rig.listen_again().await?;
        Ok(rig)
    }

    /// Listens for notifications on a new connection.
    ///
    /// # Errors
    /// When there is no connection in time.
    pub async fn listen_again(&mut self) -> Result<()> {
        let (url, name) = (self.stack.broker().url(), MeshName::new(MESH)?);
        self.notifications.listen(&url, &name, self.drill.watch()).await
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

    async fn expect_flow(&mut self) {
        let expectation = Expectation::new(
            "under load",
            format!("at least {FLOW} samples of every node merged within {}", words(FLOW_WAIT)),
        );
        let span = Span { since: self.drill.elapsed(), within: FLOW_WAIT };
        let base = vec![0; self.nodes.len()];
        let look = async || look(&self.stack, |summary| flows(&self.nodes, summary, &base)).await;
        self.drill.expect(expectation, span, look).await;
    }

    /// Waits until the mesh is calm.
    pub async fn expect_steady(&mut self, operation: &'static str, samples_min: u64) {
        let steady = Steady { operation, samples_min, scopes: self.scopes() };
        let expectation = Expectation::new("steady state", steady.expected());
        let span = Span { since: self.drill.elapsed(), within: STEADY_WAIT };
        let look = async || look(&self.stack, |summary| steady.look(summary)).await;
        self.drill.expect(expectation, span, look).await;
    }

    /// Samples merged of each node by now.
    ///
    /// # Errors
    /// When there is no summary.
    pub async fn merged(&self) -> Result<Merged> {
        Ok(merged(&self.nodes, &self.stack.api().summary().await?))
    }

    /// Lets a fault last for `span`.
    pub async fn pass(&self, what: &str, span: Duration) {
        let since = self.drill.elapsed();
        loop {
            let passed = self.drill.elapsed().saturating_sub(since);
            let left = span.saturating_sub(passed);
            if left.is_zero() {
                return;
            }
            eprintln!("{what}: {} of {}", words(passed), words(span));
            tokio::time::sleep(left.min(PROGRESS_EVERY)).await;
        }
    }

    /// Waits until every node is ready, has almost no queued messages, and has had more samples
    /// merged than in `base`.
    pub async fn expect_recovery(&mut self, base: &Merged, since: Duration) {
        let expectation = Expectation::new(
            "recovers",
            format!(
                "every node ready, at most {DEPTH_CALM_MAX} messages held, none missing between, \
                 {FLOW} more samples merged, within {}",
                words(RECOVER_WAIT)
            ),
        );

        let (stack, nodes) = (&self.stack, &self.nodes);

        let look = async || match calm(stack, nodes).await? {
            calm if calm.met => look(stack, |summary| flows(nodes, summary, base)).await,
            restless => Ok(restless),
        };

        self.drill.expect(expectation, Span { since, within: RECOVER_WAIT }, look).await;
    }

    /// Waits until each of these alerts fires.
    pub async fn expect_fired(&mut self, alerts: &mut [ProvokedAlert], span: Span) {
        for alert in alerts {
            alert.has_fired = self.expect_notification(alert, AlertState::Firing, span).await;
        }
    }

    /// Waits until each of these alerts is over that fired.
    pub async fn expect_cleared(&mut self, alerts: &[ProvokedAlert], span: Span) {
        let state = AlertState::Resolved;
        for alert in alerts {
            if alert.has_fired {
                self.expect_notification(alert, state, span).await;
            } else {
                self.drill.skip(alert.notification(state, span.within), "it never fired");
            }
        }
    }

    async fn expect_notification(
        &mut self,
        alert: &ProvokedAlert,
        state: AlertState,
        span: Span,
    ) -> bool {
        let look = async || -> Result<Look> {
            let arrival = self.notifications.find(span.since, &alert.key, state);
            let none = || Look::new(false, "no such notification");
            Ok(arrival.map_or_else(none, |arrival| alert.judge(&arrival)))
        };
        self.drill.expect(alert.notification(state, span.within), span, look).await
    }

    /// Judges that nothing fired beside the provoked alerts, and those once each.
    pub fn judge_alerts(&mut self, since: Duration, provoked: &[ProvokedAlert]) {
        let expectation = Expectation::new(
            "no other alert",
            format!("none fires beside the {} expected ones, and none twice", provoked.len()),
        );
        let expected: Vec<AlertKey> = provoked.iter().map(|alert| alert.key.clone()).collect();
        let unexpected = self.notifications.unexpected(since, &expected);
        let seen = if unexpected.is_empty() { "none".to_owned() } else { unexpected.join("; ") };
        self.drill.judge(expectation, since, Look::new(unexpected.is_empty(), seen));
    }

    /// Drains the mesh and judges where every sample ended up. If nothing may be lost, every figure
    /// must equal that of the raw samples.
    pub async fn settle(mut self, disturbed: Result<()>, terms: Terms) -> Report {
        if self.drill.take_planted_miss() {
            self.plant();
        }
        // After every outcome: a mesh cannot be drained into a broker that is stopped, or through a
        // link that is.
        self.stack.broker().resume();
        if let Some(link) = self.stack.proxy() {
            link.set(NetworkConditions::default());
        }

        let summary = match self.drain(disturbed).await {
            Ok(summary) => Ok(summary),
            // A process that exited with an error may still have a complete ledger.
            Err(error) => self.stack.api().summary().await.context(error),
        };

        let drained = summary.and_then(|summary| Ok((self.raw()?, summary)));

        let since = self.drill.elapsed();
        let (mut comparisons, mut accounts) = (Vec::new(), Vec::new());

        let looks = match drained {
            Ok((raw, summary)) => {
                comparisons = ledger::compare(&raw, &summary);
                accounts = account::accounts(&self.drill.name, &raw, &summary);
                let judged = account::judge(&accounts, terms);
                [judged, ledger::exact(&comparisons), ledger::within_resolution(&comparisons)]
            }
            Err(error) => {
                let seen = format!("{error:#}");
                [(); 3].map(|()| Look::new(false, seen.lines().next().unwrap_or_default()))
            }
        };

        let judged = if terms.reasons.is_empty() { 3 } else { 1 };
        for (expectation, look) in expectations(terms).into_iter().zip(looks).take(judged) {
            self.drill.judge(expectation, since, look);
        }
        Report { accounts, comparisons, ..self.end().await }
    }

    /// Samples that nothing sent: the account of the first node must miss them.
    fn plant(&mut self) {
        let phantoms = (0..PHANTOMS).map(|ns| ("phantom".to_owned(), ns));
        if let Some(node) = self.nodes.first() {
            self.fed.entry(node.clone()).or_default().extend(phantoms);
        }
    }

    /// Ends jobs and nodes; returns the aggregator's final summary. A disturbance that could not be
    /// carried through is a miss.
    ///
    /// # Errors
    /// When there is no final summary.
    pub async fn drain(&mut self, disturbed: Result<()>) -> Result<Summary> {
        if disturbed.is_err() {
            let expectation = Expectation::new("carried through", "every part of the mesh answers");
            self.drill.judge(expectation, Duration::ZERO, Look::of(&disturbed, ""));
        }

        eprintln!("draining");
        let since = self.drill.elapsed();
        let drained = self.stack.drain().await;

        let expectation = Expectation::new(
            "drained",
            "jobs and nodes end with exit code 0, the aggregator receives every final message",
        );

        let done = "every process ended with code 0, every final message received";
        self.drill.judge(expectation, since, Look::of(&drained, done));
        drained
    }

    /// What the jobs have sent, and what was sent beside them; complete once the jobs have ended.
    fn raw(&mut self) -> Result<Raw> {
        let mut raw = std::mem::take(&mut self.fed);
        for (node, station) in self.nodes.iter().zip(self.stack.stations()) {
            let samples = station.raw_samples().context("a job's raw file cannot be read")?;
            raw.entry(node.clone()).or_default().extend(samples);
        }
        Ok(raw)
    }

    /// Ends the aggregator and the broker, and reports.
    pub async fn end(self) -> Report {
        let Self { mut drill, stack, notifications, .. } = self;
        let (since, received) = (drill.elapsed(), notifications.received());
        drill.judge_end("aggregator and broker end on a signal", since, &stack.end().await);
        Report { notifications: received, ..Report::new(&drill) }
    }
}

/// What the aggregator's summary shows.
///
/// # Errors
/// When there is none.
pub async fn look(stack: &Stack, look: impl FnOnce(&Summary) -> Look) -> Result<Look> {
    Ok(look(&stack.api().summary().await.context("no summary")?))
}

fn expectations(terms: Terms) -> [Expectation; 3] {
    [
        Expectation::new(
            "every sample accounted for",
            format!("each merged once, {}; none held or duplicated", terms.words()),
        ),
        Expectation::new(
            "merged equals raw",
            "count, mean, minimum and maximum of every operation equal the raw samples",
        ),
        Expectation::new(
            "quantiles within resolution",
            "every p50 and p99 in the bucket of the raw sample of that rank",
        ),
    ]
}

fn merged(nodes: &[NodeName], summary: &Summary) -> Merged {
    let row = |node: &str| summary.nodes.iter().find(|row| row.node == node);
    nodes.iter().map(|node| row(node.as_str()).map_or(0, |row| row.ledger.merged)).collect()
}

/// Whether every node is up and has had more merged than in `base`.
fn flows(nodes: &[NodeName], summary: &Summary, base: &Merged) -> Look {
    let now = merged(nodes, summary);
    let grown = now.iter().zip(base).all(|(now, base)| *now >= base + FLOW);
    let up = summary.nodes.iter().filter(|row| row.presence == Presence::Up).count();
    Look::new(grown && up >= now.len(), format!("{up} nodes up, {now:?} after {base:?}"))
}

async fn calm(stack: &Stack, nodes: &[NodeName]) -> Result<Look> {
    for station in stack.stations() {
        let depth = metric(&station.api, DEPTH).await?;
        if !station.api.is_ready().await || depth > DEPTH_CALM_MAX {
            return Ok(Look::new(false, format!("{} holds {depth} messages", station.name)));
        }
    }

    if !stack.api().is_ready().await {
        return Ok(Look::new(false, "the aggregator is not ready"));
    }
    let mut holes = 0.0;

    for node in nodes {
        let series = format!("plimsoll_node_sequence_gaps{{node=\"{node}\"}}");
        holes += metric(stack.api(), &series).await?;
    }

    Ok(Look::new(holes == 0.0, format!("{holes} messages missing")))
}

pub fn words(span: Duration) -> String {
    format!("{} s", span.as_secs())
}
