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
use plimsoll_runtime::http::ending;

use super::orders::{self, BadRequest};
use super::query::{Query, QuerySender};
use crate::core::alerting::CommandError;
use crate::core::alerting::{AlertCommand, CommandResult};
use plimsoll_runtime::token::Token;

#[derive(Clone)]
struct AlertHandler {
    queries: QuerySender,
    /// The token that changes need; without one, changes are rejected.
    token: Option<Arc<Token>>,
}

/// The routes about alerts.
pub(super) fn routes(queries: QuerySender, token: Option<Token>) -> Router {
    let handler = AlertHandler { queries, token: token.map(Arc::new) };
    Router::new()
        .route("/api/v1/alerts", get(show_alerts))
        .route("/api/v1/alerts/acknowledge", post(acknowledge).delete(unacknowledge))
        .route("/api/v1/silences", get(show_silences).post(silence))
        .route("/api/v1/silences/{id}", delete(end_silence))
        .with_state(handler)
}

type Pairs = Parameters<Vec<(String, String)>>;

async fn show_alerts(State(handler): State<AlertHandler>, Parameters(pairs): Pairs) -> Response {
    let wanted = match orders::wanted(&pairs) {
        Ok(wanted) => wanted,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, &error),
    };
    let page = handler.queries.send(|answer| Query::Alerts(wanted, answer)).await;
    page.map_or_else(ending, |page| Json(page).into_response())
}

async fn show_silences(State(handler): State<AlertHandler>) -> Response {
    let page = handler.queries.send(Query::Silences).await;
    page.map_or_else(ending, |page| Json(page).into_response())
}

async fn silence(State(handler): State<AlertHandler>, headers: HeaderMap, body: Bytes) -> Response {
    let order = || orders::silence(Clock::start().now().wall, &body).map(AlertCommand::Silence);
    handler.order(&headers, order).await
}

async fn end_silence(
    State(handler): State<AlertHandler>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Response {
    handler.order(&headers, || orders::id(&id).map(AlertCommand::EndSilence)).await
}

async fn acknowledge(
    State(handler): State<AlertHandler>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let order = || {
        let (key, of) = orders::acknowledgement(Clock::start().now().wall, &body)?;
        Ok(AlertCommand::Acknowledge(key, of))
    };
    handler.order(&headers, order).await
}

async fn unacknowledge(
    State(handler): State<AlertHandler>,
    headers: HeaderMap,
    Parameters(pairs): Pairs,
) -> Response {
    handler.order(&headers, || orders::key(&pairs).map(AlertCommand::Unacknowledge)).await
}

impl AlertHandler {
    /// Carries out a change if the client shows the token.
    async fn order(
        &self,
        headers: &HeaderMap,
        order: impl FnOnce() -> Result<AlertCommand, BadRequest>,
    ) -> Response {
        if let Err(response) = may_change(self.token.as_deref(), headers) {
            return *response;
        }
        let order = match order() {
            Ok(order) => order,
            Err(error) => return refuse(StatusCode::BAD_REQUEST, &error),
        };
        match self.queries.send(|answer| Query::Order(order, answer)).await {
            None => ending(),
            Some(Ok(CommandResult::Silence(row))) => {
                (StatusCode::CREATED, Json(row)).into_response()
            }
            Some(Ok(CommandResult::Acknowledged(of))) => {
                (StatusCode::CREATED, Json(of)).into_response()
            }
            Some(Ok(CommandResult::Ended)) => StatusCode::NO_CONTENT.into_response(),
            Some(Err(refused)) => refuse(status(&refused), &refused),
        }
    }
}

fn status(refused: &CommandError) -> StatusCode {
    match refused {
        CommandError::NoSilence(_) | CommandError::NotAcknowledged(_) => StatusCode::NOT_FOUND,
        CommandError::NotActive { .. } | CommandError::Full { .. } => StatusCode::CONFLICT,
        CommandError::Everything
        | CommandError::Control(_)
        | CommandError::Over
        | CommandError::TooLong
        | CommandError::NoOperator
        | CommandError::Text { .. } => StatusCode::BAD_REQUEST,
    }
}

/// Checks that the client shows the token.
pub(super) fn may_change(token: Option<&Token>, headers: &HeaderMap) -> Result<(), Box<Response>> {
    let Some(token) = token else {
        let why = "changes over HTTP need a token, and none is configured; set http.token_file";
        return Err(Box::new(refuse(StatusCode::FORBIDDEN, why)));
    };
    let shown = headers.get(header::AUTHORIZATION).map(header::HeaderValue::as_bytes);
    let shown = shown.and_then(|value| {
        let (scheme, shown) = value.split_at_checked(b"Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then(|| shown.trim_ascii())
    });
    if shown.is_some_and(|shown| token.matches(shown)) {
        return Ok(());
    }
    let mut response = refuse(
        StatusCode::UNAUTHORIZED,
        "the header `Authorization: Bearer <token>` is missing or wrong; send the token of http.token_file \
         (plimsoll --token-file; of packages /etc/plimsoll/aggregator.token)",
    );
    let scheme = header::HeaderValue::from_static("Bearer realm=\"plimsoll\"");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    Err(Box::new(response))
}

fn refuse(status: StatusCode, why: &(impl ToString + ?Sized)) -> Response {
    (status, why.to_string() + "\n").into_response()
}
