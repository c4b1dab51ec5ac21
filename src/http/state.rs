//! What the operator's listener works with.

use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::admin::{AdminTokens, Running};
use super::health::Health;
use super::web::Web;
use crate::base::shutdown::Shutdown;
use crate::base::swap::Swap;
use crate::config::Settings;
use crate::receive::Receiver;
use crate::reconcile::subscription::Subscription;
use crate::reconcile::upkeep::Upkeep;
use crate::store::Store;
use crate::telemetry::metrics::Metrics;
use crate::verify::PathTokens;
use crate::work::Registrar;

/// The parts behind the operator's listener.
#[derive(Debug)]
pub struct AdminState {
    pub(super) store: Store,
    pub(super) registrar: Registrar,
    pub(super) receiver: Receiver,
    pub(super) health: Arc<Health>,
    pub(super) metrics: Metrics,
    pub(super) tokens: AdminTokens,
    pub(super) path_tokens: Swap<Option<PathTokens>>,
    pub(super) public_url: Option<Url>,
    pub(super) body_timeout: Duration,
    pub(super) subscription: Option<Arc<Subscription>>,
    pub(super) upkeep: Option<Arc<Upkeep>>,
    pub(super) web: Option<Arc<Web>>,
    /// Where a request with a key runs, so that it is carried out to its end whoever hangs up.
    pub(super) requests: Option<Shutdown>,
    pub(super) running: Running,
}

impl AdminState {
    /// Puts the parts together; tokens, the public URL and the body deadline come from `settings`.
    pub fn new(
        settings: &Settings,
        store: Store,
        registrar: Registrar,
        receiver: Receiver,
        health: Arc<Health>,
        metrics: Metrics,
    ) -> Self {
        Self {
            store,
            registrar,
            receiver,
            health,
            metrics,
            tokens: AdminTokens::new(&settings.admin),
            path_tokens: Swap::new(settings.hooks.path_token.as_ref().map(PathTokens::new)),
            public_url: settings.server.public_url.clone(),
            body_timeout: settings.server.body_timeout,
            subscription: None,
            upkeep: None,
            web: None,
            requests: None,
            running: Running::default(),
        }
    }

    /// What a reload of the secrets replaces here.
    pub fn secrets(&self) -> (AdminTokens, Swap<Option<PathTokens>>) {
        (self.tokens.clone(), self.path_tokens.clone())
    }

    /// With the subscription that is looked after, if one is.
    #[must_use]
    pub fn with_subscription(mut self, subscription: Option<Arc<Subscription>>) -> Self {
        self.subscription = subscription;
        self
    }

    /// With the group in which requests with a key are carried out.
    #[must_use]
    pub fn with_requests(mut self, group: Shutdown) -> Self {
        self.requests = Some(group);
        self
    }

    /// With the loop that prunes, so that it can be asked to.
    #[must_use]
    pub fn with_upkeep(mut self, upkeep: Arc<Upkeep>) -> Self {
        self.upkeep = Some(upkeep);
        self
    }

    /// With the page beside the API.
    #[must_use]
    pub fn with_web(mut self, web: Arc<Web>) -> Self {
        self.web = Some(web);
        self
    }
}
