//! The operator's API, `/api/v1`.
//!
//! Handlers parse, call one use case and render; all answers are JSON, all refusals problem
//! documents. Every path under `/api/v1` asks for the token first, the unknown ones too, so that
//! nobody without it learns which exist. GET never changes anything; whatever does is a POST that
//! carries the token in a header, which no other site's page can make a browser send, and wants one
//! of full scope. A POST with an `Idempotency-Key` is carried out once (`once`).
//!
//! An operation is named by its full name, slashes as they are, or by its ledger id; an action on it
//! is one more segment behind. A name may itself end in that word, so GET never reads it as an
//! action and POST reads only the last.

mod auth;
mod bulk;
pub(super) mod effects;
pub(super) mod events;
mod import;
pub(super) mod input;
mod once;
mod openapi;
pub(super) mod operations;
mod prune;
pub(super) mod queue;
mod refusal;
mod reservations;
mod subscription;

use std::sync::Arc;

use axum::routing::{get, post};
use axum::{Router, middleware};

pub use auth::AdminTokens;
pub(super) use auth::TokenDigest;
pub use once::Running;
pub use refusal::Refusal;

use super::error::Problem;
use super::health;
use super::metrics;
use super::state::AdminState;
use super::web;

/// Everything of the operator's listener: API, health with its detail, metrics. To be dressed by
/// [`layers::wrap`](super::layers::wrap) like every router.
pub fn admin_router(state: AdminState) -> Router {
    let health = health::detailed_router(Arc::clone(&state.health));
    let state = Arc::new(state);
    let pages = web::router(&state);
    let api = Router::new()
        .route(
            "/operations",
            get(operations::list).post(operations::register),
        )
        .route(
            "/operations/{*rest}",
            get(operations::show).post(operations::act),
        )
        .route("/reservations", post(reservations::reserve))
        .route("/reservations/{id}/bind", post(reservations::bind))
        .route("/events", get(events::list))
        .route("/events/replay", post(events::replay_many))
        .route("/events/{id}", get(events::show))
        .route("/events/{id}/replay", post(events::replay))
        .route("/queue", get(queue::list))
        .route("/queue/retry", post(queue::retry))
        .route("/effects", get(effects::list))
        .route("/effects/retry", post(effects::retry_many))
        .route("/effects/{id}", get(effects::show))
        .route("/effects/{id}/retry", post(effects::retry))
        .route("/effects/{id}/resolve", post(effects::resolve))
        .route("/alerts", get(queue::alerts))
        .route("/import", post(import::import))
        .route("/prune", get(prune::over).post(prune::prune))
        .route("/subscription/rotate", post(subscription::rotate))
        .route("/openapi.json", get(openapi::document))
        .method_not_allowed_fallback(|| async { Problem::METHOD_NOT_ALLOWED })
        .fallback(|| async { Problem::NOT_FOUND })
        .layer(middleware::from_fn_with_state(
            Arc::clone(&state),
            once::keep_answers,
        ))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&state),
            auth::require_token,
        ))
        .with_state(Arc::clone(&state));
    Router::new()
        .nest("/api/v1", api)
        .route("/metrics", get(metrics::page))
        .with_state(state)
        .merge(health)
        .merge(pages)
}
