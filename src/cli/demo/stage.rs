//! Everything the demo starts: the fake Gemini API, the whole service and a receiver of effects,
//! each on a free port of loopback.
//!
//! Each of the two must know the other's address: the simulator's port is bound first, the service
//! starts with that address, and the simulator starts with the service's. What the service asks in
//! between waits in the listener's queue.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::{BASE64, BASE64URL_NOPAD};
use tokio::net::TcpListener;
use url::Url;

use super::sink::Sink;
use crate::app::App;
use crate::base::clock::{Clock, SystemClock};
use crate::base::ids::{Ids, RandomIds};
use crate::base::secret::Secret;
use crate::base::shutdown::Shutdown;
use crate::cli::client::{Client, Found};
use crate::cli::failure::Failure;
use crate::cli::load;
use crate::config::{self, Inputs, Purpose};
use crate::simulator::{Simulator, SimulatorConfig};
use crate::telemetry::metrics::Metrics;

/// Short times, so that the story takes seconds; otherwise the defaults.
const SETTINGS: &str = r#"
[server]
listen = "127.0.0.1:0"
stop_timeout = "3s"
[admin]
listen = "127.0.0.1:0"
[sources.gemini]
require = "all"
shared_header = false
[store]
min_free_disk = "1MiB"
low_free_disk = "1MiB"
[reconcile]
interval = "200ms"
grace = "3s"
check_min = "500ms"
check_max = "500ms"
webhook_late_after = "200ms"
[worker]
retry_first = "200ms"
[delivery]
retry_first = "200ms"
"#;

/// What was started.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) simulator: Arc<Simulator>,
    pub(super) sink: Arc<Sink>,
    /// The admin API.
    pub(super) client: Client,
    pub(super) addresses: Addresses,
    app: App,
    group: Shutdown,
}

/// Where everything listens, and the throw-away token of the admin API.
#[derive(Debug, Clone)]
pub(super) struct Addresses {
    pub(super) simulator: SocketAddr,
    pub(super) public: SocketAddr,
    pub(super) admin: SocketAddr,
    pub(super) admin_token: String,
}

impl Stage {
    /// Starts everything over the database at `database`.
    pub(super) async fn start(database: &Path, verbose: u8) -> Result<Self, Failure> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let ids: Arc<dyn Ids> = Arc::new(RandomIds::from_system());
        let group = Shutdown::new(Arc::clone(&clock));
        let (simulator_door, simulator_at) = bind().await?;
        let (sink_door, sink_at) = bind().await?;

        let (path_token, admin_token) = (token(&*ids), token(&*ids));
        let signing_secret = format!("whsec_{}", BASE64.encode(&random(&*ids)));
        let filter = match verbose {
            0 => "error",
            1 => "info,hookledger=debug",
            _ => "debug,hookledger=trace",
        };
        let effect = format!(
            "{SETTINGS}\n[[effects]]\nname = \"notify\"\nkind = \"http\"\nallow_private = true\n\
             on = [\"succeeded\", \"failed\"]\nurl = \"http://{sink_at}/done\"\n"
        );
        let inputs = Inputs::new()
            .with_text(effect)
            .with_flag("store.path", database.display().to_string())
            .with_flag("gemini.base_url", format!("http://{simulator_at}"))
            .with_flag("gemini.api_key", token(&*ids))
            .with_flag("hooks.path_token", path_token.as_str())
            .with_flag("admin.token", admin_token.as_str())
            .with_flag("sources.gemini.signing_secrets", signing_secret.as_str())
            .with_flag("log.filter", filter);
        let settings = config::load(&inputs, Purpose::Serve)?.settings;
        load::log_as(&settings)?;

        let sink = Arc::new(Sink::default());
        group.spawn("sink", Arc::clone(&sink).serve(sink_door, group.clone()));
        let metrics =
            Metrics::install().ok_or_else(|| Failure::failed("metrics are installed already"))?;
        let app = App::start(&settings, metrics)
            .await
            .map_err(|error| Failure::failed(format!("{error:#}")))?;
        let hook = format!("http://{}/hooks/gemini/{path_token}", app.public);
        let hook = Url::parse(&hook).map_err(|_| Failure::failed("the webhook URL is no URL"))?;
        let config = SimulatorConfig {
            webhook_url: Some(hook),
            webhook_secret: Some(Secret::new(signing_secret)),
            ..SimulatorConfig::default()
        };
        let simulator = Simulator::new(config, Arc::clone(&clock), ids);
        let serving = Arc::clone(&simulator).serve(simulator_door, group.clone());
        group.spawn("simulator", serving);
        let client = match Client::find(app.admin, &Secret::new(admin_token.as_str())).await? {
            Found::Service(client) => client,
            Found::Refused | Found::Nothing => {
                return Err(Failure::failed("the admin API does not answer"));
            }
        };
        let addresses = Addresses {
            simulator: simulator_at,
            public: app.public,
            admin: app.admin,
            admin_token,
        };
        Ok(Self {
            clock,
            simulator,
            sink,
            client,
            addresses,
            app,
            group,
        })
    }

    /// Stops the service, then what it talked to.
    pub(super) async fn stop(self) {
        let Self { app, group, .. } = self;
        app.stop().await;
        group.drain(Duration::from_secs(1)).await;
    }
}

async fn bind() -> Result<(TcpListener, SocketAddr), Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

fn random(ids: &dyn Ids) -> [u8; 32] {
    let mut bytes = [0; 32];
    ids.fill(&mut bytes);
    bytes
}

fn token(ids: &dyn Ids) -> String {
    BASE64URL_NOPAD.encode(&random(ids))
}
