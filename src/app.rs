//! Floor 6: the only composition root. Every part is built once, here, in order.
//!
//! Up: store (lock, migrations, checks) → void what the process before left behind → API client,
//! effects, planner → use cases → loops → listeners. Nothing listens before the store can commit.
//!
//! Down, on SIGTERM or SIGINT: the workers claim no more and finish what they hold, while deliveries
//! are still accepted; then the listeners close; then the commits in hand; then the store, and beside
//! it the traces that wait. Whatever the deadline cuts off is given back or found again at the next start.
//!
//! SIGHUP: the secrets are read again (`app::reload`).
//!
//! If the database file breaks under us the process ends by itself, non-zero: only a restart can
//! check the file.

mod groups;
mod loops;
mod reload;
mod signals;
mod traces;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use self::groups::Groups;
pub use self::loops::LOOPS;
use self::loops::{check_meanwhile, intervals, start_loops};
use self::reload::{Secrets, kept_secrets, verifier};
pub use self::signals::Asked;
use self::signals::Hangup;
use crate::base::clock::{Clock, SystemClock};
use crate::base::failpoint::failpoint;
use crate::base::ids::{Ids, RandomIds};
use crate::base::shutdown::Shutdown;
use crate::base::swap::Swap;
use crate::config::settings::Settings;
use crate::config::{Effective, Loaded, Problems};
use crate::domain::ledger::PlanEffects;
use crate::effects::Registry;
use crate::effects::plan::Planner;
use crate::gemini::GeminiApi;
use crate::gemini::client::HttpGemini;
use crate::gemini::webhooks::WebhookApi;
use crate::http::health::{Health, Watched, public_health_router};
use crate::http::hooks::{self, Door};
use crate::http::layers::{self, Common};
use crate::http::listeners::{Inherited, Listeners};
use crate::http::peers::Peers;
use crate::http::serve::{self, ServeSettings};
use crate::http::state::AdminState;
use crate::http::web::Web;
use crate::http::{admin::admin_router, echo};
use crate::receive::Receiver;
use crate::reconcile::Reconciler;
use crate::reconcile::rotation::Rotation;
use crate::reconcile::subscription::Subscription;
use crate::reconcile::upkeep::Upkeep;
use crate::reconcile::watch::{self, Watch};
use crate::store::{CHECK_AT_ONCE, OpenOptions, Store, disk_free};
use crate::telemetry::metrics::{self, Metrics};
use crate::telemetry::traces::Traces;
use crate::verify::{HttpKeys, KeySource, SecretFile, SecretSet};
use crate::work::{Policy, Registrar, Sender, Worker};

/// A running service.
#[derive(Debug)]
pub struct App {
    /// Where the public listener listens.
    pub public: SocketAddr,
    /// Where the operator's listener listens.
    pub admin: SocketAddr,
    store: Store,
    secrets: Secrets,
    shown: Swap<Option<Effective>>,
    groups: Groups,
    patience: Duration,
}

/// The use cases, built over one store.
struct Parts {
    worker: Arc<Worker>,
    sender: Arc<Sender>,
    reconciler: Arc<Reconciler>,
    upkeep: Arc<Upkeep>,
    watch: Arc<Watch>,
    gemini: Arc<HttpGemini>,
    /// Looked after only when that is asked for.
    subscription: Option<Arc<Subscription>>,
    receiver: Receiver,
    registrar: Registrar,
}

impl App {
    /// Starts everything, listening on sockets of its own. When this returns, deliveries are accepted.
    ///
    /// # Errors
    /// As [`App::start_on`].
    pub async fn start(settings: &Settings, metrics: Metrics) -> anyhow::Result<Self> {
        Self::start_on(Inherited::default(), settings, metrics).await
    }

