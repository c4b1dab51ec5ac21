//! `simulate`: the fake Gemini API as a process of its own, until SIGINT or SIGTERM.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use url::Url;

use super::args::{self, Global, Simulate};
use super::failure::Failure;
use super::load;
use super::output::{self, Output};
use crate::base::clock::{Clock, SystemClock};
use crate::base::ids::RandomIds;
use crate::base::secret::Secret;
use crate::base::shutdown::Shutdown;
use crate::config::is_signing_secret;
use crate::simulator::{DynamicSigning, Simulator, SimulatorConfig, TokenConfig};

/// Longest a stop may take.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn run(global: &Global, args: Simulate, output: &Output) -> Result<(), Failure> {
    // The service's configuration is none of its business, but its log lines look alike.
    let loaded = crate::config::load(&load::inputs(global)?, crate::config::Purpose::Client)?;
    load::log_as(&loaded.settings)?;
    if args.webhook_url.is_none() {
        output::note("no --webhook-url (WEBHOOK_URL) is given, so no webhook is sent");
    }
    let webhook_secret = args.webhook_secret.map(Secret::new);
    if webhook_secret
        .as_ref()
        .is_some_and(|s| !is_signing_secret(s))
    {
        output::note(
            "--webhook-secret (WEBHOOK_SECRET) is too weak for the service to accept; make one \
             with `hookledger secret new --whsec`",
        );
    }
    let config = SimulatorConfig {
        webhook_url: args.webhook_url.as_deref().map(webhook_url).transpose()?,
        webhook_secret,
        shared_secret: args.shared_secret.map(Secret::new),
        api_key: args.api_key.map(Secret::new),
        complete_after: args.complete_after,
        disable_after: args.disable_after,
        dynamic_signing: match args.dynamic_signing {
            args::DynamicSigning::Jwt => DynamicSigning::Jwt,
            args::DynamicSigning::Hmac => DynamicSigning::Hmac,
        },
        tokens: TokenConfig {
            audience: Some(args.jwt_audience).filter(|text| !text.is_empty()),
            issuer: Some(args.jwt_issuer).filter(|text| !text.is_empty()),
            lifetime: args.jwt_lifetime,
            max_age: args.jwks_max_age,
        },
        ..SimulatorConfig::default()
    };
    let listener = TcpListener::bind(args.listen)
        .await
        .map_err(|error| Failure::failed(format!("cannot listen on {} ({error})", args.listen)))?;
    // Before anybody is told that it listens: a signal from then on is heard.
    let (mut interrupt, mut terminate) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    let address = listener.local_addr()?;
    output.answer(&json!({"url": format!("http://{address}")}), |_| {
        format!("the simulator listens on http://{address}\n")
    })?;

    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let stop = Shutdown::new(Arc::clone(&clock));
    let simulator = Simulator::new(config, clock, Arc::new(RandomIds::from_system()));
    stop.spawn("simulator", simulator.serve(listener, stop.clone()));
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    stop.drain(PATIENCE).await;
    Ok(())
}

fn webhook_url(text: &str) -> Result<Url, Failure> {
    // Not repeated: its last segment is a token.
    Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| {
            Failure::usage(
                "--webhook-url takes a URL such as http://127.0.0.1:8080/hooks/gemini/TOKEN",
            )
        })
}
