//! HTTP/2 with limits: few concurrent requests per connection, a window per request, bounded heads
//! and header tables, pings that detect dead clients. There is no upgrade from HTTP/1.

use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::limits;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper_util::rt::TokioTimer;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::bounds::ServerLimits;
use super::slot::ConnectionSlot;

/// The requests of one connection, each a task that ends with it.
#[derive(Default)]
pub(super) struct Streams(Arc<Mutex<JoinSet<()>>>);

/// Spawns requests into the set. It does not own the set: each request holds a spawner itself.
#[derive(Clone)]
pub(super) struct Spawner(Weak<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Spawner {
    fn execute(&self, request: F) {
        let Some(tasks) = self.0.upgrade() else { return };
        let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(request);
    }
}

impl Streams {
    /// The builder that serves a connection.
    pub(super) fn builder(&self, bounds: &ServerLimits) -> http2::Builder<Spawner> {
        let mut builder = http2::Builder::new(Spawner(Arc::downgrade(&self.0)));
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(bounds.head_timeout)
            .keep_alive_timeout(bounds.stall_timeout)
            .max_concurrent_streams(limits::STREAMS_MAX)
            .initial_stream_window_size(limits::STREAM_WINDOW_BYTES)
            // Room for all of them: an unread request must not block another.
            .initial_connection_window_size(limits::STREAMS_MAX * limits::STREAM_WINDOW_BYTES)
            .max_header_list_size(limits::HEADER_LIST_BYTES_MAX)
            .max_send_buf_size(limits::BUFFER_BYTES_MAX);
        builder
    }
}

/// Ends when a client has sent no request within the time for a head. A client that has sent one
/// may stay idle for as long as it answers pings.
pub(super) async fn silence(slot: &ConnectionSlot, bounds: &ServerLimits) {
    sleep(bounds.head_timeout).await;
    if slot.has_request() {
        pending::<()>().await;
    }
}
