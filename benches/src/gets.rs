//! How many operations a second the API's side can answer to the service's own client, when nothing
//! is done with them: the bound of the worker.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use clap::Args;
use hookledger::base::clock::{Clock, SystemClock};
use hookledger::base::shutdown::Shutdown;
use hookledger::config::{self, Inputs, Purpose};
use hookledger::domain::operation::OperationName;
use hookledger::gemini::GeminiApi as _;
use hookledger::gemini::client::HttpGemini;
use serde_json::json;
use tokio::sync::mpsc;

use super::figures::{Times, rate};
use super::print;

#[derive(Debug, Args)]
pub(crate) struct Gets {
    /// The service's configuration: where the API is, and how many are asked for at once.
    #[arg(long)]
    config: PathBuf,
    /// How many to ask for.
    #[arg(long, default_value_t = 10_000)]
    count: u64,
}

pub(crate) fn run(gets: &Gets) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(measure(gets))
}

async fn measure(gets: &Gets) -> anyhow::Result<()> {
    let inputs = Inputs::new()
        .with_path(&gets.config)
        .with_environment(std::env::vars_os());
    let settings = config::load(&inputs, Purpose::Serve)?.settings;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let api = Arc::new(HttpGemini::new(&settings.gemini, Arc::clone(&clock))?);
    let tasks = Shutdown::new(Arc::clone(&clock));
    let next = Arc::new(AtomicU64::new(0));
    let (tell, mut told) = mpsc::unbounded_channel();
    let (began, count) = (clock.monotonic(), gets.count);
    for _ in 0..settings.worker.concurrency {
        let (api, next, tell, clock) = (
            Arc::clone(&api),
            Arc::clone(&next),
            tell.clone(),
            Arc::clone(&clock),
        );
        tasks.spawn("asker", async move {
            let mut times = Times::default();
            let mut failed = None;
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= count {
                    break;
                }
                let Ok(name) = format!("batches/get-{n}").parse::<OperationName>() else {
                    break;
                };
                let asked = clock.monotonic();
                match api.operation(&name).await {
                    Ok(_) => times.add(clock.monotonic().saturating_sub(asked)),
                    Err(fault) => failed = Some(fault.to_string()),
                }
            }
            // Whoever collects outlives this.
            let _ = tell.send((times, failed));
        });
    }
    drop(tell);
    let mut times = Times::default();
    while let Some((more, failed)) = told.recv().await {
        times.join(more);
        if let Some(why) = failed {
            return Err(anyhow::anyhow!(why)).context("an answer of the API's side");
        }
    }
    let took = clock.monotonic().saturating_sub(began);
    print::document(&json!({
        "concurrency": settings.worker.concurrency,
        "seconds": took.as_secs_f64(),
        "rate": rate(times.len(), took),
        "latency_us": times.summary(),
    }))
}
