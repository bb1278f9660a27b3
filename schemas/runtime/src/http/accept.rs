//! Accepts connections and serves each in a task of its own, until the server ends.

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
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::bounds::{Protocol, ServerLimits};
use super::client_address::ClientAddress;
use super::slot::{ConnectionSlot, ResponseBody, SharedTable};
use super::stall::StallTimeout;
use super::stats::CloseReason;
use super::streams::{Streams, silence};
use super::tls::Tls;

type Answered = Result<Response<ResponseBody<Body>>, Infallible>;

/// What carries a connection.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

/// Answer to a new connection when all others are being answered.
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n\
    connection: close\r\ncontent-length: 0\r\n\r\n";

/// The socket that accepts connections, until the server ends.
pub(super) type SharedListener = Arc<Mutex<Option<TcpListener>>>;

/// State that all connections share.
pub(super) struct Acceptor {
    routes: Router,
    bounds: ServerLimits,
    tls: Option<Arc<Tls>>,
    table: Arc<SharedTable>,
    tasks: JoinSet<()>,
    graceful: GracefulShutdown,
}

impl Acceptor {
    pub(super) fn new(
        routes: Router,
        bounds: ServerLimits,
        tls: Option<Arc<Tls>>,
        table: Arc<SharedTable>,
    ) -> Self {
        let (tasks, graceful) = (JoinSet::new(), GracefulShutdown::new());
        Self { routes, bounds, tls, table, tasks, graceful }
    }

    /// Serves until `end` is closed; then finishes the requests in progress, for a bounded time.
    /// The socket stays open for the next start if this one panics.
    pub(super) async fn run(mut self, socket: SharedListener, mut end: watch::Receiver<()>) {
        let mut socket = socket.lock().await;
        let Some(listener) = &*socket else { return };
        let mut ended = pin!(end.changed());
        while let Either::Left((accepted, _)) =
            select(pin!(listener.accept()), ended.as_mut()).await
        {
            // The set keeps what has ended until it is taken out.
            while self.tasks.try_join_next().is_some() {}
            match accepted {
                Ok((stream, address)) => self.on_accepted(stream, address),
                Err(error) => self.on_accept_failed(&error).await,
            }
        }

        *socket = None;
        if timeout(END_WAIT, self.graceful.shutdown()).await.is_err() {
            tracing::warn!("http connections cut at shutdown: their clients are too slow");
        }
    }

    fn on_accepted(&mut self, stream: TcpStream, address: SocketAddr) {
        let admitted = self.table.lock().admit(self.table.now(), address.ip());
        let Some(id) = admitted else {
            if self.bounds.protocol == Protocol::Http1 && self.tls.is_none() {
                // A new socket has room for one line; if not, the client sees the close.
                let _sent = stream.try_write(BUSY);
            }
            return;
        };

        // Otherwise window updates wait for the client's delayed acknowledgement, up to 40 ms. A
        // failure costs this delay only.
        let _set = stream.set_nodelay(true);

        let (slot, client) =
            (ConnectionSlot::new(Arc::clone(&self.table), id), ClientAddress(address.ip()));
        let stream = StallTimeout::new(stream, slot.clone(), self.bounds.stall_timeout);

        let (routes, watcher) = (self.routes.clone(), self.graceful.watcher());
        let serving = Serving { slot, client, routes, bounds: self.bounds, watcher };

        let task = match &self.tls {
            Some(tls) => {
                self.tasks.spawn(serving.serve_tls(tls.acceptor(self.table.now()), stream))
            }
            None => self.tasks.spawn(serving.serve(stream)),
        };

        self.table.lock().on_served(id, task);
    }

    /// The pause keeps a process without free file descriptors from spinning.
    async fn on_accept_failed(&mut self, error: &io::Error) {
        self.table.lock().on_accept_failed();
        let count = self.table.lock().stats().accept_failures;
        if count.is_power_of_two() {
            tracing::warn!(%error, count, "cannot accept an http connection; check LimitNOFILE");
        }
        sleep(ACCEPT_PAUSE).await;
    }
}

