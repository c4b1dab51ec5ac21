//! The bound of our HTTP stack: the door, its layers and its proofs, and behind them a receiver that
//! keeps nothing. It exists here only.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use clap::Args;
use hookledger::base::clock::{Clock, SystemClock};
use hookledger::base::ids::{Ids, RandomIds};
use hookledger::base::shutdown::Shutdown;
use hookledger::config::{self, Inputs, Purpose};
use hookledger::http::hooks::{self, Door, Receive, ReceiveAnswer, Unavailable};
use hookledger::http::layers::{self, Common};
use hookledger::http::peers::Peers;
use hookledger::http::serve::{self, ServeSettings};
use hookledger::telemetry::logging::{self, Style};
use hookledger::telemetry::metrics::Metrics;
use hookledger::verify::{HttpKeys, KeySource, Verified, Verifier};
use tokio::net::TcpListener;

use super::print;

#[derive(Debug, Args)]
pub(crate) struct Null {
    /// The service's configuration; its public listener is this one's.
    #[arg(long)]
    config: PathBuf,
}

/// Takes everything and keeps nothing.
struct Nothing;

#[async_trait]
impl Receive for Nothing {
    async fn receive(&self, _delivery: Verified) -> Result<ReceiveAnswer, Unavailable> {
        Ok(ReceiveAnswer::Accepted)
    }
}

pub(crate) fn run(null: &Null) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(serve(null))
}

async fn serve(null: &Null) -> anyhow::Result<()> {
    let inputs = Inputs::new()
        .with_path(&null.config)
        .with_environment(std::env::vars_os());
    let settings = config::load(&inputs, Purpose::Serve)?.settings;
    // As the service does: what it counts and logs is part of what its stack costs.
    logging::init(&settings.log.filter, Style::Json, std::io::stderr)?;
    let _metrics = Metrics::install();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let ids: Arc<dyn Ids> = Arc::new(RandomIds::from_system());
    let tasks = Shutdown::new(Arc::clone(&clock));
    let keys: Arc<dyn KeySource> = Arc::new(HttpKeys::new(Arc::clone(&clock), tasks.clone())?);
    let verifier = Verifier::new(&settings.hooks, &settings.sources, &keys)
        .map_err(|problems| anyhow::anyhow!("{problems:?}"))?;
    let door = Door::new(
        verifier,
        Arc::new(Nothing),
        &settings.server,
        Arc::clone(&clock),
        tasks.clone(),
    );
    let peers = Peers::new(settings.server.trusted_proxies.clone());
    let common = Common { clock, ids, peers };
    let routes = layers::wrap(hooks::routes(Arc::new(door)), common);
    let listener = TcpListener::bind(settings.server.listen).await?;
    print::listening(listener.local_addr()?)?;
    let serving = ServeSettings::from(&settings.server);
    serve::serve(listener, routes, serving, tasks).await;
    Ok(())
}
