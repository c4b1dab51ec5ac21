//! The operator's page, on the operator's listener beside the API.
//!
//! Problem: at three in the morning somebody wants to know, in one sentence, whether all is well and
//! what is not, and wants the button that repairs it.
//!
//! Design: pages are made here, whole, and work without script; with script they fetch themselves
//! again whenever `live` says that something has changed. Every button calls the use case that the
//! API calls, so the two cannot differ. A person signs in by an admin token (`sign_in`); what
//! changes something is a POST that proves it came from a page of ours (`seat::Order`).
//!
//! Everything shown that came from outside goes through maud, which escapes it; bodies are text. The
//! policy sent with every page allows no script and no style but ours, so what slipped through would
//! still not run.

mod alerts;
mod answer;
mod assets;
mod drawing;
mod effects;
mod events;
mod filters;
mod layout;
mod listing;
mod live;
mod operation;
mod operations;
mod overview;
mod parts;
mod plots;
mod pretty;
mod queue;
mod samples;
mod seat;
mod session;
mod settings;
mod sign_in;
mod timeline;
mod verdict;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::middleware::{self, Next};
use axum::routing::{get, post};
use http::{HeaderName, HeaderValue, Request, Response, header};

use self::live::Streams;
use self::samples::Samples;
use self::session::Sessions;
use super::failures::Failures;
use super::health::Health;
use super::state::AdminState;
use crate::base::clock::Clock;
use crate::base::ids::Ids;
use crate::base::shutdown::Shutdown;
use crate::base::swap::Swap;
use crate::config::{Effective, Settings};
use crate::receive::curl::Target;
use crate::store::Store;

/// Time between two samples of the plots.
pub const SAMPLE_EVERY: Duration = Duration::from_secs(10);

/// No script, style or connection but our own, and nobody may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// What the page keeps between requests.
pub struct Web {
    clock: Arc<dyn Clock>,
    sessions: Sessions,
    failures: Failures,
    samples: Samples,
    streams: Streams,
    stop: Shutdown,
    /// Where a captured delivery is sent again, by its source.
    targets: BTreeMap<String, Target>,
    /// For a source that is not configured any more.
    other: Target,
    effective: Swap<Option<Effective>>,
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Web").finish_non_exhaustive()
    }
}

impl Web {
    /// Nobody is signed in. Streams end when `stop` begins.
    pub fn new(
        settings: &Settings,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        stop: Shutdown,
    ) -> Self {
        let target = |source: &String| (source.clone(), Target::of(settings, source, None));
        Self {
            targets: settings.sources.keys().map(target).collect(),
            other: Target::of(settings, "", None),
            effective: Swap::new(None),
            sessions: Sessions::new(Arc::clone(&clock), ids),
            failures: Failures::new(Arc::clone(&clock)),
            samples: Samples::default(),
            streams: Streams::default(),
            clock,
            stop,
        }
    }

    /// What the page of settings shows; nothing at first.
    pub fn effective(&self) -> Swap<Option<Effective>> {
        self.effective.clone()
    }

    fn target(&self, source: &str) -> &Target {
        self.targets.get(source).unwrap_or(&self.other)
    }

    /// Takes a sample of the figures for the plots every ten seconds, as a task of its group.
    pub fn keep_samples(self: &Arc<Self>, health: Arc<Health>, store: Store) {
        let web = Arc::clone(self);
        self.stop.spawn("samples", async move {
            loop {
                web.samples.take(&health, &store).await;
                tokio::select! {
                    () = web.stop.stopping() => return,
                    () = web.clock.sleep(SAMPLE_EVERY) => {}
                }
            }
        });
    }
}

/// What a handler works with.
#[derive(Debug, Clone)]
struct Desk {
    admin: Arc<AdminState>,
    web: Arc<Web>,
}

/// The pages. Without [`AdminState::with_web`] there are none.
pub(super) fn router(admin: &Arc<AdminState>) -> Router {
    let Some(web) = admin.web.clone() else {
        return Router::new();
    };
    let admin = Arc::clone(admin);
    Router::new()
        .route("/", get(overview::show))
        .route("/login", get(sign_in::form).post(sign_in::sign_in))
        .route("/logout", post(sign_in::sign_out))
        .route("/operations", get(operations::list))
        .route("/operations/named", get(operations::named))
        .route("/operations/{id}", get(operation::show))
        .route("/operations/{id}/fetch", post(operation::fetch))
        .route("/events", get(events::list))
        .route("/events/{id}", get(events::show))
        .route("/events/{id}/replay", post(events::replay))
        .route("/queue", get(queue::list))
        .route("/queue/retry", get(queue::confirm).post(queue::retry))
        .route("/effects", get(effects::list))
        .route("/effects/{id}", get(effects::show))
        .route("/effects/{id}/decide", post(effects::decide))
        .route("/alerts", get(alerts::list))
        .route("/settings", get(settings::show))
        .route(live::LIVE, get(live::stream))
        .route("/assets/{name}", get(assets::serve))
        .layer(middleware::from_fn(dressed))
        .with_state(Desk { admin, web })
}

/// What every answer of the page carries.
async fn dressed(request: Request<Body>, next: Next) -> Response<Body> {
    let mut response = next.run(request).await;
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_FRAME_OPTIONS, "DENY"),
        // Not `no-referrer`: with it browsers send `Origin: null` with our own forms.
        (header::REFERRER_POLICY, "same-origin"),
        (CROSS_ORIGIN_OPENER, "same-origin"),
        (CROSS_ORIGIN_RESOURCE, "same-origin"),
        (header::VARY, "hx-request"),
    ] {
        let headers = response.headers_mut();
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

const CROSS_ORIGIN_OPENER: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const CROSS_ORIGIN_RESOURCE: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
