//! Alerts, silences and acknowledgements over HTTP. Changes need the token; a request that is not
//! understood is rejected with the key at fault.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Query as Parameters, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use plimsoll_clock::Clock;
use plimsoll_runtime::token::Token;
use plimsoll_schemas::alert::{AlertsPage, SilencesPage};

use super::orders;
use super::parameters::Pairs;
use super::query::{Query, QuerySender};
use super::refusal::{Answer, Refusal};
use crate::core::alerting::{AlertCommand, CommandError, CommandResult};

#[derive(Clone)]
struct AlertHandler {
    queries: QuerySender,
    /// The token that changes need; without one, changes are rejected.
    token: Option<Arc<Token>>,
}

pub(super) fn routes(queries: QuerySender, token: Option<Token>) -> Router {
    let handler = AlertHandler { queries, token: token.map(Arc::new) };
    Router::new()
        .route("/api/v1/alerts", get(show_alerts))
        .route("/api/v1/alerts/acknowledge", post(acknowledge).delete(unacknowledge))
        .route("/api/v1/silences", get(show_silences).post(silence))
        .route("/api/v1/silences/{id}", delete(end_silence))
        .with_state(handler)
}

async fn show_alerts(
    State(handler): State<AlertHandler>,
    Parameters(pairs): Pairs,
) -> Answer<Box<AlertsPage>> {
    let wanted = orders::wanted(&pairs)?;
    handler.queries.page(|answer| Query::Alerts(wanted, answer)).await
}

async fn show_silences(State(handler): State<AlertHandler>) -> Answer<SilencesPage> {
    handler.queries.page(Query::Silences).await
}

async fn silence(
    State(handler): State<AlertHandler>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    may_change(handler.token.as_deref(), &headers)?;
    let silence = orders::silence(Clock::start().now().wall, &body)?;
    handler.order(AlertCommand::Silence(silence)).await
}

async fn end_silence(
    State(handler): State<AlertHandler>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    may_change(handler.token.as_deref(), &headers)?;
    handler.order(AlertCommand::EndSilence(orders::id(&id)?)).await
}

async fn acknowledge(
    State(handler): State<AlertHandler>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    may_change(handler.token.as_deref(), &headers)?;
    let (key, of) = orders::acknowledgement(Clock::start().now().wall, &body)?;
    handler.order(AlertCommand::Acknowledge(key, of)).await
}

async fn unacknowledge(
    State(handler): State<AlertHandler>,
    headers: HeaderMap,
    Parameters(pairs): Pairs,
) -> Result<Response, Refusal> {
    may_change(handler.token.as_deref(), &headers)?;
    handler.order(AlertCommand::Unacknowledge(orders::key(&pairs)?)).await
}

impl AlertHandler {
    async fn order(&self, order: AlertCommand) -> Result<Response, Refusal> {
        let result = self.queries.send(|answer| Query::Order(order, answer)).await?;
        Ok(match result? {
            CommandResult::Silence(row) => (StatusCode::CREATED, Json(row)).into_response(),
            CommandResult::Acknowledged(of) => (StatusCode::CREATED, Json(of)).into_response(),
            CommandResult::Ended => StatusCode::NO_CONTENT.into_response(),
        })
    }
}

impl From<CommandError> for Refusal {
    fn from(error: CommandError) -> Self {
        let status = match error {
            CommandError::NoSilence(_) | CommandError::NotAcknowledged(_) => StatusCode::NOT_FOUND,
            // The request is right and the state is not: it may succeed later, unlike those below.
            CommandError::NotActive { .. } | CommandError::Full { .. } => StatusCode::CONFLICT,
            CommandError::Everything
            | CommandError::Control(_)
            | CommandError::Over
            | CommandError::TooLong
            | CommandError::NoOperator
            | CommandError::Text { .. } => StatusCode::BAD_REQUEST,
        };
        Self(status, error.to_string())
    }
}

/// Checks that the client shows the token.
pub(super) fn may_change(token: Option<&Token>, headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(token) = token else {
        let why = "changes over HTTP need a token, and none is configured; set http.token_file";
        return Err(Refusal(StatusCode::FORBIDDEN, why.to_owned()));
    };

    let shown = headers.get(header::AUTHORIZATION).map(header::HeaderValue::as_bytes);
    let shown = shown.and_then(|value| {
        let (scheme, shown) = value.split_at_checked(b"Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then(|| shown.trim_ascii())
    });

    if shown.is_some_and(|shown| token.matches(shown)) {
        return Ok(());
    }
    let why = "the header `Authorization: Bearer <token>` is missing or wrong; send the token of \
               http.token_file (plimsoll --token-file; of packages /etc/plimsoll/aggregator.token)";
    Err(Refusal(StatusCode::UNAUTHORIZED, why.to_owned()))
}
