//! `/api/v1/stream`: server-sent events for pages that stay open, one a second, with what a page
//! needs to know when to ask again. Each also keeps proxies from closing the connection. The number
//! of streams is bounded and counted, and no client address has all of them; each costs the driver
//! one question a second.
//!
//! DESIGN A102.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use futures_util::stream::unfold;
use plimsoll_runtime::http::ClientAddress;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::query::{Query, QuerySender};
use crate::exposition::{RefusedStreams, StreamStats};
use crate::limits::exposition::{PULSE_EVERY, STREAM_RETRY_SECONDS, STREAMS_MAX, STREAMS_SHARE};

/// The streams that are open, by client address, and how many were refused.
#[derive(Default)]
pub(super) struct Streams(Mutex<OpenStreams>);

#[derive(Default)]
struct OpenStreams {
    by_address: BTreeMap<ClientAddress, usize>,
    refused: RefusedStreams,
}

/// An open stream; dropping it makes room.
struct Permit {
    streams: Arc<Streams>,
    address: ClientAddress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    Full,
    /// The client's address has its share.
    Share,
}

impl Streams {
    pub(super) fn stats(&self) -> StreamStats {
        let open = self.lock();
        StreamStats { open: open.count(), refused: open.refused }
    }

    fn admit(self: &Arc<Self>, address: ClientAddress) -> Result<Permit, Refused> {
        let mut open = self.lock();
        let (all, own) = (open.count(), open.by_address.get(&address).copied().unwrap_or_default());
        if all >= STREAMS_MAX {
            open.refused.full += 1;
            return Err(Refused::Full);
        }
        // While half are free an address may have any
        // number: all pages behind a proxy have one (A102).
        if all >= STREAMS_MAX / 2 && own >= STREAMS_SHARE {
            open.refused.share += 1;
            return Err(Refused::Share);
        }
        *open.by_address.entry(address).or_default() += 1;
        Ok(Permit { streams: Arc::clone(self), address })
    }

    fn lock(&self) -> MutexGuard<'_, OpenStreams> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenStreams {
    fn count(&self) -> usize {
        self.by_address.values().sum()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.streams.lock();
        let left = open.by_address.get_mut(&self.address).map(|own| {
            *own -= 1;
            *own
        });
        if left == Some(0) {
            open.by_address.remove(&self.address);
        }
    }
}

#[derive(Clone)]
struct StreamHandler {
    queries: QuerySender,
    streams: Arc<Streams>,
}

pub(super) fn routes(queries: QuerySender, streams: Arc<Streams>) -> Router {
    Router::new()
        .route("/api/v1/stream", get(show_stream))
        .with_state(StreamHandler { queries, streams })
}

async fn show_stream(
    State(handler): State<StreamHandler>,
    Extension(address): Extension<ClientAddress>,
) -> Response {
    let permit = match handler.streams.admit(address) {
        Ok(permit) => permit,
        Err(refused) => return refuse(refused),
    };
    let mut ticks = interval(PULSE_EVERY);
    // A page whose connection stood still gets one pulse, and not all that it has missed.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let events = unfold((handler.queries, ticks, permit), next_event);
    // nginx would collect the response otherwise, and pulses would come minutes late.
    let unbuffered = [(HeaderName::from_static("x-accel-buffering"), "no")];
    (unbuffered, Sse::new(events)).into_response()
}

fn refuse(refused: Refused) -> Response {
    let (status, why) = match refused {
        Refused::Full => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!(
                "{STREAMS_MAX} pages are already open; close one, or poll without the stream\n"
            ),
        ),
        Refused::Share => (
            StatusCode::TOO_MANY_REQUESTS,
            format!(
                "this address has {STREAMS_SHARE} streams or more, and half of the {STREAMS_MAX} \
                 are open; close a page, or poll without the stream\n"
            ),
        ),
    };
    (status, [(header::RETRY_AFTER, STREAM_RETRY_SECONDS)], why).into_response()
}

type Pulses = (QuerySender, Interval, Permit);

/// Ends with the process.
async fn next_event(mut pulses: Pulses) -> Option<(Result<Event, Infallible>, Pulses)> {
    pulses.1.tick().await;
    let pulse = pulses.0.send(Query::Pulse).await.ok()?;
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
    use plimsoll_schemas::rule::Severity;
    use plimsoll_schemas::summary::{Freshness, Pulse};
    use tokio::sync::mpsc;

    use super::*;

    fn pulse(at_seconds: f64) -> Pulse {
        let broker = "jetstream".to_owned();
        Pulse {
            at_seconds,
            ready: true,
            broker,
            freshness: Freshness { as_of_seconds: Some(at_seconds), stale: true },
            firing: 2,
            firing_severity: Some(Severity::Info),
            pending: 0,
            changed_at_seconds: None,
        }
    }

    async fn open(router: &Router) -> Response {
        open_from(router, 1).await
    }

    /// The response to the client with this last byte of its address.
    async fn open_from(router: &Router, client: u8) -> Response {
        let address = ClientAddress([127, 0, 0, client].into());
        let request = Request::builder().uri("/api/v1/stream").extension(address);
        let request = request.body(Body::empty()).unwrap();
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
        for n in 0..STREAMS_MAX {
            open_ones.push(open_from(&router, u8::try_from(n / STREAMS_SHARE).unwrap()).await);
        }
        assert!(open_ones.iter().all(|response| response.status() == StatusCode::OK));
        let refused = open_from(&router, 99).await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()[header::RETRY_AFTER], STREAM_RETRY_SECONDS);
        let counted = RefusedStreams { full: 1, share: 0 };
        assert_eq!(streams.stats(), StreamStats { open: STREAMS_MAX, refused: counted });
        drop(open_ones.pop());
        assert_eq!(open_from(&router, 99).await.status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn one_address_holds_half_of_the_streams_and_others_have_theirs() {
        let (sender, _queries) = mpsc::channel(4);
        let streams = Arc::<Streams>::default();
        let router = routes(QuerySender::new(sender), Arc::clone(&streams));
        let mut open_ones = Vec::new();
        for _ in 0..STREAMS_MAX {
            open_ones.push(open(&router).await);
        }
        let refused = open_ones.split_off(STREAMS_MAX / 2);
        assert!(open_ones.iter().all(|response| response.status() == StatusCode::OK));
        let counted = RefusedStreams { full: 0, share: 32 };
        assert_eq!(streams.stats(), StreamStats { open: STREAMS_MAX / 2, refused: counted });
        for response in refused {
            assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
            assert_eq!(response.headers()[header::RETRY_AFTER], STREAM_RETRY_SECONDS);
        }
        for client in 2..6 {
            for _ in 0..STREAMS_SHARE {
                let response = open_from(&router, client).await;
                assert_eq!(response.status(), StatusCode::OK);
                open_ones.push(response);
            }
        }
        drop(open_ones);
        assert_eq!(streams.stats().open, 0);
    }
}
