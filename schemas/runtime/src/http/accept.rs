//! Takes connections and serves each in a task of its own, until told to end.

use std::convert::Infallible;
use std::error::Error as _;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;

use crate::limits::{ACCEPT_PAUSE, BUFFER_BYTES_MAX, END_WAIT};
use axum::Router;
use axum::body::Body;
use futures_util::future::{Either, select};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::figures::Closed;
use super::paced::Paced;
use super::place::{Ledger, Place, Watched};
use super::streams::{Streams, silence};
use super::{Bounds, Protocol};

type Answered = Result<Response<Watched<Body>>, Infallible>;

/// Said to a newcomer when there is no place at all.
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n\
    connection: close\r\ncontent-length: 0\r\n\r\n";

/// Everything that all connections share.
pub(super) struct Acceptor {
    routes: Router,
    bounds: Bounds,
    ledger: Arc<Ledger>,
    tasks: JoinSet<()>,
    graceful: GracefulShutdown,
}

impl Acceptor {
    pub(super) fn new(routes: Router, bounds: Bounds, ledger: Arc<Ledger>) -> Self {
        let (tasks, graceful) = (JoinSet::new(), GracefulShutdown::new());
        Self { routes, bounds, ledger, tasks, graceful }
    }

    /// Serves until `end` resolves; then answers what was asked already, for a bounded time.
    pub(super) async fn run(mut self, listener: TcpListener, mut end: oneshot::Receiver<()>) {
        while let Either::Left((accepted, _)) = select(pin!(listener.accept()), &mut end).await {
            while self.tasks.try_join_next().is_some() {}
            match accepted {
                Ok((stream, address)) => self.on_accepted(stream, address),
                Err(error) => self.on_accept_failed(&error).await,
            }
        }
        drop(listener);
        if timeout(END_WAIT, self.graceful.shutdown()).await.is_err() {
            tracing::warn!("http connections cut: their clients are too slow");
        }
    }

    fn on_accepted(&mut self, stream: TcpStream, address: SocketAddr) {
        let admitted = self.ledger.book().admit(self.ledger.now(), address.ip());
        let Some(id) = admitted else {
            if self.bounds.protocol == Protocol::Http1 {
                // A socket just opened has room for one line; if not, being closed says the same.
                let _told = stream.try_write(BUSY);
            }
            return;
        };
        // Else what allows a client to send on waits for it to acknowledge what came before, which
        // it puts off by 40 ms. Without, all is as slow but right.
        let _set = stream.set_nodelay(true);
        let place = Place::new(Arc::clone(&self.ledger), id);
        let stream = Paced::new(stream, place.clone(), self.bounds.stall_timeout);
        let (routes, watcher) = (self.routes.clone(), self.graceful.watcher());
        let task = self.tasks.spawn(serve(stream, place, routes, self.bounds, watcher));
        self.ledger.book().on_served(id, task);
    }

    /// The pause keeps a process without a file left from spinning.
    async fn on_accept_failed(&mut self, error: &io::Error) {
        self.ledger.book().on_accept_failed();
        let count = self.ledger.book().figures().accept_failures;
        if count.is_power_of_two() {
            tracing::warn!(%error, count, "http connection cannot be taken; is LimitNOFILE low?");
        }
        sleep(ACCEPT_PAUSE).await;
    }
}

async fn serve(stream: Paced, place: Place, routes: Router, bounds: Bounds, watcher: Watcher) {
    let reason = match bounds.protocol {
        Protocol::Http1 => serve_http1(stream, &place, routes, &bounds, watcher).await,
        Protocol::Http2 => serve_http2(stream, &place, routes, &bounds, watcher).await,
    };
    place.on_closed(reason);
}

async fn serve_http1(
    stream: Paced,
    place: &Place,
    routes: Router,
    bounds: &Bounds,
    watcher: Watcher,
) -> Closed {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(bounds.head_timeout)
        .max_buf_size(BUFFER_BYTES_MAX);
    let service = service_fn(answering(place.clone(), routes));
    let connection = watcher.watch(http.serve_connection(TokioIo::new(stream), service));
    let mut connection = pin!(connection);
    let reason = connection.as_mut().await.map_or_else(|error| why(&error), |()| Closed::Finished);
    settle(place, reason)
}

async fn serve_http2(
    stream: Paced,
    place: &Place,
    routes: Router,
    bounds: &Bounds,
    watcher: Watcher,
) -> Closed {
    let streams = Streams::default();
    let service = service_fn(answering(place.clone(), routes));
    let connection = streams.builder(bounds).serve_connection(TokioIo::new(stream), service);
    let connection = pin!(watcher.watch(connection));
    match select(connection, pin!(silence(place, bounds))).await {
        Either::Left((Ok(()), _connection)) => settle(place, Closed::Finished),
        Either::Left((Err(error), _connection)) => settle(place, why_http2(&error)),
        Either::Right(((), _connection)) => Closed::Silent,
    }
}

/// What answers the requests of one connection, and tells the book of each.
fn answering(
    place: Place,
    routes: Router,
) -> impl Fn(Request<Incoming>) -> Pin<Box<dyn Future<Output = Answered> + Send>> {
    let routes = TowerToHyperService::new(routes);
    move |request| {
        let (asked, request) = place.on_request(request);
        let answer = routes.call(request);
        Box::pin(async move { Ok(answer.await?.map(|body| asked.on_answer(body))) })
    }
}

/// Before the socket is dropped: what is left to say to the client may still reach it.
fn settle(place: &Place, reason: Closed) -> Closed {
    if matches!(reason, Closed::Finished | Closed::Malformed) {
        place.settle();
    }
    reason
}

fn why(error: &hyper::Error) -> Closed {
    if error.is_parse() {
        return Closed::Malformed;
    }
    let cause = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    match cause.map(io::Error::kind) {
        Some(io::ErrorKind::TimedOut) => Closed::Stalled,
        None if error.is_timeout() => Closed::Silent,
        _ => Closed::Broken,
    }
}

/// What is neither a timeout nor the socket's is against the protocol.
fn why_http2(error: &hyper::Error) -> Closed {
    let of_socket = error.source().is_some_and(<dyn std::error::Error>::is::<io::Error>);
    match why(error) {
        Closed::Broken if !of_socket => Closed::Malformed,
        reason => reason,
    }
}
