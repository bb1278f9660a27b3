//! HTTP/2 within bounds: few requests at once on a connection, and of each only as much read
//! ahead as its window; heads and their tables cannot grow; whoever is dead is found out.
//!
//! Speaks to clients that know that the server speaks HTTP/2; there is no upgrade from HTTP/1.

use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::limits;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper_util::rt::TokioTimer;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Bounds;
use super::place::Place;

/// The requests of one connection, each a task that ends with it.
#[derive(Default)]
pub(super) struct Streams(Arc<Mutex<JoinSet<()>>>);

/// Spawns among them. It owns none of them: each request holds one of these itself.
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
    /// What serves a connection.
    pub(super) fn builder(&self, bounds: &Bounds) -> http2::Builder<Spawner> {
        let mut builder = http2::Builder::new(Spawner(Arc::downgrade(&self.0)));
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(bounds.head_timeout)
            .keep_alive_timeout(bounds.stall_timeout)
            .max_concurrent_streams(limits::STREAMS_MAX)
            .initial_stream_window_size(limits::STREAM_WINDOW_BYTES)
            // Room for all of them: one that is not read must not keep another from being read.
            .initial_connection_window_size(limits::STREAMS_MAX * limits::STREAM_WINDOW_BYTES)
            .max_header_list_size(limits::HEADER_LIST_BYTES_MAX)
            .max_send_buf_size(limits::BUFFER_BYTES_MAX);
        builder
    }
}

/// Ends when a client has not asked anything in the time that a request's head may take. Whoever
/// has may rest for as long as he answers pings.
pub(super) async fn silence(place: &Place, bounds: &Bounds) {
    sleep(bounds.head_timeout).await;
    if place.has_asked() {
        pending::<()>().await;
    }
}
