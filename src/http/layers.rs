//! What every request passes through, and every answer leaves by.
//!
//! Outermost first: a request id and the client's address are attached, a request without exactly
//! one valid `Host` is refused (two of them are how requests are smuggled past a proxy), a panic
//! becomes a 500. Unknown paths and methods get the same documents everywhere.

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use tower_http::catch_panic::CatchPanicLayer;
use tracing::Instrument;
use uuid::Uuid;

use super::error::Problem;
use super::peers::Peers;
use super::serve::Peer;
use crate::base::clock::Clock;
use crate::base::ids::Ids;
use crate::base::shutdown::panic_text;

/// Name of the header that carries our request id back.
pub const REQUEST_ID_HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// What the layers need.
#[derive(Debug, Clone)]
pub struct Common {
    /// For request ids.
    pub clock: Arc<dyn Clock>,
    /// For request ids.
    pub ids: Arc<dyn Ids>,
    /// Who is a proxy.
    pub peers: Peers,
}

/// Our name for one request, as a request extension. Never taken from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestId(pub Uuid);

/// `router` with its fallbacks and the layers around it. Merge routers first, then wrap once.
pub fn wrap(router: Router, common: Common) -> Router {
    router
        .fallback(|| async { Problem::NOT_FOUND })
        .method_not_allowed_fallback(|| async { Problem::METHOD_NOT_ALLOWED })
        .layer(CatchPanicLayer::custom(on_panic))
        .layer(middleware::from_fn_with_state(Arc::new(common), around))
}

async fn around(
    State(common): State<Arc<Common>>,
    mut request: Request<Body>,
    next: Next,
) -> Response<Body> {
    let id = common.ids.uuid(common.clock.now());
    let span = tracing::info_span!("request", id = %id, method = %request.method());
    let mut response = async {
        if !has_one_host(request.headers()) {
            return Problem::BAD_HOST.into_response();
        }
        if let Some(Peer(peer)) = request.extensions().get().copied() {
            let client = common.peers.client(peer.ip(), request.headers());
            let https = common.peers.https(peer.ip(), request.headers());
            request.extensions_mut().insert(client);
            request.extensions_mut().insert(https);
        }
        request.extensions_mut().insert(RequestId(id));
        next.run(request).await
    }
    .instrument(span)
    .await;
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id.to_string()) {
        headers.insert(REQUEST_ID_HEADER, id);
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

fn has_one_host(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return false;
    };
    // `Authority` also takes `user@host`, which a Host header may not be.
    !host.as_bytes().contains(&b'@') && Authority::try_from(host.as_bytes()).is_ok()
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the signature the layer asks for"
)]
fn on_panic(panic: Box<dyn Any + Send + 'static>) -> Response<Body> {
    tracing::error!(panic = panic_text(&*panic), "request handler panicked");
    Problem::INTERNAL.into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_valid_host() {
        let check = |hosts: &[&str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(header::HOST, host.parse().unwrap());
            }
            has_one_host(&headers)
        };
        for good in ["example.org", "example.org:8080", "127.0.0.1", "[::1]:80"] {
            assert!(check(&[good]), "{good}");
        }
        for bad in [
            "",
            "a b",
            "user@example.org",
            "example.org/x",
            "http://example.org",
            "[::1",
        ] {
            assert!(!check(&[bad]), "{bad}");
        }
        assert!(!check(&[]));
        assert!(!check(&["a", "a"]));
    }
}
