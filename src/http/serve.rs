//! The accept loop.
//!
//! Problem: axum's own loop sets no timer, so a client that sends half a header, or nothing, stays
//! for ever, and a graceful stop waits for it.
//!
//! Design: HTTP/1.1 only, by hyper's builder with a header deadline that runs from the moment a
//! connection is accepted or its last answer was sent; so it bounds silent and idle connections,
//! too. A semaphore bounds all connections (the rest wait in the kernel's backlog), a table those of
//! one address.
//!
//! Closing: a kernel that closes a socket with unread bytes in it sends a reset, and the reset
//! destroys an answer that the client has not read yet. So whatever ends a connection, an early
//! refusal of a body or a parse error, we say that we are done (FIN) and then read and throw away a
//! bounded rest before closing. This covers every handler, whether or not it read its body.
//!
//! Stopping: on the soft token the listener is closed, idle connections end, busy ones end after
//! their answer. One on which nothing was asked yet gets a moment, because its first request may be
//! on its way. On the hard token all are dropped.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::ServiceExt;

use super::limits::{
    FIRST_REQUEST_GRACE, LINGER_BYTES, LINGER_TIME, LINGER_TIME_STOPPING, MAX_BUFFER_BYTES,
    MAX_HEADER_BYTES, MAX_HEADERS, MAX_REQUESTS_PER_CONNECTION, PerAddress, Slot, WRITE_TIMEOUT,
};
use super::peers::Peers;
use super::unread::Watched;
use super::write_deadline::WriteDeadline;
use crate::base::shutdown::Shutdown;
use crate::config::settings::Server;
use crate::telemetry::metrics;

/// Pause after an accept that failed for want of something, such as file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Limits of one listener.
#[derive(Debug, Clone)]
pub struct ServeSettings {
    /// Longest wait for a request's headers to be whole, counted from the connection's start or its
    /// last answer.
    pub header_timeout: Duration,
    /// Longest time an answer may make no progress because its reader does not read.
    pub write_timeout: Duration,
    /// Most connections at once.
    pub max_connections: usize,
    /// Most connections of one address, where addresses tell clients apart.
    pub max_connections_per_address: usize,
    /// Who is a proxy.
    pub peers: Peers,
    /// Told how many connections are open, whenever that changes.
    pub on_connections: fn(u64),
}

impl From<&Server> for ServeSettings {
    fn from(server: &Server) -> Self {
        Self {
            header_timeout: server.header_timeout,
            write_timeout: WRITE_TIMEOUT,
            max_connections: server.max_connections,
            max_connections_per_address: server.max_connections_per_address,
            peers: Peers::new(server.trusted_proxies.clone()),
            on_connections: metrics::connections,
        }
    }
}

/// The other end of the connection a request came by, as a request extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Accepts and serves connections until `stop` begins. Each connection is a task of `stop`'s group.
pub async fn serve(listener: TcpListener, router: Router, settings: ServeSettings, stop: Shutdown) {
    let places = Arc::new(Semaphore::new(settings.max_connections));
    let per_address = Arc::new(PerAddress::default());
    let open_now = Arc::new(AtomicU64::new(0));
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.stopping() => return,
            accepted = accept(&listener, &places) => accepted,
        };
        let (stream, peer, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if !is_the_clients(&error) {
                    tracing::warn!(%error, "accepting a connection failed");
                    let _ = tokio::time::timeout(ACCEPT_PAUSE, stop.stopping()).await;
                }
                continue;
            }
        };
        let slot = if settings.peers.limits_connections_of(peer.ip()) {
            let slot = per_address.take(peer.ip(), settings.max_connections_per_address);
            if slot.is_none() {
                tracing::debug!("connection refused: too many of one address");
                continue;
            }
            slot
        } else {
            None
        };
        let connection = Connection {
            peer,
            router: router.clone(),
            header_timeout: settings.header_timeout,
            write_timeout: settings.write_timeout,
            stop: stop.clone(),
        };
        let open = Open::count(&open_now, settings.on_connections, (place, slot));
        stop.spawn("connection", async move {
            connection.run(stream).await;
            drop(open);
        });
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await;
    let place = place.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, place))
}

