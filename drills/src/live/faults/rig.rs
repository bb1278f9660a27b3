//! What every fault shares: a mesh under load, its recovery, and the accounting of samples.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_mesh::stack::StackOptions;
use plimsoll_schemas::summary::{Presence, Summary};

use super::account::{self, Terms};
use crate::live::expectation::{Drill, Expectation, Look, Span};
use crate::live::ledger::{self, Raw};
use crate::live::mesh::{self, Mesh};
use crate::live::report::Report;
use crate::live::tally::{DEPTH, metric};

/// More than twice a mesh's usual load.
const EPOCHS_PER_SECOND: f64 = 50.0;
/// Samples of each node that show that load flows: more than a second's.
const FLOW: u64 = 150;
const FLOW_WAIT: Duration = Duration::from_secs(30);
/// An open breaker lasts 30 s, and beside other work on the machine a recovery takes twice as long.
const RECOVER_WAIT: Duration = Duration::from_secs(120);
/// Messages in the outbox of a node without a backlog: those of one interval, and one more.
const DEPTH_CALM_MAX: f64 = 4.0;
/// More than any scenario may leave unexplained.
const PHANTOMS: u64 = 1_000;
/// Interval of progress lines.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Samples merged of each node, in the order of the mesh's nodes.
pub(super) type Merged = Vec<u64>;

/// A mesh and the drill that it is for.
pub(super) struct Rig {
    pub(super) drill: Drill,
    pub(super) mesh: Mesh,
    /// Samples that were not sent by a job.
    pub(super) fed: Raw,
}

/// The usual mesh of a fault drill.
pub(super) fn options(dir: &Path) -> Result<StackOptions> {
    let mut options = mesh::options(dir)?;
    if let Some(workload) = &mut options.workload {
        workload.arguments = vec![format!("--epochs-per-second={EPOCHS_PER_SECOND}").into()];
    }
    Ok(options)
}

impl Rig {
    /// Starts a mesh and waits until its load flows.
    pub(super) async fn start(mut drill: Drill, options: StackOptions) -> Result<Self> {
        let mesh = Mesh::start_with(&drill, options.without_machine_rules()).await?;
        let expectation = Expectation::new(
            "under load",
            format!("at least {FLOW} samples of every node merged within {}", words(FLOW_WAIT)),
        );
        let span = Span { since: drill.elapsed(), within: FLOW_WAIT };
        let base = vec![0; mesh.nodes().len()];
        let look = async || mesh.look(|summary| flows(&mesh, summary, &base)).await;
        drill.expect(expectation, span, look).await;
        Ok(Self { drill, mesh, fed: Raw::new() })
    }

    /// Samples merged of each node by now.
    pub(super) async fn merged(&self) -> Result<Merged> {
        let summary = self.mesh.stack.api().summary().await?;
        Ok(merged(&self.mesh, &summary))
    }

    /// Lets a fault last for `span`.
    pub(super) async fn pass(&self, what: &str, span: Duration) {
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
    pub(super) async fn expect_recovery(&mut self, base: &Merged, since: Duration) {
        let expectation = Expectation::new(
            "recovers",
            format!(
                "every node ready, at most {DEPTH_CALM_MAX} messages held, none missing between, \
                 {FLOW} more samples merged, within {}",
                words(RECOVER_WAIT)
            ),
        );
        let (mesh, span) = (&self.mesh, Span { since, within: RECOVER_WAIT });
        let look = async || match calm(mesh).await {
            Ok(look) if look.met => mesh.look(|summary| flows(mesh, summary, base)).await,
            Ok(look) => look,
            Err(error) => Look::from(error),
        };
        self.drill.expect(expectation, span, look).await;
    }

    /// Drains the mesh and judges where every sample ended up. If nothing may be lost, every figure
    /// must equal that of the raw samples.
    pub(super) async fn settle(self, disturbed: Result<()>, terms: Terms) -> Report {
        let Self { mut drill, mut mesh, mut fed } = self;
        if drill.take_planted_miss() {
            plant(&mut fed, &mesh);
        }

        let drained = match mesh.drain(&mut drill, disturbed).await {
            Ok(drained) => Ok(drained),
            // A process that exited with an error may still have a complete ledger.
            Err(error) => last_word(&mesh).await.context(error),
        };

        let since = drill.elapsed();
        let (mut comparisons, mut accounts) = (Vec::new(), Vec::new());
        let looks = match drained {
            Ok((mut raw, summary)) => {
                for (node, samples) in fed {
                    raw.entry(node).or_default().extend(samples);
                }
                comparisons = ledger::compare(&raw, &summary);
                accounts = account::accounts(drill.name, &raw, &summary);
                let judged = account::judge(&accounts, terms);
                [judged, ledger::exact(&comparisons), ledger::within_resolution(&comparisons)]
            }
            Err(error) => {
                let seen = format!("{error:#}");
                [(); 3].map(|()| Look::new(false, seen.lines().next().unwrap_or_default()))
            }
        };

        let exact = terms.reasons.is_empty();
        for (expectation, look) in expectations(terms).into_iter().zip(looks) {
            drill.judge(expectation, since, look);
            if !exact {
                break;
            }
        }
        let received = mesh.end(&mut drill).await;
        Report { accounts, ..Report::new(&drill, received, comparisons) }
    }
}

/// Samples that nothing sent: the account of the first node must miss them.
fn plant(fed: &mut Raw, mesh: &Mesh) {
    let phantoms = (0..PHANTOMS).map(|ns| ("phantom".to_owned(), ns));
    if let Some(node) = mesh.nodes().first() {
        fed.entry(node.clone()).or_default().extend(phantoms);
    }
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

async fn last_word(mesh: &Mesh) -> Result<(Raw, Summary)> {
    Ok((mesh.raw()?, mesh.stack.api().summary().await?))
}

fn merged(mesh: &Mesh, summary: &Summary) -> Merged {
    let row = |node: &str| summary.nodes.iter().find(|row| row.node == node);
    let nodes = mesh.nodes().iter();
    nodes.map(|node| row(node.as_str()).map_or(0, |row| row.ledger.merged)).collect()
}

/// Whether every node is up and has had more merged than in `base`.
fn flows(mesh: &Mesh, summary: &Summary, base: &Merged) -> Look {
    let now = merged(mesh, summary);
    let grown = now.iter().zip(base).all(|(now, base)| *now >= base + FLOW);
    let up = summary.nodes.iter().filter(|row| row.presence == Presence::Up).count();
    Look::new(grown && up >= now.len(), format!("{up} nodes up, {now:?} after {base:?}"))
}

async fn calm(mesh: &Mesh) -> Result<Look> {
    for station in mesh.stack.stations() {
        let depth = metric(&station.api, DEPTH).await?;
        if !station.api.is_ready().await || depth > DEPTH_CALM_MAX {
            return Ok(Look::new(false, format!("{} holds {depth} messages", station.name)));
        }
    }
    if !mesh.stack.api().is_ready().await {
        return Ok(Look::new(false, "the aggregator is not ready"));
    }
    let mut holes = 0.0;
    for node in mesh.nodes() {
        let series = format!("plimsoll_node_sequence_gaps{{node=\"{node}\"}}");
        holes += metric(mesh.stack.api(), &series).await?;
    }
    Ok(Look::new(holes == 0.0, format!("{holes} messages missing")))
}

pub(super) fn words(span: Duration) -> String {
    format!("{} s", span.as_secs())
}
