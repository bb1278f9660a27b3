//! A response that is not the requested page: its status, and the reason with the fix as text.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use plimsoll_runtime::http::ending;
use tokio::task::spawn_blocking;

use crate::core::view::{NoStatistics, UnknownNode};
use crate::io::history::ReadError;

/// Known names that a hint has.
const NAMED_MAX: usize = 3;
const SIMILAR: f64 = 0.8;

/// Status and reason; without a reason the process is ending.
#[derive(Debug)]
pub(super) struct Refusal(pub(super) StatusCode, pub(super) String);

/// A page as JSON, or why there is none.
pub(super) type Answer<P> = Result<Json<P>, Refusal>;

impl Refusal {
    pub(super) fn bad(why: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, why.into())
    }

    pub(super) fn not_found(why: impl Into<String>) -> Self {
        Self(StatusCode::NOT_FOUND, why.into())
    }

    pub(super) fn failed(why: impl Into<String>) -> Self {
        Self(StatusCode::INTERNAL_SERVER_ERROR, why.into())
    }

    pub(super) fn ending() -> Self {
        Self(StatusCode::SERVICE_UNAVAILABLE, String::new())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self(status, why) = self;
        if why.is_empty() {
            return ending();
        }
        let mut response = (status, why + "\n").into_response();
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"plimsoll\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<UnknownNode> for Refusal {
    fn from(error: UnknownNode) -> Self {
        Self::not_found(error.to_string())
    }
}

impl From<NoStatistics> for Refusal {
    fn from(error: NoStatistics) -> Self {
        match error {
            NoStatistics::Node(_) | NoStatistics::Operation { .. } => {
                Self::not_found(error.to_string())
            }
            NoStatistics::Window(_) => Self::bad(error.to_string()),
        }
    }
}

/// Computes off the runtime's threads.
pub(super) async fn computed<T: Send + 'static>(
    compute: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let computed = spawn_blocking(compute).await;
    computed.map_err(|_| Refusal::failed("the page cannot be computed; the log has the cause"))
}

/// A hint for an error: the known names that are similar to the wanted one, or nothing.
pub(super) fn near(wanted: &str, known: impl IntoIterator<Item = String>) -> String {
    let mut rated: Vec<(f64, String)> = known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&name, wanted), name))
        .filter(|(similarity, _)| *similarity > SIMILAR)
        .collect();
    rated.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let near: Vec<String> =
        rated.into_iter().take(NAMED_MAX).map(|(_, name)| format!("{name:?}")).collect();
    if near.is_empty() { String::new() } else { format!("; similar: {}", near.join(", ")) }
}
