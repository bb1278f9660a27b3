//! The node's own HTTP pages: metrics about itself, liveness, readiness.
//!
//! The driver owns all counts. A request gets [`AgentStats`] from the driver and formats them here.

mod ingest;
mod inputs;
mod otlp;
mod own;
mod scrape;

use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use plimsoll_runtime::broker_faults::BrokerFaults;
use plimsoll_runtime::http::{ListenError, Protection, Server, ending, metrics, probe, readiness};
use plimsoll_runtime::limits::QUERIES_MAX;
use plimsoll_runtime::supervision::Supervisor;
use tokio::sync::{mpsc, oneshot};

use crate::config::Http;
use crate::core::{Status, outbox::BreakerState};
pub use inputs::InputStats;
pub use own::AgentStats;

/// A request for the driver's stats: where to send them.
pub type StatsQuery = oneshot::Sender<AgentStats>;

/// The server of the pages, or none, and the queue of requests that it sends to the driver.
pub struct Pages {
    server: Option<Server>,
    health: Option<Server>,
    queries: mpsc::Receiver<StatsQuery>,
}

impl Pages {
    /// Serves the pages and probes on the addresses of `settings`; without one there are none.
    pub async fn start(
        settings: &Http,
        protection: &Protection,
        supervisor: &Supervisor,
    ) -> Result<Self, ListenError> {
        let (sender, queries) = mpsc::channel(QUERIES_MAX);
        let (address, asked) = (settings.health_address, probes(sender.clone()));
        let health = Server::start_for_probes(address, asked, supervisor).await?;

        let server = match settings.address {
            Some(address) => {
                let routes = routes(sender);
                let key = "http.address";
                let server = Server::start(key, address, protection, routes, supervisor).await?;
                protection.warn_if_exposed(server.address());
                Some(server)
            }
            None => None,
        };

        Ok(Self { server, health, queries })
    }

    pub fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().map(Server::address)
    }

    pub fn stats(&self) -> Option<plimsoll_runtime::http::ServerStats> {
        self.server.as_ref().map(Server::stats)
    }

    /// The next request for stats; `None` when there is no server. Cancel safe.
    pub async fn next(&mut self) -> Option<StatsQuery> {
        self.queries.recv().await
    }

    /// Answers open requests with the notification that the process is ending, and closes the
    /// server.
    pub async fn end(self) {
        // Requests that wait for the driver are answered that the process ends, instead of holding
        // the server.
        drop(self.queries);
        for server in [self.server, self.health].into_iter().flatten() {
            server.end().await;
        }
    }
}

fn routes(sender: mpsc::Sender<StatsQuery>) -> Router {
    let pages = Router::new().route("/metrics", get(show_metrics)).with_state(sender.clone());
    pages.merge(probes(sender))
}

fn probes(sender: mpsc::Sender<StatsQuery>) -> Router {
    Router::new()
        .route("/healthz", get(async || probe(true, "alive".to_owned())))
        .route("/readyz", get(show_readiness))
        .with_state(sender)
}

async fn query(sender: &mpsc::Sender<StatsQuery>) -> Option<AgentStats> {
    let (answer, answered) = oneshot::channel();
    sender.send(answer).await.ok()?;
    answered.await.ok()
}

async fn show_readiness(State(sender): State<mpsc::Sender<StatsQuery>>) -> Response {
    let Some(stats) = query(&sender).await else { return ending() };
    let AgentStats { status, broker_faults, .. } = stats;
    let (is_ready, state) = state(&status, &broker_faults);
    readiness(is_ready, state, warnings(&status, &broker_faults))
}

fn state(status: &Status, faults: &BrokerFaults) -> (bool, String) {
    let queued = status.bus.outbox_messages;
    if status.spool.stuck {
        let fix = "check the disk of spool.path";
        return (false, format!("spool cannot be written; messages wait: {queued}; {fix}"));
    }

    match (status.connected, status.breaker) {
        (true, BreakerState::Closed) => (true, "connected to the broker".to_owned()),
        (true, _) => {
            let why = faults.rejection().unwrap_or("see the log");
            (false, format!("broker rejects messages, {queued} wait: {why}"))
        }
        (false, _) => {
            let cause = faults.connect_error().unwrap_or("no answer");
            let fix = "check bus.url, its credentials and the broker";
            (false, format!("broker unreachable: {cause}; messages wait: {queued}; {fix}"))
        }
    }
}

/// What a node that works should have changed all the same, in the words of the log.
fn warnings(status: &Status, faults: &BrokerFaults) -> Vec<String> {
    let payload = faults.payload().map(str::to_owned);
    let scrapes = status.intake.scrapes.iter().filter_map(|of| {
        of.failure.as_ref().map(|failure| format!("scrape of {} failed: {failure}", of.target))
    });
    payload.into_iter().chain(scrapes).collect()
}

async fn show_metrics(State(sender): State<mpsc::Sender<StatsQuery>>) -> Response {
    query(&sender).await.map_or_else(ending, |stats| metrics(own::page(&stats)))
}

#[cfg(test)]
mod tests {
    use plimsoll_bus::{BusEvent, Delivery, Refusal, Ticket};
    use plimsoll_schemas::ids::{Labels, MeshName, NodeName};
    use plimsoll_schemas::time::{Mono, Now, Wall};

    use super::*;
    use crate::core::intake::promtext::{Failure, ScrapeFailure, ScrapeStats};
    use crate::core::{Bounds, Core, Identity};

    #[test]
    fn readiness_names_causes_in_the_words_of_the_log() {
        let identity = Identity {
            mesh: MeshName::new("m").unwrap(),
            node: NodeName::new("n").unwrap(),
            labels: Labels::default(),
        };
        let now = Now { mono: Mono(0), wall: Wall(1) };
        let mut status = Core::new(identity, Bounds::default(), now).status();
        let mut faults = BrokerFaults::default();
        assert_eq!(warnings(&status, &faults), [""; 0]);

        faults.on_event(&BusEvent::Connected {
            delivery: Delivery::JetStream,
            server_version: "2.14.3".to_owned(),
            payload_bytes_max: 65_536,
        });
        let refused = Failure::of_status(403);
        let failure = ScrapeFailure { kind: refused, cause: "HTTP 403 Forbidden: no".to_owned() };
        let target = "http://t/m".to_owned();
        status.intake.scrapes =
            vec![ScrapeStats { target, failure: Some(failure), ..ScrapeStats::default() }];
        let found = warnings(&status, &faults);
        let [payload, scrape] = &found[..] else { panic!("{found:?}") };
        assert!(payload.starts_with("the broker's max_payload is 65536 bytes"), "{payload}");
        assert!(
            scrape.starts_with(
                "scrape of http://t/m failed: the target refuses the page: HTTP 403 Forbidden: no; \
                 correct the path of scrape.url"
            ),
            "{scrape}"
        );

        (status.connected, status.breaker) = (true, BreakerState::Open);
        let reason = Refusal::Rejected { code: 10_077, description: "maximum bytes".to_owned() };
        faults.on_event(&BusEvent::Refused { ticket: Ticket(1), reason });
        assert_eq!(
            state(&status, &faults),
            (
                false,
                "broker rejects messages, 0 wait: stream refused the message: maximum bytes \
                 (10077); raise the stream's max_bytes or max_msgs, or set its discard to old"
                    .to_owned()
            )
        );
    }
}