/// Whether an accept failed because the client was already gone.
fn is_the_clients(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

/// What an open connection holds; given back and told when dropped, also by a panic.
struct Open {
    now: Arc<AtomicU64>,
    tell: fn(u64),
    _held: (OwnedSemaphorePermit, Option<Slot>),
}

impl Open {
    fn count(
        now: &Arc<AtomicU64>,
        tell: fn(u64),
        held: (OwnedSemaphorePermit, Option<Slot>),
    ) -> Self {
        tell(now.fetch_add(1, Ordering::Relaxed) + 1);
        Self {
            now: Arc::clone(now),
            tell,
            _held: held,
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        (self.tell)(self.now.fetch_sub(1, Ordering::Relaxed) - 1);
    }
}

type Io = TokioIo<WriteDeadline<TcpStream>>;

struct Connection {
    peer: SocketAddr,
    router: Router,
    header_timeout: Duration,
    write_timeout: Duration,
    stop: Shutdown,
}

impl Connection {
    async fn run(self, stream: TcpStream) {
        // Answers are one small write each; waiting to fill a packet only delays them.
        let _ = stream.set_nodelay(true);
        let asked = Arc::new(AtomicU64::new(0));
        let service = {
            let (asked, peer, router) = (Arc::clone(&asked), self.peer, self.router.clone());
            hyper::service::service_fn(move |request: Request<Incoming>| {
                let nth = asked.fetch_add(1, Ordering::Relaxed) + 1;
                answer(router.clone(), request, peer, nth)
            })
        };
        let io = TokioIo::new(WriteDeadline::new(stream, self.write_timeout));
        let mut connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.header_timeout)
            .max_headers(MAX_HEADERS)
            .max_header_size(MAX_HEADER_BYTES)
            .max_buf_size(MAX_BUFFER_BYTES)
            .serve_connection(io, service);
        let ended = tokio::select! {
            ended = &mut connection => ended,
            () = self.stop.stopping() => {
                tokio::select! {
                    ended = stop_gently(&mut connection, &asked) => ended,
                    () = self.stop.forced() => return,
                }
            }
        };
        if let Err(error) = &ended {
            tracing::debug!(%error, "connection ended early");
            if error.is_timeout() {
                return;
            }
        }
        let stream = connection.into_parts().io.into_inner().into_inner();
        let patience = if self.stop.is_stopping() {
            LINGER_TIME_STOPPING
        } else {
            LINGER_TIME
        };
        tokio::select! {
            () = linger(stream, patience) => {}
            () = self.stop.forced() => {}
        }
    }
}

/// Ends a connection after the answer it owes. hyper closes one that has sent nothing yet at once,
/// although its first request may be on its way: that one is left alone for a moment first.
async fn stop_gently<S>(
    connection: &mut http1::Connection<Io, S>,
    asked: &AtomicU64,
) -> hyper::Result<()>
where
    S: hyper::service::HttpService<Incoming, ResBody = Body>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    // A request is counted while the connection is polled, so the count is looked at after that.
    let first_request =
        std::future::poll_fn(|cx| match std::pin::Pin::new(&mut *connection).poll(cx) {
            Poll::Ready(ended) => Poll::Ready(Some(ended)),
            Poll::Pending if asked.load(Ordering::Relaxed) > 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
    if let Ok(Some(ended)) = tokio::time::timeout(FIRST_REQUEST_GRACE, first_request).await {
        return ended;
    }
    std::pin::Pin::new(&mut *connection).graceful_shutdown();
    connection.await
}

async fn answer(
    router: Router,
    request: Request<Incoming>,
    peer: SocketAddr,
    nth: u64,
) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let (body, unread) = Watched::new(body);
    let mut request = Request::from_parts(head, Body::new(body));
    request.extensions_mut().insert(Peer(peer));
    let mut response = router.oneshot(request).await?;
    if unread.is_unread() || nth >= MAX_REQUESTS_PER_CONNECTION {
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

/// Says that nothing more will be sent, then reads until the client closes too, within bounds.
async fn linger(mut stream: TcpStream, patience: Duration) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut rest = stream.take(LINGER_BYTES);
    let mut nowhere = tokio::io::sink();
    let thrown_away = tokio::io::copy(&mut rest, &mut nowhere);
    let _ = tokio::time::timeout(patience, thrown_away).await;
}
