//! Facts from aggregators, the node on this machine, and brokers.

use anyhow::Result;
use plimsoll_bus::{BrokerReport, ProbePlan, probe};
use plimsoll_runtime::client::Api;
use plimsoll_runtime::http::WARNING;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::permissions::{BrokerUser, Layout, Permissions};
use plimsoll_schemas::subject::{Lane, PREFIX, ask_subject, confirm_subject, dead_subject};
use plimsoll_schemas::summary::{HardwareHistoryPage, NodeHistory, NodeStatus, Presence, Summary};

use super::limits::{HISTORIES_ASKED_MAX, HISTORIES_AT_ONCE};
use super::settings::{Identity, Local};
use crate::nodes::all_pages;
use crate::targets::{page, with_parameters};

/// A node that no node is named after: what is sent to it is received by none.
const NONE: &str = "plimsoll_doctor";

/// What one aggregator answers.
pub(super) struct AggregatorFacts {
    pub(super) url: String,
    /// Its answers, or why there are none.
    pub(super) pages: Result<Pages, String>,
}

/// The pages of one aggregator.
pub(super) struct Pages {
    pub(super) summary: Summary,
    pub(super) nodes: Vec<NodeStatus>,
    pub(super) readiness: Readiness,
    /// What nodes answered of their own histories, or why none were asked.
    pub(super) histories: Result<Vec<NodeHistory>, String>,
}

/// What `/readyz` of a program states.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Readiness {
    /// Why it is not ready; `None` if it is.
    pub(super) unready: Option<String>,
    /// What should be changed although it is ready.
    pub(super) warnings: Vec<String>,
}

impl Readiness {
    /// The page with its status.
    fn of(is_ready: bool, text: &str) -> Self {
        let mut lines = text.lines();
        let state = lines.next().unwrap_or_default().to_owned();
        let warnings = lines.filter_map(|line| line.strip_prefix(WARNING)).map(str::to_owned);
        Self { unready: (!is_ready).then_some(state), warnings: warnings.collect() }
    }
}

/// A cause as `/readyz` states it, and what ends it: what follows the last `; `.
pub(super) fn cause_and_fix(line: &str) -> (&str, Option<&str>) {
    match line.rsplit_once("; ") {
        Some((cause, fix)) => (cause, Some(fix)),
        None => (line, None),
    }
}

/// What the node on this machine states about itself.
pub(super) struct NodeFacts {
    pub(super) url: String,
    /// Its readiness, or why it does not answer.
    pub(super) readiness: Result<Readiness, String>,
}

/// What one program's credentials find at its broker.
pub(super) struct BrokerFacts {
    pub(super) program: &'static str,
    pub(super) url: String,
    /// The report, or why there is none.
    pub(super) report: Result<BrokerReport, String>,
}

pub(super) async fn aggregators(apis: &[Api]) -> Vec<AggregatorFacts> {
    let mut facts = Vec::new();
    for api in apis {
        let pages = pages(api).await.map_err(|error| cause(&error));
        facts.push(AggregatorFacts { url: api.url().to_owned(), pages });
    }
    facts
}

/// The system's error of a connection; of an answer the whole error.
fn cause(error: &anyhow::Error) -> String {
    let root = error.root_cause();
    if root.is::<std::io::Error>() { root.to_string() } else { format!("{error:#}") }
}

async fn pages(api: &Api) -> Result<Pages> {
    let summary = page(api, "/metrics/summary").await?;
    let nodes = all_pages(api, &None, &None).await?.nodes;
    let readiness = readiness(api).await?;
    let histories = histories(api, &nodes).await.map_err(|error| cause(&error));
    Ok(Pages { summary, nodes, readiness, histories })
}

/// What nodes that are up answer of the last seconds, some at a time.
async fn histories(api: &Api, nodes: &[NodeStatus]) -> Result<Vec<NodeHistory>> {
    // A shard, which an aggregator above others lists as a node, has no version and no history.
    let is_asked =
        |node: &&NodeStatus| node.row.presence == Presence::Up && !node.row.version.is_empty();
    let asked: Vec<Option<String>> =
        nodes.iter().filter(is_asked).map(|node| Some(node.row.node.clone())).collect();

    let (sensor, last) = (Some("load1".to_owned()), Some("10s".to_owned()));
    let mut answered = Vec::new();
    for names in asked[..asked.len().min(HISTORIES_ASKED_MAX)].chunks(HISTORIES_AT_ONCE) {
        let mut parameters = vec![("sensor", &sensor), ("last", &last)];
        parameters.extend(names.iter().map(|name| ("node", name)));
        let path = with_parameters("/api/v1/hardware/history", &parameters);
        let found: HardwareHistoryPage = page(api, &path).await?;
        answered.extend(found.nodes.into_iter().map(|node| node.of));
    }

    Ok(answered)
}

async fn readiness(api: &Api) -> Result<Readiness> {
    let (is_ready, text) = api.readiness().await?;
    Ok(Readiness::of(is_ready, &text))
}

/// What the node on this machine states about itself, or why it cannot be asked.
pub(super) async fn node(local: &Local) -> Result<NodeFacts, String> {
    let config = local.node.as_ref().map_err(Clone::clone)?;
    let http = &config.http;
    let plain = http.health_address.or(http.address.filter(|_| http.certificate_file.is_none()));
    let address = plain.ok_or("its /readyz is served over TLS only, or not at all")?;
    let url = format!("http://{address}");
    let api = Api::of_url(&url).map_err(|error| cause(&error))?;
    let readiness = readiness(&api).await.map_err(|error| cause(&error));
    Ok(NodeFacts { url, readiness })
}

/// Looks at the broker of every program on this machine.
pub(super) async fn brokers(local: &Local) -> Vec<BrokerFacts> {
    let mut facts = Vec::new();
    for identity in local.identities() {
        facts.push(match identity {
            Ok(identity) => broker(&identity).await,
            Err(reason) => {
                BrokerFacts { program: "", url: "bus.url".to_owned(), report: Err(reason) }
            }
        });
    }
    facts
}

async fn broker(identity: &Identity) -> BrokerFacts {
    let report = probe(&identity.bus, &plan(identity)).await;
    BrokerFacts {
        program: identity.program,
        url: identity.bus.url_without_secrets(),
        report: report.map_err(|error| error.to_string()),
    }
}

/// The subjects that the program needs, as the README lists them.
fn plan(Identity { bus, node, requests, .. }: &Identity) -> ProbePlan {
    let mesh = &bus.mesh;
    if let Some(node) = node {
        let lane = |lane: Lane| format!("{PREFIX}.{mesh}.{}.{node}.latency", lane.as_str());
        let subscribe = [confirm_subject(mesh, node)].into_iter().chain(requests.clone()).collect();
        // One kind of message for each lane is enough: the permission has a wildcard in its place.
        let publish = Lane::ALL.map(lane).into_iter().chain([dead_subject(mesh, node)]).collect();
        return ProbePlan { subscribe, publish, has_streams: false };
    }

    // One partition more than its own number is all that settings of one shard prove.
    let partitions = bus.partition.map_or(0, |partition| partition.0 + 1);
    let layout = Layout { creates_streams: false, partitions };
    let none = NodeName::new(NONE).expect("a constant name of plain letters");

    ProbePlan {
        subscribe: Permissions::of(mesh, BrokerUser::Aggregator, layout).subscribe,
        // Not alerts, which subscribers would receive (A122).
        publish: vec![confirm_subject(mesh, &none), ask_subject(mesh, &none)],
        has_streams: true,
    }
}
