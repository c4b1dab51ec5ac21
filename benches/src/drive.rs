//! What sends.
//!
//! Closed loop: each connection sends its next delivery when the last was answered; the figure is how
//! many are accepted a second. Open loop (`--rate`): deliveries leave when they are due and their times
//! count from then; the figure is the times. Either way every id that was answered 2xx is written
//! down, so that whoever runs this can look for each in the database.
//!
//! One thread, so that on a small machine the contestant has what is left of it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use hookledger::base::clock::{Clock, SystemClock};
use hookledger::base::shutdown::Shutdown;
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};

use super::connection::Connection;
use super::delivery::{Proofs, Writer};
use super::figures::{Times, rate};
use super::pace::{self, Due};
use super::print;

#[derive(Debug, Args)]
pub(crate) struct Drive {
    /// Host and port.
    #[arg(long)]
    to: String,
    /// Path of the webhook.
    #[arg(long)]
    path: String,
    /// Connections at once.
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// How long to measure, in seconds.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Sent before that, in seconds; not in the figures.
    #[arg(long, default_value_t = 0.0)]
    warmup: f64,
    /// Send no more than so many, however long it takes.
    #[arg(long)]
    count: Option<u64>,
    /// Deliveries a second, whatever is answered.
    #[arg(long)]
    rate: Option<f64>,
    /// What the ids of this run begin with.
    #[arg(long)]
    prefix: String,
    /// Where the ids go that were answered 2xx, one a line.
    #[arg(long)]
    ids: Option<PathBuf>,
    #[command(flatten)]
    proofs: Proofs,
}

/// What one connection saw.
#[derive(Default)]
struct Seen {
    times: Times,
    accepted: Vec<u64>,
    statuses: BTreeMap<u16, u64>,
    failures: u64,
    why: Option<String>,
}

/// Where the next delivery comes from.
enum Next {
    /// From whoever is free, until then, and so many at most.
    Closed {
        next: AtomicU64,
        count: u64,
        until: Duration,
    },
    Open(Mutex<mpsc::UnboundedReceiver<Due>>),
}

impl Next {
    /// The next delivery, and since when its time counts.
    async fn take(&self, clock: &dyn Clock) -> Option<Due> {
        match self {
            Self::Closed { next, count, until } => {
                let now = clock.monotonic();
                let n = next.fetch_add(1, Ordering::Relaxed);
                (n < *count && now < *until).then_some((n, now))
            }
            Self::Open(due) => due.lock().await.recv().await,
        }
    }
}

/// What every connection shares.
struct Run {
    clock: Arc<dyn Clock>,
    next: Next,
    to: SocketAddr,
    /// Before this nothing counts.
    warm: Duration,
}

pub(crate) fn run(drive: Drive) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(measure(drive))
}

async fn measure(drive: Drive) -> anyhow::Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let to = drive.to.to_socket_addrs()?.next().context("--to")?;
    let span = Duration::from_secs_f64(drive.warmup + drive.seconds);
    let began = clock.monotonic();
    let warm = began + Duration::from_secs_f64(drive.warmup);
    let next = match drive.rate {
        Some(rate) => Next::Open(Mutex::new(pace::start(Arc::clone(&clock), rate, span)?)),
        None => Next::Closed {
            next: AtomicU64::new(0),
            count: drive.count.unwrap_or(u64::MAX),
            until: drive.count.map_or(began + span, |_| Duration::MAX),
        },
    };
    let run = Arc::new(Run {
        clock: Arc::clone(&clock),
        next,
        to,
        warm,
    });
    let tasks = Shutdown::new(Arc::clone(&clock));
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut ids = None;
    for _ in 0..drive.connections {
        let writer = Writer::new(&drive.to, &drive.path, &drive.prefix, &drive.proofs)?;
        ids.get_or_insert(Writer::new(&drive.to, "", &drive.prefix, &drive.proofs)?);
        let (run, tell) = (Arc::clone(&run), tell.clone());
        tasks.spawn("connection", async move {
            // Whoever collects outlives this.
            let _ = tell.send(send(&run, writer).await);
        });
    }
    drop(tell);
    let mut all = Seen::default();
    while let Some(seen) = told.recv().await {
        all.times.join(seen.times);
        all.accepted.extend(seen.accepted);
        for (status, count) in seen.statuses {
            *all.statuses.entry(status).or_default() += count;
        }
        all.failures += seen.failures;
        all.why = all.why.or(seen.why);
    }
    let took = clock.monotonic().saturating_sub(warm);
    if let (Some(path), Some(ids)) = (&drive.ids, &ids) {
        let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
        for n in &all.accepted {
            writeln!(file, "{}", ids.id(*n))?;
        }
        file.flush()?;
    }
    print::document(&said(&drive, all, took))
}

fn said(drive: &Drive, mut all: Seen, took: Duration) -> Value {
    json!({
        "connections": drive.connections,
        "offered_rate": drive.rate,
        "seconds": took.as_secs_f64(),
        "rate": rate(all.times.len(), took),
        "accepted": all.accepted.len(),
        "statuses": all.statuses.iter().map(|(s, n)| (s.to_string(), *n)).collect::<BTreeMap<_, _>>(),
        "failures": all.failures,
        "first_failure": all.why,
        "latency_us": all.times.summary(),
    })
}

async fn send(run: &Run, mut writer: Writer) -> Seen {
    let mut seen = Seen::default();
    let mut connection = Connection::new(run.to);
    let mut request = Vec::with_capacity(1024);
    while let Some((n, since)) = run.next.take(&*run.clock).await {
        writer.write(n, run.clock.now(), &mut request);
        match connection.ask(&request).await {
            Ok(status) => {
                *seen.statuses.entry(status).or_default() += 1;
                if (200..300).contains(&status) {
                    seen.accepted.push(n);
                    if since >= run.warm {
                        seen.times.add(run.clock.monotonic().saturating_sub(since));
                    }
                }
            }
            Err(error) => {
                seen.failures += 1;
                seen.why.get_or_insert(format!("{error:#}"));
            }
        }
    }
    seen
}
