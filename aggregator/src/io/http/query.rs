//! The questions that HTTP handlers send to the driver, which owns the state.

use std::sync::Arc;

use axum::Json;
use axum::response::{IntoResponse, Response};
use plimsoll_runtime::http::ServerStats;
use plimsoll_schemas::alert::{AlertsPage, SilencesPage};
use plimsoll_schemas::ids::{MeshName, NodeName};
use plimsoll_schemas::summary::{EventsPage, ProfileRequest, ProfileRow, Pulse, RunRow, RunsPage};
use plimsoll_schemas::wire::capture::CaptureId;
use serde::Serialize;
use tokio::sync::{Mutex as Turn, mpsc, oneshot};

use super::refusal::{Answer, Refusal, computed};
use crate::core::alerting::{
    AlertCommand, AlertsQuery, CommandError, CommandResult, Undeliverable,
};
use crate::core::captures::CaptureError;
use crate::core::fleet::EventsQuery;
use crate::core::history::{BatchId, HistoryKey, Unstored};
use crate::core::runs::{RunCommand, RunError, RunsQuery};
use crate::core::view::ReadView;
use crate::exposition::ReadViewStats;
use crate::io::asker::AskHandle;
use crate::io::history::HistoryReader;
use crate::io::profiles::ProfileStore;

/// A question to the driver, with the channel for its answer.
pub enum Query {
    ReadView(oneshot::Sender<Arc<PageSource>>),
    Events(EventsQuery, oneshot::Sender<Box<EventsPage>>),
    Alerts(AlertsQuery, oneshot::Sender<Box<AlertsPage>>),
    /// The silences that are active or begin later.
    Silences(oneshot::Sender<SilencesPage>),
    /// A change of silences or acknowledgements, from an authorized client.
    Order(AlertCommand, oneshot::Sender<Result<CommandResult, CommandError>>),
    Runs(RunsQuery, oneshot::Sender<Box<RunsPage>>),
    /// A begin or stop of a run, from an authorized client.
    RunOrder(RunCommand, oneshot::Sender<Result<RunRow, RunError>>),
    /// The captures that were ordered, and the profiles that are kept.
    Profiles(oneshot::Sender<ProfileSource>),
    /// An order of a capture, from an authorized client.
    Capture(ProfileRequest, oneshot::Sender<Result<ProfileRow, CaptureError>>),
    /// An early end of a capture, from an authorized client.
    StopCapture(CaptureId, oneshot::Sender<Result<ProfileRow, CaptureError>>),
    Undeliverable(oneshot::Sender<Vec<Undeliverable>>),
    /// The mesh, and what reads its history, if one is kept.
    History(oneshot::Sender<(MeshName, Option<HistoryReader>)>),
    /// What is to be added of these keys to a reading of the history that holds this batch; `None`
    /// if the history is to be read again.
    Unstored(Vec<HistoryKey>, BatchId, oneshot::Sender<Option<Unstored>>),
    /// Keys of which something waits to be stored.
    UnstoredKeys(oneshot::Sender<Vec<HistoryKey>>),
    /// The mesh, its nodes, and what asks them for their own histories.
    Asker(oneshot::Sender<(MeshName, Vec<NodeName>, AskHandle)>),
    /// What pages that stay open need to know once a second.
    Pulse(oneshot::Sender<Pulse>),
    /// Whether the aggregator is ready.
    Readiness(oneshot::Sender<Readiness>),
}

/// A frozen read view and what pages need beside it; shared by requests that come close together.
#[derive(Debug)]
pub struct PageSource {
    /// The state of the core.
    pub view: ReadView,
    /// What read views have cost so far, this one included.
    pub views: ReadViewStats,
    pub connections: ServerStats,
}

/// What the driver knows of profiles.
#[derive(Debug)]
pub struct ProfileSource {
    pub mesh: MeshName,
    /// Captures that this process has ordered.
    pub rows: Vec<ProfileRow>,
    /// Profiles that are kept, if any are.
    pub store: Option<ProfileStore>,
}

/// Whether the aggregator is ready, and if not, why.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    /// `jetstream`, `core`, `silent` or `disconnected`.
    pub broker: &'static str,
    /// Why the broker cannot be reached, if known.
    pub connect_error: Option<String>,
    /// The first permission that the broker denied on this connection.
    pub denied: Option<String>,
    /// Why the mesh's streams cannot be created where they are missing.
    pub streams: Option<String>,
    /// What should be changed although it is ready.
    pub warnings: Vec<String>,
    /// True once everything that the streams held at the start has been read.
    pub past_is_read: bool,
    /// Unread messages in the streams.
    pub pending: u64,
}

/// The handlers' end of the queue to the driver.
#[derive(Clone)]
pub(super) struct QuerySender(mpsc::Sender<Query>);

impl QuerySender {
    pub(super) fn new(queries: mpsc::Sender<Query>) -> Self {
        Self(queries)
    }

    /// The driver's answer.
    pub(super) async fn send<T>(
        &self,
        query: impl FnOnce(oneshot::Sender<T>) -> Query,
    ) -> Result<T, Refusal> {
        let (answer, answered) = oneshot::channel();
        self.0.send(query(answer)).await.map_err(|_| Refusal::ending())?;
        answered.await.map_err(|_| Refusal::ending())
    }

    /// The same as a page.
    pub(super) async fn page<P>(
        &self,
        query: impl FnOnce(oneshot::Sender<P>) -> Query,
    ) -> Answer<P> {
        self.send(query).await.map(Json)
    }
}

/// Computes pages from the read view on a thread of their own, one request at a time, so that any
/// number of clients keeps at most one core busy.
#[derive(Clone)]
pub(super) struct ViewHandler {
    queries: QuerySender,
    turn: Arc<Turn<()>>,
}

impl ViewHandler {
    pub(super) fn new(queries: QuerySender) -> Self {
        Self { queries, turn: Arc::default() }
    }

    pub(super) async fn page<P: Serialize, E: Into<Refusal>>(
        &self,
        page: impl FnOnce(&ReadView) -> Result<P, E> + Send + 'static,
    ) -> Result<Response, Refusal> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let source = self.queries.send(Query::ReadView).await?;
        let response = computed(move || {
            // A client that leaves does not begin another one's turn.
            let _turn = turn;
            page(&source.view).map(|page| Json(page).into_response()).map_err(Into::into)
        });
        response.await?
    }
}
