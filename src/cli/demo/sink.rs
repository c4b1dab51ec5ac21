//! The receiver of the effects: a small HTTP server that says yes and remembers.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::base::shutdown::Shutdown;

/// Larger than any effect of the demo.
const MAX_BODY: usize = 256 * 1024;

/// One effect, as it arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Receipt {
    /// The operation it speaks of.
    pub(super) operation: String,
    /// How that ended.
    pub(super) state: String,
    /// Its `webhook-id`.
    pub(super) key: String,
}

/// Everything that arrived.
#[derive(Debug, Default)]
pub(super) struct Sink {
    received: Mutex<Vec<Receipt>>,
    arrived: Notify,
}

impl Sink {
    /// Serves until `stop` is asked to stop.
    pub(super) async fn serve(self: Arc<Self>, listener: TcpListener, stop: Shutdown) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.stopping() => return,
            };
            let Ok((stream, _)) = accepted else {
                return;
            };
            let (sink, asked) = (Arc::clone(&self), stop.clone());
            stop.spawn("sink-connection", async move {
                tokio::select! {
                    () = sink.connection(stream) => {}
                    () = asked.stopping() => {}
                }
            });
        }
    }

    async fn connection(self: Arc<Self>, stream: TcpStream) {
        let service = service_fn(move |request| {
            let sink = Arc::clone(&self);
            async move { Ok::<_, Infallible>(sink.take(request).await) }
        });
        // The sender notices by itself when this breaks, and sends again.
        drop(
            http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await,
        );
    }

    async fn take(&self, request: Request<Incoming>) -> Response<Empty<Bytes>> {
        let key = request.headers().get("webhook-id");
        let key = key.and_then(|key| key.to_str().ok()).map(str::to_owned);
        let body = Limited::new(request.into_body(), MAX_BODY).collect().await;
        let receipt = key.zip(body.ok()).and_then(|(key, body)| {
            let body: Value = serde_json::from_slice(&body.to_bytes()).ok()?;
            let data = |field: &str| Some(body.get("data")?.get(field)?.as_str()?.to_owned());
            Some(Receipt {
                operation: data("name")?,
                state: data("state")?,
                key,
            })
        });
        let mut response = Response::new(Empty::new());
        *response.status_mut() = if let Some(receipt) = receipt {
            self.lock().push(receipt);
            self.arrived.notify_one();
            StatusCode::NO_CONTENT
        } else {
            StatusCode::BAD_REQUEST
        };
        response
    }

    /// Everything so far, in order.
    pub(super) fn received(&self) -> Vec<Receipt> {
        self.lock().clone()
    }

    /// Completes after something arrived.
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Receipt>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
