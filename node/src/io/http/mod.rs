//! The node's own HTTP pages: metrics about itself, liveness, readiness.
//!
//! The driver owns all counts. A request gets [`AgentStats`] from the driver and formats them here.

mod by_label;
mod ingest;
mod otlp;
mod own;
mod scrape;

use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use plimsoll_runtime::http::{ListenError, Protection, Server, ending, metrics, probe};
use plimsoll_runtime::limits::QUERIES_MAX;
use plimsoll_runtime::supervision::Supervisor;
use tokio::sync::{mpsc, oneshot};

use crate::config::Http;
use crate::core::outbox::BreakerState;
pub use own::AgentStats;

/// A request for the driver's stats: where to send them.
pub type StatsQuery = oneshot::Sender<AgentStats>;

/// The server of the pages, or none, and the queue of requests that it sends to the driver.
pub struct Pages {
    server: Option<Server>,
    /// For probes alone.
    health: Option<Server>,
    queries: mpsc::Receiver<StatsQuery>,
}

impl Pages {
    /// Serves the pages and probes on the addresses of `settings`; without one there are none.
    ///
    /// # Errors
    /// When the address cannot be bound.
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

    /// Bound address of the pages.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().map(Server::address)
    }

    /// Connections to the pages.
    #[must_use]
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
    let queued = status.bus.outbox_messages;
    if status.spool.stuck {
        return probe(false, format!("spool cannot be written; messages wait: {queued}"));
    }
    match (status.connected, status.breaker) {
        (true, BreakerState::Closed) => probe(true, "connected to the broker".to_owned()),
        (true, _) => {
            let why = broker_faults.denied().or(broker_faults.streams()).unwrap_or("see the log");
            probe(false, format!("broker rejects messages: {why}; messages wait: {queued}"))
        }
        (false, _) => {
            let cause = broker_faults.connect_error().unwrap_or("no answer");
            probe(false, format!("broker unreachable: {cause}; messages wait: {queued}"))
        }
    }
}

async fn show_metrics(State(sender): State<mpsc::Sender<StatsQuery>>) -> Response {
    query(&sender).await.map_or_else(ending, |stats| metrics(own::page(&stats)))
}