    /// Starts everything, listening on what was handed down where something was.
    ///
    /// # Errors
    /// The store cannot be opened safely, an address cannot be bound, an effect cannot work.
    pub async fn start_on(
        inherited: Inherited,
        settings: &Settings,
        metrics: Metrics,
    ) -> anyhow::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let ids: Arc<dyn Ids> = Arc::new(RandomIds::from_system());
        let groups = Groups::new(&clock);
        let keys: Arc<dyn KeySource> =
            Arc::new(HttpKeys::new(Arc::clone(&clock), groups.doors.clone())?);
        let verifier = verifier(settings, &keys)?;
        let kept = kept_secrets(settings, &verifier)?;
        let verifier = Swap::new(verifier);
        let options = OpenOptions {
            path: settings.store.path.clone(),
            create: true,
            readers: settings.store.readers,
            max_waiting: settings.hooks.max_waiting,
            check_at_once: CHECK_AT_ONCE,
        };
        let (for_clock, for_ids) = (Arc::clone(&clock), Arc::clone(&ids));
        let store = Store::open(&options, for_clock, for_ids, &groups.store).await?;
        let traces = traces::start(&settings.traces, &clock, &groups.traces)?;
        let given = (kept.clone(), &traces);
        let parts = Parts::build(settings, &store, &clock, &ids, &groups.work, given)?;
        parts.take_over().await?;
        describe(settings);
        metrics::started(clock.now());
        let Listeners { public, admin } = Listeners::open(settings, inherited).await?;
        let addresses = (public.local_addr()?, admin.local_addr()?);
        start_loops(&parts, &groups.work);
        check_meanwhile(&store, &groups.work);
        let health = health(settings, &store, &clock, &groups, &parts.worker);
        let door = Door::new(
            verifier.clone(),
            Arc::new(parts.receiver.clone()),
            &settings.server,
            Arc::clone(&clock),
            groups.commits.clone(),
        );
        let hooks = hooks::routes(Arc::new(door));
        let public_routes = hooks.merge(public_health_router(Arc::clone(&health)));
        let web = web(settings, &clock, &ids, &groups);
        web.keep_samples(Arc::clone(&health), store.clone());
        let state = parts.operators(settings, &store, health, metrics, &web);
        let state = state.with_requests(groups.commits.clone());
        let door_secrets = (verifier, keys, kept);
        let app = Self {
            public: addresses.0,
            admin: addresses.1,
            store,
            secrets: Secrets::new(
                settings,
                door_secrets,
                state.secrets(),
                parts.gemini,
                parts.subscription,
                traces,
            ),
            shown: web.effective(),
            groups: groups.clone(),
            patience: settings.server.stop_timeout,
        };
        let peers = Peers::new(settings.server.trusted_proxies.clone());
        let common = Common { clock, ids, peers };
        for (name, listener, routes) in [
            ("public listener", public, public_routes),
            ("admin listener", admin, admin_router(state)),
        ] {
            let (serving, stop) = (ServeSettings::from(&settings.server), groups.doors.clone());
            let routes = echo::wrap(layers::wrap(routes, common.clone()), &*common.ids);
            let listening = serve::serve(listener, routes, serving, stop);
            groups.doors.spawn(name, listening);
        }
        tracing::info!(
            public = %app.public,
            admin = %app.admin,
            store = %settings.store.path.display(),
            "hookledger accepts deliveries"
        );
        Ok(app)
    }

    /// Shows the operator this configuration, which is the one in force.
    pub fn shows(&self, effective: &Effective) {
        self.shown.set(Some(effective.clone()));
    }

    /// Completes with the reason when the service cannot go on.
    pub async fn broken(&self) -> String {
        self.store.broken().await
    }

    /// Stops in order. False when something had to be cut off.
    pub async fn stop(self) -> bool {
        let Self {
            groups,
            store,
            patience,
            ..
        } = self;
        // The workers get most of the time: they may be waiting for somebody else's server.
        let clean = groups.work.drain(patience.mul_f64(0.7)).await;
        failpoint!("fp-s1");
        let clean = groups.doors.drain(patience.mul_f64(0.2)).await && clean;
        failpoint!("fp-s1");
        let clean = groups.commits.drain(patience.mul_f64(0.1)).await && clean;
        failpoint!("fp-s1");
        let stored = async {
            store.close().await;
            groups.store.drain(Duration::from_secs(5)).await
        };
        // What a slow collector does not get in time is no reason to call a stop unclean.
        let exported = groups.traces.drain(patience.mul_f64(0.1));
        let (stored, _) = tokio::join!(stored, exported);
        let clean = stored && clean;
        tracing::info!(clean, "hookledger has stopped");
        clean
    }
}

