//! `/api/v1/stream`: server-sent events for pages that stay open, one a second, with what a page
//! needs to know when to ask again. Each also keeps proxies from closing the connection. The number
//! of streams is bounded and counted; each costs the driver one question a second.
//!
//! DESIGN A102.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::stream::unfold;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::query::{Query, QuerySender};
use crate::exposition::StreamStats;
use crate::limits::exposition::{PULSE_EVERY, STREAM_RETRY_SECONDS, STREAMS_MAX};

/// The streams that are open, and how many were refused.
pub(super) struct Streams {
    permits: Arc<Semaphore>,
    refused: AtomicU64,
}

impl Default for Streams {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(STREAMS_MAX)), refused: AtomicU64::new(0) }
    }
}

impl Streams {
    pub(super) fn stats(&self) -> StreamStats {
        let open = STREAMS_MAX - self.permits.available_permits();
        StreamStats { open, refused: self.refused.load(Ordering::Relaxed) }
    }

    fn admit(&self) -> Option<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok();
        self.refused.fetch_add(u64::from(permit.is_none()), Ordering::Relaxed);
        permit
    }
}

#[derive(Clone)]
struct StreamHandler {
    queries: QuerySender,
    streams: Arc<Streams>,
}

/// The route of the stream.
pub(super) fn routes(queries: QuerySender, streams: Arc<Streams>) -> Router {
    Router::new()
        .route("/api/v1/stream", get(show_stream))
        .with_state(StreamHandler { queries, streams })
}

async fn show_stream(State(handler): State<StreamHandler>) -> Response {
    let Some(permit) = handler.streams.admit() else {
        let why = format!("{STREAMS_MAX} pages are open already; close one, or ask without it\n");
        let retry = [(header::RETRY_AFTER, STREAM_RETRY_SECONDS)];
        return (StatusCode::SERVICE_UNAVAILABLE, retry, why).into_response();
    };
    let mut ticks = interval(PULSE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let events = unfold((handler.queries, ticks, permit), next_event);
    let unbuffered = [(HeaderName::from_static("x-accel-buffering"), "no")];
    (unbuffered, Sse::new(events)).into_response()
}

type Pulses = (QuerySender, Interval, OwnedSemaphorePermit);

/// Ends with the process.
async fn next_event(mut pulses: Pulses) -> Option<(Result<Event, Infallible>, Pulses)> {
    pulses.1.tick().await;
    let pulse = pulses.0.send(Query::Pulse).await?;
    let event = Event::default().event("pulse").json_data(&pulse).ok()?;
    Some((Ok(event), pulses))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt;
    use hyper::service::Service;
    use hyper_util::service::TowerToHyperService;
    use plimsoll_schemas::summary::Pulse;
    use tokio::sync::mpsc;

    use super::*;

    fn pulse(at_seconds: f64) -> Pulse {
        let broker = "jetstream".to_owned();
        Pulse { at_seconds, ready: true, broker, firing: 2, pending: 0, changed_at_seconds: None }
    }

    async fn open(router: &Router) -> Response {
        let request = Request::builder().uri("/api/v1/stream").body(Body::empty()).unwrap();
        TowerToHyperService::new(router.clone()).call(request).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_has_one_event_a_second_and_ends_with_the_process() {
        let (sender, mut queries) = mpsc::channel(4);
        let router = routes(QuerySender::new(sender), Arc::default());
        let answering = tokio::spawn(async move {
            for second in 0..3 {
                let Some(Query::Pulse(answer)) = queries.recv().await else { break };
                answer.send(pulse(f64::from(second))).unwrap();
            }
        });
        let response = open(&router).await;
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        answering.await.unwrap();
        let events = String::from_utf8(body.to_vec()).unwrap();
        let data = events.lines().filter_map(|line| line.strip_prefix("data: "));
        let read: Vec<Pulse> = data.map(|text| serde_json::from_str(text).unwrap()).collect();
        assert_eq!(read, [0.0, 1.0, 2.0].map(pulse));
    }

    #[tokio::test]
    async fn streams_are_bounded_and_one_that_is_closed_makes_room() {
        let (sender, _queries) = mpsc::channel(4);
        let streams = Arc::<Streams>::default();
        let router = routes(QuerySender::new(sender), Arc::clone(&streams));
        let mut open_ones = Vec::new();
        for _ in 0..STREAMS_MAX {
            open_ones.push(open(&router).await);
        }
        assert!(open_ones.iter().all(|response| response.status() == StatusCode::OK));
        let refused = open(&router).await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()[header::RETRY_AFTER], STREAM_RETRY_SECONDS);
        assert_eq!(streams.stats(), StreamStats { open: STREAMS_MAX, refused: 1 });
        drop(open_ones.pop());
        assert_eq!(open(&router).await.status(), StatusCode::OK);
    }
}
