//! `GET /metrics` on the operator's listener, for Prometheus. It asks for no token: scrapers rarely
//! send one, and the page holds numbers and configured names only.

use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;
use http::{HeaderName, header};

use super::gauges;
use super::state::AdminState;

const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) async fn page(State(state): State<Arc<AdminState>>) -> impl IntoResponse {
    gauges::refresh(&state.health).await;
    state.metrics.upkeep();
    let content_type: [(HeaderName, &str); 1] = [(header::CONTENT_TYPE, TEXT_FORMAT)];
    (content_type, state.metrics.render())
}