impl Parts {
    fn build(
        settings: &Settings,
        store: &Store,
        clock: &Arc<dyn Clock>,
        ids: &Arc<dyn Ids>,
        work: &Shutdown,
        (kept, traces): (Option<(SecretFile, SecretSet)>, &Traces),
    ) -> anyhow::Result<Self> {
        let http = Arc::new(HttpGemini::new(&settings.gemini, Arc::clone(clock))?);
        let api: Arc<dyn GeminiApi> = http.clone();
        let registry = Arc::new(Registry::build(&settings.effects, &api)?);
        let planner = Planner::new(registry.rules().to_vec(), settings.alerts.to.clone());
        let policies = planner.policies();
        let planner: Arc<dyn PlanEffects> = Arc::new(planner);
        let (store, clock, ids) = (|| store.clone(), || Arc::clone(clock), || Arc::clone(ids));
        let plan = || Arc::clone(&planner);
        let worker =
            Worker::new(store(), api, plan(), clock(), ids(), settings).with_traces(traces.clone());
        let sender = Sender::new(
            store(),
            registry,
            plan(),
            clock(),
            ids(),
            &settings.delivery,
        )
        .with_traces(traces.clone());
        let reconciler = Reconciler::new(store(), plan(), policies, clock(), settings);
        let webhooks = || -> Arc<dyn WebhookApi> { http.clone() };
        let rotation = kept.map(|(file, set)| Rotation::new(file, set, webhooks(), clock()));
        let subscription = settings
            .subscription
            .enabled
            .then(|| Subscription::new(store(), webhooks(), plan(), clock(), rotation, settings));
        let path = store().path().to_owned();
        let watched = watch::Watched {
            loops: work.clone(),
            intervals: intervals(settings),
            disk_free: Arc::new(move || disk_free(&path)),
            low_free_disk: settings.store.low_free_disk,
        };
        Ok(Self {
            worker: Arc::new(worker),
            sender: Arc::new(sender),
            reconciler: Arc::new(reconciler),
            upkeep: Arc::new(Upkeep::new(store(), plan(), clock(), settings)),
            watch: Arc::new(Watch::new(store(), plan(), clock(), watched)),
            gemini: http,
            subscription: subscription.flatten().map(Arc::new),
            receiver: Receiver::new(store(), clock(), ids(), settings.hooks.dedupe_ttl)
                .with_traces(traces.clone()),
            registrar: Registrar::new(store(), plan(), clock(), ids(), Policy::new(settings)),
        })
    }

    /// Frees what the process before had in hand when it ended.
    async fn take_over(&self) -> anyhow::Result<()> {
        let left = self.reconciler.recover().await;
        let left = left.context("cannot void old leases")?;
        if left.leases_freed + left.sends_freed > 0 {
            tracing::info!(
                leases = left.leases_freed,
                sends = left.sends_freed,
                "took over what the process before had in hand"
            );
        }
        Ok(())
    }

    /// What the operator's listener works with.
    fn operators(
        &self,
        settings: &Settings,
        store: &Store,
        health: Arc<Health>,
        metrics: Metrics,
        web: &Arc<Web>,
    ) -> AdminState {
        let (registrar, receiver) = (self.registrar.clone(), self.receiver.clone());
        let store = store.clone();
        AdminState::new(settings, store, registrar, receiver, health, metrics)
            .with_subscription(self.subscription.clone())
            .with_upkeep(Arc::clone(&self.upkeep))
            .with_web(Arc::clone(web))
    }
}

fn health(
    settings: &Settings,
    store: &Store,
    clock: &Arc<dyn Clock>,
    groups: &Groups,
    worker: &Arc<Worker>,
) -> Arc<Health> {
    let worker = Arc::clone(worker);
    Arc::new(Health::new(Watched {
        store: store.clone(),
        clock: Arc::clone(clock),
        groups: vec![groups.work.clone()],
        loop_intervals: intervals(settings),
        min_free_disk: settings.store.min_free_disk,
        fetching: Arc::new(move || worker.fetching()),
    }))
}

fn web(
    settings: &Settings,
    clock: &Arc<dyn Clock>,
    ids: &Arc<dyn Ids>,
    groups: &Groups,
) -> Arc<Web> {
    let (clock, ids) = (Arc::clone(clock), Arc::clone(ids));
    Arc::new(Web::new(settings, clock, ids, groups.doors.clone()))
}

fn describe(settings: &Settings) {
    let sources: Vec<&str> = settings.sources.keys().map(String::as_str).collect();
    let effects: Vec<&str> = settings
        .effects
        .iter()
        .map(|e| e.rule.name.as_str())
        .collect();
    metrics::describe_all(&sources, &effects, &LOOPS);
}

/// Runs the service until it is asked to stop or cannot go on. On SIGHUP the secrets of what `again`
/// reads take the place of those in force.
///
/// # Errors
/// It could not start, or the database file broke under it.
pub async fn serve(
    loaded: &Loaded,
    again: impl Fn() -> Result<Loaded, Problems>,
) -> anyhow::Result<()> {
    let metrics = Metrics::install().context("a metrics recorder is installed already")?;
    let mut asked = Asked::listen()?;
    let inherited = Inherited::take()?;
    let mut hangup = Hangup::listen()?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "hookledger starts");
    // Dropped half-way, a start leaves what a crash would: nothing was accepted yet.
    let app = tokio::select! {
        biased;
        app = App::start_on(inherited, &loaded.settings, metrics) => app?,
        signal = asked.next() => {
            tracing::info!(signal, "stopping before it had started");
            return Ok(());
        }
    };
    app.shows(&loaded.effective);
    let end = loop {
        tokio::select! {
            signal = asked.next() => {
                tracing::info!(signal, "stopping");
                break Ok(());
            }
            why = app.broken() => {
                break Err(anyhow::anyhow!("the database cannot be trusted any more: {why}"));
            }
            () = hangup.next() => app.secrets.reload(again(), &loaded.effective),
        }
    };
    app.stop().await;
    end
}
