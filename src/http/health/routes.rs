//! `/livez`, `/readyz` and `/healthz`: one word for everybody, detail for the operator.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use http::{Response, StatusCode};
use serde::Serialize;

use super::{Answer, Health, Status};

#[derive(Debug, Serialize)]
struct Word<T> {
    status: T,
}

#[derive(Debug, Serialize)]
struct Readiness {
    status: &'static str,
    writer: Answer,
    reader: Answer,
    disk_free_bytes: Option<u64>,
}

/// The health routes of the public listener: `{"status": …}` and the code.
pub fn public_health_router(health: Arc<Health>) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/healthz", get(healthz))
        .with_state(health)
}

/// The health routes of the operator's listener, with everything that is known.
pub fn detailed_router(health: Arc<Health>) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz_detailed))
        .route("/healthz", get(healthz_detailed))
        .with_state(health)
}

async fn livez() -> Json<Word<&'static str>> {
    Json(Word { status: "alive" })
}

async fn readyz(State(health): State<Arc<Health>>) -> Response<Body> {
    let (code, status) = readiness(health.is_ready().await);
    (code, Json(Word { status })).into_response()
}

async fn readyz_detailed(State(health): State<Arc<Health>>) -> Response<Body> {
    let probe = health.probe().await;
    let (code, status) = readiness(health.readiness(&probe));
    let answer = Readiness {
        status,
        writer: probe.writer,
        reader: probe.reader,
        disk_free_bytes: probe.disk_free,
    };
    (code, Json(answer)).into_response()
}

async fn healthz(State(health): State<Arc<Health>>) -> Response<Body> {
    let status = health.report().await.status;
    (code(status), Json(Word { status })).into_response()
}

async fn healthz_detailed(State(health): State<Arc<Health>>) -> Response<Body> {
    let report = health.report().await;
    (code(report.status), Json(report)).into_response()
}

fn readiness(ready: bool) -> (StatusCode, &'static str) {
    if ready {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not_ready")
    }
}

fn code(status: Status) -> StatusCode {
    match status {
        Status::Ok | Status::Degraded => StatusCode::OK,
        Status::Failing => StatusCode::SERVICE_UNAVAILABLE,
    }
}