/// One connection to be served.
struct Serving {
    slot: ConnectionSlot,
    client: ClientAddress,
    routes: Router,
    bounds: ServerLimits,
    watcher: Watcher,
}

impl Serving {
    async fn serve<S: Stream>(self, stream: S) {
        let slot = self.slot.clone();
        let reason = match self.bounds.protocol {
            Protocol::Http1 => self.serve_http1(stream).await,
            Protocol::Http2 => self.serve_http2(stream).await,
        };
        slot.on_closed(reason);
    }

    /// The handshake has the time of a request's head.
    async fn serve_tls(self, acceptor: TlsAcceptor, stream: StallTimeout) {
        match timeout(self.bounds.head_timeout, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => self.serve(stream).await,
            Ok(Err(_)) => self.slot.on_closed(CloseReason::Malformed),
            Err(_) => self.slot.on_closed(CloseReason::Silent),
        }
    }

    async fn serve_http1<S: Stream>(self, stream: S) -> CloseReason {
        let Self { slot, client, routes, bounds, watcher } = self;
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(bounds.head_timeout)
            .max_buf_size(BUFFER_BYTES_MAX);
        let service = service_fn(answering(slot.clone(), client, routes));
        let connection = watcher.watch(http.serve_connection(TokioIo::new(stream), service));
        let mut connection = pin!(connection);
        let reason =
            connection.as_mut().await.map_or_else(|error| why(&error), |()| CloseReason::Finished);
        settle(&slot, reason)
    }

    async fn serve_http2<S: Stream>(self, stream: S) -> CloseReason {
        let Self { slot, client, routes, bounds, watcher } = self;
        let streams = Streams::default();
        let service = service_fn(answering(slot.clone(), client, routes));
        let connection = streams.builder(&bounds).serve_connection(TokioIo::new(stream), service);
        let connection = pin!(watcher.watch(connection));
        match select(connection, pin!(silence(&slot, &bounds))).await {
            Either::Left((Ok(()), _connection)) => settle(&slot, CloseReason::Finished),
            Either::Left((Err(error), _connection)) => settle(&slot, why_http2(&error)),
            Either::Right(((), _connection)) => CloseReason::Silent,
        }
    }
}

/// The service that answers the requests of one connection and records each in the table. Routes
/// find the address in the request's extensions.
fn answering(
    slot: ConnectionSlot,
    client: ClientAddress,
    routes: Router,
) -> impl Fn(Request<Incoming>) -> Pin<Box<dyn Future<Output = Answered> + Send>> {
    let routes = TowerToHyperService::new(routes);
    move |request| {
        let (pending, mut request) = slot.on_request(request);
        request.extensions_mut().insert(client);
        let answer = routes.call(request);
        Box::pin(async move { Ok(answer.await?.map(|body| pending.on_answer(body))) })
    }
}

/// Lets the kernel deliver the rest of the answer after the socket is dropped.
fn settle(slot: &ConnectionSlot, reason: CloseReason) -> CloseReason {
    if matches!(reason, CloseReason::Finished | CloseReason::Malformed) {
        slot.settle();
    }
    reason
}

fn why(error: &hyper::Error) -> CloseReason {
    if error.is_parse() {
        return CloseReason::Malformed;
    }
    let cause = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    match cause.map(io::Error::kind) {
        Some(io::ErrorKind::TimedOut) => CloseReason::Stalled,
        None if error.is_timeout() => CloseReason::Silent,
        _ => CloseReason::Broken,
    }
}

/// An error that is neither a timeout nor one of the socket violates the protocol.
fn why_http2(error: &hyper::Error) -> CloseReason {
    let of_socket = error.source().is_some_and(<dyn std::error::Error>::is::<io::Error>);
    match why(error) {
        CloseReason::Broken if !of_socket => CloseReason::Malformed,
        reason => reason,
    }
}
